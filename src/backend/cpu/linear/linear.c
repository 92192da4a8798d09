/* Running linear layers: rows of the weights are shared out over the threads, each task ends with its own scales, gate
 * and sum. */
#include "backend/cpu/linear/linear_internal.h"
#include "backend/cpu/linear/screen.h"
#include "backend/cpu/linear/sparse.h"
#include "backend/cpu/ops.h"
#include "backend/cpu/rows/rows.h"
#include "ops/halves.h"
#include "ops/int8_blocks.h"
#include "ops/op.h"
#include "ops/ref/halves/halves.h"

enum {
    MIN_TASK_BYTES = 64 << 10, /* weights of one task when few tokens share them */
    MAX_TASK_BYTES = 1 << 20,  /* long tasks stream better; more than MATRIX_TASKS of them balance well enough */
    MATRIX_TASKS = 64,
    THREAD_TASKS = 4,           /* of a matrix and up to 64 tokens: of one thread, at least */
    SHARE_TASK_BYTES = 1 << 18, /* a small matrix has tasks of up to so many bytes where that leaves as many */
    SOME_ROWS = 32,             /* of 2 to 64 tokens: rows of a task are a multiple of this */
    TOKEN_RUN = 64              /* tokens that share the decoding of a dense weight */
};

/* Rows of a task whose weight takes so many bytes in all. Where tasks are few all threads have as many. */
static uint32_t rows_of_bytes(uint32_t rows, size_t total, uint32_t step, uint32_t n_threads)
{
    size_t bytes = total / MATRIX_TASKS, row = total / rows ? total / rows : 1;
    size_t share = total / THREAD_TASKS / n_threads;
    share = share < SHARE_TASK_BYTES ? share : SHARE_TASK_BYTES;
    bytes = bytes > share ? bytes : share;
    bytes = bytes < MIN_TASK_BYTES ? MIN_TASK_BYTES : bytes > MAX_TASK_BYTES ? MAX_TASK_BYTES : bytes;
    const uint32_t n = tern_linear__min((uint32_t)(bytes / row), TERN_KERNEL_MAX_TASK_ROWS) / step * step;
    const uint32_t own = (rows + step * n_threads - 1) / (step * n_threads) * step; /* of a thread */
    if (n < step) return step;
    const uint32_t n_tasks = (own + n - 1) / n;
    return (own / step + n_tasks - 1) / n_tasks * step;
}

static uint32_t rows_for_few(const tern_cpu_op *op, const tern_buffer *w, uint32_t rows, uint32_t n, uint32_t n_threads)
{
    if (w->task_rows) return w->task_rows;
    if (tern_linear__uses_layout(op, w, n))
        return rows_of_bytes(rows, (size_t)w->layout->bytes, w->layout->row_step, n_threads);
    return rows_of_bytes(rows, rows * w->row_bytes, 16, n_threads);
}

uint32_t tern_linear__rows_of_task(const tern_cpu_op *op, const tern_buffer *w, uint32_t rows, uint32_t n,
                                   uint32_t n_threads)
{
    if (n > TERN_LINEAR__SOME_TOKENS) return TERN_LINEAR__PREFILL_ROWS;
    const uint32_t few = rows_for_few(op, w, rows, n, n_threads);
    if (n <= 1) return few;
    /* each task arranges its tokens first: a few long ones for each thread */
    const uint32_t share = (rows / (THREAD_TASKS * n_threads) + SOME_ROWS - 1) / SOME_ROWS * SOME_ROWS;
    const uint32_t room = TERN_KERNEL_MAX_TASK_ROWS * TERN_LINEAR__FEW_TOKENS / n / SOME_ROWS * SOME_ROWS;
    return tern_linear__min(few > share ? few : share, tern_linear__min(room, TERN_KERNEL_MAX_TASK_ROWS));
}

uint32_t tern_cpu__task_rows(const tern_buffer *w, uint32_t n_threads)
{
    return rows_for_few(&(tern_cpu_op){0}, w, w->weight->rows, 1, n_threads);
}

static bool reads_q8(const tern_graph *graph, const tern_op *op)
{
    return graph->values[op->in[TERN_LINEAR_X].value].dtype == TERN_DTYPE_Q8;
}

static tern_status check_halves(const tern_graph *graph, const tern_op *op, tern_error *err)
{
    if (op->halves && (op->route.cols || op->norm_weight.cols || op->screened || reads_q8(graph, op)))
        return tern_fail(err, TERN_UNSUPPORTED,
                         "cpu: linear in 16 bits: no route, norm, screen and int8 rows expected");
    for (uint32_t p = 0; op->halves && p < op->n_parts; p++) {
        const tern_encoding *e = tern_linear__part_weight(graph, op, p)->encoding;
        if (tern_op_halves_of(e) != op->halves)
            return tern_fail(err, TERN_UNSUPPORTED, "cpu: linear in 16 bits: %s weights in %s", e->name,
                             op->halves == TERN_HALVES_BF16 ? "bf16" : "f16");
    }
    return TERN_OK;
}

