/* Prompts on cooperative matrices, which drivers in software have not: on the simulated GPU, or on one that has them.
 */
#include <math.h>

#include "backend/gpu/linear_ternary_cases.h"
#include "base/half.h"
#include "support/attention_case.h"

static void expect_runs(tern_gpu_pipeline pipeline, uint64_t least)
{
    if (test_simulated_use[pipeline].runs < least)
        fail_msg("%s: %llu runs, %llu expected", tern_gpu_pipelines[pipeline].name,
                 (unsigned long long)test_simulated_use[pipeline].runs, (unsigned long long)least);
}

/* Of int8: tiles of 64 tokens, which layers as small as these get, and of 128. */
static void ternary(void **state)
{
    (void)state;
    tern_rng rng;
    test_seed(&rng);
    for (size_t i = 0, n = 0; i < LINEAR_TERNARY_LAYERS; i++) {
        if (linear_ternary_layers[i].cols > (test_quick() ? 640 : 2560)) continue;
        if (i > 0 && !test_takes(n++, 3, 1)) continue; /* the first one has the kernels that are counted below */
        for (uint32_t which = SIMULATED_MATRICES; which <= SIMULATED_LARGE_TILES; which++)
            linear_ternary_check_layer(&rng, &linear_ternary_layers[i], which, 70, 65);
    }
    expect_runs(TERN_GPU_TERNARY_COOP, 1);
    expect_runs(TERN_GPU_TERNARY_COOP_64, 1);
}

static const test_attention_shape shapes[] = {
    {.n_heads = 6, .n_kv_heads = 2, .head_dim = 64, .n_ctx = 128, .max_tokens = 33, .n_tokens = 30, .n_sequences = 2},
    {.n_heads = 2, .n_kv_heads = 1, .head_dim = 128, .n_ctx = 256, .max_tokens = 70, .n_tokens = 70, .first = 90},
    {.n_heads = 3,
     .n_kv_heads = 3,
     .head_dim = 80,
     .n_ctx = 256,
     .max_tokens = 9,
     .n_tokens = 9,
     .first = 130,
     .sinks = true},
    {.n_heads = 5,
     .n_kv_heads = 1,
     .head_dim = 40,
     .n_ctx = 128,
     .max_tokens = 40,
     .n_tokens = 37,
     .n_sequences = 3,
     .first = 20,
     .window = 20,
     .softcap = 1.75f},
    {.n_heads = 1, .n_kv_heads = 1, .head_dim = 8, .n_ctx = 128, .max_tokens = 100, .n_tokens = 100, .window = 33},
    {.n_heads = 2, .n_kv_heads = 2, .head_dim = 96, .n_ctx = 128, .max_tokens = 64, .n_tokens = 61, .scale = 30},
};

/* The last one's scores differ by far more than the range of halves, so that sums move. */
static void attention(void **state)
{
    (void)state;
    tern_rng rng;
    test_seed(&rng);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        test_attention_shape s = shapes[i];
        if (s.n_sequences == 0) s.n_sequences = 1;
        test_attention_check(&rng, &s, linear_ternary_device(SIMULATED_MATRICES));
    }
    expect_runs(TERN_GPU_ATTENTION_COOP_64_F16, 3);
    expect_runs(TERN_GPU_ATTENTION_COOP_128_F16, 3);
}

/* NaN and infinities in keys and values reach the rows that see them, and in those their columns, alone. */
static void no_numbers(void **state)
{
    (void)state;
    tern_rng rng;
    test_seed(&rng);
    test_attention a;
    const test_attention_shape s = {
        .n_heads = 4, .n_kv_heads = 2, .head_dim = 64, .n_ctx = 64, .max_tokens = 40, .n_tokens = 40, .n_sequences = 1};
    test_attention_open(&a, &rng, &s, false);
    const size_t page = test_case_param(&a.c, TERN_PARAM_PAGES)[0];
    uint16_t *v = (uint16_t *)(void *)test_case_floats(&a.c, a.v_cache),
             *k = (uint16_t *)(void *)test_case_floats(&a.c, a.k_cache);
    v[(page * 2 * 32 + 3) * 64 + 7] = tern_f32_to_f16(NAN);
    v[(page * 2 * 32 + 9) * 64 + 33] = tern_f32_to_f16(INFINITY);
    k[((page * 2 + 1) * 32 + 4) * 64 + 1] = tern_f32_to_f16(NAN);
    test_case_add(&a.c, test_attention_op(&a, TERN_OP_ATTENTION));
    test_case_compare(&a.c, linear_ternary_device(SIMULATED_MATRICES), s.n_tokens, 1, (test_tolerance){.of_row = 2e-5});
    test_case_close(&a.c);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(ternary), cmocka_unit_test(attention),
                                          cmocka_unit_test(no_numbers)};

TEST_GROUP(matrices, "slow", tests, .teardown = linear_ternary_close_devices);
