/* Lowering the gradients of a norm: of its input by rows, of its norm_weight by columns, in parts that are added in
 * order. */
#include "backend/gpu/uniform.h"

enum { DX = 1, RESIDUAL = 2, KEEP = 4 }; /* of rms_norm_backward.wgsl */

/* Where in SCRATCH, in words. */
typedef struct places {
    uint32_t r, parts, n_parts;
    uint64_t bytes;
} places;

static places find_places(tern_gpu_program *p, const tern_op *op)
{
    uint32_t rows = tern_gpu__max_rows(p, op->rows);
    places at = {.n_parts =
                     tern_gpu__ceil_div(rows, tern_gpu_override(TERN_GPU_RMS_NORM_WEIGHT_GRADIENT_128, "ROWS", 0))};
    uint64_t bytes = ((uint64_t)rows + (uint64_t)at.n_parts * op->in[0].cols) * 4, first = tern_gpu__scratch(p, bytes);
    at.r = (uint32_t)(first / 4);
    at.parts = at.r + rows;
    at.bytes = first + bytes;
    return at;
}

static void bind_scratch(tern_gpu_dispatch *d, const places *at, bool written)
{
    tern_gpu__bind(d, (tern_gpu_range){.value = TERN_GPU_SCRATCH, .bytes = at->bytes, .written = written});
}

static void put_wanted(tern_gpu_words *u, const tern_gpu_program *p, tern_view view)
{
    if (view.value == TERN_NO_VALUE) {
        tern_gpu__put(u, 0);
        tern_gpu__put(u, 0);
    } else {
        tern_gpu__put_view(u, p, view, 1);
    }
}

static void bind_wanted(const tern_gpu_program *p, tern_gpu_dispatch *d, tern_view view, bool written)
{
    if (view.value == TERN_NO_VALUE) tern_gpu__bind_nothing(d);
    else tern_gpu__bind_view(p, d, view, written);
}

static tern_status lower_rows(tern_gpu_program *p, const tern_op *op, const places *at, tern_error *err)
{
    static const tern_gpu_pipeline candidates[] = {TERN_GPU_RMS_NORM_BACKWARD_S4_256, TERN_GPU_RMS_NORM_BACKWARD_128};
    tern_gpu_dispatch *d =
        tern_gpu__add(p, op, tern_gpu_first_fit(candidates, 2, p->caps), tern_gpu__max_rows(p, op->rows), 1, 1, err);
    if (!d) return TERN_UNSUPPORTED;
    tern_gpu_words u = {0};
    tern_gpu__put(&u, op->in[0].cols);
    tern_gpu__put(&u, tern_gpu__count_word(p, op->rows));
    tern_gpu__put_view(&u, p, op->in[0], 1);
    tern_gpu__put_view(&u, p, op->in[2], 1);
    put_wanted(&u, p, op->residual);
    put_wanted(&u, p, op->out);
    tern_gpu__put_float(&u, op->eps);
    tern_gpu__put(&u, (op->out.value != TERN_NO_VALUE ? DX : 0u) |
                          (op->residual.value != TERN_NO_VALUE ? RESIDUAL : 0u) | (op->n_in > 3 ? KEEP : 0u));
    tern_gpu__put(&u, at->r);
    tern_gpu__set_uniform(d, &u);
    tern_gpu__bind_params(p, d, false);
    tern_gpu__bind_view(p, d, op->in[0], false);
    tern_gpu__bind_value(p, d, op->in[1].value, false);
    tern_gpu__bind_view(p, d, op->in[2], false);
    bind_wanted(p, d, op->residual, false);
    bind_wanted(p, d, op->out, true);
    if (op->n_in > 3) bind_scratch(d, at, true);
    else tern_gpu__bind_nothing(d);
    return TERN_OK;
}

static tern_status lower_parts(tern_gpu_program *p, const tern_op *op, const places *at, tern_error *err)
{
    static const tern_gpu_pipeline candidates[] = {TERN_GPU_RMS_NORM_WEIGHT_GRADIENT_256,
                                                   TERN_GPU_RMS_NORM_WEIGHT_GRADIENT_128};
    tern_gpu_pipeline pipeline = tern_gpu_first_fit(candidates, 2, p->caps);
    uint32_t groups = tern_gpu__ceil_div(op->in[0].cols, tern_gpu_override(pipeline, "COLUMNS", 0));
    tern_gpu_dispatch *d = tern_gpu__add(p, op, pipeline, groups, at->n_parts, 1, err);
    if (!d) return TERN_UNSUPPORTED;
    tern_gpu_words u = {0};
    tern_gpu__put(&u, op->in[0].cols);
    tern_gpu__put(&u, tern_gpu__count_word(p, op->rows));
    tern_gpu__put_view(&u, p, op->in[0], 1);
    tern_gpu__put_view(&u, p, op->in[2], 1);
    tern_gpu__put(&u, at->r);
    tern_gpu__put(&u, at->parts);
    tern_gpu__set_uniform(d, &u);
    tern_gpu__bind_params(p, d, false);
    tern_gpu__bind_view(p, d, op->in[0], false);
    tern_gpu__bind_view(p, d, op->in[2], false);
    bind_scratch(d, at, true);
    return TERN_OK;
}

static tern_status lower_sum(tern_gpu_program *p, const tern_op *op, const places *at, tern_error *err)
{
    uint32_t cols = op->in[0].cols, width = tern_gpu_pipelines[TERN_GPU_ADD_PARTS].invocations;
    tern_gpu_dispatch *d = tern_gpu__add(p, op, TERN_GPU_ADD_PARTS, tern_gpu__ceil_div(cols, width), 1, 1, err);
    if (!d) return TERN_UNSUPPORTED;
    tern_gpu_words u = {.word = {cols, at->n_parts, at->parts}, .n = 3};
    tern_gpu__set_uniform(d, &u);
    bind_scratch(d, at, false);
    tern_gpu__bind_view(p, d, op->in[3], true);
    return TERN_OK;
}

tern_status tern_gpu__lower_norm_backward(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    if (op->n_in == 3) return lower_rows(p, op, &(places){0}, err);
    places at = find_places(p, op);
    TERN_TRY(lower_rows(p, op, &at, err));
    TERN_TRY(lower_parts(p, op, &at, err));
    return lower_sum(p, op, &at, err);
}
