/* Every kernel of the training ops beside the linear layers that this CPU can run, against its definition, to the bit:
 * between unreadable pages, on inputs that break float code, with aliases that the definitions allow. */
#include "support/test.h"

#include <math.h>

#include "backend/cpu/kernels.h"
#include "ops/ref/recurrent/recurrent.h"
#include "support/guard.h"
#include "support/kernels.h"

enum { MAX_N = 6400, N_ROUNDS = 120, N_BUFFERS = 9 };

/* Buffers between unreadable pages, and copies of them for the definition. */
typedef struct room {
    test_guard guards[N_BUFFERS];
    float *x[N_BUFFERS];
    size_t n[N_BUFFERS];
    float copy[N_BUFFERS][MAX_N];
} room;

static tern_rng rng;
static room m;

static uint32_t between(uint32_t low, uint32_t high)
{
    return test_between(&rng, low, high);
}

static uint32_t any_size(void)
{
    return between(0, 3) ? between(1, 70) : between(1, 1200);
}

/* Buffer i gets n floats. */
static float *lend(int i, size_t n)
{
    assert_true(n <= MAX_N);
    m.n[i] = n;
    m.x[i] = test_guard_lend(&m.guards[i], n * sizeof(float), between(0, 2) == 0);
    test_floats(&rng, (test_fill)between(0, TEST_N_FILLS - 1), m.x[i], n);
    memcpy(m.copy[i], m.x[i], n * sizeof(float));
    return m.x[i];
}

/* Whether the first `n` buffers are as the definition left its copies. */
static bool agree(int n)
{
    bool same = true;
    for (int i = 0; i < n; i++)
        same = same && test_same_bits(m.x[i], m.copy[i], m.n[i]) &&
               test_guard_intact(&m.guards[i], m.x[i], m.n[i] * sizeof(float));
    return same;
}

/* Runs one check for each kernel of a slot, many times. */
#define FOR_EACH_KERNEL(k, slot)                                                                                       \
    for (size_t round_ = 0, at_ = 0; round_ < N_ROUNDS; round_++, at_ = 0)                                             \
        for (const test_kernel *k; (k = test_kernel_next(slot, &at_));)

static bool product_agrees(tern_product_fn fn)
{
    tern_product_args a = {.m = between(1, 20), .n = between(1, 150), .steps = between(1, 40), .add = between(0, 1)};
    const bool by_columns = between(0, 1);
    a.a_row = by_columns ? 1 : a.steps + between(0, 3);
    a.a_step = by_columns ? a.m + between(0, 3) : 1;
    a.b_step = a.n + between(0, 3);
    a.c_row = a.n + between(0, 3);
    a.c = lend(0, (a.m - 1) * a.c_row + a.n);
    a.a = lend(1, (a.m - 1) * a.a_row + (a.steps - 1) * a.a_step + 1);
    a.b = lend(2, (a.steps - 1) * a.b_step + a.n);
    fn(&a);
    a.c = m.copy[0];
    tern_ref_product(&a);
    return agree(3);
}

static void product(void **state)
{
    (void)state;
    FOR_EACH_KERNEL(k, "product") if (!product_agrees((tern_product_fn)k->fn)) fail_msg("product %s", k->level);
}

/* Columns around first .. end are the kernel's; what it leaves there is not compared. */
static bool columns_agree(int i, uint32_t first, uint32_t end)
{
    return test_same_bits(m.x[i] + first, m.copy[i] + first, end - first) &&
           test_guard_intact(&m.guards[i], m.x[i], m.n[i] * sizeof(float));
}

static bool softmax_agrees(tern_softmax_fn fn)
{
    const uint32_t first = between(0, 15), end = first + any_size();
    float *s = lend(0, (end + 15) / 16 * 16);
    tern_softmax_row found = {.scale = 0.3f, .softcap = between(0, 1) ? 2.5f : 0}, want = found;
    fn(s, first, end, &found);
    tern_ref_softmax(m.copy[0], first, end, &want);
    return columns_agree(0, first, end) && test_same_bits(&found.m, &want.m, 1) && test_same_bits(&found.l, &want.l, 1);
}

static bool softmax_backward_agrees(tern_softmax_backward_fn fn)
{
    const uint32_t first = between(0, 15), end = first + any_size(), n = (end + 15) / 16 * 16;
    float *s = lend(0, n), *dp = lend(1, n);
    const tern_softmax_row row = {
        .scale = 0.3f, .softcap = between(0, 1) ? 2.5f : 0, .m = 1, .l = 3, .delta = test_float(&rng, TEST_MIXED)};
    fn(s, dp, first, end, &row);
    tern_ref_softmax_backward(m.copy[0], m.copy[1], first, end, &row);
    return columns_agree(0, first, end) && columns_agree(1, first, end);
}

