/* The choice of attention kernels on devices that are made up. */
#include "backend/gpu/attention/select.h"
#include "backend/gpu/generated/kernels.h"
#include "support/test.h"

static tern_gpu_caps caps_of(uint32_t subgroup, uint32_t workgroup_bytes, uint32_t invocations)
{
    return (tern_gpu_caps){.subgroup_min = subgroup,
                           .subgroup_max = subgroup,
                           .workgroup_bytes = workgroup_bytes,
                           .workgroup_invocations = invocations,
                           .max_groups = 65535,
                           .max_binding = 1u << 27,
                           .binding_alignment = 256,
                           .device_fences = true};
}

typedef struct example {
    const char *what;
    uint32_t n_heads, n_kv_heads, head_dim, max_tokens, max_positions;
    tern_gpu_kv kv;
    uint32_t subgroup, workgroup_bytes, invocations;
    const char *pipeline;
} example;

#define F16    TERN_GPU_KV_F16
#define F32    TERN_GPU_KV_F32
#define BLOCKS TERN_GPU_KV_BLOCKS

static const example examples[] = {
    /* prefill, by head dimension and workgroup memory: large tiles, small ones, streaming */
    {"head_dim 64, 48 KiB", 16, 16, 64, 512, 2048, F16, 32, 49152, 1024, "ATTENTION_LARGE_64_S_F16"},
    {"head_dim 64, 48 KiB, f32", 16, 16, 64, 512, 2048, F32, 32, 49152, 1024, "ATTENTION_LARGE_64_S_F32"},
    {"head_dim 64, 48 KiB, no subgroups", 16, 16, 64, 512, 2048, F32, 0, 49152, 1024, "ATTENTION_LARGE_64_F32"},
    {"head_dim 64, 48 KiB, subgroups of 8", 16, 16, 64, 512, 2048, F32, 8, 49152, 1024, "ATTENTION_LARGE_64_F32"},
    {"head_dim 64, 32 KiB", 16, 16, 64, 512, 2048, F16, 32, 32768, 1024, "ATTENTION_SMALL_64_S_F16"},
    {"Gemma 3 1B on an M3, 32 KiB", 4, 1, 256, 512, 2048, F16, 32, 32768, 1024, "ATTENTION_SMALL_256_S_F16"},
    {"Mixtral on an RTX 4090, 48 KiB", 32, 8, 128, 512, 2048, F16, 32, 49152, 1024, "ATTENTION_SMALL_128_S_F16"},
    {"Gemma 3 1B with less than 8 KB", 4, 1, 256, 512, 2048, F16, 32, 4096, 256, "ATTENTION_STREAM_512_F16"},
    {"less than 8 KB, f32", 4, 1, 256, 512, 2048, F32, 0, 4096, 128, "ATTENTION_STREAM_512_F32"},
    {"head_dim 384", 4, 1, 384, 512, 2048, F16, 32, 32768, 1024, "ATTENTION_S32_512_F16"},
    {"head_dim 384, no subgroups", 4, 1, 384, 512, 2048, F32, 0, 32768, 1024, "ATTENTION_T32_512_F32"},
    {"BitNet 2B4T on 16 KiB", 20, 5, 128, 512, 4096, F16, 16, 16384, 256, "ATTENTION_LEAST_128_F16"},
    {"head_dim 256 on 16 KiB", 4, 1, 256, 512, 4096, F32, 0, 16384, 128, "ATTENTION_LEAST_256_F32"},
    {"BitNet 2B4T, a step of 2048", 20, 5, 128, 2048, 4096, F16, 32, 49152, 1024, "ATTENTION_LARGE_128_S_F16"},
    {"the same, f32", 20, 5, 128, 2048, 4096, F32, 32, 49152, 1024, "ATTENTION_SMALL_128_S_F32"},
    /* decode, by subgroups */
    {"BitNet 2B4T, subgroups of 32", 20, 5, 128, 1, 4096, F16, 32, 49152, 1024, "ATTENTION_S16_128_F16"},
    {"subgroups of 64", 20, 5, 128, 1, 4096, F32, 64, 65536, 1024, "ATTENTION_S16_128_F32"},
    {"subgroups of 16", 20, 5, 128, 1, 4096, F16, 16, 32768, 512, "ATTENTION_S16_128_F16"},
    {"subgroups of 8", 20, 5, 128, 1, 4096, F16, 8, 32768, 1024, "ATTENTION_S8_128_F16"},
    {"subgroups of 4", 20, 5, 128, 1, 4096, F16, 4, 16384, 256, "ATTENTION_S4_128_F16"},
    {"no subgroups", 20, 5, 128, 1, 4096, F16, 0, 16384, 128, "ATTENTION_T16_128_F16"},
    {"128 invocations", 20, 5, 128, 1, 4096, F16, 32, 16384, 128, "ATTENTION_S8_128_F16"},
    {"head_dim 64", 8, 8, 64, 1, 4096, F16, 32, 32768, 256, "ATTENTION_S8_64_F16"},
    {"head_dim 64, subgroups of 8", 8, 8, 64, 1, 4096, F16, 8, 32768, 256, "ATTENTION_S8_128_F16"},
    {"head_dim 256", 4, 1, 256, 1, 4096, F16, 32, 32768, 256, "ATTENTION_S32_256_F16"},
    {"head_dim 256, subgroups of 8", 4, 1, 256, 1, 4096, F16, 8, 32768, 256, "ATTENTION_S8_256_F16"},
    {"head_dim 256, subgroups of 4", 4, 1, 256, 1, 4096, F16, 4, 32768, 256, "ATTENTION_T32_256_F16"},
    {"a long context", 20, 5, 128, 1, 32768, F16, 32, 49152, 1024, "ATTENTION_S16_128_H4_F16"},
    {"a long context, 2 heads for each KV head", 16, 8, 128, 1, 32768, F16, 32, 49152, 1024,
     "ATTENTION_S16_128_H2_F16"},
    {"a long context, no heads that share", 8, 8, 128, 1, 32768, F16, 32, 49152, 1024, "ATTENTION_S16_128_F16"},
    {"a long context, f32", 20, 5, 128, 1, 32768, F32, 32, 49152, 1024, "ATTENTION_S16_128_F32"},
    /* caches in blocks */
    {"2B4T in q8_0", 20, 5, 128, 1, 4096, BLOCKS, 32, 49152, 1024, "ATTENTION_S16_128_BLOCKS"},
    {"a long context in q8_0", 20, 5, 128, 1, 32768, BLOCKS, 32, 49152, 1024, "ATTENTION_S16_128_H4_BLOCKS"},
    {"a step of 2048 in q8_0", 20, 5, 128, 2048, 4096, BLOCKS, 32, 49152, 1024, "ATTENTION_LARGE_128_S_BLOCKS"},
    {"head_dim 64 in q8_0, 16 KiB, no subgroups", 8, 8, 64, 512, 4096, BLOCKS, 0, 16384, 128,
     "ATTENTION_SMALL_64_BLOCKS"},
    {"nothing takes head_dim 640", 4, 1, 640, 512, 2048, F16, 32, 49152, 1024, NULL}};

