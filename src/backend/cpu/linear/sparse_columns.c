/* Products by columns: the list of the inputs that are not 0 is cut in segments, one a task, which adds up all rows.
 * All threads add up, scale and store the sums of the segments panel by panel. The bytes of a column lie together,
 * panel after panel: memory is read in pieces as long as possible. */
#include <string.h>

#include "backend/cpu/linear/sparse.h"
#include "base/alloc.h"
#include "ops/op.h"

enum {
    AT_ONCE = 32, /* columns that go through all panels while the next ones are fetched */
    MAX_SEGMENTS = 32,
    TASKS_A_THREAD = 2,
    DECODED_COLS = 512
};

static uint32_t n_panels(uint32_t rows)
{
    return (rows + TERN_COLUMNS_ROWS - 1) / TERN_COLUMNS_ROWS;
}

static size_t col_bytes(uint32_t rows)
{
    return (size_t)n_panels(rows) * TERN_COLUMNS_BYTES;
}

/* ---- building */

typedef struct building {
    const tern_weight *w;
    const uint8_t *rows;
    uint8_t *out;
    int8_t *codes; /* [threads][4 * cols] */
    tern_status *status;
} building;

/* Byte j of every column of a panel: rows j, 64 + j, 128 + j and 192 + j, which are decoded first. */
static tern_status pack_byte(const building *b, uint32_t first, uint32_t j, int8_t *codes, uint8_t *to)
{
    const tern_weight *w = b->w;
    uint8_t packed[DECODED_COLS];
    for (uint32_t f = 0; f < 4; f++) {
        const uint32_t row = first + f * TERN_COLUMNS_BYTES + j;
        int8_t *own = codes + (size_t)f * w->cols;
        if (row >= w->rows) memset(own, -1, w->cols);
        else TERN_TRY(tern_decode_codes(w->encoding, b->rows, w->rows, w->cols, row, 1, own, NULL, NULL, NULL, NULL));
    }
    for (uint32_t c = 0; c < w->cols; c += DECODED_COLS) {
        const uint32_t n = tern_linear__min(DECODED_COLS, w->cols - c);
        const int8_t *a = codes + c;
        for (uint32_t i = 0; i < n; i++)
            packed[i] = (uint8_t)((a[i] + 1) | (a[w->cols + i] + 1) << 2 | (a[2 * (size_t)w->cols + i] + 1) << 4 |
                                  (a[3 * (size_t)w->cols + i] + 1) << 6);
        for (uint32_t i = 0; i < n; i++) to[(c + i) * col_bytes(w->rows)] = packed[i];
    }
    return TERN_OK;
}

static void build_task(void *context, uint32_t task, uint32_t thread)
{
    const building *b = context;
    uint8_t *to = b->out + (size_t)task * TERN_COLUMNS_BYTES;
    for (uint32_t j = 0; j < TERN_COLUMNS_BYTES; j++) {
        const tern_status status =
            pack_byte(b, task * TERN_COLUMNS_ROWS, j, b->codes + (size_t)thread * 4 * b->w->cols, to + j);
        if (status != TERN_OK) b->status[thread] = status;
    }
}

static tern_status build(tern_cpu *cpu, tern_columns *c, const tern_buffer *buffer, tern_error *err)
{
    const uint32_t n_threads = tern_pool_threads(cpu->pool);
    const tern_weight *w = buffer->weight;
    building b = {.w = w, .rows = buffer->data, .out = c->block.data};
    b.codes = tern_calloc(n_threads, (size_t)4 * w->cols);
    b.status = tern_calloc(n_threads, sizeof *b.status);
    tern_status status = b.codes && b.status ? TERN_OK : tern_fail_alloc(err, (size_t)n_threads * 4 * w->cols);
    if (status == TERN_OK) {
        pthread_mutex_lock(&cpu->running);
        tern_pool_for(cpu->pool, n_panels(w->rows), build_task, &b);
        pthread_mutex_unlock(&cpu->running);
    }
    for (uint32_t i = 0; i < n_threads && status == TERN_OK; i++)
        if (b.status[i] != TERN_OK) status = tern_fail(err, b.status[i], "%s: ternary codes expected", w->name);
    tern_free(b.codes);
    tern_free(b.status);
    return status;
}

tern_status tern_columns__build(tern_cpu *cpu, const tern_buffer *buffer, tern_columns **out, tern_error *err)
{
    const tern_weight *w = buffer->weight;
    tern_columns *c = tern_calloc(1, sizeof *c);
    if (!c) return tern_fail_alloc(err, sizeof *c);
    *c = (tern_columns){.memory = &cpu->layouts, .rows = w->rows, .cols = w->cols};
    tern_status status = tern_cpu__layout_alloc(c->memory, (uint64_t)w->cols * col_bytes(w->rows), &c->block, err);
    if (status == TERN_OK) status = build(cpu, c, buffer, err);
    if (status == TERN_OK) *out = c;
    else tern_columns__free(c);
    return status;
}

void tern_columns__free(tern_columns *columns)
{
    if (!columns) return;
    tern_cpu__layout_free(columns->memory, &columns->block);
    tern_free(columns);
}

/* ---- running */

/* Memory that all threads share: sums of each segment, then the list. */
typedef struct product {
    const tern_linear__job *job;
    const tern_columns *w;
    tern_columns_fn kernel;
    size_t col_bytes;
    int32_t *sums; /* [n_segments][rows of all panels] */
    uint32_t *cols;
    int8_t *x;
    uint32_t n, n_segments, segment; /* inputs in all, segments, inputs of a segment */
} product;

static uint32_t most_segments(uint32_t n_threads)
{
    return tern_linear__min(n_threads == 1 ? 1 : TASKS_A_THREAD * n_threads, MAX_SEGMENTS);
}

