/* Every kernel over the floats of a row that this CPU can run, against its definition, to the bit. */
#include "support/test.h"

#include <math.h>

#include "backend/cpu/kernels.h"
#include "base/half.h"
#include "support/guard.h"
#include "support/kernels.h"

enum { MAX_N = 1200, POISON = 0xa5, N_ROUNDS = 150 };

/* Three inputs and outputs between unreadable pages, and copies for the definition. */
typedef struct room {
    test_guard a_guard, b_guard, y_guard, q_guard;
    float *a, *b, *y;
    int8_t *q;
    float expected[MAX_N];
    int8_t q_expected[MAX_N + 256];
} room;

static tern_rng rng;

static uint32_t between(uint32_t low, uint32_t high)
{
    return test_between(&rng, low, high);
}

/* Mostly small sizes, around the widths of vectors. */
static uint32_t any_size(void)
{
    return between(0, 3) ? between(1, 70) : between(1, MAX_N);
}

static test_fill any_fill(void)
{
    return (test_fill)between(0, TEST_N_FILLS - 1);
}

static void fill_room(room *m, size_t n_a, size_t n_b, size_t n_y)
{
    m->a = test_guard_lend(&m->a_guard, n_a * sizeof(float), between(0, 2) == 0);
    m->b = test_guard_lend(&m->b_guard, n_b * sizeof(float), between(0, 2) == 0);
    m->y = test_guard_lend(&m->y_guard, n_y * sizeof(float), between(0, 2) == 0);
    test_floats(&rng, any_fill(), m->a, n_a);
    test_floats(&rng, any_fill(), m->b, n_b);
    memset(m->y, POISON, n_y * sizeof(float));
}

static bool y_agrees(const room *m, size_t n)
{
    return test_same_bits(m->y, m->expected, n) && test_guard_intact(&m->y_guard, m->y, n * sizeof(float));
}

/* Runs one check for each kernel of a slot, many times. */
#define FOR_EACH_KERNEL(k, slot)                                                                                       \
    for (size_t round_ = 0, at_ = 0; round_ < N_ROUNDS; round_++, at_ = 0)                                             \
        for (const test_kernel *k; (k = test_kernel_next(slot, &at_));)

static bool rms_norm_agrees(room *m, tern_rms_norm_fn fn, uint32_t n)
{
    const float eps = between(0, 1) ? 1e-5f : 1e-6f;
    const bool in_place = between(0, 2) == 0;
    fill_room(m, n, n, n);
    if (in_place) memcpy(m->y, m->a, n * sizeof(float));
    tern_ref_rms_norm(m->a, m->b, eps, n, m->expected);
    fn(in_place ? m->y : m->a, m->b, eps, n, m->y);
    return y_agrees(m, n);
}

static void rms_norm(void **state)
{
    FOR_EACH_KERNEL(k, "rms_norm")
    {
        const uint32_t n = any_size();
        if (!rms_norm_agrees(*state, (tern_rms_norm_fn)k->fn, n)) fail_msg("rms_norm %s: %u columns", k->level, n);
    }
}

/* Values that lie on and around the halves between two integers, when 127 is the largest. */
static void fill_halves(float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const float v = (float)between(0, 254) / 2 - 63.5f;
        x[i] = between(0, 2) ? v : nextafterf(v, between(0, 1) ? 200 : -200);
    }
    x[between(0, n - 1)] = between(0, 1) ? 127 : -127;
}

static bool quantize_agrees(room *m, tern_quantize_fn fn, uint32_t n)
{
    const size_t stride = (n + 63u) / 64 * 64 + 64 * between(0, 1);
    float inv[2] = {0};
    int32_t sum[2] = {0};
    fill_room(m, n, 1, 1);
    if (between(0, 2) == 0) fill_halves(m->a, n);
    m->q = test_guard_lend(&m->q_guard, stride, false);
    memset(m->q, POISON, stride);
    memset(m->q_expected, POISON, stride);
    tern_ref_quantize(m->a, n, m->q_expected, stride, &inv[0], &sum[0]);
    fn(m->a, n, m->q, stride, &inv[1], &sum[1]);
    return memcmp(m->q, m->q_expected, stride) == 0 && test_same_bits(inv, inv + 1, 1) && sum[0] == sum[1] &&
           test_guard_intact(&m->q_guard, m->q, stride);
}

static void quantize(void **state)
{
    FOR_EACH_KERNEL(k, "quantize")
    {
        const uint32_t n = any_size();
        if (!quantize_agrees(*state, (tern_quantize_fn)k->fn, n)) fail_msg("quantize %s: %u columns", k->level, n);
    }
}