static void test_pipelines(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        const example *e = &examples[i];
        tern_gpu_caps caps = caps_of(e->subgroup, e->workgroup_bytes, e->invocations);
        tern_gpu_attention_shape shape = {e->head_dim, e->n_heads, e->n_kv_heads, e->max_tokens, e->max_positions,
                                          e->kv,       1};
        tern_gpu_pipeline got = tern_gpu_select_attention(&shape, &caps).pipeline;
        const char *name = got == TERN_GPU_PIPELINE_COUNT ? NULL : tern_gpu_pipelines[got].name;
        if ((name == NULL) != (e->pipeline == NULL) || (name && strcmp(name, e->pipeline) != 0))
            fail_msg("%s: %s, %s expected", e->what, name ? name : "none", e->pipeline ? e->pipeline : "none");
    }
}

/* Whatever the device and the shape, the choice can run there, and covers all heads, rows and positions. */
static void check_choice(const tern_gpu_attention_shape *s, const tern_gpu_caps *caps)
{
    tern_gpu_attention_choice c = tern_gpu_select_attention(s, caps);
    assert_int_not_equal(c.pipeline, TERN_GPU_PIPELINE_COUNT);
    assert_true(tern_gpu_pipeline_fits(c.pipeline, caps));
    const tern_gpu_pipeline_info *info = &tern_gpu_pipelines[c.pipeline];
    static const char *const kinds[] = {"F16", "F32", "BLOCKS"};
    assert_string_equal(strrchr(info->name, '_') + 1, kinds[s->kv]);
    assert_true(c.heads * c.head_blocks >= s->n_heads / s->n_kv_heads);
    if (c.tiled) {
        assert_int_equal(tern_gpu_kernel_of(c.pipeline), TERN_GPU_KERNEL_ATTENTION_TILED);
        const tern_gpu_attention_tiled_overrides *tiled = tern_gpu_attention_tiled_overrides_of(c.pipeline);
        assert_true(s->head_dim <= tiled->dim);
        assert_true(c.tokens >= 1 && c.tokens * c.heads <= tiled->rows);
        assert_int_equal(tiled->sliced, s->n_slices > 1);
        if (tiled->sliced) assert_true(32 % tiled->keys == 0 && !tiled->subgroups && c.splits == 1 && c.min_span);
        return;
    }
    assert_int_equal(tern_gpu_kernel_of(c.pipeline), TERN_GPU_KERNEL_ATTENTION_DECODE);
    const tern_gpu_attention_decode_overrides *decode = tern_gpu_attention_decode_overrides_of(c.pipeline);
    assert_true(s->head_dim <= 8 * decode->team * decode->vecs);
    assert_int_equal(decode->sliced, s->n_slices > 1);
    assert_true(c.splits >= 1 && c.splits * s->n_slices <= 32 && (c.splits & (c.splits - 1)) == 0);
    if (c.merge) assert_int_equal(s->n_slices, 1);
    if (c.merge) assert_true(c.splits <= info->invocations / decode->team);
    assert_true(c.min_span >= 1);
    if (c.merge)
        assert_true(s->n_kv_heads * c.head_blocks * s->max_tokens <= TERN_GPU_COUNTER_BYTES / 4 && caps->device_fences);
}

