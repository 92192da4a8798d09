/* Attention on a GPU, and on less of it than there is, against the CPU backend. */
#include <math.h>

#include "backend/gpu/caps.h"
#include "backend/open.h"
#include "base/half.h"
#include "support/attention_case.h"
#include "support/test.h"

enum { N_DEVICES = 5, N_DECODERS = 3 /* of them with kernels for single queries of their own */ };

/* The device as it is, and with less than it has. */
static tern_backend *devices[N_DEVICES];

/* CUDA has no lesser ones. */
static size_t n_devices(void)
{
    return test_gpu_kinds() == 1 ? 1 : N_DEVICES;
}

static size_t n_decoders(void)
{
    return test_gpu_kinds() == 1 ? 1 : N_DECODERS;
}

static tern_backend *device(size_t i)
{
    static const tern_gpu_caps limits[N_DEVICES] = {
        [1] = {.workgroup_bytes = 16384, .workgroup_invocations = 128, .max_groups = 65535, .max_binding = 1 << 27},
        [2] = {.workgroup_bytes = 4096,
               .workgroup_invocations = 128,
               .max_groups = 65535,
               .max_binding = 1 << 27,
               .device_fences = true},
        [3] = {.subgroup_max = 128,
               .workgroup_bytes = 32768,
               .workgroup_invocations = 256,
               .max_groups = 65535,
               .max_binding = 1 << 27},
        [4] = {.workgroup_bytes = 49152, .workgroup_invocations = 256, .max_groups = 65535, .max_binding = 1 << 27}};
    if (i == 0) return test_gpu_backend();
    test_gpu_backend();
    if (!devices[i]) devices[i] = test_gpu_open(&limits[i]);
    return devices[i];
}

static int close_devices(void **state)
{
    for (size_t i = 1; i < N_DEVICES; i++)
        if (devices[i]) devices[i]->close(devices[i]);
    return test_backends_close(state);
}

static const struct {
    uint32_t n_heads, n_kv_heads, head_dim;
} heads[] = {{4, 1, 32},  {6, 2, 64}, {3, 3, 80}, {5, 5, 96},  {20, 5, 128}, {8, 1, 256}, {2, 1, 320},
             {4, 4, 512}, {9, 3, 40}, {1, 1, 8},  {4, 4, 100}, {6, 2, 20},   {2, 1, 4},   {2, 2, 260}};

enum { N_HEADS = sizeof heads / sizeof *heads };

/* One token of each sequence, at positions around pages, spans and the limit of the context. */
static void test_decode(void **state)
{
    (void)state;
    static const uint32_t positions[] = {0, 1, 31, 32, 63, 64, 127, 128, 300, 511, 700, 1023};
    tern_rng rng;
    test_seed(&rng);
    for (size_t on = 0; on < n_decoders(); on++)
        for (uint32_t i = 0; i < (on ? 1 : 3) * N_HEADS; i++) {
            if (!test_takes(i + on, 5, N_HEADS * 3 * 12 * 4)) continue;
            test_attention_shape s = {.n_heads = heads[i % N_HEADS].n_heads,
                                      .n_kv_heads = heads[i % N_HEADS].n_kv_heads,
                                      .head_dim = heads[i % N_HEADS].head_dim,
                                      .f32 = i % 3 == 0,
                                      .n_ctx = 1024,
                                      .n_sequences = test_between(&rng, 1, 3),
                                      .first = positions[(i * 5 + on) % 12]};
            s.max_tokens = s.n_sequences + (i % 4 == 1);
            s.n_tokens = s.n_sequences;
            test_attention_check(&rng, &s, device(on));
        }
}

static void test_fused(void **state)
{
    (void)state;
    static const uint32_t positions[] = {0, 1, 15, 31, 32, 64, 100, 127, 128, 129, 640, 1023};
    tern_rng rng;
    test_seed(&rng);
    for (size_t on = 0; on < n_decoders(); on++)
        for (uint32_t i = 0; i < (on ? 1 : 3) * N_HEADS; i++) {
            if (!test_takes(i + on, 5, N_HEADS * 3 * 12 * 4)) continue;
            test_attention_shape s = {.n_heads = heads[i % N_HEADS].n_heads,
                                      .n_kv_heads = heads[i % N_HEADS].n_kv_heads,
                                      .head_dim = heads[i % N_HEADS].head_dim,
                                      .f32 = i % 3 == 1,
                                      .adjacent = i % 2,
                                      .n_ctx = 1024,
                                      .max_tokens = 1,
                                      .n_tokens = 1,
                                      .n_sequences = 1,
                                      .first = positions[(i * 5 + on) % 12]};
            test_attention_check_fused(&rng, &s, device(on));
        }
}