/* y apart, in place of the first, or in place of the second. */
static bool gate_agrees(room *m, tern_gate_fn ref, tern_gate_fn fn, uint32_t n)
{
    fill_room(m, n, n, n);
    const uint32_t alias = between(0, 3);
    if (alias == 1) memcpy(m->y, m->a, n * sizeof(float));
    if (alias == 2) memcpy(m->y, m->b, n * sizeof(float));
    ref(m->a, m->b, n, m->expected);
    fn(alias == 1 ? m->y : m->a, alias == 2 ? m->y : m->b, n, m->y);
    return y_agrees(m, n);
}

static void gates(void **state)
{
    static const struct {
        const char *slot;
        tern_gate_fn ref;
    } slots[] = {{"relu2", tern_ref_relu2},
                 {"silu", tern_ref_silu},
                 {"gelu", tern_ref_gelu},
                 {"sigmoid", tern_ref_sigmoid},
                 {"add", tern_ref_add}};
    for (size_t s = 0; s < sizeof slots / sizeof *slots; s++) FOR_EACH_KERNEL(k, slots[s].slot)
        {
            const uint32_t n = any_size();
            if (!gate_agrees(*state, slots[s].ref, (tern_gate_fn)k->fn, n))
                fail_msg("%s %s: %u values", slots[s].slot, k->level, n);
        }
}

/* Both halves beyond the limit and within it; in place or apart. */
static bool limited_gate_agrees(room *m, tern_limited_gate_fn ref, tern_limited_gate_fn fn, uint32_t n)
{
    const float limit = 0.25f * (float)between(1, 40);
    fill_room(m, n, n, n);
    const uint32_t alias = between(0, 3);
    if (alias == 1) memcpy(m->y, m->a, n * sizeof(float));
    if (alias == 2) memcpy(m->y, m->b, n * sizeof(float));
    ref(m->a, m->b, limit, n, m->expected);
    fn(alias == 1 ? m->y : m->a, alias == 2 ? m->y : m->b, limit, n, m->y);
    return y_agrees(m, n);
}

/* A minimum that takes the limit for NaN. */
static void loses_nan(const float *gate, const float *up, float limit, size_t n, float *y)
{
    for (size_t i = 0; i < n; i++) {
        const float g = gate[i] < limit ? gate[i] : limit, u = up[i];
        tern_ref_swiglu_oai(&g, &u, limit, 1, &y[i]);
    }
}

static void limited_gates(void **state)
{
    static const struct {
        const char *slot;
        tern_limited_gate_fn ref;
    } slots[] = {{"swiglu_oai", tern_ref_swiglu_oai}, {"swiglu_clamped", tern_ref_swiglu_clamped}};
    for (size_t s = 0; s < sizeof slots / sizeof *slots; s++) FOR_EACH_KERNEL(k, slots[s].slot)
        {
            const uint32_t n = any_size();
            if (!limited_gate_agrees(*state, slots[s].ref, (tern_limited_gate_fn)k->fn, n))
                fail_msg("%s %s: %u values", slots[s].slot, k->level, n);
        }
    int caught = 0;
    for (int i = 0; i < 50; i++) caught += !limited_gate_agrees(*state, tern_ref_swiglu_oai, loses_nan, 500);
    assert_true(caught);
}

static void softcap(void **state)
{
    room *m = *state;
    FOR_EACH_KERNEL(k, "softcap_row")
    {
        const uint32_t n = any_size();
        const float cap = 0.5f * (float)between(1, 100);
        fill_room(m, n, n, n);
        const bool in_place = between(0, 1);
        if (in_place) memcpy(m->y, m->a, n * sizeof(float));
        tern_ref_softcap_row(m->a, n, cap, m->expected);
        ((tern_softcap_fn)k->fn)(in_place ? m->y : m->a, n, cap, m->y);
        if (!y_agrees(m, n)) fail_msg("softcap_row %s: %u values", k->level, n);
    }
}

/* Blocks shorter than two vectors, and longer ones, in place and not. */
static void hadamard(void **state)
{
    static const char *const slots[] = {"hadamard", "hadamard_inverse"};
    static const tern_hadamard_fn definitions[] = {tern_ref_hadamard, tern_ref_hadamard_inverse};
    room *m = *state;
    for (int i = 0; i < 2; i++) FOR_EACH_KERNEL(k, slots[i])
        {
            const uint32_t block = 1u << between(0, 10), n = block * between(1, MAX_N / block);
            fill_room(m, n, n, n);
            const float *signs = between(0, 3) ? m->b : NULL;
            const bool in_place = between(0, 1);
            if (in_place) memcpy(m->y, m->a, n * sizeof(float));
            definitions[i](m->a, signs, n, block, m->expected);
            ((tern_hadamard_fn)k->fn)(in_place ? m->y : m->a, signs, n, block, m->y);
            if (!y_agrees(m, n)) fail_msg("%s %s: %u columns in blocks of %u", slots[i], k->level, n, block);
        }
}

