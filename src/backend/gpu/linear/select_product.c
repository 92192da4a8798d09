/* Which pipeline makes a product of floats, and how its depth is cut: pure functions of what the device can do and the
 * sizes. */
#include "backend/gpu/choices.h"
#include "backend/gpu/gpu_internal.h"
#include "backend/gpu/linear/select.h"

enum {
    THREAD_TILE = 8,
    FEW = 16,            /* columns or rows: the rank of an adapter */
    FEW_TILES = 128,     /* of 128 x 128: smaller ones, or parts of the depth, keep all processors busy */
    WANTED_GROUPS = 256, /* of a product whose depth is cut */
    MANY_GROUPS = 1024,  /* the same, of kernels with few invocations */
    LEAST_DEPTH = 64,    /* of a part */
    COOP_LEAST = 64,     /* rows, columns and depth: tiles are 128 x 128 */
    COOP_DEPTH = 4096    /* the most of a part: matrix units may cut off what they add up */
};
static const uint64_t MOST_PART_BYTES = (uint64_t)64 << 20;

static const tern_gpu_pipeline dx_tiles[TERN_GPU_FORMAT_COUNT][2] = {
    [TERN_GPU_TERNARY] = {TERN_GPU_DX_TERNARY_128X128, TERN_GPU_DX_TERNARY_128X64},
#define FORMAT(name, number, vec, unit, coop, join)                                                                    \
    [TERN_GPU_##name] = {TERN_GPU_DX_##name##_128X128, TERN_GPU_DX_##name##_128X64},
#include "backend/gpu/formats.def"
#undef FORMAT
};
static const tern_gpu_pipeline coop[TERN_GPU_FORMAT_COUNT][2] = {
    [TERN_GPU_TERNARY] = {TERN_GPU_PIPELINE_COUNT, TERN_GPU_DX_TERNARY_COOP},
#define FORMAT(name, number, vec, unit, coop, join)                                                                    \
    [TERN_GPU_##name] = {TERN_GPU_##name##_COOP, TERN_GPU_DX_##name##_COOP},
#include "backend/gpu/formats.def"
#undef FORMAT
};

static uint64_t n_tiles(const tern_gpu_product *product, uint32_t rows, uint32_t cols)
{
    return (uint64_t)tern_gpu__ceil_div(product->rows, rows) * tern_gpu__ceil_div(product->cols, cols);
}

/* n parts, or as many as there is depth and room for. */
static void cut_depth(tern_gpu_tiling *tiling, const tern_gpu_caps *caps, const tern_gpu_product *product, uint64_t n,
                      uint32_t step)
{
    uint64_t most = caps->max_binding < MOST_PART_BYTES ? caps->max_binding : MOST_PART_BYTES,
             bytes = (uint64_t)product->rows * product->cols * sizeof(float);
    if (n > most / bytes) n = most / bytes;
    if (n > product->depth / LEAST_DEPTH) n = product->depth / LEAST_DEPTH;
    if (n == 0) n = 1;
    tiling->part_depth = tern_gpu__round_up(tern_gpu__ceil_div(product->depth, (uint32_t)n), step);
    tiling->n_parts = tern_gpu__ceil_div(product->depth, tiling->part_depth);
}

static uint64_t parts_for_all(const tern_gpu_tiling *tiling, const tern_gpu_product *product)
{
    uint64_t tiles = n_tiles(product, tiling->tile_rows, tiling->tile_cols);
    if (tern_gpu_pipelines[tiling->pipeline].invocations < 64) return MANY_GROUPS / tiles;
    return tiles < FEW_TILES ? WANTED_GROUPS / tiles : 1;
}

/* A kernel whose invocations have THREAD_TILE x THREAD_TILE sums each. */
static tern_gpu_tiling tiling_of(tern_gpu_pipeline pipeline, uint32_t row_threads, uint32_t col_threads,
                                 const tern_gpu_caps *caps, const tern_gpu_product *product)
{
    tern_gpu_tiling tiling = {
        .pipeline = pipeline, .tile_rows = THREAD_TILE * row_threads, .tile_cols = THREAD_TILE * col_threads};
    cut_depth(&tiling, caps, product, parts_for_all(&tiling, product), 16);
    return tiling;
}

static bool cooperates(tern_gpu_pipeline pipeline, const tern_gpu_caps *caps, const tern_gpu_product *product)
{
    return product->rows >= COOP_LEAST && product->cols >= COOP_LEAST && product->depth >= COOP_LEAST &&
           pipeline < TERN_GPU_PIPELINE_COUNT && tern_gpu_pipeline_fits(pipeline, caps);
}

static tern_gpu_tiling coop_tiling(tern_gpu_pipeline pipeline, const tern_gpu_caps *caps,
                                   const tern_gpu_product *product)
{
    tern_gpu_tiling tiling = {.pipeline = pipeline, .tile_rows = 128, .tile_cols = 128};
    uint64_t n = parts_for_all(&tiling, product), least = tern_gpu__ceil_div(product->depth, COOP_DEPTH);
    cut_depth(&tiling, caps, product, n > least ? n : least, 16);
    return tiling;
}

bool tern_gpu_tiling_is_cooperative(const tern_gpu_tiling *tiling)
{
    return (tern_gpu_pipelines[tiling->pipeline].needs & TERN_GPU_NEEDS_COOPERATIVE) != 0;
}

/* The larger tile where there is enough for all processors, else the smaller one. */
static tern_gpu_pipeline tile_for(const tern_gpu_pipeline tiles[2], const tern_gpu_caps *caps,
                                  const tern_gpu_product *product)
{
    bool small = product->cols <= 64 || n_tiles(product, 128, 128) < FEW_TILES;
    return tern_gpu_first_fit(tiles + small, 2 - small, caps);
}

tern_gpu_tiling tern_gpu_select_linear(const tern_gpu_caps *caps, tern_gpu_format format,
                                       const tern_gpu_product *product)
{
    const tern_gpu_dense_shape shape = {format, product->cols, product->depth, product->rows};
    const tern_gpu_key key = {product->cols, product->depth, tern_gpu_token_class(product->rows)};
    const bool cooperative = cooperates(coop[format][0], caps, product);
    const tern_gpu_pipeline usual = cooperative ? coop[format][0] : tern_gpu_select_dense(caps, &shape);
    tern_gpu_tiling tiling = {.pipeline = tern_gpu_chosen(caps, &key, usual, NULL, NULL)};
    if (tern_gpu_tiling_is_cooperative(&tiling)) return coop_tiling(tiling.pipeline, caps, product);
    const tern_gpu_linear_dense_mat_overrides *kernel = tern_gpu_linear_dense_mat_overrides_of(tiling.pipeline);
    tiling.tile_rows = THREAD_TILE * kernel->token_threads;
    tiling.tile_cols = THREAD_TILE * kernel->row_threads;
    cut_depth(&tiling, caps, product, product->cols <= FEW ? parts_for_all(&tiling, product) : 1, 16);
    return tiling;
}

tern_gpu_tiling tern_gpu_select_dx(const tern_gpu_caps *caps, tern_gpu_format format, const tern_gpu_product *product)
{
    if (cooperates(coop[format][1], caps, product)) return coop_tiling(coop[format][1], caps, product);
    tern_gpu_pipeline pipeline = tile_for(dx_tiles[format], caps, product);
    if (product->cols <= FEW && format == TERN_GPU_F32) pipeline = TERN_GPU_DX_F32_128X16;
    if (product->cols <= FEW && format == TERN_GPU_F16) pipeline = TERN_GPU_DX_F16_128X16;
    if (product->cols <= FEW && format == TERN_GPU_BF16) pipeline = TERN_GPU_DX_BF16_128X16;
    const tern_gpu_linear_dx_overrides *kernel = tern_gpu_linear_dx_overrides_of(pipeline);
    return tiling_of(pipeline, kernel->token_threads, kernel->col_threads, caps, product);
}

tern_gpu_tiling tern_gpu_select_dw(const tern_gpu_caps *caps, bool q8, const tern_gpu_product *product)
{
    static const tern_gpu_pipeline tiles[2][2] = {{TERN_GPU_DW_F32_128X128, TERN_GPU_DW_F32_128X64},
                                                  {TERN_GPU_DW_Q8_128X128, TERN_GPU_DW_Q8_128X64}};
    tern_gpu_pipeline matrices = q8 ? TERN_GPU_DW_Q8_COOP : TERN_GPU_DW_F32_COOP;
    if (cooperates(matrices, caps, product)) return coop_tiling(matrices, caps, product);
    tern_gpu_pipeline pipeline = tile_for(tiles[q8], caps, product);
    if (product->cols <= FEW) pipeline = q8 ? TERN_GPU_DW_Q8_128X16 : TERN_GPU_DW_F32_128X16;
    if (product->rows <= FEW) pipeline = q8 ? TERN_GPU_DW_Q8_16X128 : TERN_GPU_DW_F32_16X128;
    const tern_gpu_linear_dw_overrides *kernel = tern_gpu_linear_dw_overrides_of(pipeline);
    return tiling_of(pipeline, kernel->row_threads, kernel->col_threads, caps, product);
}
