/* Weights of linear layers to come are read beside a dispatch that leaves the memory idle. For timing:
 * TERN_GPU_PREFETCH="A,B": weights of A linear layers from `o` on beside the attention, of B from `down` on beside `o`.
 */
#include <stdlib.h>

#include "backend/gpu/linear.h"

enum { MAX_BUFFERS = 4, SECTORS_OF_GROUP = 128 * 8, SECTOR = 32 };

typedef struct fetch {
    tern_gpu_program *p;
    const tern_op *op;
    uint32_t n;
    uint32_t value[MAX_BUFFERS];
    tern_gpu_layout layout[MAX_BUFFERS];
} fetch;

static tern_status flush(fetch *f, tern_error *err)
{
    if (f->n == 0) return TERN_OK;
    uint32_t first[MAX_BUFFERS + 1] = {0}, sectors[MAX_BUFFERS] = {0};
    for (uint32_t i = 0; i < MAX_BUFFERS; i++) {
        if (i < f->n) sectors[i] = (uint32_t)(f->layout[i].rows * (uint64_t)f->layout[i].row_bytes / SECTOR);
        first[i + 1] = first[i] + (sectors[i] + SECTORS_OF_GROUP - 1) / SECTORS_OF_GROUP;
    }
    tern_gpu_dispatch *d = tern_gpu__add(f->p, f->op, TERN_GPU_PREFETCH, first[MAX_BUFFERS], 1, 1, err);
    if (!d) return TERN_UNSUPPORTED;
    const uint32_t uniform[] = {sectors[0], sectors[1], sectors[2], sectors[3], first[1], first[2], first[3]};
    for (size_t i = 0; i < sizeof uniform / sizeof *uniform; i++) d->uniform[i] = uniform[i];
    for (uint32_t i = 0; i < MAX_BUFFERS; i++) {
        uint32_t k = i < f->n ? i : 0;
        tern_gpu__bind_slice(d, f->value[k], &f->layout[k], 0);
    }
    tern_gpu__bind_nothing(d);
    f->n = 0;
    return TERN_OK;
}

static tern_status add_weights(fetch *f, const tern_op *linear, tern_error *err)
{
    for (uint32_t i = 1; i <= linear->n_parts; i++) {
        const tern_weight *w = f->p->graph->values[linear->in[i].value].weight;
        if (!w->encoding->ternary) continue;
        TERN_TRY(tern_gpu_layout_of(&f->layout[f->n], w, f->p->caps, err));
        if (f->layout[f->n].n_slices > 1) continue;
        f->value[f->n++] = linear->in[i].value;
        if (f->n == MAX_BUFFERS) TERN_TRY(flush(f, err));
    }
    return TERN_OK;
}

/* Weights of n linear ops from `from` on, beside what was added last. */
static tern_status fetch_ops(tern_gpu_program *p, const tern_op *op, const tern_op *from, uint32_t n, tern_error *err)
{
    fetch f = {.p = p, .op = op};
    const tern_op *end = p->graph->ops + p->graph->n_ops;
    for (; from < end && n > 0; from++) {
        if (from->kind != TERN_OP_LINEAR || from->rows != TERN_ROWS_TOKENS) continue;
        TERN_TRY(add_weights(&f, from, err));
        n--;
    }
    return flush(&f, err);
}

tern_status tern_gpu__prefetch(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    const char *words = getenv("TERN_GPU_PREFETCH");
    if (!words || p->graph->max_tokens > 1 || op < p->graph->ops || op >= p->graph->ops + p->graph->n_ops)
        return TERN_OK;
    char *end;
    uint32_t a = (uint32_t)strtoul(words, &end, 10), b = *end ? (uint32_t)strtoul(end + 1, NULL, 10) : 0;
    if (op > p->graph->ops && op[-1].kind == TERN_OP_ROPE_ATTENTION) return fetch_ops(p, op, op, a, err);
    if (op->gated) return fetch_ops(p, op, op + 1, b, err);
    return TERN_OK;
}
