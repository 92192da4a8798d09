/* Which pipeline multiplies ternary weights, on devices that are made up. */
#include "backend/gpu/generated/kernels.h"
#include "backend/gpu/linear/select.h"
#include "support/test.h"

enum { QKV, O, GATE_UP, DOWN, SMALL, WIDE, WIDEST, N_SHAPES };

static const tern_gpu_ternary_shape shapes[N_SHAPES] = {
    [QKV] = {.norm = true, .n_parts = 3, .row_bits = 2560 | 640, .cols = 2560, .tokens = 1},
    [O] = {.norm = true, .n_parts = 1, .row_bits = 2560, .cols = 2560, .residual = true, .tokens = 1},
    [GATE_UP] = {.norm = true, .gated = true, .n_parts = 2, .row_bits = 6912, .cols = 2560, .tokens = 1},
    [DOWN] = {.norm = true, .n_parts = 1, .row_bits = 2560, .cols = 6912, .residual = true, .tokens = 1},
    [SMALL] = {.norm = true, .n_parts = 1, .row_bits = 256, .cols = 256, .tokens = 1},
    [WIDE] = {.norm = true, .n_parts = 2, .gated = true, .row_bits = 14336, .cols = 4096, .tokens = 1},
    [WIDEST] = {.norm = true, .n_parts = 1, .row_bits = 100, .cols = 20000, .tokens = 1},
};

static tern_gpu_caps made_up(uint32_t subgroup, uint32_t invocations, uint32_t bytes)
{
    return (tern_gpu_caps){.subgroup_min = subgroup,
                           .subgroup_max = subgroup,
                           .workgroup_bytes = bytes,
                           .workgroup_invocations = invocations,
                           .max_groups = 65535,
                           .max_binding = 128 << 20,
                           .binding_alignment = 256};
}

static const uint32_t subgroups[] = {0, 4, 8, 16, 32, 64, 128}, invocations[] = {128, 256, 1024},
                      sizes[] = {16384, 32768, 49152};

/* Calls check for every made-up device. */
static void for_devices(void (*check)(const tern_gpu_caps *caps))
{
    for (size_t s = 0; s < 7; s++)
        for (size_t i = 0; i < 3; i++)
            for (size_t k = 0; k < 3; k++) {
                tern_gpu_caps caps = made_up(subgroups[s], invocations[i], sizes[k]);
                check(&caps);
                caps.cooperative = caps.int8_matrices = subgroups[s] == 32;
                caps.f16 = true;
                check(&caps);
            }
}

static void assert_fits(tern_gpu_pipeline pipeline, const tern_gpu_caps *caps)
{
    assert_true(pipeline < TERN_GPU_PIPELINE_COUNT);
    const tern_gpu_pipeline_info *info = &tern_gpu_pipelines[pipeline];
    assert_true(info->invocations <= caps->workgroup_invocations);
    assert_true(info->workgroup_bytes <= caps->workgroup_bytes);
    if (info->needs & TERN_GPU_NEEDS_SUBGROUPS) assert_true(caps->subgroup_min >= info->subgroup && info->subgroup > 0);
    if (info->needs & TERN_GPU_NEEDS_COOPERATIVE) assert_true(caps->cooperative);
    if (info->needs & TERN_GPU_NEEDS_INT8_MATRICES) assert_true(caps->int8_matrices);
}

static void check_vec(const tern_gpu_caps *caps)
{
    for (uint32_t s = 0; s < N_SHAPES; s++)
        for (uint32_t norm = 0; norm < 2; norm++) {
            tern_gpu_ternary_shape shape = shapes[s];
            shape.norm = norm;
            tern_gpu_pipeline p = tern_gpu_select_ternary_vec(caps, &shape);
            if (s == WIDEST && (!norm || caps->workgroup_bytes < 32768)) {
                assert_int_equal(p, TERN_GPU_PIPELINE_COUNT);
                continue;
            }
            assert_fits(p, caps);
            assert_int_equal(tern_gpu_kernel_of(p), TERN_GPU_KERNEL_LINEAR_TERNARY_VEC);
            const tern_gpu_linear_ternary_vec_overrides *k = tern_gpu_linear_ternary_vec_overrides_of(p);
            assert_int_equal(k->norm, shape.norm);
            assert_int_equal(k->gated, shape.gated);
            assert_true(shape.gated || shape.n_parts <= k->parts);
            assert_true(k->xchunks * 64 >= shape.cols);
            assert_true(k->cluster == 1 || (k->lanes <= k->cluster && k->cluster <= caps->subgroup_min));
        }
}

