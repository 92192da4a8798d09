/* Which pipeline multiplies dense weights: a pure function of what the device can do and the op's shape. */
#include "backend/gpu/linear/select.h"

enum {
    FEW_TOKENS = 8,
    FEW_ROWS = 16, /* the rank of an adapter */
    SMALL_TILE_TOKENS = 64,
    MANY_ROWS = 32768 /* enough for every processor of a large GPU when an invocation has four */
};

#define VEC1(name)                                                                                                     \
    TERN_GPU_##name##_VEC1_32X4_S32, TERN_GPU_##name##_VEC1_32X1_S32, TERN_GPU_##name##_VEC1_8X4_S8,                   \
        TERN_GPU_##name##_VEC1
#define VEC4(name) TERN_GPU_##name##_VEC4_32X4_S32, TERN_GPU_##name##_VEC4_8X4_S8, TERN_GPU_##name##_VEC4
#define MAT(name)  TERN_GPU_##name##_MAT_128X128, TERN_GPU_##name##_MAT_128X64
static const struct {
    tern_gpu_pipeline vec1[4], vec4[3], mat[2];
    uint8_t unit_columns; /* of a lane of the kernels for few tokens */
} formats[TERN_GPU_FORMAT_COUNT] = {
#define FORMAT(name, number, vec, unit, coop, join) [TERN_GPU_##name] = {{VEC1(name)}, {VEC4(name)}, {MAT(name)}, unit},
#include "backend/gpu/formats.def"
#undef FORMAT
};

/* Pipelines of the formats that adapters have. */
static const tern_gpu_pipeline few_rows[TERN_GPU_FORMAT_COUNT] = {[TERN_GPU_F32] = TERN_GPU_F32_MAT_16X128,
                                                                  [TERN_GPU_F16] = TERN_GPU_F16_MAT_16X128,
                                                                  [TERN_GPU_BF16] = TERN_GPU_BF16_MAT_16X128};

/* 32 lanes leave many idle in short rows of K encodings, where a lane takes 64 or 32 columns at once. */
static bool short_rows(const tern_gpu_dense_shape *shape)
{
    const uint32_t columns = formats[shape->format].unit_columns;
    uint32_t units = (shape->cols + columns - 1) / columns, turns = (units + 31) / 32;
    return units * 4 < turns * 32 * 3;
}

#define JOIN(name)                                                                                                     \
    [TERN_GPU_##name] = {{TERN_GPU_##name##_JOIN_32X2_S32, TERN_GPU_##name##_JOIN_8X4_S8, TERN_GPU_##name##_JOIN},     \
                         {TERN_GPU_##name##_GATE_32X2_S32, TERN_GPU_##name##_GATE_8X2_S8, TERN_GPU_##name##_GATE}},
#define APART(name) [TERN_GPU_##name] = {{TERN_GPU_PIPELINE_COUNT}},
static const tern_gpu_pipeline joins[TERN_GPU_FORMAT_COUNT][2][3] = {
#define FORMAT(name, number, vec, unit, coop, join) join(name)
#include "backend/gpu/formats.def"
#undef FORMAT
};

/* Many rows that end soon after the first turn of 32 lanes stay apart: a norm, then one row for each 32 lanes, is
 * faster than a few rows for each 8. On an H200, Gemma 3 1B Q4_K_M, whose Q5_0 rows have 36 units, decodes 418
 * tokens/s, and 348 joined. */
tern_gpu_pipeline tern_gpu_select_dense_join(const tern_gpu_caps *caps, const tern_gpu_dense_shape *shape, bool gated)
{
    const uint32_t skipped = short_rows(shape), unit = 16, lanes = 32;
    const tern_gpu_pipeline *list = joins[shape->format][gated];
    if (joins[shape->format][0][0] == TERN_GPU_PIPELINE_COUNT) return TERN_GPU_PIPELINE_COUNT;
    if (shape->tokens != 1 || shape->cols % unit != 0 || shape->rows >= MANY_ROWS) return TERN_GPU_PIPELINE_COUNT;
    if (skipped && shape->cols > lanes * formats[shape->format].unit_columns && tern_gpu_pipeline_fits(list[0], caps))
        return TERN_GPU_PIPELINE_COUNT;
    return tern_gpu_first_fit(list + skipped, 3 - skipped, caps);
}

tern_gpu_pipeline tern_gpu_select_dense(const tern_gpu_caps *caps, const tern_gpu_dense_shape *shape)
{
    uint32_t skipped = 0;
    if (shape->tokens > FEW_TOKENS && shape->rows <= FEW_ROWS && few_rows[shape->format] != 0)
        return few_rows[shape->format];
    if (shape->tokens > FEW_TOKENS) {
        skipped = shape->tokens <= SMALL_TILE_TOKENS;
        return tern_gpu_first_fit(formats[shape->format].mat + skipped, 2 - skipped, caps);
    }
    if (shape->tokens > 1) {
        skipped = short_rows(shape);
        return tern_gpu_first_fit(formats[shape->format].vec4 + skipped, 3 - skipped, caps);
    }
    if (shape->rows < MANY_ROWS) skipped = 1;
    else if (short_rows(shape)) skipped = 2;
    return tern_gpu_first_fit(formats[shape->format].vec1 + skipped, 4 - skipped, caps);
}