/* Every exponent of the argument, through silu with up = 1. */
static void exp_sweep(void **state)
{
    room *m = *state;
    for (uint32_t bits = 0; bits < 0x43000000u; bits += MAX_N * 3001u) {
        fill_room(m, MAX_N, MAX_N, MAX_N);
        for (uint32_t i = 0; i < MAX_N; i++) {
            m->a[i] = tern_f32_from_bits((bits + i * 3001u) | between(0, 1) << 31);
            m->b[i] = 1;
        }
        tern_ref_silu(m->a, m->b, MAX_N, m->expected);
        size_t at = 0;
        for (const test_kernel *k; (k = test_kernel_next("silu", &at));) {
            ((tern_gate_fn)k->fn)(m->a, m->b, MAX_N, m->y);
            if (!y_agrees(m, MAX_N)) fail_msg("silu %s: arguments from bits %08x", k->level, bits);
        }
    }
}

static bool rope_agrees(room *m, tern_rope_fn ref, tern_rope_fn fn, uint32_t n_heads, uint32_t head_dim)
{
    const size_t n = (size_t)n_heads * head_dim;
    fill_room(m, head_dim, n, n);
    memcpy(m->expected, m->b, n * sizeof(float));
    memcpy(m->y, m->b, n * sizeof(float));
    ref(m->expected, n_heads, head_dim, m->a);
    fn(m->y, n_heads, head_dim, m->a);
    return y_agrees(m, n);
}

static void rope(void **state)
{
    static const struct {
        const char *slot;
        tern_rope_fn ref;
    } slots[] = {{"rope_halves", tern_ref_rope_halves}, {"rope_adjacent", tern_ref_rope_adjacent}};
    for (size_t s = 0; s < 2; s++) FOR_EACH_KERNEL(k, slots[s].slot)
        {
            const uint32_t head_dim = between(0, 2) ? 2 * between(1, 128) : 64 * between(1, 4);
            const uint32_t n_heads = between(1, MAX_N / head_dim);
            if (!rope_agrees(*state, slots[s].ref, (tern_rope_fn)k->fn, n_heads, head_dim))
                fail_msg("%s %s: %u heads of %u", slots[s].slot, k->level, n_heads, head_dim);
        }
}

/* Halves are equal, or both NaN. */
static bool same_halves(const uint8_t *a, const uint8_t *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t u, v;
        memcpy(&u, a + 2 * i, 2);
        memcpy(&v, b + 2 * i, 2);
        if (u != v && !((u & 0x7fff) > 0x7c00 && (v & 0x7fff) > 0x7c00)) return false;
    }
    return true;
}

static bool store_agrees(room *m, tern_kv_store_fn fn, uint32_t n)
{
    fill_room(m, n, 1, 1);
    if (between(0, 1)) /* around the values that f16 holds */
        for (uint32_t i = 0; i < n; i++)
            m->a[i] = tern_f32_from_bits((tern_f32_bits(tern_f16_to_f32((uint16_t)between(0, 65535))) & 0xffffe000u) +
                                         between(0, 2) * 0x0fffu + between(0, 2));
    uint8_t *out = test_guard_lend(&m->q_guard, 2 * (size_t)n, between(0, 1));
    memset(out, POISON, 2 * (size_t)n);
    tern_ref_kv_store_f16(m->a, n, m->q_expected);
    fn(m->a, n, out);
    return same_halves(out, (const uint8_t *)m->q_expected, n) && test_guard_intact(&m->q_guard, out, 2 * (size_t)n);
}

/* The same bits as the definition, all kinds of numbers, and nothing behind them. */
static bool row_agrees(room *m, tern_dtype type, tern_kv_store_fn definition, tern_kv_store_fn fn)
{
    const uint32_t n = between(1, 16) * TERN_CACHE_BLOCK;
    const size_t bytes = tern_cache_bytes(type, n);
    float x[16 * TERN_CACHE_BLOCK];
    uint8_t expected[sizeof x];
    test_floats(&rng, any_fill(), x, n);
    if (between(0, 1)) x[between(0, n - 1)] *= 1e30f;
    const float small = between(0, 2) ? 1 : 1e-6f; /* scales that f16 holds badly or not */
    for (uint32_t i = 0; i < n; i++) x[i] *= small;
    uint8_t *out = test_guard_lend(&m->q_guard, bytes, between(0, 1));
    definition(x, n, expected);
    fn(x, n, out);
    return memcmp(out, expected, bytes) == 0 && test_guard_intact(&m->q_guard, out, bytes);
}

