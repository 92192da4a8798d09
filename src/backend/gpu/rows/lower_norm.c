/* Lowering norms: of whole rows, and of groups of columns or in place. */
#include "backend/gpu/rows/rows_internal.h"

enum { FEW_COLUMNS = 512 }; /* of a group, for which a sixteenth of a workgroup is enough */

bool tern_gpu__in_fours(const tern_gpu_program *p, tern_view view)
{
    return view.cols % 4 == 0 && view.first_col % 4 == 0 && tern_gpu__stride(p, view) % 4 == 0;
}

tern_gpu_dispatch *tern_gpu__add_rowwise(tern_gpu_program *p, const tern_op *op, const tern_gpu_pipeline candidates[5],
                                         bool fours, tern_error *err)
{
    tern_gpu_pipeline pipeline = fours ? tern_gpu_first_fit(candidates, 5, p->caps) : candidates[4];
    return tern_gpu__add(p, op, pipeline, tern_gpu__max_rows(p, op->rows), 1, 1, err);
}

void tern_gpu__bind_vectors(const tern_gpu_program *p, tern_gpu_dispatch *d, tern_view view)
{
    const tern_value *v = tern_gpu__value(p, view);
    uint64_t offset = (uint64_t)view.first_row * v->cols * 4;
    tern_gpu__bind(
        d, (tern_gpu_range){.value = view.value, .offset = offset, .bytes = (v->bytes + 15) / 16 * 16 - offset});
}

/* The addend of a norm: where rows of the residual start and how far they lie apart, where it lies apart. */
typedef struct addend {
    tern_gpu_epilogue epilogue;
    uint32_t first, stride;
} addend;

static addend addend_of(const tern_gpu_program *p, const tern_op *op)
{
    addend a = {.epilogue = tern_gpu__residual_epilogue(p, op)};
    if (a.epilogue != TERN_GPU_ADD_RESIDUAL) return a;
    a.first = op->residual.first_col;
    a.stride = tern_gpu__stride(p, op->residual);
    return a;
}

static void bind_residual(const tern_gpu_program *p, tern_gpu_dispatch *d, const tern_op *op, const addend *a)
{
    if (a->epilogue == TERN_GPU_ADD_RESIDUAL) tern_gpu__bind_view(p, d, op->residual, false);
    else tern_gpu__bind_nothing(d);
}

static tern_status lower_rows(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    static const tern_gpu_pipeline plain[] = {TERN_GPU_RMS_NORM_S16_256, TERN_GPU_RMS_NORM_S4_256,
                                              TERN_GPU_RMS_NORM_256, TERN_GPU_RMS_NORM_128, TERN_GPU_RMS_NORM_ANY_128},
                                   adding[] = {TERN_GPU_RMS_NORM_ADD_S16_256, TERN_GPU_RMS_NORM_ADD_S4_256,
                                               TERN_GPU_RMS_NORM_ADD_256, TERN_GPU_RMS_NORM_ADD_128,
                                               TERN_GPU_RMS_NORM_ADD_ANY_128};
    const tern_view x = op->in[TERN_NORM_X];
    const addend a = addend_of(p, op);
    const bool fours = tern_gpu__in_fours(p, x) && tern_gpu__in_fours(p, op->out);
    const uint32_t unit = fours ? 4 : 1;
    tern_gpu_dispatch *d = tern_gpu__add_rowwise(p, op, a.epilogue == TERN_GPU_STORE ? plain : adding, fours, err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_rms_norm_uniform u = {.cols = x.cols,
                                         .count_word = tern_gpu__count_word(p, op->rows),
                                         .x_first = x.first_col / unit,
                                         .x_stride = tern_gpu__stride(p, x) / unit,
                                         .y_first = op->out.first_col / unit,
                                         .y_stride = tern_gpu__stride(p, op->out) / unit,
                                         .eps = op->eps,
                                         .residual_first = a.first,
                                         .residual_stride = a.stride,
                                         .adds_result = a.epilogue == TERN_GPU_ADD_RESULT};
    tern_gpu_rms_norm_set(d, &u);
    tern_gpu__bind_params(p, d, false);
    tern_gpu__bind_vectors(p, d, x);
    tern_gpu__bind_vectors(p, d, op->in[TERN_NORM_WEIGHT]);
    tern_gpu__bind_view(p, d, op->out, true);
    bind_residual(p, d, op, &a);
    return TERN_OK;
}

static tern_status lower_groups(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    const tern_view x = op->in[TERN_NORM_X], weight = op->in[TERN_NORM_WEIGHT];
    const bool in_place = x.value == op->out.value;
    const addend a = addend_of(p, op);
    const tern_gpu_pipeline pipeline =
        weight.cols <= FEW_COLUMNS ? TERN_GPU_RMS_NORM_GROUPS_16 : TERN_GPU_RMS_NORM_GROUPS_128;
    const tern_gpu_rms_norm_groups_overrides *kernel = tern_gpu_rms_norm_groups_overrides_of(pipeline);
    const uint32_t n_groups = x.cols / weight.cols;
    tern_gpu_dispatch *d =
        tern_gpu__add(p, op, pipeline, tern_gpu__ceil_div(n_groups, kernel->workgroup / kernel->lanes),
                      tern_gpu__max_rows(p, op->rows), 1, err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_rms_norm_groups_uniform u = {
        .cols = weight.cols,
        .n_groups = n_groups,
        .count_word = tern_gpu__count_word(p, op->rows),
        .x_first = x.first_col,
        .x_stride = tern_gpu__stride(p, x),
        .residual_first = a.first,
        .residual_stride = a.stride,
        .y_first = op->out.first_col,
        .y_stride = tern_gpu__stride(p, op->out),
        .eps = op->eps,
        .flags = (in_place ? TERN_GPU_RMS_NORM_GROUPS_CONST_IN_PLACE : 0u) |
                 (a.epilogue == TERN_GPU_ADD_RESIDUAL ? TERN_GPU_RMS_NORM_GROUPS_CONST_RESIDUAL : 0u) |
                 (a.epilogue == TERN_GPU_ADD_RESULT ? TERN_GPU_RMS_NORM_GROUPS_CONST_RESULT : 0u)};
    tern_gpu_rms_norm_groups_set(d, &u);
    tern_gpu__bind_params(p, d, false);
    if (in_place) tern_gpu__bind_nothing(d);
    else tern_gpu__bind_view(p, d, x, false);
    tern_gpu__bind_value(p, d, weight.value, false);
    bind_residual(p, d, op, &a);
    tern_gpu__bind_view(p, d, op->out, true);
    return TERN_OK;
}

tern_status tern_gpu__lower_rms_norm(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    const tern_view x = op->in[TERN_NORM_X];
    const bool whole = op->in[TERN_NORM_WEIGHT].cols == x.cols, in_place = x.value == op->out.value;
    return whole && !in_place ? lower_rows(p, op, err) : lower_groups(p, op, err);
}