/* The first token sees itself alone: its result is its v as the f16 cache has it, not as it was before. How v is
 * rounded is up to the driver, and quotients may be 2.5 ulp off. */
static void check_rounded(tern_rng *rng, const test_attention_shape *s, tern_backend *backend)
{
    test_attention a;
    test_results got = {0};
    test_attention_open(&a, rng, s, true);
    test_attention_poison(&a, 0);
    test_case_add(&a.c, test_attention_op(&a, TERN_OP_ROPE_ATTENTION));
    test_case_run(&a.c, backend, 1, 1, 1, &got);
    const uint16_t *cache = (const uint16_t *)(const void *)got.bytes[a.v_cache.value];
    const float *out = test_results_row(&a.c, &got, a.out, 0), *x = test_case_floats(&a.c, a.x);
    const uint32_t page = test_case_param(&a.c, TERN_PARAM_PAGES)[0], dim = s->head_dim;
    for (uint32_t i = 0; i < s->n_heads * dim; i++) {
        const uint32_t kv_head = i / dim / (s->n_heads / s->n_kv_heads), c = i % dim;
        const float v = x[(s->n_heads + s->n_kv_heads + kv_head) * dim + c];
        const float held = tern_f16_to_f32(cache[((size_t)page * s->n_kv_heads + kv_head) * 32 * dim + c]);
        if (!(fabsf(held - v) <= 0x1p-10f * fabsf(v) + 0x1p-24f)) /* rounded either way */
            fail_msg("%s: v[%u][%u] is %.9g, its f16 %.9g", backend->info.name, kv_head, c, (double)v, (double)held);
        if (!(fabsf(out[i] - held) <= 3e-7f * fabsf(held)))
            fail_msg("%s: out[%u] of %u heads of %u: %.9g, %.9g expected (%.9g in f16)", backend->info.name, i,
                     s->n_heads, dim, (double)out[i], (double)held, (double)v);
    }
    test_results_free(&got);
    test_case_close(&a.c);
}

static void test_rounded(void **state)
{
    (void)state;
    tern_rng rng;
    test_seed(&rng);
    for (size_t on = 0; on < n_decoders(); on++)
        for (uint32_t i = 0; i < N_HEADS; i++) {
            const test_attention_shape s = {.n_heads = heads[i].n_heads,
                                            .n_kv_heads = heads[i].n_kv_heads,
                                            .head_dim = heads[i].head_dim,
                                            .n_ctx = 64,
                                            .max_tokens = 1,
                                            .n_tokens = 1,
                                            .n_sequences = 1};
            if (s.head_dim % 8 == 0 && test_attention_takes_fused(&rng, &s, device(on)))
                check_rounded(&rng, &s, device(on));
        }
}

/* Many tokens: a step that starts a sequence or continues it. */
static void test_prefill(void **state)
{
    (void)state;
    static const uint32_t tokens[] = {9, 16, 33, 64, 100}, firsts[] = {0, 1, 40, 95, 130};
    tern_rng rng;
    test_seed(&rng);
    for (size_t on = 0; on < n_devices(); on++)
        for (uint32_t i = 0; i < (on ? 1 : 2) * N_HEADS; i++) {
            if (!test_takes(i + on, 11, N_HEADS * 5 * 3 * 4)) continue;
            test_attention_shape s = {.n_heads = heads[i % N_HEADS].n_heads,
                                      .n_kv_heads = heads[i % N_HEADS].n_kv_heads,
                                      .head_dim = heads[i % N_HEADS].head_dim,
                                      .f32 = i % 3 == 0,
                                      .n_ctx = 256,
                                      .max_tokens = tokens[i % 5],
                                      .n_sequences = 1 + i % 4,
                                      .first = firsts[(i + i / 5) % 5]};
            s.n_tokens = s.max_tokens - test_between(&rng, 0, 7);
            test_attention_check(&rng, &s, device(on));
        }
}