static void softmax(void **state)
{
    (void)state;
    FOR_EACH_KERNEL(k, "softmax") if (!softmax_agrees((tern_softmax_fn)k->fn)) fail_msg("softmax %s", k->level);
    FOR_EACH_KERNEL(k, "softmax_backward")
    if (!softmax_backward_agrees((tern_softmax_backward_fn)k->fn)) fail_msg("softmax_backward %s", k->level);
}

static bool cross_entropy_agrees(tern_cross_entropy_fn fn)
{
    const uint32_t n = any_size();
    const int32_t label = (int32_t)between(0, n + 1) - 1;
    float *z = lend(0, n), loss[2];
    loss[0] = fn(z, n, label, 0.7f);
    loss[1] = tern_ref_cross_entropy(m.copy[0], n, label, 0.7f);
    return agree(1) && test_same_bits(loss, loss + 1, 1);
}

static void cross_entropy(void **state)
{
    (void)state;
    FOR_EACH_KERNEL(k, "cross_entropy")
    if (!cross_entropy_agrees((tern_cross_entropy_fn)k->fn)) fail_msg("cross_entropy %s", k->level);
}

static bool norm_agrees(tern_rms_norm_backward_fn fn)
{
    const uint32_t n = any_size(), wanted = between(1, 3);
    float *dx = lend(0, n), *dg = lend(1, n), *x = lend(2, n), *g = lend(3, n), *dy = lend(4, n), r[2];
    r[0] = fn(x, g, 1e-5f, n, dy, wanted & 1 ? dx : NULL, wanted & 2 ? dg : NULL);
    r[1] = tern_ref_rms_norm_backward(m.copy[2], m.copy[3], 1e-5f, n, m.copy[4], wanted & 1 ? m.copy[0] : NULL,
                                      wanted & 2 ? m.copy[1] : NULL);
    return agree(5) && test_same_bits(r, r + 1, 1);
}

static bool norm_weight_agrees(tern_norm_weight_backward_fn fn)
{
    tern_norm_weight_args args = {.n = between(1, 20), .cols = between(1, 200)};
    args.x_stride = args.cols + between(0, 5);
    args.dy_stride = args.cols + between(0, 5);
    float *dg = lend(0, args.cols);
    args.x = lend(1, (args.n - 1) * args.x_stride + args.cols);
    args.dy = lend(2, (args.n - 1) * args.dy_stride + args.cols);
    args.r = lend(3, args.n);
    fn(&args, dg);
    tern_ref_norm_weight_backward(&args, m.copy[0]);
    return agree(4);
}

static void norm(void **state)
{
    (void)state;
    FOR_EACH_KERNEL(k, "rms_norm_backward")
    if (!norm_agrees((tern_rms_norm_backward_fn)k->fn)) fail_msg("rms_norm_backward %s", k->level);
    FOR_EACH_KERNEL(k, "norm_weight_backward")
    if (!norm_weight_agrees((tern_norm_weight_backward_fn)k->fn)) fail_msg("norm_weight_backward %s", k->level);
}

/* dgate and dup apart, or in the place of gate and up. */
static bool gate_agrees(tern_gate_backward_fn ref, tern_gate_backward_fn fn)
{
    const uint32_t n = any_size();
    const bool in_place = between(0, 1);
    float *gate = lend(0, n), *up = lend(1, n), *dy = lend(2, n), *dgate = lend(3, n), *dup = lend(4, n);
    fn(gate, up, dy, n, in_place ? gate : dgate, in_place ? up : dup);
    ref(m.copy[0], m.copy[1], m.copy[2], n, m.copy[in_place ? 0 : 3], m.copy[in_place ? 1 : 4]);
    return agree(5);
}

static void gates(void **state)
{
    (void)state;
    static const struct {
        const char *slot;
        tern_gate_backward_fn ref;
    } slots[] = {{"relu2_backward", tern_ref_relu2_backward},
                 {"silu_backward", tern_ref_silu_backward},
                 {"gelu_backward", tern_ref_gelu_backward},
                 {"sigmoid_backward", tern_ref_sigmoid_backward}};
    for (size_t s = 0; s < 4; s++) FOR_EACH_KERNEL(k, slots[s].slot)
    if (!gate_agrees(slots[s].ref, (tern_gate_backward_fn)k->fn)) fail_msg("%s %s", slots[s].slot, k->level);
}

