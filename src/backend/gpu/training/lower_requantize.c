/* Lowering REQUANTIZE: passes over the masters, one after the other, as every code needs the whole tensor's scale. */
#include <stddef.h>

#include "backend/gpu/training/training_internal.h"

enum { TOTALS_BYTES = 256, RULE_BYTES = 256, SUM_GROUPS = 4096, WORDS_OF_INVOCATION = 8, ROWS_ALIGNMENT = 128 };

/* The passes that need no codes: the largest exponent (after clamping by the scale that is there), or the sum. */
static tern_status add_magnitudes(const tern_gpu_update *j, tern_gpu_pipeline pipeline, const tern_gpu_layout *layout)
{
    const bool clamps = pipeline == TERN_GPU_REQUANTIZE_EXPONENT && j->op->clamp > 0;
    for (tern_gpu_chunk c = tern_gpu__chunk_at(j, 0); c.n; c = tern_gpu__chunk_at(j, c.first + c.n)) {
        const uint32_t groups = tern_gpu__ceil_div(c.n, TERN_GPU_UPDATE_WIDTH * WORDS_OF_INVOCATION);
        uint32_t x;
        tern_gpu_dispatch *d = tern_gpu__add_update(j, pipeline, groups < SUM_GROUPS ? groups : SUM_GROUPS, &x);
        if (!d) return TERN_UNSUPPORTED;
        const tern_gpu_requantize_magnitudes_uniform u = {.n = c.n,
                                                          .stride = x * TERN_GPU_UPDATE_WIDTH,
                                                          .bf16 = j->shape.w == TERN_DTYPE_BF16,
                                                          .clamp = clamps ? j->op->clamp : 0,
                                                          .scale_word = (uint32_t)(layout->scales_offset / 4)};
        tern_gpu_requantize_magnitudes_set(d, &u);
        tern_gpu__bind_chunk(d, j->op->in[TERN_REQUANTIZE_MASTER].value, j->shape.w, c, clamps);
        if (clamps) tern_gpu__bind_slice(d, j->op->out.value, layout, 0);
        else tern_gpu__bind_nothing(d);
        tern_gpu__bind_scratch(d, 0, TOTALS_BYTES, true);
    }
    return TERN_OK;
}

