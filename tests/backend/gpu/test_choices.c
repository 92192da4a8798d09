/* Other pipelines than the table's: which stand in for each other, names before measurements before the table, and
 * what is said of names that are none. On made-up devices. */
#include "backend/gpu/choices.h"

#include <string.h>

#include "backend/gpu/gpu_internal.h"
#include "backend/gpu/linear/select.h"
#include "quant/encoding.h"
#include "support/test.h"

static tern_gpu_caps device(uint32_t subgroup, bool cooperative)
{
    return (tern_gpu_caps){.subgroup_min = subgroup,
                           .subgroup_max = subgroup,
                           .workgroup_bytes = 49152,
                           .workgroup_invocations = 1024,
                           .max_groups = 65535,
                           .max_binding = 128u << 20,
                           .binding_alignment = 256,
                           .cooperative = cooperative,
                           .int8_matrices = cooperative};
}

static tern_gpu_pipeline dense(const tern_gpu_caps *caps, tern_gpu_format format, uint32_t tokens)
{
    const tern_gpu_dense_shape shape = {format, 512, 1024, tokens};
    const tern_gpu_key key = {512, 1024, tern_gpu_token_class(tokens)};
    return tern_gpu_chosen(caps, &key, tern_gpu_select_dense(caps, &shape), NULL, NULL);
}