tern_status tern_cpu__linear_supports(const tern_graph *graph, const tern_op *op, tern_error *err)
{
    for (uint32_t p = 0; op->int8_blocks && p < op->n_parts; p++) {
        const tern_encoding *e = tern_linear__part_weight(graph, op, p)->encoding;
        if (!tern_op_multiplies_blocks(e->id))
            return tern_fail(err, TERN_UNSUPPORTED,
                             "cpu: no int8 activations by block with %s weights: --activations f32 or auto expected",
                             e->name);
    }
    TERN_TRY(check_halves(graph, op, err));
    if (op->route.cols) return tern_linear__routed_supports(graph, op, err);
    if (!op->norm_weight.cols) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED, "cpu: op linear with a norm weight: norm_quant before it expected");
}

size_t tern_cpu__linear_scratch(const tern_graph *graph, const tern_op *op)
{
    size_t row = (size_t)op->in[TERN_LINEAR_X].cols * 4 + 128; /* a normed row */
    for (uint32_t p = 0; p < op->n_parts; p++) {
        const tern_weight *w = tern_linear__part_weight(graph, op, p);
        const size_t decoded = TERN_LINEAR__DECODED_ROWS * tern_linear__decoded_stride(w) * sizeof(float);
        const bool decodes = w->encoding->ternary ? !reads_q8(graph, op) : w->encoding->block_elements > 1;
        if (decodes && decoded > row) row = decoded;
    }
    size_t out = 0;
    for (uint32_t p = 0; p < op->n_parts; p++) {
        const uint32_t cols = op->in[TERN_LINEAR_W + p].cols;
        out = cols > out ? cols : out;
    }
    return (row > out * 5 ? row : out * 5) + tern_sparse__rows_bytes(graph, op) +
           3 * tern_linear__task_floats(graph) * sizeof(float) + 256;
}

/* Rows that are made first: int8 ones widened to f32 for dense weights, f32 ones rounded to 16 bits. */
static size_t made_bytes(const tern_graph *graph, const tern_op *op)
{
    if (op->halves) return (size_t)graph->max_tokens * op->in[TERN_LINEAR_X].cols * sizeof(float);
    if (!reads_q8(graph, op)) return 0;
    for (uint32_t p = 0; p < op->n_parts; p++)
        if (!tern_linear__part_weight(graph, op, p)->encoding->ternary)
            return (size_t)graph->max_tokens * op->in[TERN_LINEAR_X].cols * sizeof(float);
    return 0;
}

size_t tern_cpu__linear_shared(const tern_graph *graph, const tern_op *op)
{
    if (op->route.cols) return tern_linear__routed_bytes(graph, op);
    const tern_weight *w = tern_linear__part_weight(graph, op, 0);
    const size_t made = made_bytes(graph, op),
                 screen = op->screened ? tern_screen__bytes(w->rows, w->cols, graph->max_tokens) : 0;
    const size_t blocks = tern_linear__blocks_bytes(graph, op, graph->max_tokens), most = made > screen ? made : screen;
    const size_t columns = tern_sparse__columns_bytes(graph, op), more = most > blocks ? most : blocks;
    return more > columns ? more : columns;
}

static uint64_t bytes_read(const tern_cpu_op *op)
{
    uint64_t total = 0;
    for (uint32_t p = 0; p < op->op->n_parts; p++) {
        const tern_buffer *w = op->weight[TERN_LINEAR_W + p];
        total += w->layout ? w->layout->bytes : w->bytes;
    }
    return total;
}

tern_status tern_cpu__linear_bind(tern_cpu *cpu, tern_prepared *prepared, tern_cpu_op *op, tern_error *err)
{
    const size_t tables = tern_linear__tables_bytes(op);
    if (tables > prepared->tables_bytes) prepared->tables_bytes = tables;
    op->weight_bytes = bytes_read(op);
    /* the screen belongs to the weight: the second graph that asks finds it there */
    tern_buffer *table = (tern_buffer *)(uintptr_t)op->weight[TERN_LINEAR_W];
    if (tern_sparse__wants_columns(cpu, op) && !table->columns)
        TERN_TRY(tern_columns__build(cpu, table, &table->columns, err));
    return op->op->screened && !table->screen ? tern_screen__build(cpu, table, &table->screen, err) : TERN_OK;
}

float *tern_linear__slots(const tern_linear__job *job, uint32_t thread)
{
    const size_t slot = tern_linear__task_floats(job->step->prepared->graph);
    return (float *)(void *)(tern_cpu__scratch(job->step, thread) + job->step->prepared->scratch_bytes) - 2 * slot;
}

