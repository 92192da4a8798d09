/* Running linear layers: rows of the weights are shared out over the threads, each task ends with its own scales, gate
 * and sum. */
#include <string.h>

#include "backend/cpu/candidates/candidates.h"

enum {
    MIN_TASK_BYTES = 64 << 10, /* weights of one task when few tokens share them */
    MAX_TASK_BYTES = 1 << 20,  /* long tasks stream better; more than MATRIX_TASKS of them balance well enough */
    MATRIX_TASKS = 64,
    PREFILL_TASK_ROWS = 64, /* rows of one task when many do */
    FEW_TOKENS = 8,
    TOKEN_RUN = 64, /* tokens that share the decoding of a dense weight */
    DECODED_ROWS = 8,
    TABLES_HEADER_BYTES = (TERN_LINEAR_MAX_PARTS * 8 + 63) / 64 * 64
};

typedef struct linear_job {
    tern_cpu_step *step;
    const tern_cpu_op *op;
    uint32_t n;                                /* tokens */
    tern_cpu_rows x;                           /* f32 rows, for dense weights */
    uint32_t task_rows[TERN_LINEAR_MAX_PARTS]; /* rows of a task of each part */
    uint32_t first_task[TERN_LINEAR_MAX_PARTS];
    uint32_t first_col[TERN_LINEAR_MAX_PARTS]; /* of the part in the output row */
} linear_job;

static uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Rows of a task whose weight takes so many bytes in all. */
static uint32_t rows_of_bytes(uint32_t rows, size_t total, uint32_t step)
{
    size_t bytes = total / MATRIX_TASKS, row = total / rows ? total / rows : 1;
    bytes = bytes < MIN_TASK_BYTES ? MIN_TASK_BYTES : bytes > MAX_TASK_BYTES ? MAX_TASK_BYTES : bytes;
    const uint32_t n = min_u32((uint32_t)(bytes / row), TERN_KERNEL_MAX_TASK_ROWS) / step * step;
    return n < step ? step : n;
}

static bool uses_layout(const tern_buffer *w, uint32_t n)
{
    return w->layout && n <= w->layout->max_tokens;
}

static uint32_t rows_of_task(const tern_buffer *w, uint32_t n)
{
    if (n > FEW_TOKENS) return PREFILL_TASK_ROWS;
    if (w->task_rows) return w->task_rows;
    if (uses_layout(w, n)) return rows_of_bytes(w->weight->rows, (size_t)w->layout->bytes, w->layout->row_step);
    return rows_of_bytes(w->weight->rows, w->weight->rows * w->row_bytes, 16);
}

uint32_t tern_cpu__task_rows(const tern_buffer *w)
{
    return rows_of_task(w, 1);
}

/* The most floats that one task holds for each token: for a gated op both halves. */
static size_t max_task_floats(const tern_graph *graph)
{
    size_t few = (size_t)TERN_KERNEL_MAX_TASK_ROWS * FEW_TOKENS, many = (size_t)PREFILL_TASK_ROWS * graph->max_tokens;
    return few > many ? few : many;
}

/* From row to row of decoded values. */
static size_t decoded_stride(const tern_weight *w)
{
    return ((size_t)w->cols + 255) / 256 * 256;
}

size_t tern_cpu__linear_scratch(const tern_graph *graph, const tern_op *op)
{
    size_t row = (size_t)op->in[0].cols * 4 + 128; /* a normed row */
    for (uint32_t i = 1; i <= op->n_parts; i++) {
        const tern_weight *w = graph->values[op->in[i].value].weight;
        if (w->encoding->ternary && graph->values[op->in[0].value].dtype == TERN_DTYPE_F32)
            row = DECODED_ROWS * decoded_stride(w) * sizeof(float);
    }
    size_t out = 0;
    for (uint32_t i = 1; i <= op->n_parts; i++) out = op->in[i].cols > out ? op->in[i].cols : out;
    return (row > out * 5 ? row : out * 5) + 3 * max_task_floats(graph) * sizeof(float) + 256;
}