static void few_tokens(void **state)
{
    (void)state;
    for_devices(check_vec);
}

/* Every override of every pipeline of a file is sound: the lanes of a row in one cluster, x as wide as all lanes'
 * chunks, shares that divide. */
static void rows_of_the_table(void **state)
{
    (void)state;
    for (tern_gpu_pipeline i = 0; i < TERN_GPU_PIPELINE_COUNT; i++) {
        const tern_gpu_pipeline_info *info = &tern_gpu_pipelines[i];
        if (tern_gpu_kernel_of(i) == TERN_GPU_KERNEL_LINEAR_TERNARY_VEC) {
            const tern_gpu_linear_ternary_vec_overrides *k = tern_gpu_linear_ternary_vec_overrides_of(i);
            assert_int_equal(k->workgroup, info->invocations);
            assert_true(k->lanes > 0 && (k->lanes & (k->lanes - 1)) == 0 && k->chunks >= 1 && k->chunks <= 8);
            assert_true(k->cluster == 1 ? info->needs == 0 : info->subgroup == k->cluster && k->lanes <= k->cluster);
            assert_true(k->parts == 1 || (k->parts == 3 && !k->gated));
            assert_int_equal(k->xchunks % k->lanes, 0);
            if (!k->skip) assert_int_equal(k->xchunks % (k->lanes * k->chunks), 0);
            assert_true(k->fixed <= k->lanes * k->chunks && (k->fixed == 0) == !k->whole);
        }
        if (tern_gpu_kernel_of(i) == TERN_GPU_KERNEL_LINEAR_TERNARY_MAT) {
            const tern_gpu_linear_ternary_mat_overrides *k = tern_gpu_linear_ternary_mat_overrides_of(i);
            assert_int_equal(k->workgroup, info->invocations);
            assert_int_equal(k->tile_rows / 8 * (k->tile_tokens / 4), info->invocations);
            assert_int_equal(k->tile_rows * 2 % info->invocations, 0);
            assert_in_range(k->tile_rows * 2 / info->invocations, 1, 2);
            assert_int_equal(k->tile_tokens * 2, info->invocations);
        }
    }
}

static void check_mat(const tern_gpu_caps *caps)
{
    static const uint32_t tokens[] = {1, 9, 33, 512};
    for (uint32_t s = 0; s < N_SHAPES; s++)
        for (uint32_t t = 0; t < 4; t++) {
            tern_gpu_ternary_shape shape = shapes[s];
            shape.norm = false;
            shape.tokens = tokens[t];
            tern_gpu_pipeline p = tern_gpu_select_ternary_mat(caps, &shape);
            assert_fits(p, caps);
            const bool cooperative = tern_gpu_ternary_is_cooperative(p);
            if (!caps->int8_matrices || tokens[t] <= 32) assert_false(cooperative);
            else if (caps->workgroup_bytes > 32768 && caps->workgroup_invocations >= 256) assert_true(cooperative);
            if (cooperative) {
                const tern_gpu_linear_ternary_coop_overrides *k = tern_gpu_linear_ternary_coop_overrides_of(p);
                assert_int_equal(k->gated, shape.gated);
                assert_int_equal(k->add_residual, shape.residual && !shape.gated);
            } else {
                assert_int_equal(tern_gpu_linear_ternary_mat_overrides_of(p)->gated, shape.gated);
            }
            shape.in_place = shape.residual;
            if (shape.residual)
                assert_int_equal(tern_gpu_kernel_of(tern_gpu_select_ternary_mat(caps, &shape)),
                                 TERN_GPU_KERNEL_LINEAR_TERNARY_MAT);
        }
}