static void gated_task(void *context, uint32_t task, uint32_t thread)
{
    const tern_linear__job *j = context;
    const tern_cpu_op *op = j->op;
    uint32_t total = op->weight[TERN_LINEAR_W]->weight->rows, first = task * j->task_rows[0];
    uint32_t n_rows = tern_linear__min(j->task_rows[0], total - first);
    float *gate = tern_linear__slots(j, thread), *up = gate + tern_linear__task_floats(j->step->prepared->graph);
    tern_linear__multiply(j, 0, first, n_rows, thread, gate, n_rows);
    if (!tern_sparse__up(j, first, n_rows, thread, gate, up))
        tern_linear__multiply(j, 1, first, n_rows, thread, up, n_rows);
    for (uint32_t t = 0; t < j->n; t++)
        tern_cpu__activate(&j->step->cpu->kernels, op->op, gate + (size_t)t * n_rows, up + (size_t)t * n_rows, n_rows,
                           op->out.data + t * op->out.stride + first);
}

static void plain_task(void *context, uint32_t task, uint32_t thread)
{
    const tern_linear__job *j = context;
    const tern_cpu_op *op = j->op;
    uint32_t part = op->op->n_parts - 1;
    while (j->first_task[part] > task) part--;
    uint32_t first = (task - j->first_task[part]) * j->task_rows[part];
    uint32_t n_rows = tern_linear__min(j->task_rows[part], op->weight[TERN_LINEAR_W + part]->weight->rows - first);
    uint32_t col = j->first_col[part] + first;
    float *y = op->out.data + col;
    if (!op->residual.data) {
        tern_linear__multiply(j, part, first, n_rows, thread, y, op->out.stride);
        return;
    }
    float *sum = tern_linear__slots(j, thread);
    tern_linear__multiply(j, part, first, n_rows, thread, sum, n_rows);
    for (uint32_t t = 0; t < j->n; t++)
        j->step->cpu->kernels.add(op->residual.data + t * op->residual.stride + col, sum + (size_t)t * n_rows, n_rows,
                                  y + t * op->out.stride);
}

static bool all_dense(const tern_cpu_op *op)
{
    for (uint32_t p = 0; p < op->op->n_parts; p++)
        if (!op->weight[TERN_LINEAR_W + p]->dense) return false;
    return true;
}

/* Tasks of rows, over and over for one run of tokens after the other. */
typedef struct token_runs {
    const tern_linear__job *all;
    uint32_t n_row_tasks, n; /* tokens of a run */
} token_runs;

static void token_run_task(void *context, uint32_t task, uint32_t thread)
{
    const token_runs *runs = context;
    const uint32_t first = task / runs->n_row_tasks * runs->n;
    tern_cpu_op op = *runs->all->op;
    tern_linear__job j = *runs->all;
    j.op = &op;
    j.n = tern_linear__min(runs->n, j.n - first);
    j.x.data += first * j.x.stride;
    tern_linear__skip_blocks(&j, first);
    op.out.data += first * op.out.stride;
    if (op.residual.data) op.residual.data += first * op.residual.stride;
    plain_task(&j, task % runs->n_row_tasks, thread);
}

