/* Which kernel a product gets, and how wgmma cuts it, on a made-up device. No device is asked. */
#include "support/test.h"

#include "backend/cuda/linear/product.h"
#include "backend/cuda/measure/dots.h"
#include "ops/halves.h"

/* The clusters of an H100 (cudaOccupancyMaxActiveClusters). */
static const tern_cuda_product_device h100 = {
    .capability = 90, .multiprocessors = 132, .clusters = {0, 132, 66, 39, 30, 22, 17, 15, 15}};
static const tern_cuda_product_device alone = {.capability = 90, .multiprocessors = 132};
static const tern_cuda_product_device ampere = {.capability = 86, .multiprocessors = 84};

/* Ternary weights of rows x cols times int8 rows. */
static tern_cuda_product product(uint32_t rows, uint32_t cols, uint32_t usual)
{
    return (tern_cuda_product){.n_parts = 1,
                               .parts = {{.rows = rows}},
                               .cols = cols,
                               .row_bytes = cols / 4,
                               .n = usual + 16,
                               .usual = usual,
                               .q8 = true};
}

static tern_cuda_product gated(uint32_t rows, uint32_t cols, uint32_t usual)
{
    tern_cuda_product p = product(rows, cols, usual);
    p.n_parts = 2;
    p.parts[1].rows = rows;
    p.gated = true;
    return p;
}

static void by_usual_rows(void **state)
{
    (void)state;
    const tern_cuda_product few = product(2560, 6912, 8), more = product(2560, 6912, 9), wide = gated(6912, 2560, 5);
    assert_int_equal(tern_cuda_product_select(&few, &h100), TERN_CUDA_PRODUCT_TERNARY_VEC);
    assert_int_equal(tern_cuda_product_select(&more, &h100), TERN_CUDA_PRODUCT_TERNARY_WGMMA);
    assert_int_equal(tern_cuda_product_select(&wide, &h100), TERN_CUDA_PRODUCT_TERNARY_WGMMA);
    assert_int_equal(tern_cuda_product_select(&more, &ampere), TERN_CUDA_PRODUCT_TERNARY_VEC);
    tern_cuda_product floats = product(2560, 2560, 4);
    floats.q8 = false;
    assert_int_equal(tern_cuda_product_select(&floats, &h100), TERN_CUDA_PRODUCT_DENSE_VEC);
    floats.usual = 5; /* whose columns clusters share */
    assert_int_equal(tern_cuda_product_select(&floats, &h100), TERN_CUDA_PRODUCT_DENSE_MMA);
    const uint32_t route[2] = {0};
    floats.routes = route; /* each row has an expert of its own */
    assert_int_equal(tern_cuda_product_select(&floats, &h100), TERN_CUDA_PRODUCT_DENSE_VEC);
    assert_false(tern_cuda_product_serves(&floats, TERN_CUDA_PRODUCT_DENSE_MMA, &h100));
}

/* Rows of a part are those of one expert; a gate with a limit is the route's alone. */
static void routed(void **state)
{
    (void)state;
    const uint32_t route[2] = {0};
    const float x[64] = {0};
    const tern_cuda_product_device d = {.capability = 90, .multiprocessors = 132, .shared_bytes = 227 << 10};
    tern_cuda_product out;
    tern_cuda_linear p = {.n_parts = 2,
                          .gated = true,
                          .activation = TERN_ACT_SWIGLU_OAI,
                          .limit = 7,
                          .x = {.data = (float *)(uintptr_t)x}};
    for (uint32_t i = 0; i < 2; i++)
        p.weight[i] = (tern_cuda_weight){.format = TERN_GPU_MXFP4, .rows = 8 * 96, .cols = 64};
    p.n_experts = 8;
    p.x_times = 2;
    p.routes = route;
    assert_true(tern_cuda_product_of(&p, &d, &out));
    assert_int_equal(out.parts[1].rows, 96);
    assert_int_equal(out.n_experts, 8);
    assert_int_equal(out.x_times, 2);
    assert_true(out.limit == 7 && out.routes == route);
    p.routes = NULL;
    p.n_experts = p.x_times = 1;
    assert_false(tern_cuda_product_of(&p, &d, &out));
}

static void assert_tiling(const tern_cuda_product *p, const tern_cuda_product_device *d, uint32_t tokens,
                          uint32_t splits)
{
    const tern_cuda_tiling t = tern_cuda_product_tiling(p, d);
    assert_int_equal(t.tokens, tokens);
    assert_int_equal(t.splits, splits);
}

/* The widths and splits that were fastest when all were timed (docs/internals/cuda.md). */
static void columns_are_split_where_tiles_are_few(void **state)
{
    (void)state;
    const tern_cuda_product down = product(2560, 6912, 64), out = product(2560, 2560, 32), up = gated(6912, 2560, 64),
                            prompt = product(2560, 2560, 512);
    assert_tiling(&down, &h100, 64, 5);
    assert_tiling(&out, &h100, 32, 5);
    assert_tiling(&up, &h100, 64, 1);
    assert_tiling(&prompt, &h100, 96, 1);
    assert_tiling(&down, &alone, 32, 1); /* two tiles of tokens at once */
}