static void test_all_shapes_everywhere(void **state)
{
    (void)state;
    static const uint32_t subgroups[] = {0, 4, 8, 16, 32, 64, 128}, bytes[] = {4096, 16384, 32768, 49152, 65536},
                          invocations[] = {128, 256, 1024};
    static const uint32_t dims[] = {8, 32, 40, 64, 80, 96, 128, 256, 320, 512}, groups[] = {1, 3, 4, 8, 71},
                          tokens[] = {1, 4, 9, 512, 2048};
    for (uint32_t i = 0; i < 7 * 5 * 3 * 2; i++) {
        tern_gpu_caps caps = caps_of(subgroups[i % 7], bytes[i / 7 % 5], invocations[i / 35 % 3]);
        caps.device_fences = i / 105;
        for (uint32_t k = 0; k < 10 * 5 * 5 * TERN_GPU_KV_KINDS; k++) {
            tern_gpu_attention_shape s = {.head_dim = dims[k % 10],
                                          .n_kv_heads = 1 + k % 3,
                                          .max_tokens = tokens[k / 50 % 5],
                                          .max_positions = k % 7 ? 4096 : 131072,
                                          .kv = (tern_gpu_kv)(k / 250),
                                          .n_slices = k % 4 ? 1 : 2 + k % 31};
            s.n_heads = s.n_kv_heads * groups[k / 10 % 5];
            if (s.kv == TERN_GPU_KV_BLOCKS && s.head_dim % TERN_GPU_BLOCK_HEADS) continue;
            check_choice(&s, &caps);
        }
    }
}

/* The positions are split while the device has room, and merged in the same dispatch where that is sound. */
static void test_splits(void **state)
{
    (void)state;
    tern_gpu_caps caps = caps_of(32, 49152, 1024);
    tern_gpu_attention_shape s = {
        .head_dim = 128, .n_heads = 20, .n_kv_heads = 5, .max_tokens = 1, .max_positions = 4096, .n_slices = 1};
    tern_gpu_attention_choice c = tern_gpu_select_attention(&s, &caps);
    assert_int_equal(c.splits, 16);
    assert_true(c.merge);
    caps.device_fences = false;
    assert_false(tern_gpu_select_attention(&s, &caps).merge);
    s.max_positions = c.min_span;
    assert_int_equal(tern_gpu_select_attention(&s, &caps).splits, 1);
    s.max_positions = 4096;
    s.max_tokens = 8;
    assert_int_equal(tern_gpu_select_attention(&s, &caps).splits, 2);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(test_pipelines),
                                          cmocka_unit_test(test_all_shapes_everywhere), cmocka_unit_test(test_splits)};

TEST_GROUP(select_attention, "", tests);
