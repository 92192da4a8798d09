/* Attention on a simulated GPU (support/spirv.h), for subgroups that are not at hand: against the CPU, and for races,
 * bounds and barriers. */
#include "support/attention_case.h"
#include "support/simulated.h"
#include "support/test.h"

typedef struct example {
    uint32_t subgroup, workgroup_bytes, invocations;
    bool fences;
    const char *pipeline; /* that is chosen */
    test_attention_shape shape;
} example;

#define SHAPE(heads, kv, dim, ctx, max, n, at)                                                                         \
    {                                                                                                                  \
        .n_heads = (heads), .n_kv_heads = (kv), .head_dim = (dim), .n_ctx = (ctx), .max_tokens = (max),                \
        .n_tokens = (n), .n_sequences = 1, .first = (at)                                                               \
    }

/* The same with a soft cap, a window and sinks. */
#define PARAMETERS(heads, kv, dim, ctx, max, n, at, cap, seen)                                                         \
    {                                                                                                                  \
        .n_heads = (heads), .n_kv_heads = (kv), .head_dim = (dim), .n_ctx = (ctx), .max_tokens = (max),                \
        .n_tokens = (n), .n_sequences = 1, .first = (at), .softcap = (cap), .window = (seen), .sinks = true            \
    }

/* clang-format off */
static const example examples[] = {
    /* one token, whose positions are split; merged in the same dispatch, or in a second one */
    {32, 49152, 1024, true, "S16_128_F16", SHAPE(2, 1, 128, 512, 1, 1, 300)},
    {32, 49152, 1024, false, "S16_128_F16", SHAPE(2, 1, 128, 512, 1, 1, 257)},
    {64, 49152, 1024, true, "S16_128_F16", SHAPE(1, 1, 96, 512, 1, 1, 128)},
    {16, 49152, 1024, true, "S16_128_F16", SHAPE(1, 1, 80, 512, 1, 1, 400)},
    {32, 49152, 1024, true, "S32_256_F16", SHAPE(1, 1, 256, 256, 1, 1, 200)},
    {32, 49152, 1024, true, "S32_512_F16", SHAPE(1, 1, 320, 256, 1, 1, 130)},
    {128, 49152, 1024, true, "S8_64_F16", SHAPE(1, 1, 40, 1024, 1, 1, 600)},
    {8, 32768, 1024, true, "S8_128_F16", SHAPE(3, 1, 128, 256, 1, 1, 150)},
    {8, 32768, 1024, true, "S8_256_F16", SHAPE(1, 1, 256, 256, 1, 1, 150)},
    {4, 32768, 1024, true, "S4_128_F16", SHAPE(1, 1, 128, 256, 1, 1, 150)},
    {0, 32768, 1024, true, "T16_128_F16", SHAPE(1, 1, 128, 256, 1, 1, 150)},
    {0, 32768, 1024, true, "T32_256_F16", SHAPE(1, 1, 136, 256, 1, 1, 150)},
    {0, 32768, 1024, false, "T32_512_F16", SHAPE(1, 1, 512, 256, 1, 1, 100)},
    {0, 4096, 128, true, "STREAM_512_F16", SHAPE(1, 1, 264, 256, 1, 1, 20)},
    /* heads that are multiples of 4 and not of 8 */
    {32, 49152, 1024, true, "ODD_128_F16", SHAPE(2, 1, 100, 512, 1, 1, 300)},
    {0, 32768, 1024, false, "ODD_128_F16", SHAPE(1, 1, 20, 512, 1, 1, 257)},
    {64, 49152, 1024, true, "ODD_512_F16", SHAPE(1, 1, 260, 256, 1, 1, 131)},
    {32, 49152, 1024, true, "TILES_ODD_128_F16", SHAPE(3, 1, 100, 64, 10, 9, 30)},
    {32, 49152, 1024, true, "ODD_128_F16", PARAMETERS(2, 1, 100, 512, 1, 1, 400, 1.75f, 150)},
    {0, 16384, 128, true, "TILES_ODD_128_F16", PARAMETERS(1, 1, 100, 64, 9, 9, 50, 1.75f, 20)},
    /* a context so long that query heads share reads */
    {32, 49152, 1024, true, "S16_128_H4_F16", SHAPE(4, 1, 128, 8192, 1, 1, 200)},
    {32, 49152, 1024, true, "S16_128_H2_F16", SHAPE(3, 1, 96, 8192, 1, 1, 200)},
    /* tiles */
    {32, 49152, 1024, true, "LARGE_64_S_F16", SHAPE(2, 1, 64, 128, 33, 30, 40)},
    {64, 49152, 1024, true, "SMALL_128_S_F16", SHAPE(2, 1, 128, 128, 16, 16, 16)},
    {16, 32768, 1024, true, "SMALL_64_S_F16", SHAPE(3, 1, 64, 128, 12, 11, 31)},
    {4, 32768, 1024, true, "SMALL_256_S_F16", SHAPE(1, 1, 200, 64, 10, 9, 30)},
    {0, 49152, 1024, true, "LARGE_64_F16", SHAPE(1, 1, 64, 128, 66, 65, 0)},
    {0, 16384, 128, true, "LEAST_256_F16", SHAPE(1, 1, 136, 64, 9, 9, 7)},
    /* a soft cap, a window and sinks */
    {32, 49152, 1024, true, "S16_128_F16", PARAMETERS(2, 1, 128, 512, 1, 1, 400, 1.75f, 150)},
    {32, 49152, 1024, false, "S16_128_F16", PARAMETERS(2, 1, 128, 512, 1, 1, 400, 0, 200)},
    {8, 32768, 1024, true, "S8_128_F16", PARAMETERS(3, 1, 128, 256, 1, 1, 150, 2, 1)},
    {0, 32768, 1024, true, "T16_128_F16", PARAMETERS(1, 1, 128, 256, 1, 1, 150, 2, 33)},
    {32, 49152, 1024, true, "LARGE_64_S_F16", PARAMETERS(2, 1, 64, 128, 33, 30, 60, 1.75f, 37)},
    {0, 16384, 128, true, "LEAST_256_F16", PARAMETERS(1, 1, 136, 64, 9, 9, 50, 1.75f, 20)},
};
/* clang-format on */

