/* Which pipeline multiplies ternary weights: a pure function of what the device can do and the op's shape. */
#include <string.h>

#include "backend/gpu/linear/linear.h"

#define COUNT_OF(a) (sizeof(a) / sizeof *(a))

/* By (norm, gated), the ones to prefer first; those for one part alone before those for three. */
static const tern_gpu_pipeline q8_plain[] = {TERN_GPU_TERNARY_VEC_Q8_8X5_S32, TERN_GPU_TERNARY_VEC_Q8_16X7_S32,
                                             TERN_GPU_TERNARY_VEC_Q8_8X8_S32, TERN_GPU_TERNARY_VEC_Q8_S8,
                                             TERN_GPU_TERNARY_VEC_Q8_S4,      TERN_GPU_TERNARY_VEC_Q8};
static const tern_gpu_pipeline q8_gated[] = {TERN_GPU_TERNARY_VEC_Q8_GATED_8X5_S32,
                                             TERN_GPU_TERNARY_VEC_Q8_GATED_8X4_S32, TERN_GPU_TERNARY_VEC_Q8_GATED_S8,
                                             TERN_GPU_TERNARY_VEC_Q8_GATED_S4, TERN_GPU_TERNARY_VEC_Q8_GATED};
static const tern_gpu_pipeline norm_plain[] = {TERN_GPU_TERNARY_VEC_NORM_8X5_ONE_FIXED_S32,
                                               TERN_GPU_TERNARY_VEC_NORM_8X5_FIXED_S32,
                                               TERN_GPU_TERNARY_VEC_NORM_16X7_ONE_FIXED_S32,
                                               TERN_GPU_TERNARY_VEC_NORM_8X5_ONE_S32,
                                               TERN_GPU_TERNARY_VEC_NORM_8X5_S32,
                                               TERN_GPU_TERNARY_VEC_NORM_16X7_ONE_S32,
                                               TERN_GPU_TERNARY_VEC_NORM_8X8_S32,
                                               TERN_GPU_TERNARY_VEC_NORM_S8,
                                               TERN_GPU_TERNARY_VEC_NORM_S4,
                                               TERN_GPU_TERNARY_VEC_NORM,
                                               TERN_GPU_TERNARY_VEC_NORM_WIDE};
static const tern_gpu_pipeline norm_gated[] = {TERN_GPU_TERNARY_VEC_NORM_GATED_8X5_FIXED_S32,
                                               TERN_GPU_TERNARY_VEC_NORM_GATED_8X5_S32,
                                               TERN_GPU_TERNARY_VEC_NORM_GATED_8X4_S32,
                                               TERN_GPU_TERNARY_VEC_NORM_GATED_S8,
                                               TERN_GPU_TERNARY_VEC_NORM_GATED_S4,
                                               TERN_GPU_TERNARY_VEC_NORM_GATED,
                                               TERN_GPU_TERNARY_VEC_NORM_GATED_WIDE};

/* Chunks of a row of weights, and those that the pipeline's lanes go through. */
static uint32_t chunks_of(uint32_t cols)
{
    return tern_gpu__round_up(cols, 2 * TERN_GPU_CHUNK_COLS) / TERN_GPU_CHUNK_COLS;
}

static bool has(tern_gpu_pipeline pipeline, const char *word)
{
    return strstr(tern_gpu_pipelines[pipeline].overrides, word) != NULL;
}

uint32_t tern_gpu_ternary_padded_chunks(tern_gpu_pipeline pipeline, uint32_t cols)
{
    uint32_t lanes = tern_gpu_override(pipeline, "LANES", 8), chunks = tern_gpu_override(pipeline, "CHUNKS", 4);
    return tern_gpu__round_up(chunks_of(cols), has(pipeline, "SKIP=false") ? lanes * chunks : lanes);
}

static uint32_t rows_of_group(tern_gpu_pipeline pipeline)
{
    return tern_gpu_pipelines[pipeline].invocations / tern_gpu_override(pipeline, "LANES", 8) *
           tern_gpu_override(pipeline, "BLOCKS", 1);
}