/* Tiles of 64 tokens where they are few. */
static void few_tiles(void **state)
{
    (void)state;
    static const struct {
        uint32_t rows, tokens, tile;
        bool gated;
    } cases[] = {{3840, 128, 64, false},
                 {3840, 512, 128, false},
                 {2560, 384, 64, false},
                 {13824, 64, 64, true},
                 {13824, 128, 128, true}};
    tern_gpu_caps caps = made_up(32, 1024, 49152);
    caps.int8_matrices = true;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const tern_gpu_ternary_shape shape = {.n_parts = 1u + cases[i].gated,
                                              .gated = cases[i].gated,
                                              .activation = TERN_ACT_RELU2,
                                              .cols = 2560,
                                              .rows = cases[i].rows,
                                              .tokens = cases[i].tokens};
        const tern_gpu_pipeline p = tern_gpu_select_ternary_mat(&caps, &shape);
        assert_true(tern_gpu_ternary_is_cooperative(p));
        assert_int_equal(tern_gpu_ternary_tile_tokens(p), cases[i].tile);
    }
}

static void many_tokens(void **state)
{
    (void)state;
    for_devices(check_mat);
}

/* What the table is tuned for. */
static void named(void **state)
{
    (void)state;
    const tern_gpu_caps h200 = made_up(32, 1024, 49152), phone = made_up(16, 256, 16384),
                        least = made_up(0, 128, 16384);
    static const struct {
        uint32_t shape;
        tern_gpu_pipeline on_h200, on_phone, on_least;
    } expected[] = {
        {QKV, TERN_GPU_TERNARY_VEC_NORM_8X5_FIXED_S32, TERN_GPU_TERNARY_VEC_NORM_S8, TERN_GPU_TERNARY_VEC_NORM},
        {O, TERN_GPU_TERNARY_VEC_NORM_8X5_ONE_FIXED_S32, TERN_GPU_TERNARY_VEC_NORM_S8, TERN_GPU_TERNARY_VEC_NORM},
        {GATE_UP, TERN_GPU_TERNARY_VEC_NORM_GATED_8X5_FIXED_S32, TERN_GPU_TERNARY_VEC_NORM_GATED_S8,
         TERN_GPU_TERNARY_VEC_NORM_GATED},
        {DOWN, TERN_GPU_TERNARY_VEC_NORM_16X7_ONE_FIXED_S32, TERN_GPU_TERNARY_VEC_NORM_S8, TERN_GPU_TERNARY_VEC_NORM},
        {WIDE, TERN_GPU_TERNARY_VEC_NORM_GATED_8X4_S32, TERN_GPU_TERNARY_VEC_NORM_GATED_S8,
         TERN_GPU_TERNARY_VEC_NORM_GATED},
    };
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        const tern_gpu_ternary_shape *shape = &shapes[expected[i].shape];
        assert_int_equal(tern_gpu_select_ternary_vec(&h200, shape), expected[i].on_h200);
        assert_int_equal(tern_gpu_select_ternary_vec(&phone, shape), expected[i].on_phone);
        assert_int_equal(tern_gpu_select_ternary_vec(&least, shape), expected[i].on_least);
    }
}

/* Kernels for rows of exactly so many columns are for groups that are whole. */
static void fixed(void **state)
{
    (void)state;
    const tern_gpu_caps h200 = made_up(32, 1024, 49152), smaller = made_up(32, 256, 49152);
    tern_gpu_ternary_shape o = shapes[O], down = shapes[DOWN];
    o.cols = 2496; /* 39 chunks, in 40 */
    assert_int_equal(tern_gpu_select_ternary_vec(&h200, &o), TERN_GPU_TERNARY_VEC_NORM_8X5_ONE_FIXED_S32);
    o.cols = 2432;
    assert_int_equal(tern_gpu_select_ternary_vec(&h200, &o), TERN_GPU_TERNARY_VEC_NORM_8X5_ONE_S32);
    o.cols = 2560, o.row_bits = 2560 | 16;
    assert_int_equal(tern_gpu_select_ternary_vec(&h200, &o), TERN_GPU_TERNARY_VEC_NORM_8X5_ONE_S32);
    assert_int_equal(tern_gpu_select_ternary_vec(&smaller, &down), TERN_GPU_TERNARY_VEC_NORM_16X7_ONE_S32);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(few_tokens), cmocka_unit_test(rows_of_the_table),
                                          cmocka_unit_test(few_tiles),  cmocka_unit_test(many_tokens),
                                          cmocka_unit_test(named),      cmocka_unit_test(fixed)};

TEST_GROUP(select_linear, "", tests);
