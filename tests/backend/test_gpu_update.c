/* The optimiser on the GPU: the bits of ops/ref/update.h, which are those of the CPU (F-102), for any numbers. */
#include "support/test.h"

#include "support/op_case.h"
#include "support/simulated.h"
#include "support/update_case.h"

static tern_rng rng;

static void compare_on(const update_case *c, tern_backend *backend, uint32_t slice_rows, uint64_t slice_bytes)
{
    update_results got, want;
    update_case_expect(c, &want);
    update_case_run(c, backend, slice_rows, slice_bytes, &got);
    const char *what = update_case_difference(c, &got, &want);
    if (what) update_case_print(c);
    update_results_free(&got);
    update_results_free(&want);
    if (what) fail_msg("%s: %s", backend->name, what);
}

static void compare(const update_case *c)
{
    for (int kind = 0; kind < TEST_GPU_N_KINDS; kind += 2) compare_on(c, test_gpu_backend_of((test_gpu_kind)kind), 0, 0);
}

/* Every optimiser in every type, 20 steps. */
static void twenty_steps(void **state)
{
    (void)state;
    test_gpu_backend();
    static const tern_dtype ms[] = {TERN_DTYPE_F32, TERN_DTYPE_BF16, TERN_DTYPE_M8},
                            vs[] = {TERN_DTYPE_F32, TERN_DTYPE_BF16, TERN_DTYPE_V8};
    for (uint32_t i = 0; i < 24; i++) {
        const bool adamw = i < 18;
        const update_case c = {.kind = (update_kind)(i % 3), .rows = 16, .cols = i % 2 ? 264 : 384,
                               .n_steps = getenv("TERN_TEST_SIMULATE") ? 2 : 20,
                               .w = i & 1 ? TERN_DTYPE_BF16 : TERN_DTYPE_F32, .m = ms[i / 2 % 3], .v = vs[i / 6 % 3],
                               .optimizer = adamw ? TERN_OPTIMIZER_ADAMW : TERN_OPTIMIZER_SGD,
                               .momentum = i % 4 < 2, .decays = i % 5 < 3, .clip = 0.7f, .blend = 0.3f,
                               .clamp = i % 3 == 1 && i % 2 ? 2.5f : 0, .seed = 100 + i};
        compare(&c);
    }
}

static void any_case(void **state)
{
    (void)state;
    test_gpu_backend();
    for (int round = 0; round < (getenv("TERN_TEST_SIMULATE") ? 6 : test_quick() ? 30 : 120); round++) {
        update_case c = update_case_any(&rng);
        if (c.kind == UPDATE_DENSE && c.rows > 1) c.cols = (c.cols + 7) / 8 * 8;
        compare(&c);
    }
}

/* Sums of more than one level, several pieces of everything. */
static void large_tensors(void **state)
{
    (void)state;
    test_gpu_backend();
    if (getenv("TERN_TEST_SIMULATE")) skip();
    for (int i = 0; i < 3; i++) {
        const update_case c = {.kind = (update_kind)i, .rows = i ? 1024 : 4112, .cols = i ? 1024 : 4096,
                               .n_steps = 1, .w = i == 1 ? TERN_DTYPE_BF16 : TERN_DTYPE_F32, .m = TERN_DTYPE_M8,
                               .v = TERN_DTYPE_V8, .optimizer = TERN_OPTIMIZER_ADAMW, .clip = 1, .blend = 0.5f,
                               .seed = 7};
        compare_on(&c, test_gpu_backend(), 0, 0);
    }
}

int main(void)
{
    test_seed(&rng);
    const struct CMUnitTest tests[] = {cmocka_unit_test(twenty_steps), cmocka_unit_test(any_case),
                                       cmocka_unit_test(large_tensors)};
    return cmocka_run_group_tests(tests, NULL, test_backends_close);
}