static tern_status add_scale(const tern_gpu_update *j, uint64_t rule)
{
    tern_gpu_dispatch *d = tern_gpu__add(j->p, j->op, TERN_GPU_REQUANTIZE_SCALE, 1, 1, 1, j->err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_requantize_scale_uniform u = {.n = (uint32_t)j->shape.n, .threshold = j->op->threshold};
    tern_gpu_requantize_scale_set(d, &u);
    tern_gpu__bind_scratch(d, 0, TOTALS_BYTES, true);
    tern_gpu__bind_scratch(d, rule, RULE_BYTES, true);
    return TERN_OK;
}

/* Rows [first, first + n) of slice `slice`. */
static tern_status add_codes(const tern_gpu_update *j, const tern_gpu_layout *layout, uint32_t slice, uint32_t first,
                             uint32_t n, uint64_t rule)
{
    const uint32_t row_words = layout->row_bytes / 4, cols = j->shape.cols, size = tern_gpu__size_of(j->shape.w);
    uint32_t x;
    tern_gpu_dispatch *d = tern_gpu__add_update(j, TERN_GPU_REQUANTIZE_CODES,
                                                tern_gpu__ceil_div(n * row_words, TERN_GPU_UPDATE_WIDTH), &x);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_requantize_codes_uniform u = {.rows = n,
                                                 .cols = cols,
                                                 .row_words = row_words,
                                                 .row = x * TERN_GPU_UPDATE_WIDTH,
                                                 .bf16 = j->shape.w == TERN_DTYPE_BF16,
                                                 .first_word = first * row_words,
                                                 .scales_word = (uint32_t)(layout->scales_offset / 4) + first};
    tern_gpu_requantize_codes_set(d, &u);
    const uint64_t from = ((uint64_t)slice * layout->slice_rows + first) * cols * size;
    tern_gpu__bind(d, (tern_gpu_range){.value = j->op->in[TERN_REQUANTIZE_MASTER].value,
                                       .offset = from,
                                       .bytes = ((uint64_t)n * cols * size + 15) / 16 * 16});
    tern_gpu__bind_scratch(d, rule, RULE_BYTES, false);
    tern_gpu__bind_slice(d, j->op->out.value, layout, slice);
    d->bindings[d->n_bindings - 1].written = true;
    return TERN_OK;
}

/* Masters take more than codes: a slice goes in parts of whole rows that begin where a binding can. */
static tern_status add_all_codes(const tern_gpu_update *j, const tern_gpu_layout *layout, uint64_t rule)
{
    const uint64_t row = (uint64_t)j->shape.cols * tern_gpu__size_of(j->shape.w), held = j->p->caps->max_binding / row;
    uint32_t most = held > layout->slice_rows ? layout->slice_rows : (uint32_t)held;
    if (most < j->shape.rows) most -= most % ROWS_ALIGNMENT;
    if (most == 0)
        return tern_gpu__unsupported(j->p->graph, j->op, "128 rows of a master that no binding holds", j->err);
    for (uint32_t slice = 0; slice < layout->n_slices; slice++) {
        const uint32_t left = layout->rows - slice * layout->slice_rows,
                       rows = left < layout->slice_rows ? left : layout->slice_rows;
        for (uint32_t first = 0; first < rows; first += most)
            TERN_TRY(add_codes(j, layout, slice, first, rows - first < most ? rows - first : most, rule));
    }
    return TERN_OK;
}

static tern_status add_blend(const tern_gpu_update *j, uint64_t rule)
{
    for (tern_gpu_chunk c = tern_gpu__chunk_at(j, 0); c.n; c = tern_gpu__chunk_at(j, c.first + c.n)) {
        uint32_t x;
        tern_gpu_dispatch *d =
            tern_gpu__add_update(j, TERN_GPU_REQUANTIZE_BLEND, tern_gpu__ceil_div(c.n, TERN_GPU_UPDATE_WIDTH), &x);
        if (!d) return TERN_UNSUPPORTED;
        const tern_gpu_requantize_blend_uniform u = {.n = c.n,
                                                     .row = x * TERN_GPU_UPDATE_WIDTH,
                                                     .bf16 = j->shape.w == TERN_DTYPE_BF16,
                                                     .blend_word = tern_gpu__param_word(j->p, TERN_PARAM_TRAINING) +
                                                                   offsetof(tern_train_params, next_blend) / 4};
        tern_gpu_requantize_blend_set(d, &u);
        tern_gpu__bind_params(j->p, d, false);
        tern_gpu__bind_chunk(d, j->op->in[TERN_REQUANTIZE_MASTER].value, j->shape.w, c, false);
        tern_gpu__bind_scratch(d, rule, RULE_BYTES, false);
        tern_gpu__bind_chunk(d, j->op->out.value, TERN_DTYPE_F32, c, true);
    }
    return TERN_OK;
}

tern_status tern_gpu__lower_requantize(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    tern_gpu_update j;
    tern_gpu_layout layout;
    TERN_TRY(tern_gpu__update_of(&j, p, op, err));
    TERN_TRY(tern_gpu_layout_of(&layout, j.shape.out, p->caps, err));
    const uint64_t rule = tern_gpu__scratch(p, RULE_BYTES);
    TERN_TRY(add_magnitudes(&j, TERN_GPU_REQUANTIZE_EXPONENT, &layout));
    TERN_TRY(add_magnitudes(&j, TERN_GPU_REQUANTIZE_SUM, &layout));
    TERN_TRY(add_scale(&j, rule));
    return j.shape.ternary ? add_all_codes(&j, &layout, rule) : add_blend(&j, rule);
}
