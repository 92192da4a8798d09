/* Rows of `up` whose gate is open. They are copied together, a few at a time, for the kernels of ordinary rows: the
 * copy asks the memory for the next ones while these are multiplied. */
#include <string.h>

#include "backend/cpu/linear/sparse.h"
#include "ops/op.h"

enum {
    TOGETHER = 8, /* rows that are multiplied at once */
    AHEAD = 12,   /* rows from what is copied to what is prefetched */
    LINE = 64,
    SLACK = 8 << 10 /* behind the rows, where kernels prefetch */
};

static size_t row_room(size_t row_bytes)
{
    return (row_bytes + LINE - 1) / LINE * LINE;
}

size_t tern_sparse__rows_bytes(const tern_graph *graph, const tern_op *op)
{
    if (!op->sparse || !op->gated) return 0;
    const tern_weight *w = tern_linear__part_weight(graph, op, 1);
    const size_t n_blocks = (w->cols + w->encoding->block_elements - 1) / w->encoding->block_elements;
    const size_t row = n_blocks * w->encoding->block_bytes; /* at most: weights are packed anew to whole blocks */
    return TOGETHER * row_room(row) + SLACK + TERN_KERNEL_MAX_TASK_ROWS * sizeof(uint32_t) +
           TOGETHER * TERN_LINEAR__FEW_TOKENS * sizeof(float) + 2 * LINE;
}

/* The memory of a thread, of which the kernels know nothing. */
typedef struct room {
    uint32_t *open; /* [TERN_KERNEL_MAX_TASK_ROWS] */
    float *dots;    /* [TOGETHER * TERN_LINEAR__FEW_TOKENS] */
    uint8_t *rows;
} room;

static room room_of(const tern_linear__job *j, uint32_t thread)
{
    uint8_t *end = (uint8_t *)tern_linear__slots(j, thread),
            *at = end - tern_sparse__rows_bytes(j->step->prepared->graph, j->op->op);
    at += (LINE - (uintptr_t)at % LINE) % LINE;
    room r = {.open = (uint32_t *)(void *)at};
    r.dots = (float *)(void *)(r.open + TERN_KERNEL_MAX_TASK_ROWS);
    r.rows = (uint8_t *)(r.dots + TOGETHER * TERN_LINEAR__FEW_TOKENS);
    return r;
}

static bool is_open(const float *gate, uint32_t n_rows, uint32_t n, uint32_t r)
{
    for (uint32_t t = 0; t < n; t++)
        if (gate[(size_t)t * n_rows + r] > 0) return true;
    return false;
}

static uint32_t list_open(const float *gate, uint32_t n_rows, uint32_t n, uint32_t *open)
{
    uint32_t n_open = 0;
    for (uint32_t r = 0; r < n_rows; r++) {
        open[n_open] = r;
        n_open += is_open(gate, n_rows, n, r);
    }
    return n_open;
}

static void prefetch_row(const uint8_t *row, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += LINE) __builtin_prefetch(row + at, 0, 2);
}

/* The rows `open` of part 1, packed into what looks like a small weight. */
static void multiply_open(const tern_linear__job *job, uint32_t first, const room *r, uint32_t n_open, uint32_t n_rows,
                          uint32_t thread, float *up)
{
    const tern_buffer *w = job->op->weight[TERN_LINEAR_W + 1];
    const uint8_t *rows = w->data + first * w->row_bytes;
    tern_buffer some = *w;
    tern_cpu_op op = *job->op;
    tern_linear__job j = *job;
    some.data = r->rows;
    op.weight[TERN_LINEAR_W + 1] = &some;
    j.op = &op;
    for (uint32_t i = 0; i < AHEAD && i < n_open; i++) prefetch_row(rows + r->open[i] * w->row_bytes, w->row_bytes);
    for (uint32_t i = 0; i < n_open; i += TOGETHER) {
        const uint32_t n = tern_linear__min(TOGETHER, n_open - i);
        for (uint32_t k = 0; k < n; k++) {
            const uint32_t next = i + k + AHEAD;
            if (next < n_open) prefetch_row(rows + r->open[next] * w->row_bytes, w->row_bytes);
            memcpy(r->rows + k * w->row_bytes, rows + r->open[i + k] * w->row_bytes, w->row_bytes);
        }
        tern_linear__multiply(&j, 1, 0, n, thread, r->dots, n);
        for (uint32_t t = 0; t < j.n; t++)
            for (uint32_t k = 0; k < n; k++) up[(size_t)t * n_rows + r->open[i + k]] = r->dots[t * n + k];
    }
}

bool tern_sparse__up(const tern_linear__job *job, uint32_t first, uint32_t n_rows, uint32_t thread, const float *gate,
                     float *up)
{
    enum { PERCENT = 70 }; /* of the rows */
    tern_cpu *cpu = job->step->cpu;
    const tern_buffer *w = job->op->weight[TERN_LINEAR_W + 1];
    if (!job->op->op->sparse || job->op->op->halves || !tern_sparse__worth(cpu, w) ||
        job->n > TERN_LINEAR__FEW_TOKENS || n_rows > TERN_KERNEL_MAX_TASK_ROWS || w->weight->row_scales ||
        job->op->bias[1] || tern_linear__uses_layout(job->op, w, job->n))
        return false;
    const room r = room_of(job, thread);
    const uint32_t n_open = list_open(gate, n_rows, job->n, r.open);
    if (!tern_sparse__pays(cpu, n_open, n_rows, PERCENT)) return false;
    memset(up, 0, (size_t)n_rows * job->n * sizeof *up);
    multiply_open(job, first, &r, n_open, n_rows, thread, up);
    tern_linear__count_skipped(job, &job->step->skipped_rows, n_rows - n_open, w->row_bytes);
    return true;
}
