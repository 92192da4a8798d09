/* Lowering the optimiser: norms of gradients and steps. */
#include "backend/gpu/training/training_internal.h"
#include "ops/ref/update.h"

enum { MOST_X = 32768, QUAD = 4 };

tern_gpu_chunk tern_gpu__chunk_at(const tern_gpu_update *j, uint64_t first)
{
    const uint64_t most = j->p->caps->max_binding / 4 / TERN_NORM_CHUNK * TERN_NORM_CHUNK, left = j->shape.n - first;
    return (tern_gpu_chunk){.first = first, .n = (uint32_t)(left < most ? left : most)};
}

uint32_t tern_gpu__size_of(tern_dtype dtype)
{
    return dtype == TERN_DTYPE_F32 ? 4 : dtype == TERN_DTYPE_BF16 ? 2 : 1;
}

void tern_gpu__bind_chunk(tern_gpu_dispatch *d, uint32_t value, tern_dtype dtype, tern_gpu_chunk c, bool written)
{
    const uint32_t size = tern_gpu__size_of(dtype);
    tern_gpu__bind(d, (tern_gpu_range){.value = value,
                                       .offset = c.first * size,
                                       .bytes = ((uint64_t)c.n * size + 15) / 16 * 16,
                                       .written = written});
}

tern_gpu_dispatch *tern_gpu__add_update(const tern_gpu_update *j, tern_gpu_pipeline pipeline, uint32_t n, uint32_t *x)
{
    *x = n < MOST_X ? n : MOST_X;
    return tern_gpu__add(j->p, j->op, pipeline, *x, tern_gpu__ceil_div(n, *x), 1, j->err);
}

tern_status tern_gpu__update_of(tern_gpu_update *j, tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    *j = (tern_gpu_update){.p = p, .op = op, .err = err};
    return tern_update_shape_of(&j->shape, p->graph, op, err);
}

/* One level of sums: of n numbers, to word out_first of what is bound next. */
static tern_gpu_dispatch *add_sums(const tern_gpu_update *j, bool squares, uint32_t n, uint32_t out_first)
{
    uint32_t x;
    tern_gpu_dispatch *d = tern_gpu__add_update(j, squares ? TERN_GPU_SUM_SQUARES : TERN_GPU_SUM_SUMS,
                                                tern_gpu__ceil_div(n, TERN_NORM_CHUNK), &x);
    if (!d) return NULL;
    const tern_gpu_sum_squares_uniform u = {
        .n = n, .row = x, .out_first = out_first, .clears = squares && j->op->clears};
    tern_gpu_sum_squares_set(d, &u);
    return d;
}

/* Sums of runs go to SCRATCH, each level behind the one before; the last one to the op's place. */
tern_status tern_gpu__lower_sum_squares(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    tern_gpu_update j;
    TERN_TRY(tern_gpu__update_of(&j, p, op, err));
    uint32_t n = (uint32_t)((j.shape.n + TERN_NORM_CHUNK - 1) / TERN_NORM_CHUNK);
    const uint64_t bytes = tern_gpu__aligned((uint64_t)n * 4),
                   second = tern_gpu__aligned((uint64_t)tern_gpu__ceil_div(n, TERN_NORM_CHUNK) * 4);
    const tern_view to = op->out;
    uint64_t from = tern_gpu__scratch(p, bytes + second + 256);
    for (tern_gpu_chunk c = tern_gpu__chunk_at(&j, 0); c.n; c = tern_gpu__chunk_at(&j, c.first + c.n)) {
        tern_gpu_dispatch *d = add_sums(&j, true, c.n, n > 1 ? (uint32_t)(c.first / TERN_NORM_CHUNK) : to.first_col);
        if (!d) return TERN_UNSUPPORTED;
        tern_gpu__bind_chunk(d, op->in[TERN_SUM_SQUARES_GRADIENT].value, TERN_DTYPE_F32, c, op->clears);
        if (n > 1) tern_gpu__bind_scratch(d, from, bytes, true);
        else tern_gpu__bind_value(p, d, to.value, true);
    }
    while (n > 1) {
        const uint32_t n_runs = tern_gpu__ceil_div(n, TERN_NORM_CHUNK);
        tern_gpu_dispatch *d = add_sums(&j, false, n, n_runs > 1 ? 0 : to.first_col);
        if (!d) return TERN_UNSUPPORTED;
        tern_gpu__bind_scratch(d, from, tern_gpu__aligned((uint64_t)n * 4), false);
        from += tern_gpu__aligned((uint64_t)n * 4);
        if (n_runs > 1) tern_gpu__bind_scratch(d, from, tern_gpu__aligned((uint64_t)n_runs * 4), true);
        else tern_gpu__bind_value(p, d, to.value, true);
        n = n_runs;
    }
    return TERN_OK;
}