static tern_q8_rows q8_rows(const linear_job *j)
{
    const tern_cpu_op *op = j->op;
    const uint8_t *base = op->base[0];
    return (tern_q8_rows){.x = (const int8_t *)base,
                          .stride = (size_t)tern_q8_stride(op->in_cols),
                          .n = j->n,
                          .sums =
                              (const int32_t *)(const void *)(base + tern_q8_sums_offset(op->in_cols, op->max_rows))};
}

/* The epilogue of W1.58A8: one f32 multiply for each integer (docs/architecture.md, 3). dots and y may be the same
 * memory. */
static void scale_dots(const linear_job *j, const tern_weight *w, uint32_t first, uint32_t n_rows, const int32_t *dots,
                       float *y, size_t y_stride)
{
    const tern_cpu_op *op = j->op;
    const float *x_scales =
        (const float *)(const void *)(op->base[0] + tern_q8_scales_offset(op->in_cols, op->max_rows));
    for (uint32_t t = 0; t < j->n; t++) {
        const int32_t *d = dots + (size_t)t * n_rows;
        float *out = y + t * y_stride, scale = x_scales[t] * w->scale;
        if (!w->row_scales)
            for (uint32_t r = 0; r < n_rows; r++) out[r] = (float)d[r] * scale;
        else
            for (uint32_t r = 0; r < n_rows; r++) out[r] = (float)d[r] * (x_scales[t] * w->row_scales[first + r]);
    }
}

/* Ternary weights on f32 activations (W1.58A32): a few rows are decoded and multiplied as f32. */
static void ternary_f32(const linear_job *j, const tern_buffer *buffer, uint32_t first, uint32_t n_rows,
                        uint8_t *scratch, float *y, size_t y_stride)
{
    const tern_weight *w = buffer->weight;
    const size_t stride = decoded_stride(w);
    float *values = (float *)(void *)scratch;
    for (uint32_t r = 0; r < n_rows; r += DECODED_ROWS) {
        const uint32_t n = min_u32(DECODED_ROWS, n_rows - r);
        const uint8_t *rows = buffer->data + (first + r) * buffer->row_bytes;
        buffer->decode(rows, buffer->row_bytes, n, buffer->cols, values, stride);
        for (uint32_t i = 0; i < n; i++) {
            const float scale = w->row_scales ? w->row_scales[first + r + i] : w->scale;
            for (uint32_t c = 0; c < w->cols; c++) values[i * stride + c] *= scale;
        }
        j->step->cpu->kernels.f32(scratch, stride * sizeof(float), n, w->cols, j->x.data, j->x.stride, j->n, y + r,
                                  y_stride);
    }
}

/* Where the tables of a part lie among those of a thread: behind those of the earlier parts, or with the first part
 * that has the same. */
typedef struct tables_place {
    uint32_t owner;
    size_t at;
} tables_place;

static size_t tables_bytes(const tern_cpu_op *op, uint32_t part)
{
    const tern_cpu__layout *l = op->weight[1 + part]->layout;
    if (!op->in_q8 || !l || !l->tables) return 0;
    return min_u32(l->max_tokens, op->max_rows) * tern_cpu__tables_bytes(l->tables, op->in_cols);
}

static tables_place place_tables(const tern_cpu_op *op, uint32_t part)
{
    tables_place p = {.at = TABLES_HEADER_BYTES};
    for (p.owner = 0; p.owner < part; p.at += tables_bytes(op, p.owner++)) {
        const tern_cpu__layout *l = op->weight[1 + p.owner]->layout;
        if (l && l->tables == op->weight[1 + part]->layout->tables) break;
    }
    return p;
}

size_t tern_cpu__linear_tables(const tern_cpu_op *op)
{
    size_t bytes = 0;
    for (uint32_t p = 0; op->op->kind == TERN_OP_LINEAR && p < op->op->n_parts; p++) bytes += tables_bytes(op, p);
    return bytes ? TABLES_HEADER_BYTES + bytes : 0;
}

/* The tables of a part, made when the thread first asks for them in this op. Its memory begins with the number of the
 * op that each belongs to. */