static size_t sums_of_segment(uint32_t rows)
{
    return (size_t)n_panels(rows) * TERN_COLUMNS_ROWS;
}

size_t tern_sparse__columns_bytes(const tern_graph *graph, const tern_op *op)
{
    if (!op->sparse || op->gated || op->n_parts != 1) return 0;
    const tern_weight *w = tern_linear__part_weight(graph, op, 0);
    return MAX_SEGMENTS * sums_of_segment(w->rows) * sizeof(int32_t) + w->cols * (sizeof(uint32_t) + 1);
}

bool tern_sparse__wants_columns(const tern_cpu *cpu, const tern_cpu_op *op)
{
    const tern_buffer *w = op->weight[TERN_LINEAR_W];
    if (!op->op->sparse || op->op->gated || op->op->n_parts != 1 || op->routes || !op->in_q8 || op->bias[0] ||
        !w->weight->encoding->ternary || w->weight->trained || w->cols != w->weight->cols /* packed anew */)
        return false;
    return tern_sparse__worth(cpu, w);
}

/* Asks the memory for the columns i .. i + n - 1 of the list, column by column, the share `part` of n_parts. */
static void prefetch(const product *p, uint32_t i, uint32_t n, uint32_t part, uint32_t n_parts)
{
    const uint32_t panels = n_panels(p->w->rows), lines = n * panels;
    for (uint32_t k = lines * part / n_parts; k < lines * (part + 1) / n_parts; k++)
        __builtin_prefetch(p->w->block.data + p->cols[i + k / panels] * p->col_bytes + k % panels * TERN_COLUMNS_BYTES,
                           0, 3);
}

static void segment_task(void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    const product *p = context;
    const uint32_t panels = n_panels(p->w->rows), end = tern_linear__min(p->n, (task + 1) * p->segment);
    int32_t *sums = p->sums + task * sums_of_segment(p->w->rows);
    memset(sums, 0, sums_of_segment(p->w->rows) * sizeof *sums);
    for (uint32_t i = task * p->segment; i < end; i += AT_ONCE) {
        const uint32_t n = tern_linear__min(AT_ONCE, end - i), n_next = tern_linear__min(AT_ONCE, end - i - n);
        for (uint32_t panel = 0; panel < panels; panel++) {
            prefetch(p, i + n, n_next, panel, panels);
            p->kernel(p->w->block.data + panel * TERN_COLUMNS_BYTES, p->col_bytes, p->cols + i, p->x + i, n,
                      sums + panel * TERN_COLUMNS_ROWS);
        }
    }
}

static void list_inputs(product *p, const int8_t *x)
{
    p->n = 0;
    for (uint32_t c = 0; c < p->w->cols; c++) {
        p->cols[p->n] = c;
        p->x[p->n] = x[c];
        p->n += x[c] != 0;
    }
}

/* The segments' sums of some rows to those of the first, less the activations' own sum. */
static void add_segments(const product *p, uint32_t first, uint32_t n, int32_t sum)
{
    const size_t stride = sums_of_segment(p->w->rows);
    int32_t *sums = p->sums + first;
    for (uint32_t r = 0; r < n; r++) sums[r] -= sum;
    for (uint32_t s = 1; s < p->n_segments; s++)
        for (uint32_t r = 0; r < n; r++) sums[r] += sums[s * stride + r];
}

static void finish_task(void *context, uint32_t panel, uint32_t thread)
{
    (void)thread;
    const product *p = context;
    const tern_linear__job *j = p->job;
    const tern_cpu_op *op = j->op;
    const uint32_t first = panel * TERN_COLUMNS_ROWS, n = tern_linear__min(TERN_COLUMNS_ROWS, p->w->rows - first);
    float *y = (float *)(void *)(p->sums + first);
    add_segments(p, first, n, j->q8.sums[0]);
    tern_linear__scale(j, op->weight[TERN_LINEAR_W]->weight, first, n, p->sums + first, y, n);
    if (op->residual.data) j->step->cpu->kernels.add(op->residual.data + first, y, n, op->out.data + first);
    else memcpy(op->out.data + first, y, n * sizeof *y);
}

bool tern_sparse__columns(const tern_linear__job *job)
{
    enum { PERCENT = 60 }; /* of the inputs */
    const tern_cpu_op *op = job->op;
    tern_cpu *cpu = job->step->cpu;
    const tern_buffer *buffer = op->weight[TERN_LINEAR_W];
    if (job->n != 1 || !buffer->columns || !op->op->sparse) return false;
    const uint32_t rows = buffer->columns->rows, cols = buffer->columns->cols;
    const uint32_t most = most_segments(tern_pool_threads(cpu->pool));
    product p = {.job = job,
                 .w = buffer->columns,
                 .kernel = cpu->kernels.columns,
                 .col_bytes = col_bytes(rows),
                 .sums = (int32_t *)(void *)job->step->prepared->shared};
    p.cols = (uint32_t *)(p.sums + most * sums_of_segment(rows));
    p.x = (int8_t *)(p.cols + cols);
    list_inputs(&p, job->q8.x);
    if (!tern_sparse__pays(cpu, p.n, cols, PERCENT)) return false;
    p.segment = ((p.n + most - 1) / most + 3) / 4 * 4;
    p.n_segments = p.n ? (p.n + p.segment - 1) / p.segment : 1;
    tern_pool_for(cpu->pool, p.n_segments, segment_task, &p);
    tern_pool_for(cpu->pool, n_panels(rows), finish_task, &p);
    tern_linear__count_skipped(job, &job->step->skipped_columns, cols - p.n, tern_size_of(buffer->bytes / cols));
    return true;
}