static void few_dense_blocks_share_columns(void **state)
{
    (void)state;
    const tern_cuda_product few = product(2048, 8192, 16), wide = gated(8192, 2048, 16),
                            prompt = product(2048, 8192, 512), narrow = product(64, 256, 16);
    assert_int_equal(tern_cuda_product_splits(&few, &h100), 8);
    assert_int_equal(tern_cuda_product_splits(&wide, &h100), 1);
    assert_int_equal(tern_cuda_product_splits(&prompt, &h100), 1);
    assert_int_equal(tern_cuda_product_splits(&narrow, &h100), 2); /* each has columns */
    assert_int_equal(tern_cuda_product_splits(&few, &alone), 1);
}

/* Each block of a cluster has columns. */
static void no_more_splits_than_groups(void **state)
{
    (void)state;
    for (uint32_t groups = 1; groups < 12; groups++) {
        const tern_cuda_product p = product(128, groups * 128, 16);
        const tern_cuda_tiling t = tern_cuda_product_tiling(&p, &h100);
        assert_true(t.splits >= 1 && t.splits <= groups && t.splits <= TERN_CUDA_PRODUCT_SPLITS);
    }
}

/* The rate that bench compares prompts with is that of the instruction that multiplies them. */
static void dots_are_those_of_prompts(void **state)
{
    (void)state;
    const tern_cuda_product prompt = product(2560, 2560, 512);
    const tern_cuda_product_device devices[] = {h100, ampere, {.capability = 120, .multiprocessors = 170}};
    for (size_t i = 0; i < 3; i++) {
        const tern_cuda_dots dots = tern_cuda__dots(&devices[i]);
        assert_int_equal(dots.wgmma, tern_cuda_product_select(&prompt, &devices[i]) == TERN_CUDA_PRODUCT_TERNARY_WGMMA);
        assert_int_equal(dots.blocks % devices[i].multiprocessors, 0);
    }
    /* A block of 8 warps: two groups with four of m64n256k32 a step, or eight m16n8k32 of each warp. */
    const tern_cuda_dots wgmma = tern_cuda__dots(&h100), mma = tern_cuda__dots(&ampere);
    assert_true(wgmma.multiply_adds == 2.0 * 4 * 64 * 256 * 32 * wgmma.steps * wgmma.blocks);
    assert_true(mma.multiply_adds == 8.0 * 8 * 16 * 8 * 32 * mma.steps * mma.blocks);
}

/* Rows in 16 bits: wgmma where the copy engine finds 16-bit weights, or many rows pay for unpacking them. */
static void halves(void **state)
{
    (void)state;
    tern_cuda_product p = product(2048, 2048, 16);
    p.q8 = false;
    p.halves = TERN_HALVES_F16;
    p.format = TERN_GPU_F16;
    assert_int_equal(tern_cuda_product_select(&p, &h100), TERN_CUDA_PRODUCT_DENSE_WGMMA);
    assert_int_equal(tern_cuda_product_select(&p, &ampere), TERN_CUDA_PRODUCT_DENSE_MMA);
    assert_false(tern_cuda_product_serves(&p, TERN_CUDA_PRODUCT_DENSE_VEC, &h100));
    p.format = TERN_GPU_Q4_K;
    assert_int_equal(tern_cuda_product_select(&p, &h100), TERN_CUDA_PRODUCT_DENSE_MMA);
    p.usual = 512;
    assert_int_equal(tern_cuda_product_select(&p, &h100), TERN_CUDA_PRODUCT_DENSE_WGMMA);
    p.halves = TERN_HALVES_NONE;
    assert_int_equal(tern_cuda_product_select(&p, &h100), TERN_CUDA_PRODUCT_DENSE_MMA);
}

static void assert_halves_tiling(uint32_t rows, uint32_t cols, uint32_t usual, bool is_gated, uint32_t tokens,
                                 uint32_t splits)
{
    const tern_cuda_product p = is_gated ? gated(rows, cols, usual) : product(rows, cols, usual);
    const tern_cuda_tiling t = tern_cuda_halves_tiling(&p, &h100);
    assert_int_equal(t.tokens, tokens);
    assert_int_equal(t.splits, splits);
}

/* Shapes of LLaMA 3.2 1B. */
static void tiles_of_halves(void **state)
{
    (void)state;
    assert_halves_tiling(3072, 2048, 512, false, 128, 2);
    assert_halves_tiling(8192, 2048, 512, true, 128, 1);
    assert_halves_tiling(2048, 8192, 512, false, 256, 3);
    assert_halves_tiling(2048, 8192, 2048, false, 256, 1);
    assert_halves_tiling(2048, 8192, 16, false, 16, 8);
    assert_halves_tiling(8192, 2048, 64, true, 64, 1);
    for (uint32_t cols = 8; cols < 2000; cols += 64) {
        const tern_cuda_product p = product(128, cols, 16);
        const tern_cuda_tiling t = tern_cuda_halves_tiling(&p, &h100);
        assert_true(t.splits >= 1 && (t.splits == 1 || t.splits * 4 * 64 <= cols));
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(by_usual_rows),
    cmocka_unit_test(routed),
    cmocka_unit_test(columns_are_split_where_tiles_are_few),
    cmocka_unit_test(few_dense_blocks_share_columns),
    cmocka_unit_test(no_more_splits_than_groups),
    cmocka_unit_test(dots_are_those_of_prompts),
    cmocka_unit_test(halves),
    cmocka_unit_test(tiles_of_halves),
};

TEST_GROUP(product_select, "", tests);
