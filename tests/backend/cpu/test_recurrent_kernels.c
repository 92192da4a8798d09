/* Every kernel of recurrent ops that this CPU can run, against its definition, to the bit. */
#include "support/test.h"

#include <math.h>

#include "support/guard.h"
#include "support/kernels.h"

enum { MAX_N = 700, MAX_KEYS = 70, MAX_VALUES = 256, N_ROUNDS = 60 };

static tern_rng rng;

typedef struct room {
    test_guard guards[6];
    float expected[MAX_KEYS * MAX_VALUES + MAX_VALUES];
} room;

static uint32_t between(uint32_t low, uint32_t high)
{
    return test_between(&rng, low, high);
}

/* n numbers between unreadable pages. */
static float *lend(room *m, int guard, size_t n, test_fill fill)
{
    float *x = test_guard_lend(&m->guards[guard], n * sizeof *x, between(0, 2) == 0);
    test_floats(&rng, fill, x, n);
    return x;
}

static bool agrees(const room *m, int guard, const float *got, const float *want, size_t n)
{
    return test_same_bits(got, want, n) && test_guard_intact(&m->guards[guard], got, n * sizeof *got);
}

static bool conv_agrees(room *m, tern_conv_fn fn)
{
    const uint32_t n_taps = between(1, TERN_CONV_MAX_TAPS), n = between(0, 3) ? between(1, 70) : between(1, MAX_N);
    const test_fill fill = (test_fill)between(0, TEST_N_FILLS - 1);
    /* rows that overlap: the last tap ends at the guard */
    const float *rows = lend(m, 0, n + n_taps - 1, fill), *taps[TERN_CONV_MAX_TAPS];
    for (uint32_t k = 0; k < n_taps; k++) taps[k] = rows + k;
    tern_conv_args args = {.taps = taps, .n_taps = n_taps, .n = n, .y = m->expected};
    args.weight = lend(m, 1, (size_t)n_taps * n, TEST_ORDINARY);
    tern_ref_conv(&args);
    args.y = lend(m, 2, n, TEST_ORDINARY);
    fn(&args);
    return agrees(m, 2, args.y, m->expected, n);
}

static void conv(void **state)
{
    size_t at = 0;
    for (const test_kernel *k; (k = test_kernel_next("conv", &at));)
        for (int i = 0; i < N_ROUNDS; i++)
            if (!conv_agrees(*state, (tern_conv_fn)k->fn)) fail_msg("conv %s, round %d", k->level, i);
}

/* With a state or zeros, which `next` may be; what lies between is random. */
static bool delta_agrees(room *m, tern_delta_fn fn)
{
    const uint32_t keys = between(1, MAX_KEYS), values = 8 * between(1, MAX_VALUES / 8), how = between(0, 2);
    const size_t n = (size_t)keys * values;
    const test_fill fill = between(0, 2) ? TEST_ORDINARY : (test_fill)between(0, TEST_N_FILLS - 1);
    float *next = lend(m, 0, n, fill);
    tern_delta_args args = {.keys = keys, .values = values, .decay = tern_rng_f32(&rng), .beta = tern_rng_f32(&rng)};
    args.state = how == 0 ? NULL : how == 1 ? next : lend(m, 1, n, fill);
    args.q = lend(m, 2, keys, fill);
    args.k = lend(m, 3, keys, fill);
    args.v = lend(m, 4, values, fill);
    args.next = m->expected;
    args.y = m->expected + n;
    tern_ref_delta(&args);
    args.next = next;
    args.y = lend(m, 5, values, fill);
    fn(&args);
    return agrees(m, 0, next, m->expected, n) && agrees(m, 5, args.y, m->expected + n, values);
}

static void delta(void **state)
{
    size_t at = 0;
    for (const test_kernel *k; (k = test_kernel_next("delta", &at));)
        for (int i = 0; i < N_ROUNDS; i++)
            if (!delta_agrees(*state, (tern_delta_fn)k->fn)) fail_msg("delta %s, round %d", k->level, i);
}

/* Kernels that the checks above must catch. */

static void forgets_the_last_channel(const tern_conv_args *args)
{
    tern_ref_conv(args);
    args->y[args->n - 1] = 0;
}

static void adds_without_fma(const tern_delta_args *args)
{
    for (uint32_t j = 0; j < args->values; j++) {
        float m = 0, y = 0;
        for (uint32_t i = 0; i < args->keys; i++)
            m += args->k[i] * ((args->state ? args->state[i * args->values + j] : 0) * args->decay);
        for (uint32_t i = 0; i < args->keys; i++) {
            const size_t at = (size_t)i * args->values + j;
            const float u = (args->state ? args->state[at] : 0) * args->decay;
            args->next[at] = fmaf(args->k[i], (args->v[j] - m) * args->beta, u);
            y = fmaf(args->q[i], args->next[at], y);
        }
        args->y[j] = y;
    }
}

static void broken_kernels_are_caught(void **state)
{
    int caught[2] = {0};
    for (int i = 0; i < N_ROUNDS; i++) {
        caught[0] += !conv_agrees(*state, forgets_the_last_channel);
        caught[1] += !delta_agrees(*state, adds_without_fma);
    }
    assert_true(caught[0] && caught[1]);
}

static int open_state(void **state)
{
    static room m;
    static const size_t most[6] = {MAX_KEYS * MAX_VALUES, MAX_KEYS * MAX_VALUES, MAX_N, MAX_N, MAX_N, MAX_N};
    test_seed(&rng);
    for (int i = 0; i < 6; i++) m.guards[i] = test_guard_open(most[i] * sizeof(float));
    *state = &m;
    return 0;
}

static int close_state(void **state)
{
    room *m = *state;
    for (int i = 0; i < 6; i++) test_guard_close(&m->guards[i]);
    return 0;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(conv),
    cmocka_unit_test(delta),
    cmocka_unit_test(broken_kernels_are_caught),
};

TEST_GROUP(recurrent_kernels, "web", tests, .setup = open_state, .teardown = close_state);
