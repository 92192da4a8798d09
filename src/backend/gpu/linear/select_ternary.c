/* Which pipeline multiplies ternary weights: a pure function of what the device can do and the op's shape. */
#include "backend/gpu/choices.h"
#include "backend/gpu/gpu_internal.h"
#include "backend/gpu/linear/select.h"

#define COUNT_OF(a) (sizeof(a) / sizeof *(a))

enum {
    COOP_ROWS = 128, /* of a tile of linear_ternary_coop */
    FEW_TILES = 128  /* tiles that leave much of a large GPU idle */
};

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

uint32_t tern_gpu_ternary_padded_chunks(tern_gpu_pipeline pipeline, uint32_t cols)
{
    const tern_gpu_linear_ternary_vec_overrides *kernel = tern_gpu_linear_ternary_vec_overrides_of(pipeline);
    return tern_gpu__round_up(chunks_of(cols), kernel->skip ? kernel->lanes : kernel->lanes * kernel->chunks);
}

uint32_t tern_gpu_ternary_group_rows(tern_gpu_pipeline pipeline)
{
    const tern_gpu_linear_ternary_vec_overrides *kernel = tern_gpu_linear_ternary_vec_overrides_of(pipeline);
    return kernel->workgroup / kernel->lanes * kernel->blocks;
}

static tern_gpu_key key_of(const tern_gpu_ternary_shape *shape)
{
    return (tern_gpu_key){shape->rows, shape->cols, tern_gpu_token_class(shape->tokens)};
}

static bool vec_fits(tern_gpu_pipeline pipeline, const tern_gpu_caps *caps, const void *of)
{
    const tern_gpu_ternary_shape *shape = of;
    const tern_gpu_linear_ternary_vec_overrides *kernel = tern_gpu_linear_ternary_vec_overrides_of(pipeline);
    if (kernel->fixed != 0 && kernel->fixed != chunks_of(shape->cols)) return false;
    if (kernel->whole && shape->row_bits & (tern_gpu_ternary_group_rows(pipeline) - 1)) return false;
    return tern_gpu_pipeline_fits(pipeline, caps) && shape->n_parts <= kernel->parts + shape->gated &&
           tern_gpu_ternary_padded_chunks(pipeline, shape->cols) <= kernel->xchunks;
}

static tern_gpu_pipeline usual_vec(const tern_gpu_caps *caps, const tern_gpu_ternary_shape *shape)
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

tern_gpu_pipeline tern_gpu_select_ternary_vec(const tern_gpu_caps *caps, const tern_gpu_ternary_shape *shape)
{
    const tern_gpu_key key = key_of(shape);
    return tern_gpu_chosen(caps, &key, usual_vec(caps, shape), vec_fits, shape);
}

/* Tiles of 128 tokens, or of 64 where even of these there are few; of each the table has plain, residual, relu2, silu.
 */
static tern_gpu_pipeline select_coop(const tern_gpu_ternary_shape *shape)
{
    const uint32_t tiles = tern_gpu__ceil_div(shape->rows, COOP_ROWS) * tern_gpu__ceil_div(shape->tokens, 64);
    const uint32_t kind = shape->gated ? 2 + (shape->activation != TERN_ACT_RELU2) : shape->residual;
    return (tiles <= FEW_TILES ? TERN_GPU_TERNARY_COOP_64 : TERN_GPU_TERNARY_COOP) + kind;
}

static tern_gpu_pipeline usual_mat(const tern_gpu_caps *caps, const tern_gpu_ternary_shape *shape)
{
    static const tern_gpu_pipeline lists[2][2] = {{TERN_GPU_TERNARY_MAT_64X64, TERN_GPU_TERNARY_MAT_64X32},
                                                  {TERN_GPU_TERNARY_MAT_GATED_64X64, TERN_GPU_TERNARY_MAT_GATED_64X32}};
    tern_gpu_pipeline coop = select_coop(shape);
    bool many = shape->tokens > 32, gelu = shape->gated && shape->activation == TERN_ACT_GELU; /* has no such kernel */
    if (many && !gelu && !shape->in_place && tern_gpu_pipeline_fits(coop, caps)) return coop;
    return tern_gpu_first_fit(lists[shape->gated] + !many, 2 - !many, caps);
}

tern_gpu_pipeline tern_gpu_select_ternary_mat(const tern_gpu_caps *caps, const tern_gpu_ternary_shape *shape)
{
    const tern_gpu_key key = key_of(shape);
    return tern_gpu_chosen(caps, &key, usual_mat(caps, shape), NULL, NULL);
}

bool tern_gpu_ternary_is_cooperative(tern_gpu_pipeline pipeline)
{
    return tern_gpu_kernel_of(pipeline) == TERN_GPU_KERNEL_LINEAR_TERNARY_COOP;
}

uint32_t tern_gpu_ternary_tile_rows(tern_gpu_pipeline pipeline, bool gated)
{
    const uint32_t rows = tern_gpu_ternary_is_cooperative(pipeline)
                              ? COOP_ROWS
                              : tern_gpu_linear_ternary_mat_overrides_of(pipeline)->tile_rows;
    return gated ? rows / 2 : rows;
}

uint32_t tern_gpu_ternary_tile_tokens(tern_gpu_pipeline pipeline)
{
    return tern_gpu_ternary_is_cooperative(pipeline) ? tern_gpu_linear_ternary_coop_overrides_of(pipeline)->tile_tokens
                                                     : tern_gpu_linear_ternary_mat_overrides_of(pipeline)->tile_tokens;
}