/* Shapes for which larger devices have kernels of their own: long contexts, and steps large enough for large tiles. */
static void test_large(void **state)
{
    (void)state;
    static const test_attention_shape shapes[] = {{.n_heads = 8,
                                                   .n_kv_heads = 2,
                                                   .head_dim = 128,
                                                   .n_ctx = 8192,
                                                   .max_tokens = 1,
                                                   .n_tokens = 1,
                                                   .n_sequences = 1,
                                                   .first = 8191},
                                                  {.n_heads = 6,
                                                   .n_kv_heads = 2,
                                                   .head_dim = 96,
                                                   .n_ctx = 8192,
                                                   .max_tokens = 1,
                                                   .n_tokens = 1,
                                                   .n_sequences = 1,
                                                   .first = 4095},
                                                  {.n_heads = 20,
                                                   .n_kv_heads = 5,
                                                   .head_dim = 128,
                                                   .n_ctx = 2048,
                                                   .max_tokens = 1700,
                                                   .n_tokens = 77,
                                                   .n_sequences = 1,
                                                   .first = 50},
                                                  {.n_heads = 11,
                                                   .n_kv_heads = 1,
                                                   .head_dim = 96,
                                                   .n_ctx = 3100,
                                                   .max_tokens = 3000,
                                                   .n_tokens = 40,
                                                   .n_sequences = 1,
                                                   .first = 70}};
    tern_rng rng;
    test_seed(&rng);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        test_attention_check(&rng, &shapes[i], device(0));
        if (shapes[i].max_tokens == 1) test_attention_check_fused(&rng, &shapes[i], device(0));
    }
}

/* A soft cap, a window and sinks, each alone and together; what a window hides is NaN, in pages that lead nowhere. */
static test_attention_shape asked(const test_attention_shape *plain, uint32_t i)
{
    static const uint32_t windows[] = {0, 1, 20, 0, 32, 77, 200, 5000};
    test_attention_shape s = *plain;
    s.window = windows[i % 8];
    s.softcap = i % 8 == 0 || i % 4 == 3 ? 1.75f : 0;
    s.sinks = i % 8 == 3 || i % 3 == 1;
    s.scale = i % 5 == 4 ? 0.3f : 0;
    return s;
}

static void test_parameters(void **state)
{
    (void)state;
    static const uint32_t firsts[] = {0, 31, 40, 63, 129, 300};
    tern_rng rng;
    test_seed(&rng);
    for (size_t on = 0; on < n_devices(); on++)
        for (uint32_t i = 0; i < 2 * N_HEADS; i++) {
            if (!test_takes(i + on, 11, N_HEADS * 8 * 6 * 5)) continue;
            test_attention_shape s = {.n_heads = heads[i % N_HEADS].n_heads,
                                      .n_kv_heads = heads[i % N_HEADS].n_kv_heads,
                                      .head_dim = heads[i % N_HEADS].head_dim,
                                      .f32 = i % 2 == 0,
                                      .n_ctx = 512,
                                      .n_sequences = 1,
                                      .max_tokens = 1,
                                      .n_tokens = 1,
                                      .first = firsts[(i + on) % 6]};
            const test_attention_shape one = asked(&s, i + (uint32_t)on);
            test_attention_check_fused(&rng, &one, device(on));
            s.n_sequences = 1 + i % 3;
            s.max_tokens = i % 2 ? 20 : 70;
            s.n_tokens = s.max_tokens - i % 5;
            if (on < N_DECODERS && i % 2) s.n_tokens = s.max_tokens = s.n_sequences;
            const test_attention_shape more = asked(&s, i + (uint32_t)on);
            test_attention_check(&rng, &more, device(on));
        }
}

/* A device whose bindings are smaller than a cache. */
static const tern_gpu_caps small_bindings = {.subgroup_max = 128,
                                             .workgroup_bytes = 32768,
                                             .workgroup_invocations = 256,
                                             .max_groups = 65535,
                                             .max_binding = 160 << 10,
                                             .device_fences = true};