static void *tables_for(const linear_job *j, uint32_t part, uint32_t thread)
{
    const struct tern_prepared *p = j->step->prepared;
    const tern_cpu__tables *t = j->op->weight[1 + part]->layout->tables;
    const tables_place place = place_tables(j->op, part);
    uint8_t *own = p->tables + thread * p->tables_bytes, *out = own + place.at;
    uint64_t *made = (uint64_t *)(void *)own;
    if (made[place.owner] == p->n_linear) return out;
    made[place.owner] = p->n_linear;
    const tern_q8_rows x = q8_rows(j);
    for (uint32_t i = 0; i < j->n; i++)
        t->make(&j->step->cpu->kernels, x.x + i * x.stride, j->op->in_cols,
                out + i * tern_cpu__tables_bytes(t, j->op->in_cols));
    return out;
}

/* y[t][r] = row first + r of weight `part` times token t. */
static void multiply(const linear_job *j, uint32_t part, uint32_t first, uint32_t n_rows, uint32_t thread, float *y,
                     size_t y_stride)
{
    const tern_buffer *buffer = j->op->weight[1 + part];
    const tern_weight *w = buffer->weight;
    const uint8_t *rows = buffer->data + first * buffer->row_bytes;
    uint8_t *scratch = tern_cpu__scratch(j->step, thread);
    if (buffer->dense) {
        buffer->dense(rows, buffer->row_bytes, n_rows, buffer->cols, j->x.data, j->x.stride, j->n, y, y_stride);
    } else if (j->op->in_q8) {
        tern_q8_rows x = q8_rows(j);
        int32_t *dots = (int32_t *)(void *)scratch;
        uint8_t *room = scratch + max_task_floats(j->step->prepared->graph) * sizeof(float);
        if (uses_layout(buffer, j->n))
            buffer->layout->multiply(buffer->layout, first, n_rows, &x,
                                     buffer->layout->tables ? tables_for(j, part, thread) : room, dots, n_rows);
        else buffer->ternary(rows, buffer->row_bytes, n_rows, buffer->cols, &x, dots, n_rows);
        scale_dots(j, w, first, n_rows, dots, y, y_stride);
    } else {
        ternary_f32(j, buffer, first, n_rows, scratch, y, y_stride);
    }
}

static void gated_task(void *context, uint32_t task, uint32_t thread)
{
    const linear_job *j = context;
    const tern_cpu_op *op = j->op;
    uint32_t total = op->weight[1]->weight->rows, first = task * j->task_rows[0];
    uint32_t n_rows = min_u32(j->task_rows[0], total - first);
    size_t slot = max_task_floats(j->step->prepared->graph);
    float *gate = (float *)(void *)(tern_cpu__scratch(j->step, thread) + j->step->prepared->scratch_bytes) - 2 * slot;
    float *up = gate + slot;
    multiply(j, 0, first, n_rows, thread, gate, n_rows);
    multiply(j, 1, first, n_rows, thread, up, n_rows);
    tern_gate_fn fn = tern_cpu__gate_kernel(&j->step->cpu->kernels, op->op->activation);
    for (uint32_t t = 0; t < j->n; t++)
        fn(gate + (size_t)t * n_rows, up + (size_t)t * n_rows, n_rows, op->out.data + t * op->out.stride + first);
}

static void plain_task(void *context, uint32_t task, uint32_t thread)
{
    const linear_job *j = context;
    const tern_cpu_op *op = j->op;
    uint32_t part = op->op->n_parts - 1;
    while (j->first_task[part] > task) part--;
    uint32_t first = (task - j->first_task[part]) * j->task_rows[part];
    uint32_t n_rows = min_u32(j->task_rows[part], op->weight[1 + part]->weight->rows - first);
    uint32_t col = j->first_col[part] + first;
    float *y = op->out.data + col;
    if (!op->residual.data) {
        multiply(j, part, first, n_rows, thread, y, op->out.stride);
        return;
    }
    size_t slot = max_task_floats(j->step->prepared->graph);
    float *sum = (float *)(void *)(tern_cpu__scratch(j->step, thread) + j->step->prepared->scratch_bytes) - slot;
    multiply(j, part, first, n_rows, thread, sum, n_rows);
    for (uint32_t t = 0; t < j->n; t++)
        j->step->cpu->kernels.add(op->residual.data + t * op->residual.stride + col, sum + (size_t)t * n_rows, n_rows,
                                  y + t * op->out.stride);
}