/* The types of the kernel; 0: not there. */
static uint32_t type_of(bool there, tern_dtype dtype)
{
    if (!there) return 0;
    return dtype == TERN_DTYPE_F32    ? TERN_GPU_UPDATE_CONST_F32
           : dtype == TERN_DTYPE_BF16 ? TERN_GPU_UPDATE_CONST_BF16
                                      : TERN_GPU_UPDATE_CONST_BITS8;
}

/* Where the scales of a chunk begin, in words of what is bound: all from the chunk's first element to the value's end.
 */
static uint32_t scales_word(const tern_gpu_update *j, tern_gpu_chunk c)
{
    const uint64_t padded = (j->shape.n + TERN_STATE_BLOCK - 1) / TERN_STATE_BLOCK * TERN_STATE_BLOCK;
    return (uint32_t)((padded + c.first / TERN_STATE_BLOCK * 4 - c.first) / 4);
}

/* Input `in` of the op in one of the two bindings that its type asks for. */
static tern_status bind_state(const tern_gpu_update *j, tern_gpu_dispatch *d, uint32_t type, uint32_t in,
                              tern_gpu_chunk c)
{
    static const tern_dtype dtypes[] = {
        [TERN_GPU_UPDATE_CONST_F32] = TERN_DTYPE_F32, [TERN_GPU_UPDATE_CONST_BF16] = TERN_DTYPE_BF16};
    const uint32_t value = j->op->in[in].value;
    if (type != TERN_GPU_UPDATE_CONST_F32) tern_gpu__bind_nothing(d);
    if (type == TERN_GPU_UPDATE_CONST_BITS8) {
        const uint64_t bytes = (j->p->graph->values[value].bytes - c.first + 15) / 16 * 16;
        if (bytes > j->p->caps->max_binding)
            return tern_gpu__unsupported(j->p->graph, j->op,
                                         "a state in 8 bits that no binding holds: f32 or bf16 expected", j->err);
        tern_gpu__bind(d, (tern_gpu_range){.value = value, .offset = c.first, .bytes = bytes, .written = true});
    } else if (type) {
        tern_gpu__bind_chunk(d, value, dtypes[type], c, true);
    }
    if (type <= TERN_GPU_UPDATE_CONST_F32) tern_gpu__bind_nothing(d);
    return TERN_OK;
}

static tern_status update_chunk(const tern_gpu_update *j, tern_gpu_chunk c)
{
    const tern_update_shape *s = &j->shape;
    const uint32_t w = type_of(true, s->w), m = type_of(s->has_m, s->m), v = type_of(s->has_v, s->v);
    const tern_gpu_pipeline pipeline =
        j->op->optimizer == TERN_OPTIMIZER_ADAMW ? TERN_GPU_UPDATE_ADAMW : TERN_GPU_UPDATE_SGD;
    uint32_t x;
    tern_gpu_dispatch *d = tern_gpu__add_update(j, pipeline, tern_gpu__ceil_div(c.n, TERN_GPU_UPDATE_WIDTH * QUAD), &x);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_update_uniform u = {.n = c.n,
                                       .first = (uint32_t)c.first,
                                       .row = x * TERN_GPU_UPDATE_WIDTH,
                                       .training_word = tern_gpu__param_word(j->p, TERN_PARAM_TRAINING),
                                       .seed = tern_gpu__stream_seed(j->op),
                                       .decays = j->op->decays,
                                       .w_type = w,
                                       .m_type = m,
                                       .v_type = v,
                                       .m_scales = scales_word(j, c),
                                       .v_scales = scales_word(j, c)};
    tern_gpu_update_set(d, &u);
    tern_gpu__bind_params(j->p, d, false);
    tern_gpu__bind_chunk(d, j->op->in[TERN_UPDATE_GRADIENT].value, TERN_DTYPE_F32, c, true);
    TERN_TRY(bind_state(j, d, w, TERN_UPDATE_WEIGHT, c));
    TERN_TRY(bind_state(j, d, m, TERN_UPDATE_M, c));
    return bind_state(j, d, v, TERN_UPDATE_V, c);
}

tern_status tern_gpu__lower_update(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    tern_gpu_update j;
    TERN_TRY(tern_gpu__update_of(&j, p, op, err));
    const tern_value *w = tern_gpu__value(p, op->in[TERN_UPDATE_WEIGHT]);
    tern_gpu_layout layout; /* refuses what does not lie in one piece */
    if (w->kind == TERN_VALUE_WEIGHT) TERN_TRY(tern_gpu_layout_of(&layout, w->weight, p->caps, err));
    for (tern_gpu_chunk c = tern_gpu__chunk_at(&j, 0); c.n; c = tern_gpu__chunk_at(&j, c.first + c.n))
        TERN_TRY(update_chunk(&j, c));
    return TERN_OK;
}