/* Caches larger than a binding, whose pages lie in any order: one query at a time and in tiles. */
static void test_slices(void **state)
{
    (void)state;
    static const struct {
        uint32_t n_heads, n_kv_heads, head_dim, n_ctx;
    } shapes[] = {{4, 2, 64, 512}, {9, 3, 40, 512}, {4, 2, 320, 128}, {3, 3, 128, 256}, {3, 3, 100, 256}};
    tern_rng rng;
    test_seed(&rng);
    test_gpu_backend();
    if (n_devices() == 1) test_skip("no devices with other limits are simulated here");
    tern_backend *backend = test_gpu_open(&small_bindings);
    for (uint32_t i = 0; i < 30; i++) {
        if (!test_takes(i, 7, 5 * 4 * 3)) continue;
        const uint32_t at = i < 24 ? i % 4 : 4, ctx = shapes[at].n_ctx;
        test_attention_shape s = {.n_heads = shapes[at].n_heads,
                                  .n_kv_heads = shapes[at].n_kv_heads,
                                  .head_dim = shapes[at].head_dim,
                                  .f32 = i % 2,
                                  .n_ctx = ctx,
                                  .n_sequences = 2,
                                  .max_tokens = i % 3 == 0   ? 14
                                                : i % 3 == 1 ? 2
                                                             : 9,
                                  .first = i % 5 * ctx / 6};
        s.n_tokens = s.max_tokens;
        test_attention_shape one = s;
        one.max_tokens = one.n_tokens = 1;
        if (i % 2) s = asked(&s, i), one = asked(&one, i);
        assert_true((uint64_t)2 * ctx * s.n_kv_heads * s.head_dim * (s.f32 ? 4 : 2) > small_bindings.max_binding);
        test_attention_check(&rng, &s, backend);
        test_attention_check_fused(&rng, &one, backend);
    }
    backend->close(backend);
}

/* Caches in blocks, of one type or of two: every kernel of heads that are multiples of 64, in slices as well. */
static const tern_cache_types block_types[] = {{TERN_DTYPE_Q8_0, TERN_DTYPE_Q8_0},
                                               {TERN_DTYPE_Q4_0, TERN_DTYPE_Q4_0},
                                               {TERN_DTYPE_Q8_0, TERN_DTYPE_Q4_0},
                                               {TERN_DTYPE_Q4_0, TERN_DTYPE_Q8_0}};

static void test_blocks(void **state)
{
    (void)state;
    static const struct {
        uint32_t n_heads, n_kv_heads, head_dim, n_ctx, max_tokens, first;
    } shapes[] = {{6, 2, 64, 512, 1, 300},    {20, 5, 128, 1024, 1, 700},  {8, 1, 256, 128, 1, 64},
                  {2, 1, 320, 128, 1, 31},    {2, 2, 512, 64, 3, 40},      {8, 2, 128, 8192, 1, 8191},
                  {4, 2, 128, 8192, 1, 5000}, {6, 2, 64, 512, 70, 129},    {4, 2, 128, 256, 33, 95},
                  {8, 1, 256, 256, 20, 130},  {20, 5, 128, 2048, 1700, 50}};
    tern_rng rng;
    test_seed(&rng);
    for (size_t on = 0; on < n_devices(); on++)
        for (uint32_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            const bool large = shapes[i].n_ctx > 1024;
            test_attention_shape s = {.n_heads = shapes[i].n_heads,
                                      .n_kv_heads = shapes[i].n_kv_heads,
                                      .head_dim = shapes[i].head_dim,
                                      .blocks = block_types[(i + on) % 4],
                                      .n_ctx = shapes[i].n_ctx,
                                      .n_sequences = 1,
                                      .max_tokens = shapes[i].max_tokens,
                                      .n_tokens = shapes[i].max_tokens < 77 ? shapes[i].max_tokens : 77,
                                      .first = shapes[i].first};
            if (on && (large || !test_takes(i + on, 3, 4))) continue;
            if (!large && i % 2) s = asked(&s, i);
            test_attention_check(&rng, &s, device(on));
            test_attention_check_fused(&rng, &s, device(on));
        }
}