static void kv_store_in_blocks(void **state)
{
    FOR_EACH_KERNEL(k, "kv_store_q8_0")
    {
        if (!row_agrees(*state, TERN_DTYPE_Q8_0, tern_ref_kv_store_q8_0, (tern_kv_store_fn)k->fn))
            fail_msg("kv_store_q8_0 %s", k->level);
    }
    FOR_EACH_KERNEL(k, "kv_store_q4_0")
    {
        if (!row_agrees(*state, TERN_DTYPE_Q4_0, tern_ref_kv_store_q4_0, (tern_kv_store_fn)k->fn))
            fail_msg("kv_store_q4_0 %s", k->level);
    }
}

static void kv_store(void **state)
{
    FOR_EACH_KERNEL(k, "kv_store_f16")
    {
        const uint32_t n = between(1, 300);
        if (!store_agrees(*state, (tern_kv_store_fn)k->fn, n)) fail_msg("kv_store_f16 %s: %u values", k->level, n);
    }
}

/* Broken kernels that the checks above must catch within a few rounds. */

static void rounds_half_away(const float *x, uint32_t cols, int8_t *q, size_t stride, float *inv_scale, int32_t *sum)
{
    tern_ref_quantize(x, cols, q, stride, inv_scale, sum);
    for (uint32_t c = 0; c < cols; c++)
        if (isfinite(x[c])) q[c] = (int8_t)roundf(x[c] * (1 / *inv_scale));
}

static void leaves_padding(const float *x, uint32_t cols, int8_t *q, size_t stride, float *inv_scale, int32_t *sum)
{
    tern_ref_quantize(x, cols, q, stride, inv_scale, sum);
    if (stride > cols) q[cols] = 1;
}

static void uses_fma(float *x, uint32_t n_heads, uint32_t head_dim, const float *cs)
{
    for (uint32_t h = 0; h < n_heads; h++, x += head_dim)
        for (uint32_t i = 0; i < head_dim / 2; i++) {
            const float a = x[i], b = x[i + head_dim / 2];
            x[i] = fmaf(a, cs[2 * i], -(b * cs[2 * i + 1]));
            x[i + head_dim / 2] = fmaf(b, cs[2 * i], a * cs[2 * i + 1]);
        }
}

static void uses_the_library(const float *gate, const float *up, size_t n, float *y)
{
    for (size_t i = 0; i < n; i++) y[i] = (gate[i] / (1 + expf(-gate[i]))) * up[i];
}

static void broken_kernels_are_caught(void **state)
{
    int caught[4] = {0};
    for (int i = 0; i < 50; i++) {
        caught[0] += !quantize_agrees(*state, rounds_half_away, 200);
        caught[1] += !quantize_agrees(*state, leaves_padding, 100);
        caught[2] += !rope_agrees(*state, tern_ref_rope_halves, uses_fma, 3, 64);
        caught[3] += !gate_agrees(*state, tern_ref_silu, uses_the_library, 500);
        assert_true(quantize_agrees(*state, tern_ref_quantize, 100));
    }
    for (int i = 0; i < 4; i++)
        if (!caught[i]) fail_msg("broken kernel %d was not caught", i);
}

static int open_state(void **state)
{
    static room m;
    test_seed(&rng);
    m.a_guard = test_guard_open(MAX_N * sizeof(float));
    m.b_guard = test_guard_open(MAX_N * sizeof(float));
    m.y_guard = test_guard_open(MAX_N * sizeof(float));
    m.q_guard = test_guard_open(sizeof m.q_expected);
    *state = &m;
    return 0;
}

static int close_state(void **state)
{
    room *m = *state;
    test_guard_close(&m->a_guard);
    test_guard_close(&m->b_guard);
    test_guard_close(&m->y_guard);
    test_guard_close(&m->q_guard);
    return 0;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(rms_norm),
    cmocka_unit_test(quantize),
    cmocka_unit_test(gates),
    cmocka_unit_test(softcap),
    cmocka_unit_test(hadamard),
    cmocka_unit_test(exp_sweep),
    cmocka_unit_test(rope),
    cmocka_unit_test(kv_store),
    cmocka_unit_test(kv_store_in_blocks),
    cmocka_unit_test(limited_gates),
    cmocka_unit_test(broken_kernels_are_caught),
};

TEST_GROUP(vector_kernels, "web", tests, .setup = open_state, .teardown = close_state);