static void what_computes_the_same(void **state)
{
    (void)state;
    static const struct {
        tern_gpu_pipeline a, b;
        bool same;
    } cases[] = {
        {TERN_GPU_Q4_K_VEC1_32X1_S32, TERN_GPU_Q4_K_VEC1, true},
        {TERN_GPU_Q4_K_VEC1, TERN_GPU_Q6_K_VEC1, false}, /* another encoding */
        {TERN_GPU_Q4_K_VEC1, TERN_GPU_Q4_K_VEC4, false}, /* more tokens at once */
        {TERN_GPU_F16_MAT_128X128, TERN_GPU_F16_MAT_16X128, true},
        {TERN_GPU_F16_COOP, TERN_GPU_F16_MAT_128X64, true},
        {TERN_GPU_F16_COOP, TERN_GPU_BF16_MAT_128X64, false},
        {TERN_GPU_DX_F16_COOP, TERN_GPU_F16_MAT_128X64, false}, /* a gradient */
        {TERN_GPU_TERNARY_VEC_Q8, TERN_GPU_TERNARY_VEC_Q8_8X5_S32, true},
        {TERN_GPU_TERNARY_VEC_Q8, TERN_GPU_TERNARY_VEC_NORM, false},
        {TERN_GPU_TERNARY_VEC_Q8, TERN_GPU_TERNARY_VEC_Q8_GATED, false},
        {TERN_GPU_TERNARY_COOP_RESIDUAL, TERN_GPU_TERNARY_MAT_64X64, true},
        {TERN_GPU_TERNARY_COOP_RELU2, TERN_GPU_TERNARY_MAT_GATED_64X64, true},
        {TERN_GPU_TERNARY_COOP, TERN_GPU_TERNARY_MAT_GATED_64X64, false},
        {TERN_GPU_TERNARY_COOP, TERN_GPU_TERNARY_COOP_RESIDUAL, false},
        {TERN_GPU_GATHER_256, TERN_GPU_GATHER_128, false}, /* no product */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (tern_gpu_interchangeable(cases[i].a, cases[i].b) != cases[i].same)
            fail_msg("%s, %s", tern_gpu_pipelines[cases[i].a].name, tern_gpu_pipelines[cases[i].b].name);
}

/* Every pipeline of a product that the table may take can be named, and stands in for itself alone or for its kin. */
static void names_come_back(void **state)
{
    (void)state;
    uint32_t n = 0;
    for (tern_gpu_pipeline p = 0; p < TERN_GPU_PIPELINE_COUNT; p++) {
        char name[TERN_KERNEL_NAME_BYTES];
        assert_true(strlen(tern_gpu_pipelines[p].name) < sizeof name);
        tern_gpu_kernel_name(p, name);
        const tern_gpu_pipeline back = tern_gpu_kernel_by_name(name);
        if (back == TERN_GPU_PIPELINE_COUNT) continue;
        assert_int_equal(back, p);
        n++;
    }
    assert_true(n > 80);
}

static void names_before_measurements_before_the_table(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_gpu_choices c = {0};
    tern_gpu_caps caps = device(32, false);
    const tern_encoding *q4 = tern_encoding_by_name("q4_k");
    const tern_kernel_choice measured[] = {
        {.encoding = q4, .rows = 512, .cols = 1024, .tokens = 1, .kernel = "q4_k_vec1_8x4_s8", .device = "A, 1"},
        {.encoding = q4, .rows = 512, .cols = 1024, .tokens = 8, .kernel = "q4_k_vec4", .device = "B, 1"},
        {.encoding = q4, .rows = 512, .cols = 1024, .tokens = 512, .kernel = "not_there_any_more", .device = "A, 1"}};
    caps.choices = &c;
    assert_int_equal(dense(&caps, TERN_GPU_Q4_K, 1), TERN_GPU_Q4_K_VEC1_32X1_S32);
    assert_ok(tern_gpu_choices_take(&c, measured, 3, "A, 1", &err), err);
    assert_int_equal(c.n, 1);
    assert_int_equal(dense(&caps, TERN_GPU_Q4_K, 1), TERN_GPU_Q4_K_VEC1_8X4_S8);
    assert_int_equal(dense(&caps, TERN_GPU_Q6_K, 1), TERN_GPU_Q6_K_VEC1_32X1_S32); /* another encoding's */
    assert_int_equal(dense(&caps, TERN_GPU_Q4_K, 2), TERN_GPU_Q4_K_VEC4_32X4_S32); /* another device's */
    assert_ok(tern_gpu_choices_parse(&c, "q4_k_vec1,q6_k_mat_128x64", &caps, &err), err);
    assert_int_equal(dense(&caps, TERN_GPU_Q4_K, 1), TERN_GPU_Q4_K_VEC1);
    assert_int_equal(dense(&caps, TERN_GPU_Q6_K, 512), TERN_GPU_Q6_K_MAT_128X64);
    assert_int_equal(dense(&caps, TERN_GPU_F16, 1), TERN_GPU_F16_VEC1_32X1_S32);
    tern_gpu_choices_deinit(&c);
    /* a device that has not what a name needs takes the table's, should one get so far */
    tern_gpu_choices other = {0};
    tern_gpu_caps small = device(0, false);
    small.choices = &other;
    other.named[TERN_GPU_Q4_K_VEC1_8X4_S8] = true;
    assert_int_equal(dense(&small, TERN_GPU_Q4_K, 1), TERN_GPU_Q4_K_VEC1);
}

/* Cooperative matrices give way to tiles; a shape that a kernel cannot have keeps the table's. */
static void other_kernels_and_shapes(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_gpu_choices c = {0};
    tern_gpu_caps caps = device(32, true);
    const tern_gpu_product product = {512, 1024, 1024};
    caps.choices = &c;
    assert_int_equal(tern_gpu_select_linear(&caps, TERN_GPU_F16, &product).pipeline, TERN_GPU_F16_COOP);
    assert_ok(tern_gpu_choices_parse(&c, "f16_mat_128x64,ternary_vec_norm_8x5_one_fixed_s32", &caps, &err), err);
    const tern_gpu_tiling tiling = tern_gpu_select_linear(&caps, TERN_GPU_F16, &product);
    assert_int_equal(tiling.pipeline, TERN_GPU_F16_MAT_128X64);
    assert_true(tiling.tile_rows == 64 && tiling.tile_cols == 128 && tiling.n_parts == 1);
    tern_gpu_ternary_shape shape = {
        .norm = true, .n_parts = 1, .cols = 2560, .row_bits = 2560, .rows = 2560, .tokens = 1};
    assert_int_equal(tern_gpu_select_ternary_vec(&caps, &shape), TERN_GPU_TERNARY_VEC_NORM_8X5_ONE_FIXED_S32);
    shape.cols = 2048;
    assert_int_not_equal(tern_gpu_select_ternary_vec(&caps, &shape), TERN_GPU_TERNARY_VEC_NORM_8X5_ONE_FIXED_S32);
}

static void unknown_names_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *names;
        tern_status status;
        const char *words;
    } cases[] = {
        {"dot", TERN_INVALID_ARGUMENT, "kernel \"dot\": GPUs have no kernel of that name"},
        {"", TERN_INVALID_ARGUMENT, "kernel \"\": GPUs have no kernel of that name"},
        {"q4_k_vec1,", TERN_INVALID_ARGUMENT, "kernel \"\": GPUs have no kernel of that name"},
        {"gather_256", TERN_INVALID_ARGUMENT, "kernel \"gather_256\": GPUs have no kernel of that name"},
        {"q6_k_vec1_8x4", TERN_INVALID_ARGUMENT, "did you mean q6_k_vec1_8x4_s8? ("},
        {"f16_vec1_32x1_s32", TERN_UNSUPPORTED, "this device lacks what it needs; in its place it has f16_vec1"},
        {"a_name_that_is_longer_than_any_kernel_of_any_gpu_has_ever_been", TERN_INVALID_ARGUMENT,
         "no kernel of that name"}};
    const tern_gpu_caps caps = device(0, false);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tern_error err = {0};
        tern_gpu_choices c = {0};
        assert_int_equal(tern_gpu_choices_parse(&c, cases[i].names, &caps, &err), cases[i].status);
        if (!strstr(err.message, cases[i].words)) fail_msg("%s: \"%s\" expected", err.message, cases[i].words);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(what_computes_the_same),
    cmocka_unit_test(names_come_back),
    cmocka_unit_test(names_before_measurements_before_the_table),
    cmocka_unit_test(other_kernels_and_shapes),
    cmocka_unit_test(unknown_names_are_refused),
};

TEST_GROUP(choices, "", tests);