static void test_blocks_in_slices(void **state)
{
    (void)state;
    tern_rng rng;
    test_seed(&rng);
    test_gpu_backend();
    if (n_devices() == 1) test_skip("no devices with other limits are simulated here");
    tern_backend *backend = test_gpu_open(&small_bindings);
    for (uint32_t i = 0; i < 12; i++) {
        if (!test_takes(i, 5, 3 * 4)) continue;
        const uint32_t n_kv_heads = i % 2 ? 3 : 1, n_ctx = i % 2 ? 1024 : 4096, n = i % 3 == 0 ? 2 : 11;
        const test_attention_shape s = {.n_heads = i % 3 == 2 ? n_kv_heads : 6,
                                        .n_kv_heads = n_kv_heads,
                                        .head_dim = i % 3 == 2 ? 128 : 64, /* pages of odd multiples of 128 bytes */
                                        .blocks = block_types[i / 2 % 4],
                                        .n_ctx = n_ctx,
                                        .n_sequences = 2,
                                        .max_tokens = n,
                                        .n_tokens = n,
                                        .first = i * n_ctx / 13};
        assert_true(tern_cache_bytes(s.blocks.k, (size_t)2 * n_ctx * n_kv_heads * s.head_dim) >
                    small_bindings.max_binding);
        test_attention_check(&rng, &s, backend);
    }
    backend->close(backend);
}

/* A NaN in one token's v is no business of the tokens before it, nor of other heads. */
static void test_nan_stays_where_it_is(void **state)
{
    (void)state;
    tern_rng rng;
    test_seed(&rng);
    for (size_t on = 0; on < n_devices(); on++)
        for (uint32_t max_tokens = 5; max_tokens <= 40; max_tokens += 35) {
            test_attention a;
            test_attention_shape s = {.n_heads = 4,
                                      .n_kv_heads = 2,
                                      .head_dim = 64,
                                      .f32 = true,
                                      .n_ctx = 64,
                                      .max_tokens = max_tokens,
                                      .n_tokens = max_tokens,
                                      .n_sequences = 1};
            test_attention_open(&a, &rng, &s, false);
            size_t page = test_case_param(&a.c, TERN_PARAM_PAGES)[0];
            float *v = test_case_floats(&a.c, a.v_cache), *k = test_case_floats(&a.c, a.k_cache);
            v[(page * 2 * 32 + 3) * 64 + 7] = NAN;
            k[((page * 2 + 1) * 32 + 4) * 64 + 1] = NAN;
            test_case_add(&a.c, test_attention_op(&a, TERN_OP_ATTENTION));
            test_case_compare(&a.c, device(on), s.n_tokens, 1, (test_tolerance){.of_row = 2e-5});
            test_case_close(&a.c);
        }
}

/* A step after the end of the text has no tokens: nothing is written. */
static void test_no_tokens(void **state)
{
    (void)state;
    static const tern_op_kind kinds[] = {TERN_OP_ROPE_ATTENTION, TERN_OP_ATTENTION, TERN_OP_ROPE_KV};
    const test_attention_shape s = {.n_heads = 4,
                                    .n_kv_heads = 2,
                                    .head_dim = 64,
                                    .f32 = true,
                                    .n_ctx = 1024,
                                    .max_tokens = 1,
                                    .n_sequences = 1,
                                    .first = 700};
    tern_rng rng;
    test_seed(&rng);
    for (size_t i = 0; i < 3; i++) {
        test_attention a;
        test_results after = {0};
        test_attention_open(&a, &rng, &s, true);
        test_case_add(&a.c, test_attention_op(&a, kinds[i]));
        test_case_run(&a.c, device(0), 0, 0, 1, &after);
        for (size_t v = 0; v < a.c.graph.n_values; v++)
            if (after.bytes[v] && a.c.initial[v])
                assert_memory_equal(a.c.initial[v], after.bytes[v], a.c.graph.values[v].bytes);
        const char *what = test_case_touched(&a.c, a.out.value, 0, &after);
        if (what) fail_msg("%s", what);
        test_results_free(&after);
        test_case_close(&a.c);
    }
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(test_decode),
                                          cmocka_unit_test(test_fused),
                                          cmocka_unit_test(test_rounded),
                                          cmocka_unit_test(test_prefill),
                                          cmocka_unit_test(test_large),
                                          cmocka_unit_test(test_parameters),
                                          cmocka_unit_test(test_slices),
                                          cmocka_unit_test(test_blocks),
                                          cmocka_unit_test(test_blocks_in_slices),
                                          cmocka_unit_test(test_nan_stays_where_it_is),
                                          cmocka_unit_test(test_no_tokens)};

TEST_GROUP(attention, "gpu kernels long web", tests, .teardown = close_devices);