static bool vec_fits(tern_gpu_pipeline pipeline, const tern_gpu_caps *caps, const tern_gpu_ternary_shape *shape)
{
    uint32_t chunks = chunks_of(shape->cols), fixed = tern_gpu_override(pipeline, "FIXED", 0);
    if (fixed != 0 && fixed != chunks) return false;
    if (has(pipeline, "WHOLE=true") && shape->row_bits & (rows_of_group(pipeline) - 1)) return false;
    return tern_gpu_pipeline_fits(pipeline, caps) &&
           shape->n_parts <= tern_gpu_override(pipeline, "PARTS", 3) + shape->gated &&
           tern_gpu_ternary_padded_chunks(pipeline, shape->cols) <= tern_gpu_override(pipeline, "XCHUNKS", 240);
}

tern_gpu_pipeline tern_gpu_select_ternary_vec(const tern_gpu_caps *caps, const tern_gpu_ternary_shape *shape)
{
    const tern_gpu_pipeline *lists[2][2] = {{q8_plain, q8_gated}, {norm_plain, norm_gated}},
                            *list = lists[shape->norm][shape->gated];
    const size_t counts[2][2] = {{COUNT_OF(q8_plain), COUNT_OF(q8_gated)},
                                 {COUNT_OF(norm_plain), COUNT_OF(norm_gated)}};
    uint32_t chunks = chunks_of(shape->cols);
    tern_gpu_pipeline first = TERN_GPU_PIPELINE_COUNT;
    for (size_t i = 0; i < counts[shape->norm][shape->gated]; i++) {
        if (!vec_fits(list[i], caps, shape)) continue;
        if (tern_gpu_ternary_padded_chunks(list[i], shape->cols) - chunks <= chunks / 8) return list[i];
        if (first == TERN_GPU_PIPELINE_COUNT) first = list[i];
    }
    return first;
}

static tern_gpu_pipeline select_coop(const tern_gpu_ternary_shape *shape)
{
    if (shape->gated)
        return shape->activation == TERN_ACT_RELU2 ? TERN_GPU_TERNARY_COOP_RELU2 : TERN_GPU_TERNARY_COOP_SILU;
    return shape->residual ? TERN_GPU_TERNARY_COOP_RESIDUAL : TERN_GPU_TERNARY_COOP;
}

tern_gpu_pipeline tern_gpu_select_ternary_mat(const tern_gpu_caps *caps, const tern_gpu_ternary_shape *shape)
{
    static const tern_gpu_pipeline lists[2][2] = {{TERN_GPU_TERNARY_MAT_64X64, TERN_GPU_TERNARY_MAT_64X32},
                                                  {TERN_GPU_TERNARY_MAT_GATED_64X64, TERN_GPU_TERNARY_MAT_GATED_64X32}};
    tern_gpu_pipeline coop = select_coop(shape);
    bool many = shape->tokens > 32, gelu = shape->gated && shape->activation == TERN_ACT_GELU; /* has no such kernel */
    if (many && !gelu && !shape->in_place && shape->cols <= TERN_GPU_COOP_COLS && tern_gpu_pipeline_fits(coop, caps))
        return coop;
    return tern_gpu_first_fit(lists[shape->gated] + !many, 2 - !many, caps);
}

uint32_t tern_gpu_ternary_tile_rows(tern_gpu_pipeline pipeline, bool gated)
{
    uint32_t rows = strcmp(tern_gpu_pipelines[pipeline].file, "linear_ternary_coop") == 0
                        ? 128
                        : tern_gpu_override(pipeline, "TILE_ROWS", 64);
    return gated ? rows / 2 : rows;
}

uint32_t tern_gpu_ternary_tile_tokens(tern_gpu_pipeline pipeline)
{
    return strcmp(tern_gpu_pipelines[pipeline].file, "linear_ternary_coop") == 0
               ? 128
               : tern_gpu_override(pipeline, "TILE_TOKENS", 64);
}