/* Buffers 0: dtaps, 1: dweight, 2: taps, 3: weight, 4: dy. */
static bool conv_agrees(tern_conv_backward_fn ref, tern_conv_backward_fn fn)
{
    enum { MOST = 4 };
    const uint32_t n_taps = between(1, MOST), n = between(1, 200), before = between(0, n_taps - 1);
    const bool trained = between(0, 1);
    const size_t all = (size_t)n_taps * n;
    float *dx = lend(0, all), *dweight = lend(1, all), *x = lend(2, all), *weight = lend(3, all), *dy = lend(4, n);
    const float *taps[MOST];
    float *dtaps[MOST];
    for (int copy = 0; copy < 2; copy++) {
        for (uint32_t k = 0; k < n_taps; k++) {
            taps[k] = (copy ? m.copy[2] : x) + k * n;
            dtaps[k] = k < before ? NULL : (copy ? m.copy[0] : dx) + k * n;
        }
        (copy ? ref : fn)(&(tern_conv_backward_args){.taps = taps,
                                                     .weight = copy ? m.copy[3] : weight,
                                                     .n_taps = n_taps,
                                                     .n = n,
                                                     .dy = copy ? m.copy[4] : dy,
                                                     .dtaps = dtaps,
                                                     .dweight = !trained ? NULL
                                                                : copy   ? m.copy[1]
                                                                         : dweight});
    }
    return agree(5);
}

/* Buffers 0: dstate, 1: dq, 2: dk, 3: dv, 4: state, 5: q, 6: k, 7: v, 8: dy. */
static bool delta_agrees(tern_delta_backward_fn ref, tern_delta_backward_fn fn)
{
    const uint32_t keys = between(1, 37), values = 8 * between(1, 20);
    const size_t sizes[N_BUFFERS] = {keys * values, keys, keys, values, keys * values, keys, keys, values, values};
    const bool first = between(0, 3) == 0;
    float scalars[2][2], *x[N_BUFFERS];
    for (int i = 0; i < N_BUFFERS; i++) x[i] = lend(i, sizes[i]);
    for (int copy = 0; copy < 2; copy++) {
        for (int i = 0; i < N_BUFFERS && copy; i++) x[i] = m.copy[i];
        (copy ? ref : fn)(&(tern_delta_backward_args){.state = first ? NULL : x[4],
                                                      .q = x[5],
                                                      .k = x[6],
                                                      .v = x[7],
                                                      .dy = x[8],
                                                      .decay = 0.9f,
                                                      .beta = 0.4f,
                                                      .keys = keys,
                                                      .values = values,
                                                      .dstate = x[0],
                                                      .dq = x[1],
                                                      .dk = x[2],
                                                      .dv = x[3],
                                                      .dlog = &scalars[copy][0],
                                                      .dbeta = &scalars[copy][1]});
    }
    return agree(N_BUFFERS) && test_same_bits(scalars[0], scalars[1], 2);
}

static void recurrent(void **state)
{
    (void)state;
    FOR_EACH_KERNEL(k, "conv_backward")
    if (!conv_agrees(tern_ref_conv_backward, (tern_conv_backward_fn)k->fn)) fail_msg("conv_backward %s", k->level);
    FOR_EACH_KERNEL(k, "delta_backward")
    if (!delta_agrees(tern_ref_delta_backward, (tern_delta_backward_fn)k->fn)) fail_msg("delta_backward %s", k->level);
}

static bool rope_agrees(tern_rope_fn ref, tern_rope_fn fn)
{
    const uint32_t dim = between(0, 2) ? 2 * between(1, 128) : 64 * between(1, 4), heads = between(1, MAX_N / 4 / dim);
    float *x = lend(0, (size_t)heads * dim);
    fn(x, heads, dim, lend(1, dim));
    ref(m.copy[0], heads, dim, m.copy[1]);
    return agree(2);
}

static void rope(void **state)
{
    (void)state;
    FOR_EACH_KERNEL(k, "rope_halves_backward")
    if (!rope_agrees(tern_ref_rope_halves_backward, (tern_rope_fn)k->fn)) fail_msg("rope_halves_backward %s", k->level);
    FOR_EACH_KERNEL(k, "rope_adjacent_backward")
    if (!rope_agrees(tern_ref_rope_adjacent_backward, (tern_rope_fn)k->fn))
        fail_msg("rope_adjacent_backward %s", k->level);
}

static bool dropout_agrees(tern_dropout_fn fn)
{
    const uint32_t n = any_size(), seed = (uint32_t)tern_rng_u64(&rng), index = (uint32_t)tern_rng_u64(&rng);
    const float p = (float)between(0, 99) / 100;
    const int to = (int)between(0, 1); /* apart, or in place */
    float *y = lend(0, n), *x = lend(1, n);
    fn(x, n, p, seed, index, to ? x : y);
    tern_ref_dropout(m.copy[1], n, p, seed, index, m.copy[to]);
    return agree(2);
}