/* A dense matrix of few rows (an adapter's) is not enough for all threads: tokens are shared out too. */
static void run_tasks(tern_linear__job *j, uint32_t n_row_tasks)
{
    tern_pool *pool = j->step->cpu->pool;
    if (n_row_tasks == 0) return;
    const uint32_t wanted = (MATRIX_TASKS + n_row_tasks - 1) / n_row_tasks;
    const uint32_t n_runs = tern_linear__min((j->n + TOKEN_RUN - 1) / TOKEN_RUN, wanted);
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

void tern_linear__widen(const tern_cpu_op *op, uint32_t t, float *x)
{
    const int8_t *q = (const int8_t *)op->base[TERN_LINEAR_X] + t * tern_q8_stride(op->in_cols);
    const float *scales =
        (const float *)(const void *)(op->base[TERN_LINEAR_X] + tern_q8_scales_offset(op->in_cols, op->max_rows));
    for (uint32_t c = 0; c < op->in_cols; c++) x[c] = (float)q[c] * scales[t];
}

static void widen_row(void *context, uint32_t t, uint32_t thread)
{
    (void)thread;
    const tern_linear__job *j = context;
    tern_linear__widen(j->op, t, j->x.data + t * j->x.stride);
}

static void round_row(void *context, uint32_t t, uint32_t thread)
{
    (void)thread;
    const tern_linear__job *j = context;
    const tern_cpu_rows from = j->op->in[TERN_LINEAR_X];
    tern_ref_round_row(j->op->op->halves, from.data + t * from.stride, j->op->in_cols, j->x.data + t * j->x.stride);
}

static bool multiplies_dense(const tern_cpu_op *op)
{
    for (uint32_t p = 0; p < op->op->n_parts; p++)
        if (op->weight[TERN_LINEAR_W + p]->dense) return true;
    return false;
}

/* The shares that are told are those of one token. */
static void count_sparse(const tern_linear__job *j)
{
    const tern_op *op = j->op->op;
    if (!op->sparse || j->n > 1) return;
    if (op->gated) j->step->ffn_rows += j->op->weight[TERN_LINEAR_W + 1]->weight->rows;
    else j->step->ffn_columns += op->in[TERN_LINEAR_X].cols;
}

void tern_linear__count_skipped(const tern_linear__job *job, atomic_uint_least64_t *count, uint32_t n, size_t bytes)
{
    if (job->n == 1) atomic_fetch_add_explicit(count, n, memory_order_relaxed);
    atomic_fetch_add_explicit(&job->step->skipped_bytes, n * bytes, memory_order_relaxed);
}

/* Cuts the parts' rows into tasks; returns how many. */
static uint32_t cut_tasks(tern_linear__job *j, uint32_t n_threads)
{
    const tern_cpu_op *op = j->op;
    uint32_t n_tasks = 0, col = 0;
    for (uint32_t p = 0; p < op->op->n_parts; p++) {
        const tern_buffer *w = op->weight[TERN_LINEAR_W + p];
        j->task_rows[p] = tern_linear__rows_of_task(op, w, w->weight->rows, j->n, n_threads);
        j->first_task[p] = n_tasks;
        j->first_col[p] = col;
        col += w->weight->rows;
        n_tasks += (w->weight->rows + j->task_rows[p] - 1) / j->task_rows[p];
        if (op->op->gated) break; /* both parts are done by the tasks of the first */
    }
    return n_tasks;
}

/* Whether an op's tasks begin with rows of its weights as they lie in the file. */
static bool reads_rows(const tern_cpu_op *op, uint32_t n)
{
    const tern_buffer *first = op->weight[TERN_LINEAR_W];
    return op->op->kind == TERN_OP_LINEAR && !op->op->group && !op->routes && !op->op->screened && !first->columns &&
           n > 0 && n <= TERN_LINEAR__SOME_TOKENS && !tern_linear__uses_layout(op, first, n);
}

tern_ahead_range tern_cpu__linear_ahead(const void *context, uint32_t thread, uint32_t n_threads)
{
    enum { MOST = 128 << 10 }; /* a share of the second cache, which the next op's x needs as well */
    const tern_cpu_step *step = context;
    tern_linear__job j = {.op = step->ahead, .n = tern_cpu__rows(step, step->ahead->op->rows)};
    if (!reads_rows(j.op, j.n)) return (tern_ahead_range){0};
    const uint32_t n_tasks = cut_tasks(&j, n_threads);
    const uint32_t first = (uint32_t)tern_pool_first_task(n_tasks, thread, n_threads),
                   end = (uint32_t)tern_pool_first_task(n_tasks, thread + 1, n_threads);
    uint32_t p = j.op->op->gated ? 0 : j.op->op->n_parts - 1;
    while (j.first_task[p] > first) p--;
    const tern_buffer *w = j.op->weight[TERN_LINEAR_W + p];
    const uint32_t row = (first - j.first_task[p]) * j.task_rows[p];
    const uint32_t n_rows = tern_linear__min((end - first) * j.task_rows[p], w->weight->rows - row);
    const size_t bytes = n_rows * w->row_bytes;
    return (tern_ahead_range){w->data + row * w->row_bytes, bytes < MOST ? bytes : MOST};
}

void tern_cpu__linear(tern_cpu_step *step, const tern_cpu_op *op)
{
    if (op->routes) {
        tern_linear__routed(step, op);
        return;
    }
    if (op->op->screened && !op->bias[0] && tern_screen__linear(step, op)) return;
    tern_linear__job j = {.step = step, .op = op, .n = tern_cpu__rows(step, op->op->rows)};
    step->weight_bytes += op->weight_bytes;
    j.x = op->in_q8 || op->op->halves ? (tern_cpu_rows){step->prepared->shared, op->in_cols} : op->in[TERN_LINEAR_X];
    if (op->in_q8 && multiplies_dense(op)) tern_rows__for(step, j.n, widen_row, &j);
    if (op->in_q8) tern_linear__take_q8(&j);
    if (op->op->halves) tern_rows__for(step, j.n, round_row, &j);
    if (op->op->int8_blocks)
        tern_linear__make_blocks(&j, (uint8_t *)step->prepared->shared, j.n, &(tern_linear__places){.n = j.n});
    count_sparse(&j);
    if (tern_sparse__columns(&j)) return;
    step->prepared->n_linear++;
    run_tasks(&j, cut_tasks(&j, tern_pool_threads(step->cpu->pool)));
}
