/* Lowering the optimiser: norms of gradients and steps. */
#include "backend/gpu/training/update.h"
#include "ops/ref/update.h"

enum { MOST_X = 32768, QUAD = 4, BF16_TYPE = 2, BITS8_TYPE = 3 };

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

void tern_gpu__bind_scratch(tern_gpu_dispatch *d, uint64_t offset, uint64_t bytes, bool written)
{
    tern_gpu__bind(d,
                   (tern_gpu_range){.value = TERN_GPU_SCRATCH, .offset = offset, .bytes = bytes, .written = written});
}

tern_gpu_dispatch *tern_gpu__add_update(const tern_gpu_update *j, tern_gpu_pipeline pipeline, uint32_t n, uint32_t *x)
{
    *x = n < MOST_X ? n : MOST_X;
    return tern_gpu__add(j->p, j->op, pipeline, *x, tern_gpu__ceil_div(n, *x), 1, j->err);
}

/* One level of sums: of n numbers, to word out_first of what is bound next. */
static tern_gpu_dispatch *add_sums(const tern_gpu_update *j, bool squares, uint32_t n, uint32_t out_first)
{
    uint32_t x;
    tern_gpu_words u = {0};
    tern_gpu_dispatch *d = tern_gpu__add_update(j, squares ? TERN_GPU_SUM_SQUARES : TERN_GPU_SUM_SUMS,
                                                tern_gpu__ceil_div(n, TERN_NORM_CHUNK), &x);
    if (!d) return NULL;
    tern_gpu__put(&u, n);
    tern_gpu__put(&u, x);
    tern_gpu__put(&u, out_first);
    tern_gpu__set_uniform(d, &u);
    return d;
}

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* Sums of runs go to SCRATCH, each level behind the one before; the last one to the op's place. */
static tern_status lower_sum_squares(const tern_gpu_update *j)
{
    uint32_t n = (uint32_t)((j->shape.n + TERN_NORM_CHUNK - 1) / TERN_NORM_CHUNK);
    uint64_t bytes = aligned((uint64_t)n * 4), second = aligned((uint64_t)tern_gpu__ceil_div(n, TERN_NORM_CHUNK) * 4);
    const uint64_t base = tern_gpu__scratch(j->p, bytes + second + 256);
    const tern_view to = j->op->out;
    uint64_t from = base;
    for (tern_gpu_chunk c = tern_gpu__chunk_at(j, 0); c.n; c = tern_gpu__chunk_at(j, c.first + c.n)) {
        tern_gpu_dispatch *d = add_sums(j, true, c.n, n > 1 ? (uint32_t)(c.first / TERN_NORM_CHUNK) : to.first_col);
        if (!d) return TERN_UNSUPPORTED;
        tern_gpu__bind_chunk(d, j->op->in[0].value, TERN_DTYPE_F32, c, false);
        if (n > 1) tern_gpu__bind_scratch(d, from, bytes, true);
        else tern_gpu__bind_value(j->p, d, to.value, true);
    }
    while (n > 1) {
        const uint32_t n_runs = tern_gpu__ceil_div(n, TERN_NORM_CHUNK);
        tern_gpu_dispatch *d = add_sums(j, false, n, n_runs > 1 ? 0 : to.first_col);
        if (!d) return TERN_UNSUPPORTED;
        tern_gpu__bind_scratch(d, from, aligned((uint64_t)n * 4), false);
        from += aligned((uint64_t)n * 4);
        if (n_runs > 1) tern_gpu__bind_scratch(d, from, aligned((uint64_t)n_runs * 4), true);
        else tern_gpu__bind_value(j->p, d, to.value, true);
        n = n_runs;
    }
    return TERN_OK;
}

static uint32_t type_of(bool there, tern_dtype dtype)
{
    if (!there) return 0;
    return dtype == TERN_DTYPE_F32 ? 1 : dtype == TERN_DTYPE_BF16 ? BF16_TYPE : BITS8_TYPE;
}

/* Where the scales of a chunk begin, in words of what is bound: all from the chunk's first element to the value's end.
 */
static uint32_t scales_word(const tern_gpu_update *j, tern_gpu_chunk c)
{
    const uint64_t padded = (j->shape.n + TERN_STATE_BLOCK - 1) / TERN_STATE_BLOCK * TERN_STATE_BLOCK;
    return (uint32_t)((padded + c.first / TERN_STATE_BLOCK * 4 - c.first) / 4);
}

/* A value in one of the two bindings that its type asks for. */
static tern_status bind_state(const tern_gpu_update *j, tern_gpu_dispatch *d, uint32_t type, uint32_t in,
                              tern_gpu_chunk c)
{
    static const tern_dtype dtypes[] = {TERN_DTYPE_F32, TERN_DTYPE_F32, TERN_DTYPE_BF16, TERN_DTYPE_M8};
    const uint32_t value = j->op->in[in].value;
    if (type != 1) tern_gpu__bind_nothing(d);
    if (type == BITS8_TYPE) {
        const uint64_t bytes = (j->p->graph->values[value].bytes - c.first + 15) / 16 * 16;
        if (bytes > j->p->caps->max_binding)
            return tern_gpu__unsupported(j->p->graph, j->op,
                                         "a state in 8 bits that no binding holds: f32 or bf16 expected", j->err);
        tern_gpu__bind(d, (tern_gpu_range){.value = value, .offset = c.first, .bytes = bytes, .written = true});
    } else if (type) {
        tern_gpu__bind_chunk(d, value, dtypes[type], c, true);
    }
    if (type <= 1) tern_gpu__bind_nothing(d);
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
    tern_gpu_words u = {0};
    const uint32_t words[] = {c.n,
                              (uint32_t)c.first,
                              x * TERN_GPU_UPDATE_WIDTH,
                              tern_gpu__param_word(j->p, TERN_PARAM_TRAINING),
                              j->op->stream * 0x9e3779b9u,
                              j->op->decays,
                              w,
                              m,
                              v,
                              scales_word(j, c),
                              scales_word(j, c)};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) tern_gpu__put(&u, words[i]);
    tern_gpu__set_uniform(d, &u);
    tern_gpu__bind_params(j->p, d, false);
    tern_gpu__bind_chunk(d, j->op->in[1].value, TERN_DTYPE_F32, c, true);
    TERN_TRY(bind_state(j, d, w, 0, c));
    TERN_TRY(bind_state(j, d, m, 2, c));
    return bind_state(j, d, v, 3, c);
}

static tern_status lower_update(const tern_gpu_update *j)
{
    const tern_value *w = &j->p->graph->values[j->op->in[0].value];
    tern_gpu_layout layout; /* refuses what does not lie in one piece */
    if (w->kind == TERN_VALUE_WEIGHT) TERN_TRY(tern_gpu_layout_of(&layout, w->weight, j->p->caps, j->err));
    for (tern_gpu_chunk c = tern_gpu__chunk_at(j, 0); c.n; c = tern_gpu__chunk_at(j, c.first + c.n))
        TERN_TRY(update_chunk(j, c));
    return TERN_OK;
}

tern_status tern_gpu__lower_update(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    tern_gpu_update j = {.p = p, .op = op, .err = err};
    TERN_TRY(tern_update_shape_of(&j.shape, p->graph, op, err));
    switch (op->kind) {
    case TERN_OP_SUM_SQUARES: return lower_sum_squares(&j);
    case TERN_OP_UPDATE: return lower_update(&j);
    default: return tern_gpu__lower_requantize(&j);
    }
}
