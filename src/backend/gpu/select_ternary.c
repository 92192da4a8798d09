/* Which pipeline multiplies ternary weights: a pure function of what the device can do and the op's shape. */
#include <stdlib.h>
#include <string.h>

#include "backend/gpu/linear.h"

#define COUNT_OF(a) (sizeof(a) / sizeof *(a))

/* By (norm, gated), the ones to prefer first; those for one part alone before those for three. */
static const tern_gpu_pipeline q8_plain[] = {TERN_GPU_TERNARY_VEC_Q8_8X5_S32, TERN_GPU_TERNARY_VEC_Q8_16X7_S32,
                                             TERN_GPU_TERNARY_VEC_Q8_8X8_S32, TERN_GPU_TERNARY_VEC_Q8_S8,
                                             TERN_GPU_TERNARY_VEC_Q8_S4,      TERN_GPU_TERNARY_VEC_Q8};
static const tern_gpu_pipeline q8_gated[] = {TERN_GPU_TERNARY_VEC_Q8_GATED_8X5_S32,
                                             TERN_GPU_TERNARY_VEC_Q8_GATED_8X4_S32, TERN_GPU_TERNARY_VEC_Q8_GATED_S8,
                                             TERN_GPU_TERNARY_VEC_Q8_GATED_S4, TERN_GPU_TERNARY_VEC_Q8_GATED};
static const tern_gpu_pipeline norm_plain[] = {TERN_GPU_TERNARY_VEC_NORM_8X5_ONE_S32,
                                               TERN_GPU_TERNARY_VEC_NORM_8X5_S32,
                                               TERN_GPU_TERNARY_VEC_NORM_16X7_ONE_S32,
                                               TERN_GPU_TERNARY_VEC_NORM_8X8_S32,
                                               TERN_GPU_TERNARY_VEC_NORM_S8,
                                               TERN_GPU_TERNARY_VEC_NORM_S4,
                                               TERN_GPU_TERNARY_VEC_NORM,
                                               TERN_GPU_TERNARY_VEC_NORM_WIDE};
static const tern_gpu_pipeline norm_gated[] = {
    TERN_GPU_TERNARY_VEC_NORM_GATED_8X5_S32, TERN_GPU_TERNARY_VEC_NORM_GATED_8X4_S32,
    TERN_GPU_TERNARY_VEC_NORM_GATED_S8,      TERN_GPU_TERNARY_VEC_NORM_GATED_S4,
    TERN_GPU_TERNARY_VEC_NORM_GATED,         TERN_GPU_TERNARY_VEC_NORM_GATED_WIDE};

static uint32_t round_up(uint32_t n, uint32_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

/* Chunks of a row of weights, and those that the pipeline's lanes go through. */
static uint32_t chunks_of(uint32_t cols)
{
    return round_up(cols, 2 * TERN_GPU_CHUNK_COLS) / TERN_GPU_CHUNK_COLS;
}

static bool has(tern_gpu_pipeline pipeline, const char *word)
{
    return strstr(tern_gpu_pipelines[pipeline].overrides, word) != NULL;
}

uint32_t tern_gpu_ternary_padded_chunks(tern_gpu_pipeline pipeline, uint32_t cols)
{
    uint32_t lanes = tern_gpu_override(pipeline, "LANES", 8), chunks = tern_gpu_override(pipeline, "CHUNKS", 4);
    return round_up(chunks_of(cols), has(pipeline, "SKIP=false") ? lanes * chunks : lanes);
}

static uint32_t rows_of_group(tern_gpu_pipeline pipeline)
{
    return tern_gpu_pipelines[pipeline].invocations / tern_gpu_override(pipeline, "LANES", 8) *
           tern_gpu_override(pipeline, "ROWS", 1) * tern_gpu_override(pipeline, "BLOCKS", 1);
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

/* For timing: TERN_GPU_VARIANT="NAME,NAME": pipelines that are chosen before all others where they fit. */
static bool named(tern_gpu_pipeline pipeline, const char *file)
{
    const char *names = getenv("TERN_GPU_VARIANT"), *name = tern_gpu_pipelines[pipeline].name;
    if (!names || strcmp(tern_gpu_pipelines[pipeline].file, file) != 0) return false;
    for (const char *at = names; (at = strstr(at, name)) != NULL; at++) {
        char before = at == names ? ',' : at[-1], after = at[strlen(name)];
        if (before == ',' && (after == ',' || after == 0)) return true;
    }
    return false;
}

static tern_gpu_pipeline wanted_vec(const tern_gpu_caps *caps, const tern_gpu_ternary_shape *shape)
{
    for (tern_gpu_pipeline i = 0; i < TERN_GPU_PIPELINE_COUNT; i++)
        if (named(i, "linear_ternary_vec") && has(i, "NORM=true") == shape->norm &&
            has(i, "GATED=true") == shape->gated && vec_fits(i, caps, shape))
            return i;
    return TERN_GPU_PIPELINE_COUNT;
}

static tern_gpu_pipeline wanted_mat(const tern_gpu_caps *caps, const tern_gpu_ternary_shape *shape)
{
    for (tern_gpu_pipeline i = 0; i < TERN_GPU_PIPELINE_COUNT; i++)
        if (named(i, "linear_ternary_mat") && has(i, "GATED=true") == shape->gated && tern_gpu_pipeline_fits(i, caps))
            return i;
    return TERN_GPU_PIPELINE_COUNT;
}

tern_gpu_pipeline tern_gpu_select_ternary_vec(const tern_gpu_caps *caps, const tern_gpu_ternary_shape *shape)
{
    const tern_gpu_pipeline *lists[2][2] = {{q8_plain, q8_gated}, {norm_plain, norm_gated}},
                            *list = lists[shape->norm][shape->gated];
    const size_t counts[2][2] = {{COUNT_OF(q8_plain), COUNT_OF(q8_gated)},
                                 {COUNT_OF(norm_plain), COUNT_OF(norm_gated)}};
    uint32_t chunks = chunks_of(shape->cols);
    tern_gpu_pipeline first = wanted_vec(caps, shape);
    if (first != TERN_GPU_PIPELINE_COUNT) return first;
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
    static const tern_gpu_pipeline lists[2][3] = {
        {TERN_GPU_TERNARY_MAT_128X64, TERN_GPU_TERNARY_MAT_64X64, TERN_GPU_TERNARY_MAT_64X32},
        {TERN_GPU_TERNARY_MAT_GATED_128X64, TERN_GPU_TERNARY_MAT_GATED_64X64, TERN_GPU_TERNARY_MAT_GATED_64X32}};
    tern_gpu_pipeline coop = select_coop(shape), wanted = wanted_mat(caps, shape);
    if (wanted != TERN_GPU_PIPELINE_COUNT) return wanted;
    bool many = shape->tokens > 32;
    if (many && !shape->in_place && shape->cols <= TERN_GPU_COOP_COLS && tern_gpu_pipeline_fits(coop, caps))
        return coop;
    const tern_gpu_pipeline *list = lists[shape->gated];
    size_t skipped = shape->tokens <= 32 ? 2 : (uint64_t)shape->rows * shape->tokens < 1 << 20 ? 1 : 0;
    return tern_gpu_first_fit(list + skipped, 3 - skipped, caps);
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
