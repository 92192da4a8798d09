/* The optimiser on the CPU: at every level and with any number of threads the bits of ops/ref/update.h. */
#include "support/test.h"

#include "backend/cpu/cpu.h"
#include "support/update_case.h"

static tern_rng rng;

static tern_backend *open_cpu(uint32_t n_threads, bool scalar)
{
    tern_error err = {0};
    tern_backend *backend = NULL;
    const tern_cpu_options options = {.n_threads = n_threads, .features_set = scalar};
    assert_ok(tern_cpu_open(&backend, &options, &err), err);
    return backend;
}

static void compare(const update_case *c, tern_backend *backend, const update_results *want)
{
    update_results got;
    update_case_run(c, backend, 0, 0, &got);
    const char *what = update_case_difference(c, &got, want);
    update_results_free(&got);
    if (!what) return;
    update_case_print(c);
    fail_msg("%u threads: %s", tern_cpu_n_threads(backend), what);
}

static void any_case(void **state)
{
    (void)state;
    tern_backend *scalar = open_cpu(1, true), *usual = open_cpu(2, false);
    for (uint32_t round = 0; round < 120; round++) {
        const update_case c = update_case_any(&rng);
        if (!test_takes(round, 6, 5)) continue;
        update_results want;
        update_case_expect(&c, &want);
        compare(&c, usual, &want);
        if (round % 5 == 0) compare(&c, scalar, &want);
        update_results_free(&want);
    }
    scalar->close(scalar);
    usual->close(usual);
}

static void hard_cases(void **state)
{
    (void)state;
    static float numbers[2][UPDATE_HARD_ELEMENTS];
    tern_backend *backend = open_cpu(2, false);
    for (int i = 0; i < UPDATE_HARD_CASES; i++) {
        const update_case c = update_case_hard(i, numbers);
        update_results want;
        update_case_expect(&c, &want);
        const float scales[] = {1, (0x1p31f + 8191) / 8192 * 0x1p-31f, 1e-5f, 1e-5f};
        assert_true(want.scales[0] == scales[i]);
        assert_true(want.norms[0] == 0);
        compare(&c, backend, &want);
        update_results_free(&want);
    }
    backend->close(backend);
}

/* More than one piece, and runs that are not whole. */
static void any_number_of_threads(void **state)
{
    (void)state;
    static const uint32_t threads[] = {1, 2, 3, 8};
    tern_backend *backends[4];
    for (int i = 0; i < 4; i++) backends[i] = open_cpu(threads[i], false);
    for (int kind = 0; kind < 3; kind++) {
        const update_case c = {.kind = (update_kind)kind,
                               .rows = 304,
                               .cols = kind == 1 ? 1000 : 641,
                               .n_steps = 2,
                               .w = kind == 0 ? TERN_DTYPE_BF16 : TERN_DTYPE_F32,
                               .m = kind == 1 ? TERN_DTYPE_M8 : TERN_DTYPE_F32,
                               .v = kind == 1 ? TERN_DTYPE_V8 : TERN_DTYPE_BF16,
                               .optimizer = TERN_OPTIMIZER_ADAMW,
                               .decays = true,
                               .clip = 0.5f,
                               .blend = 0.5f,
                               .clamp = kind == 1 ? 2 : 0,
                               .seed = 5};
        update_results want;
        update_case_expect(&c, &want);
        for (int i = 0; i < 4; i++) compare(&c, backends[i], &want);
        update_results_free(&want);
    }
    for (int i = 0; i < 4; i++) backends[i]->close(backends[i]);
}

/* A test that notices: one bit of anything. */
static void differences_are_found(void **state)
{
    (void)state;
    const update_case c = {.kind = UPDATE_TERNARY,
                           .rows = 3,
                           .cols = 200,
                           .n_steps = 1,
                           .m = TERN_DTYPE_M8,
                           .v = TERN_DTYPE_V8,
                           .optimizer = TERN_OPTIMIZER_ADAMW,
                           .clip = 1,
                           .seed = 9};
    update_results a, b;
    update_case_expect(&c, &a);
    update_case_expect(&c, &b);
    assert_null(update_case_difference(&c, &a, &b));
    uint8_t *places[] = {b.w + 599 * 4, b.m + 599,           b.m + 768 + 8,           b.v,
                         b.g + 4,       b.out + 2 * 64 + 63, (uint8_t *)&b.scales[2], (uint8_t *)b.norms};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        *places[i] ^= 1;
        assert_non_null(update_case_difference(&c, &a, &b));
        *places[i] ^= 1;
    }
    update_results_free(&a);
    update_results_free(&b);
}

static int seed(void **state)
{
    (void)state;
    test_seed(&rng);
    return 0;
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(any_case), cmocka_unit_test(hard_cases),
                                          cmocka_unit_test(any_number_of_threads),
                                          cmocka_unit_test(differences_are_found)};

TEST_GROUP(update_ops, "web", tests, .setup = seed);