static void check(tern_rng *rng, const example *e, bool f32, uint64_t max_binding, bool waits)
{
    tern_error err = {0};
    tern_backend *backend;
    char f16_name[64];
    tern_gpu_caps caps = {.subgroup_min = e->subgroup,
                          .subgroup_max = e->subgroup,
                          .workgroup_bytes = e->workgroup_bytes,
                          .workgroup_invocations = e->invocations,
                          .max_groups = 65535,
                          .max_binding = max_binding,
                          .binding_alignment = 256,
                          .waits = waits,
                          .device_fences = e->fences};
    test_attention_shape shape = e->shape;
    shape.f32 = f32;
    assert_ok(test_simulated_open(&backend, &caps, &err), err);
    memset(test_simulated_use, 0, sizeof test_simulated_use);
    test_attention_check(rng, &shape, backend);
    if (shape.max_tokens == 1) test_attention_check_fused(rng, &shape, backend);
    backend->close(backend);
    snprintf(f16_name, sizeof f16_name, "ATTENTION_%s%s", e->pipeline, waits ? "_WAITS" : "");
    for (size_t i = 0; i < TERN_GPU_PIPELINE_COUNT; i++)
        if (!f32 && strcmp(tern_gpu_pipelines[i].name, f16_name) == 0) {
            if (test_simulated_use[i].runs == 0) fail_msg("%s has not run", f16_name);
            return;
        }
    if (!f32) fail_msg("%s: no such pipeline", f16_name);
}

enum { WHOLE = 128 << 20 };