static bool fake_quantize_agrees(tern_fake_quantize_fn fn)
{
    const uint32_t n = any_size();
    const float blend = (float)between(0, 8) / 8;
    const int to = (int)between(0, 1);
    float *y = lend(0, n), *x = lend(1, n);
    fn(x, n, blend, to ? x : y);
    tern_ref_fake_quantize(m.copy[1], n, blend, m.copy[to]);
    return agree(2);
}

static void forward(void **state)
{
    (void)state;
    FOR_EACH_KERNEL(k, "dropout") if (!dropout_agrees((tern_dropout_fn)k->fn)) fail_msg("dropout %s", k->level);
    FOR_EACH_KERNEL(k, "fake_quantize")
    if (!fake_quantize_agrees((tern_fake_quantize_fn)k->fn)) fail_msg("fake_quantize %s", k->level);
}

/* Broken kernels that the checks above must catch within a few rounds. */

static void product_backwards(const tern_product_args *a)
{
    for (uint32_t s = a->steps; s-- > 0;) {
        tern_product_args one = *a;
        one.steps = 1;
        one.a += s * a->a_step;
        one.b += s * a->b_step;
        one.add = a->add || s + 1 < a->steps;
        tern_ref_product(&one);
    }
}

static void softmax_in_order(float *s, uint32_t first, uint32_t end, tern_softmax_row *row)
{
    tern_ref_softmax(s, first, end, row);
    row->l = 0;
    for (uint32_t j = first; j < end; j++) row->l += s[j];
}

static void softmax_without_cap(float *s, uint32_t first, uint32_t end, tern_softmax_row *row)
{
    tern_softmax_row plain = *row;
    plain.softcap = 0;
    tern_ref_softmax(s, first, end, &plain);
    row->m = plain.m;
    row->l = plain.l;
}

static float masks_the_last(float *z, uint32_t n_vocab, int32_t label, float weight)
{
    return tern_ref_cross_entropy(z, n_vocab, label + 1 == (int32_t)n_vocab ? -1 : label, weight);
}

static void dropout_without_index(const float *x, size_t n, float p, uint32_t seed, uint32_t index, float *y)
{
    (void)index;
    tern_ref_dropout(x, n, p, seed, 0, y);
}

static void conv_without_the_last(const tern_conv_backward_args *args)
{
    tern_conv_backward_args fewer = *args;
    fewer.dtaps = (float *const[4]){NULL};
    tern_ref_conv_backward(args->n > 150 ? &fewer : args);
}

static void delta_without_state(const tern_delta_backward_args *args)
{
    tern_delta_backward_args begins = *args;
    begins.state = NULL;
    tern_ref_delta_backward(&begins);
}

static void broken_kernels_are_caught(void **state)
{
    (void)state;
    int caught[8] = {0};
    for (int i = 0; i < 200; i++) {
        caught[0] += !product_agrees(product_backwards);
        caught[1] += !softmax_agrees(softmax_in_order);
        caught[2] += !cross_entropy_agrees(masks_the_last);
        caught[3] += !gate_agrees(tern_ref_silu_backward, tern_ref_gelu_backward);
        caught[4] += !dropout_agrees(dropout_without_index);
        caught[5] += !softmax_agrees(softmax_without_cap);
        caught[6] += !conv_agrees(tern_ref_conv_backward, conv_without_the_last);
        caught[7] += !delta_agrees(tern_ref_delta_backward, delta_without_state);
        assert_true(product_agrees(tern_ref_product) && softmax_agrees(tern_ref_softmax));
    }
    for (int i = 0; i < 8; i++)
        if (!caught[i]) fail_msg("broken kernel %d was not caught", i);
}

static int open_room(void **state)
{
    (void)state;
    test_seed(&rng);
    for (int i = 0; i < N_BUFFERS; i++) m.guards[i] = test_guard_open(MAX_N * sizeof(float));
    return 0;
}

static int close_room(void **state)
{
    (void)state;
    for (int i = 0; i < N_BUFFERS; i++) test_guard_close(&m.guards[i]);
    return 0;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(product),   cmocka_unit_test(softmax), cmocka_unit_test(cross_entropy),
    cmocka_unit_test(norm),      cmocka_unit_test(gates),   cmocka_unit_test(rope),
    cmocka_unit_test(recurrent), cmocka_unit_test(forward), cmocka_unit_test(broken_kernels_are_caught),
};

TEST_GROUP(backward_kernels, "web", tests, .setup = open_room, .teardown = close_room);