static bool all_dense(const tern_cpu_op *op)
{
    for (uint32_t p = 0; p < op->op->n_parts; p++)
        if (!op->weight[1 + p]->dense) return false;
    return true;
}

/* Tasks of rows, over and over for one run of tokens after the other. */
typedef struct token_runs {
    const linear_job *all;
    uint32_t n_row_tasks, n; /* tokens of a run */
} token_runs;

static void token_run_task(void *context, uint32_t task, uint32_t thread)
{
    const token_runs *runs = context;
    const uint32_t first = task / runs->n_row_tasks * runs->n;
    tern_cpu_op op = *runs->all->op;
    linear_job j = *runs->all;
    j.op = &op;
    j.n = min_u32(runs->n, j.n - first);
    j.x.data += first * j.x.stride;
    op.out.data += first * op.out.stride;
    if (op.residual.data) op.residual.data += first * op.residual.stride;
    plain_task(&j, task % runs->n_row_tasks, thread);
}

/* A dense matrix of few rows (an adapter's) is not enough for all threads: tokens are shared out too. */
static void run_tasks(linear_job *j, uint32_t n_row_tasks)
{
    tern_pool *pool = j->step->cpu->pool;
    if (n_row_tasks == 0) return;
    const uint32_t wanted = (MATRIX_TASKS + n_row_tasks - 1) / n_row_tasks;
    const uint32_t n_runs = min_u32((j->n + TOKEN_RUN - 1) / TOKEN_RUN, wanted);
    token_runs runs = {.all = j, .n_row_tasks = n_row_tasks};
    if (j->op->op->gated) {
        tern_pool_for(pool, n_row_tasks, gated_task, j);
        return;
    }
    if (n_runs < 2 || !all_dense(j->op)) {
        tern_pool_for(pool, n_row_tasks, plain_task, j);
        return;
    }
    runs.n = (j->n / n_runs + TOKEN_RUN - 1) / TOKEN_RUN * TOKEN_RUN;
    tern_pool_for(pool, (j->n + runs.n - 1) / runs.n * n_row_tasks, token_run_task, &runs);
}

/* Token t of an int8 input as f32. */
static void widen_row(void *context, uint32_t t, uint32_t thread)
{
    (void)thread;
    const linear_job *j = context;
    const tern_cpu_op *op = j->op;
    const int8_t *q = (const int8_t *)op->base[0] + t * tern_q8_stride(op->in_cols);
    const float *scales = (const float *)(const void *)(op->base[0] + tern_q8_scales_offset(op->in_cols, op->max_rows));
    float *x = j->x.data + t * j->x.stride;
    for (uint32_t c = 0; c < op->in_cols; c++) x[c] = (float)q[c] * scales[t];
}

static bool multiplies_dense(const tern_cpu_op *op)
{
    for (uint32_t p = 0; p < op->op->n_parts; p++)
        if (op->weight[1 + p]->dense) return true;
    return false;
}

void tern_cpu__linear(tern_cpu_step *step, const tern_cpu_op *op)
{
    if (op->op->screened && tern_cpu__screened(step, op)) return;
    linear_job j = {.step = step, .op = op, .n = tern_cpu__rows(step, op->op->rows)};
    step->weight_bytes += op->weight_bytes;
    j.x = op->in_q8 ? (tern_cpu_rows){step->prepared->widened, op->in_cols} : op->in[0];
    if (op->in_q8 && multiplies_dense(op)) tern_cpu__for_rows(step, j.n, widen_row, &j);
    uint32_t n_tasks = 0, col = 0;
    for (uint32_t p = 0; p < op->op->n_parts; p++) {
        const tern_buffer *w = op->weight[1 + p];
        j.task_rows[p] = rows_of_task(w, j.n);
        j.first_task[p] = n_tasks;
        j.first_col[p] = col;
        col += w->weight->rows;
        n_tasks += (w->weight->rows + j.task_rows[p] - 1) / j.task_rows[p];
        if (op->op->gated) break; /* both parts are done by the tasks of the first */
    }
    step->prepared->n_linear++;
    run_tasks(&j, n_tasks);
}