static void test_f16(void **state)
{
    (void)state;
    tern_rng rng;
    test_seed(&rng);
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) check(&rng, &examples[i], false, WHOLE, false);
}

static void test_f32(void **state)
{
    (void)state;
    tern_rng rng;
    test_seed(&rng);
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
        if (test_takes(i, 7, 1)) check(&rng, &examples[i], true, WHOLE, false);
}

/* Twins that wait for the dispatch before: every workgroup raises its counter, those that have nothing to do as well.
 */
static void test_waiting(void **state)
{
    (void)state;
    static const example waiting[] = {
        {32, 49152, 1024, true, "S16_128_F16", SHAPE(2, 1, 128, 512, 1, 1, 300)},
        {32, 49152, 1024, true, "S16_128_F16", SHAPE(2, 1, 128, 512, 1, 1, 3)},
        {128, 49152, 1024, true, "S8_64_F16", SHAPE(1, 1, 40, 1024, 1, 1, 600)},
        {8, 32768, 1024, true, "S8_128_F16", PARAMETERS(3, 1, 128, 256, 1, 1, 150, 2, 1)},
        {4, 32768, 1024, true, "S4_128_F16", SHAPE(1, 1, 128, 256, 1, 1, 150)},
    };
    tern_rng rng;
    test_seed(&rng);
    for (size_t i = 0; i < sizeof waiting / sizeof *waiting; i++) {
        check(&rng, &waiting[i], false, WHOLE, true);
        check(&rng, &waiting[i], true, WHOLE, true);
    }
}

/* Caches larger than a binding. */
static void test_slices(void **state)
{
    (void)state;
    static const example sliced[] = {
        {32, 49152, 1024, true, "SLICED_128_F16", SHAPE(4, 4, 128, 256, 1, 1, 200)},
        {0, 16384, 128, false, "SLICED_128_F16", PARAMETERS(6, 3, 64, 256, 1, 1, 240, 1.75f, 150)},
        {8, 32768, 1024, true, "SLICED_128_F16", PARAMETERS(3, 3, 128, 256, 8, 7, 130, 0, 60)},
        {32, 4096, 128, true, "SLICED_512_F16", SHAPE(3, 3, 264, 128, 1, 1, 70)},
        {32, 49152, 1024, true, "SLICED_ODD_512_F16", SHAPE(6, 3, 100, 256, 1, 1, 200)},
        {0, 16384, 128, true, "SLICED_ODD_512_F16", PARAMETERS(3, 3, 100, 256, 9, 9, 130, 1.75f, 60)},
        /* tiles */
        {8, 32768, 1024, true, "SLICED_SMALL_128_F16", PARAMETERS(3, 3, 128, 256, 10, 9, 130, 0, 60)},
        {0, 16384, 128, false, "SLICED_LEAST_128_F16", PARAMETERS(3, 3, 64, 256, 9, 9, 200, 1.75f, 90)},
        {32, 49152, 1024, true, "SLICED_SMALL_256_F16", SHAPE(3, 3, 136, 192, 9, 9, 75)},
        {0, 16384, 128, true, "SLICED_LEAST_256_F16", SHAPE(3, 3, 136, 192, 9, 9, 150)},
    };
    tern_rng rng;
    test_seed(&rng);
    for (size_t i = 0; i < sizeof sliced / sizeof *sliced; i++) {
        const test_attention_shape *s = &sliced[i].shape;
        /* as much as the table of a fused op takes */
        const uint64_t binding = (uint64_t)s->n_ctx * s->head_dim * 4;
        check(&rng, &sliced[i], false, binding, false);
        if (test_takes(i, 7, 1)) check(&rng, &sliced[i], true, binding, false);
    }
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(test_f16), cmocka_unit_test(test_f32),
                                          cmocka_unit_test(test_waiting), cmocka_unit_test(test_slices)};

TEST_GROUP(attention, "slow", tests, .teardown = test_backends_close);
