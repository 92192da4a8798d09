/* The choice of the kernels of products of floats, and of how their depth is cut. */
#include "backend/gpu/linear/select.h"
#include "support/kernels.h"
#include "support/test.h"

static tern_gpu_caps device(bool cooperative, uint32_t bytes, uint32_t invocations)
{
    return (tern_gpu_caps){.subgroup_min = 32,
                           .subgroup_max = 32,
                           .workgroup_bytes = bytes,
                           .workgroup_invocations = invocations,
                           .max_groups = 65535,
                           .max_binding = 1u << 27,
                           .binding_alignment = 256,
                           .f16 = cooperative,
                           .cooperative = cooperative};
}

static void expect(tern_gpu_tiling tiling, const char *name, uint32_t n_parts)
{
    if (strcmp(tern_gpu_pipelines[tiling.pipeline].name, name) != 0 || tiling.n_parts != n_parts)
        fail_msg("%s in %u parts; %s in %u expected", tern_gpu_pipelines[tiling.pipeline].name, tiling.n_parts, name,
                 n_parts);
}

/* Matrices from 64 x 64 x 64 on, where the device has them and the room; parts of at most 4096. */
static void by_device(void **state)
{
    (void)state;
    const tern_gpu_caps coop = device(true, 49152, 1024), less = device(true, 32768, 1024),
                        plain = device(false, 49152, 1024), least = device(false, 16384, 128);
    const tern_gpu_product large = {2048, 2560, 6912};
    expect(tern_gpu_select_dx(&coop, TERN_GPU_TERNARY, &large), "DX_TERNARY_COOP", 2);
    expect(tern_gpu_select_dx(&less, TERN_GPU_TERNARY, &large), "DX_TERNARY_128X128", 1);
    expect(tern_gpu_select_dx(&plain, TERN_GPU_TERNARY, &large), "DX_TERNARY_128X128", 1);
    expect(tern_gpu_select_dx(&least, TERN_GPU_Q4_K, &large), "DX_Q4_K_128X64", 1);
    const tern_gpu_product dw = {2816, 1024, 2048};
    expect(tern_gpu_select_dw(&coop, true, &dw), "DW_Q8_COOP", 1);
    expect(tern_gpu_select_dw(&coop, false, &dw), "DW_F32_COOP", 1);
    expect(tern_gpu_select_dw(&plain, true, &dw), "DW_Q8_128X128", 1);
    expect(tern_gpu_select_dw(&least, false, &dw), "DW_F32_128X64", 1);
    const tern_gpu_product head = {256, 128256, 2560};
    expect(tern_gpu_select_linear(&coop, TERN_GPU_F16, &head), "F16_COOP", 1);
    expect(tern_gpu_select_linear(&plain, TERN_GPU_BF16, &head), "BF16_MAT_128X128", 1);
    assert_true(tern_gpu_tiling_is_cooperative(&(tern_gpu_tiling){.pipeline = TERN_GPU_DW_Q8_COOP}));
    assert_false(tern_gpu_tiling_is_cooperative(&(tern_gpu_tiling){.pipeline = TERN_GPU_DW_Q8_128X64}));
}

/* Products with few tiles are cut, those of adapters above all. */
static void by_shape(void **state)
{
    (void)state;
    const tern_gpu_caps coop = device(true, 49152, 1024);
    expect(tern_gpu_select_linear(&coop, TERN_GPU_F32, &(tern_gpu_product){2048, 16, 2560}), "F32_MAT_16X128", 40);
    expect(tern_gpu_select_dx(&coop, TERN_GPU_F32, &(tern_gpu_product){2048, 16, 2560}), "DX_F32_128X16", 40);
    expect(tern_gpu_select_dx(&coop, TERN_GPU_F32, &(tern_gpu_product){2048, 2560, 16}), "DX_F32_128X128", 1);
    expect(tern_gpu_select_dw(&coop, false, &(tern_gpu_product){16, 2560, 2048}), "DW_F32_16X128", 32);
    expect(tern_gpu_select_dw(&coop, false, &(tern_gpu_product){2560, 16, 2048}), "DW_F32_128X16", 32);
    expect(tern_gpu_select_dw(&coop, true, &(tern_gpu_product){1024, 1024, 2048}), "DW_Q8_COOP", 4);
    expect(tern_gpu_select_dx(&coop, TERN_GPU_F16, &(tern_gpu_product){256, 2560, 128256}), "DX_F16_COOP", 25);
}

/* Whatever the sizes: parts cover the depth, none is empty, they begin at whole steps, and their sums fit a binding. */
static void parts_cover_the_depth(void **state)
{
    (void)state;
    static tern_rng rng;
    test_seed(&rng);
    for (int i = 0; i < 20000; i++) {
        tern_gpu_caps caps = device(i % 2, 49152, 1024);
        caps.max_binding = i % 3 ? 1u << 27 : 65536;
        uint32_t sizes[3];
        for (int k = 0; k < 3; k++) sizes[k] = 9 + tern_rng_below(&rng, 1u << (1 + tern_rng_below(&rng, 14)));
        const tern_gpu_product p = {sizes[0], sizes[1], sizes[2]};
        const tern_gpu_tiling t = i % 5 < 3   ? tern_gpu_select_dx(&caps, (tern_gpu_format)(i % 7), &p)
                                  : i % 5 < 4 ? tern_gpu_select_dw(&caps, i % 4 < 2, &p)
                                              : tern_gpu_select_linear(&caps, (tern_gpu_format)(1 + i % 6), &p);
        assert_true(t.pipeline < TERN_GPU_PIPELINE_COUNT && t.n_parts > 0);
        assert_true((uint64_t)t.n_parts * t.part_depth >= p.depth && (t.n_parts - 1) * t.part_depth < p.depth);
        assert_int_equal(t.part_depth % 16, 0);
        if (t.n_parts > 1) assert_true((uint64_t)t.n_parts * p.rows * p.cols * 4 <= caps.max_binding);
    }
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(by_device), cmocka_unit_test(by_shape),
                                          cmocka_unit_test(parts_cover_the_depth)};

TEST_GROUP(select_gradient, "", tests);
