/* Lowering linear layers of dense weights: each part, and each slice of it, is one dispatch. */
#include "backend/gpu/linear/linear_internal.h"
#include "quant/encoding.h"
#include "quant/weight.h"

enum { FEW_TOKENS = 8 };

/* The epilogues of the kernels, tern_gpu_epilogue and three more; the last ones in the order of tern_activation. */
enum epilogue { STORE, ADD_RESIDUAL, ADD_RESULT, TIMES_RELU2, TIMES_SILU, TIMES_GELU };

static enum epilogue epilogue_of(const tern_op *op, uint32_t part, const tern_gpu_addend *addend)
{
    if (op->gated && part == 1) return (enum epilogue)(TIMES_RELU2 + (int)op->activation);
    return (enum epilogue)addend->epilogue;
}

/* Rows `first` of the part and on. */
static tern_gpu_addend addend_from(const tern_gpu_program *p, const tern_op *op, uint32_t part, uint32_t first)
{
    tern_gpu_addend addend = tern_gpu__addend_of(p, op, part);
    addend.first += first;
    return addend;
}

/* The dispatch of `rows` rows for few tokens, by linear_float_vec or linear_quant_vec. Groups of rows go over x and,
 * where a device allows too few there, z. */
static tern_gpu_dispatch *add_dispatch(tern_gpu_program *p, const tern_op *op, tern_gpu_pipeline pipeline,
                                       uint32_t rows, tern_error *err)
{
    uint32_t max_rows = tern_gpu__max_rows(p, op->rows);
    const tern_gpu_linear_float_vec_overrides *kernel = tern_gpu_linear_float_vec_overrides_of(pipeline);
    uint32_t groups = tern_gpu__ceil_div(rows, kernel->workgroup / kernel->lanes * kernel->rows);
    uint32_t z = tern_gpu__ceil_div(groups, p->caps->max_groups);
    return tern_gpu__add(p, op, pipeline, tern_gpu__ceil_div(groups, z), tern_gpu__ceil_div(max_rows, kernel->tokens),
                         z, err);
}

/* A slice for many tokens. */
static tern_status add_tiles(tern_gpu_program *p, const tern_op *op, uint32_t part, const tern_gpu_rows *in,
                             const tern_gpu_layout *layout, uint32_t slice, uint32_t first_col, tern_error *err)
{
    uint32_t first = slice * layout->slice_rows, rows = layout->rows - first;
    if (rows > layout->slice_rows) rows = layout->slice_rows;
    tern_gpu_slice_product s = {.op = op,
                                .weight = op->in[TERN_LINEAR_W + part].value,
                                .layout = layout,
                                .slice = slice,
                                .x = *in,
                                .col = first_col + first,
                                .addend = addend_from(p, op, part, first),
                                .product = {tern_gpu__max_rows(p, op->rows), rows, in->cols}};
    s.epilogue = epilogue_of(op, part, &s.addend);
    const tern_gpu_product usual = {tern_gpu__kernel_rows(p, op->rows), rows, in->cols};
    s.tiling = tern_gpu_select_linear(p->caps, layout->format, &usual);
    return tern_gpu__add_product(p, &s, err);
}

/* `again`: as in tern_gpu__float_rows. */
static tern_status add_slice(tern_gpu_program *p, const tern_op *op, uint32_t part, bool again, const tern_gpu_rows *in,
                             const tern_gpu_layout *layout, uint32_t slice, uint32_t first_col, tern_error *err)
{
    uint32_t first = slice * layout->slice_rows, rows = layout->rows - first;
    if (rows > layout->slice_rows) rows = layout->slice_rows;
    const tern_gpu_dense_shape shape = {
        .format = layout->format, .rows = rows, .cols = in->cols, .tokens = tern_gpu__kernel_rows(p, op->rows)};
    const tern_gpu_key key = {rows, in->cols, tern_gpu_token_class(shape.tokens)};
    tern_gpu_pipeline pipeline = tern_gpu_chosen(p->caps, &key, tern_gpu_select_dense(p->caps, &shape), NULL, NULL);
    tern_gpu_dispatch *d = add_dispatch(p, op, pipeline, rows, err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_addend addend = addend_from(p, op, part, first);
    const enum epilogue epilogue = epilogue_of(op, part, &addend);
    const bool residual = epilogue == ADD_RESIDUAL;
    const tern_gpu_linear_float_vec_uniform u = {.rows = rows,
                                                 .cols = in->cols,
                                                 .row_vectors = layout->row_bytes / 16,
                                                 .count_word = tern_gpu__group_count_word(p, op),
                                                 .x_first = in->first,
                                                 .x_stride = in->stride,
                                                 .result_first = op->out.first_col + first_col + first,
                                                 .result_stride = tern_gpu__stride(p, op->out),
                                                 .residual_first = residual ? addend.first : 0,
                                                 .residual_stride = residual ? addend.stride : 0,
                                                 .epilogue = epilogue,
                                                 .first_word = tern_gpu__group_first_word(p, op)};
    tern_gpu_linear_float_vec_set(d, &u);
    tern_gpu__bind_params(p, d, false);
    tern_gpu__bind(d, in->range);
    tern_gpu__bind_slice(d, op->in[TERN_LINEAR_W + part].value, layout, slice);
    if (residual) tern_gpu__bind_view(p, d, addend.view, false);
    else tern_gpu__bind_nothing(d);
    tern_gpu__bind_view(p, d, op->out, true);
    d->weight_bytes = (uint64_t)rows * layout->row_bytes;
    d->beside = !op->gated && (slice > 0 || (part > 0 && (again || in->scratch_bytes == 0)));
    d->weight_rows = rows;
    d->weight_cols = in->cols;
    d->weight_tokens = key.tokens;
    return TERN_OK;
}

static tern_status lower_part(tern_gpu_program *p, const tern_op *op, uint32_t part, bool again, uint32_t first_col,
                              tern_error *err)
{
    tern_gpu_layout layout;
    TERN_TRY(tern_gpu_layout_of(&layout, tern_gpu__weight_of_part(p, op, part), p->caps, err));
    tern_gpu_rows in;
    TERN_TRY(tern_gpu__float_rows(p, op, TERN_LINEAR_X, 0, again, &in, err));
    for (uint32_t slice = 0; slice < layout.n_slices; slice++)
        TERN_TRY(tern_gpu__kernel_rows(p, op->rows) > FEW_TOKENS
                     ? add_tiles(p, op, part, &in, &layout, slice, first_col, err)
                     : add_slice(p, op, part, again, &in, &layout, slice, first_col, err));
    return TERN_OK;
}

tern_status tern_gpu__lower_linear_dense(tern_gpu_program *p, const tern_op *op, uint32_t part, tern_error *err)
{
    if (op->gated) {
        TERN_TRY(lower_part(p, op, 0, false, 0, err));
        return lower_part(p, op, 1, true, 0, err);
    }
    const bool again = part > 0 && !tern_gpu__weight_of_part(p, op, part - 1)->encoding->ternary;
    return lower_part(p, op, part, again, tern_gpu__column_of_part(p, op, part), err);
}
