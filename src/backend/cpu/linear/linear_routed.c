/* Linear layers with experts: rows of a step are put together by their expert, so that the rows of each expert are
 * multiplied as those of a layer of its own. */
#include "backend/cpu/linear/linear_internal.h"
#include "backend/cpu/rows/rows.h"
#include "ops/op.h"

/* Rows that have the same expert. */
typedef struct group {
    uint32_t expert;
    uint32_t first, n;   /* places */
    uint32_t first_task; /* of all its parts, one after the other */
} group;

/* In the memory that all threads share; n is the number of routed rows. */
typedef struct routed_memory {
    uint32_t *ends;  /* [n_experts]: the end of each expert's places, while they are given out */
    uint32_t *place; /* [n]: of each row */
    uint32_t *row;   /* [n]: at each place */
    group *groups;   /* [n] */
    uint8_t *x;      /* what goes to the places */
} routed_memory;

typedef struct routed_job {
    tern_linear__job all; /* its rows are those at all places */
    routed_memory memory;
    uint32_t n_groups;
    uint32_t n_rows;    /* of the result */
    uint32_t each;      /* rows of the result for one row of x */
    bool packed, dense; /* whether rows of x lie at their places; as f32 */
} routed_job;

static size_t padded(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Bytes of the parts before x. */
typedef struct memory_parts {
    size_t ends, rows, groups;
} memory_parts;

static memory_parts parts_of(uint32_t n_experts, uint32_t n)
{
    return (memory_parts){.ends = padded(n_experts * sizeof(uint32_t)),
                          .rows = padded(n * sizeof(uint32_t)),
                          .groups = padded(n * sizeof(group))};
}

static routed_memory memory_at(uint8_t *at, uint32_t n_experts, uint32_t n)
{
    const memory_parts parts = parts_of(n_experts, n);
    return (routed_memory){.ends = (uint32_t *)(void *)at,
                           .place = (uint32_t *)(void *)(at + parts.ends),
                           .row = (uint32_t *)(void *)(at + parts.ends + parts.rows),
                           .groups = (group *)(void *)(at + parts.ends + 2 * parts.rows),
                           .x = at + parts.ends + 2 * parts.rows + parts.groups};
}

tern_status tern_linear__routed_supports(const tern_graph *graph, const tern_op *op, tern_error *err)
{
    if (op->n_experts == 0 || graph->n_routes == 0 || op->rows != TERN_ROWS_ROUTED)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "cpu: op linear with a route: %u experts, %u of a token: at least "
                         "1 expected",
                         op->n_experts, graph->n_routes);
    for (uint32_t p = 0; p < op->n_parts; p++) {
        const tern_weight *w = tern_linear__part_weight(graph, op, p);
        if (w->rows % op->n_experts)
            return tern_fail(err, TERN_INVALID_ARGUMENT, "cpu: %s: %u rows, a multiple of %u experts expected", w->name,
                             w->rows, op->n_experts);
    }
    for (uint32_t p = 1; p < op->n_parts; p++)
        if (tern_linear__part_weight(graph, op, p)->encoding->ternary !=
            tern_linear__part_weight(graph, op, 0)->encoding->ternary)
            return tern_fail(err, TERN_UNSUPPORTED,
                             "cpu: op linear with a route: all its weights ternary or none expected");
    if (op->screened || op->residual.value != TERN_NO_VALUE || op->norm_weight.cols)
        return tern_fail(err, TERN_UNSUPPORTED, "cpu: op linear with a route: no screen, sum or norm weight expected");
    return TERN_OK;
}

size_t tern_linear__routed_bytes(const tern_graph *graph, const tern_op *op)
{
    const uint32_t n = tern_graph_max_rows(graph, TERN_ROWS_ROUTED), cols = op->in[TERN_LINEAR_X].cols;
    const size_t f32 = (size_t)n * cols * sizeof(float), q8 = (size_t)tern_row_bytes(TERN_DTYPE_Q8, cols, n);
    const size_t blocks = tern_linear__blocks_bytes(graph, op, n), floats = f32 > q8 ? f32 : q8;
    const memory_parts parts = parts_of(op->n_experts, n);
    return parts.ends + 2 * parts.rows + parts.groups + (floats > blocks ? floats : blocks);
}

/* The rows of one token have experts of their own, and stay where they are; some may have none. */
static void group_rows_of_token(routed_job *j)
{
    for (uint32_t r = 0; r < j->n_rows; r++) {
        const uint32_t expert = j->all.op->routes[r].expert;
        j->memory.row[r] = r;
        if (expert < j->all.op->op->n_experts)
            j->memory.groups[j->n_groups++] = (group){.expert = expert, .first = r, .n = 1};
    }
}

/* Rows in order of their expert, those of one in their own order, behind them rows that have none; no group is larger
 * than the scratch of a task. */
static void group_rows(routed_job *j)
{
    const routed_memory *m = &j->memory;
    const tern_route *routes = j->all.op->routes;
    const uint32_t n_experts = j->all.op->op->n_experts, most = j->all.step->prepared->graph->max_tokens;
    memset(m->ends, 0, n_experts * sizeof *m->ends);
    uint32_t first = 0;
    for (uint32_t r = 0; r < j->n_rows; r++)
        if (routes[r].expert < n_experts) m->ends[routes[r].expert]++;
    for (uint32_t e = 0; e < n_experts; e++) {
        const uint32_t end = first + m->ends[e];
        m->ends[e] = first;
        for (uint32_t n; first < end; first += n) {
            n = tern_linear__min(end - first, most);
            m->groups[j->n_groups++] = (group){.expert = e, .first = first, .n = n};
        }
    }
    for (uint32_t r = 0; r < j->n_rows; r++) {
        m->place[r] = routes[r].expert < n_experts ? m->ends[routes[r].expert]++ : first++;
        m->row[m->place[r]] = r;
    }
}

/* A row of x to each of its places. */
static void pack_row(void *context, uint32_t t, uint32_t thread)
{
    (void)thread;
    const routed_job *j = context;
    const tern_linear__job *all = &j->all;
    const tern_cpu_op *op = all->op;
    const uint32_t cols = op->in_cols, *to = j->memory.place + (size_t)t * j->each;
    for (uint32_t i = 0; i < j->each; i++) {
        if (j->dense) {
            float *x = (float *)(void *)j->memory.x + (size_t)to[i] * cols;
            if (op->in_q8) tern_linear__widen(op, t, x);
            else memcpy(x, op->in[TERN_LINEAR_X].data + t * op->in[TERN_LINEAR_X].stride, cols * sizeof *x);
            continue;
        }
        memcpy(j->memory.x + to[i] * all->q8.stride, all->q8.x + t * all->q8.stride, all->q8.stride);
        memcpy(j->memory.x + tern_q8_scales_offset(cols, j->n_rows) + 4 * (size_t)to[i], &all->q8_scales[t], 4);
        memcpy(j->memory.x + tern_q8_sums_offset(cols, j->n_rows) + 4 * (size_t)to[i], &all->q8.sums[t], 4);
    }
}

/* The job's rows are the packed ones from here on. */
static void take_packed(routed_job *j)
{
    const uint32_t cols = j->all.op->in_cols;
    const uint8_t *x = j->memory.x;
    if (j->dense) {
        j->all.x = (tern_cpu_rows){.data = (float *)(void *)j->memory.x, .stride = cols};
        return;
    }
    j->all.q8.x = (const int8_t *)x;
    j->all.q8.sums = (const int32_t *)(const void *)(x + tern_q8_sums_offset(cols, j->n_rows));
    j->all.q8_scales = (const float *)(const void *)(x + tern_q8_scales_offset(cols, j->n_rows));
}

static void bring_rows(routed_job *j)
{
    const tern_cpu_op *op = j->all.op;
    const uint32_t n_x = j->n_rows / j->each;
    if (op->in_q8) tern_linear__take_q8(&j->all);
    j->all.x = op->in[TERN_LINEAR_X];
    if (op->op->int8_blocks) {
        const tern_linear__places to =
            j->packed ? (tern_linear__places){j->memory.place, j->each, j->n_rows} : (tern_linear__places){.n = n_x};
        tern_linear__make_blocks(&j->all, j->memory.x, n_x, &to);
    } else if (j->packed) {
        tern_rows__for(j->all.step, n_x, pack_row, j);
        take_packed(j);
    }
}

static uint32_t rows_of(const routed_job *j, uint32_t part)
{
    return j->all.op->weight[TERN_LINEAR_W + part]->weight->rows / j->all.op->op->n_experts;
}

static uint32_t task_rows(const routed_job *j, const group *g, uint32_t part)
{
    const uint32_t all = rows_of(j, part) * j->n_groups; /* tasks are as long as the rows of all experts make them */
    return tern_linear__rows_of_task(j->all.op, j->all.op->weight[TERN_LINEAR_W + part], all, g->n,
                                     tern_pool_threads(j->all.step->cpu->pool));
}

static uint32_t n_tasks(const routed_job *j, const group *g, uint32_t part)
{
    const uint32_t rows = task_rows(j, g, part);
    return (rows_of(j, part) + rows - 1) / rows;
}

/* The group's rows of x. */
static tern_linear__job of_group(const routed_job *j, const group *g)
{
    tern_linear__job one = j->all;
    const uint32_t first = j->packed ? g->first : g->first / j->each;
    one.n = one.q8.n = g->n;
    if (j->dense) {
        one.x.data += first * one.x.stride;
    } else {
        one.q8.x += first * one.q8.stride;
        one.q8.sums += first;
        one.q8_scales += first;
    }
    tern_linear__skip_blocks(&one, first);
    return one;
}

static float *out_at(const routed_job *j, const group *g, uint32_t i, uint32_t col)
{
    return j->all.op->out.data + j->memory.row[g->first + i] * j->all.op->out.stride + col;
}

/* Rows first .. first + n_rows - 1 of both halves of the group's expert. */
static void gated_piece(const routed_job *j, const group *g, uint32_t first, uint32_t n_rows, uint32_t thread)
{
    const tern_linear__job one = of_group(j, g);
    const uint32_t row = g->expert * rows_of(j, 0) + first;
    float *gate = tern_linear__slots(&one, thread), *up = gate + tern_linear__task_floats(one.step->prepared->graph);
    tern_linear__multiply(&one, 0, row, n_rows, thread, gate, n_rows);
    tern_linear__multiply(&one, 1, row, n_rows, thread, up, n_rows);
    for (uint32_t i = 0; i < g->n; i++)
        tern_cpu__activate(&one.step->cpu->kernels, one.op->op, gate + (size_t)i * n_rows, up + (size_t)i * n_rows,
                           n_rows, out_at(j, g, i, first));
}

/* As above for one part, whose columns of the result begin at `col`. */
static void plain_piece(const routed_job *j, const group *g, uint32_t part, uint32_t first, uint32_t n_rows,
                        uint32_t col, uint32_t thread)
{
    const tern_linear__job one = of_group(j, g);
    const uint32_t row = g->expert * rows_of(j, part) + first;
    if (g->n == 1) {
        tern_linear__multiply(&one, part, row, n_rows, thread, out_at(j, g, 0, col + first), n_rows);
        return;
    }
    float *y = tern_linear__slots(&one, thread);
    tern_linear__multiply(&one, part, row, n_rows, thread, y, n_rows);
    for (uint32_t i = 0; i < g->n; i++)
        memcpy(out_at(j, g, i, col + first), y + (size_t)i * n_rows, n_rows * sizeof *y);
}

static const group *group_of_task(const routed_job *j, uint32_t task)
{
    uint32_t low = 0, high = j->n_groups - 1;
    while (low < high) {
        const uint32_t middle = (low + high + 1) / 2;
        if (j->memory.groups[middle].first_task <= task) low = middle;
        else high = middle - 1;
    }
    return &j->memory.groups[low];
}

static void routed_task(void *context, uint32_t task, uint32_t thread)
{
    const routed_job *j = context;
    const group *g = group_of_task(j, task);
    uint32_t part = 0, col = 0;
    for (task -= g->first_task; task >= n_tasks(j, g, part); part++) {
        task -= n_tasks(j, g, part);
        col += rows_of(j, part);
    }
    const uint32_t rows = task_rows(j, g, part), first = task * rows;
    const uint32_t n_rows = tern_linear__min(rows, rows_of(j, part) - first);
    if (j->all.op->op->gated) gated_piece(j, g, first, n_rows, thread);
    else plain_piece(j, g, part, first, n_rows, col, thread);
}

/* Numbers the tasks; counts what is read of the weights, which is of the experts that have rows. */
static uint32_t number_tasks(routed_job *j)
{
    const tern_cpu_op *op = j->all.op;
    uint32_t n = 0;
    for (uint32_t i = 0; i < j->n_groups; i++) {
        group *g = &j->memory.groups[i];
        const bool again = i > 0 && g[-1].expert == g->expert;
        g->first_task = n;
        for (uint32_t p = 0; p < op->op->n_parts; p++) {
            if (p == 0 || !op->op->gated) n += n_tasks(j, g, p);
            if (!again) j->all.step->weight_bytes += rows_of(j, p) * op->weight[TERN_LINEAR_W + p]->row_bytes;
        }
    }
    return n;
}

static void want_part(const routed_job *j, uint32_t expert, uint32_t part)
{
    const tern_buffer *w = j->all.op->weight[TERN_LINEAR_W + part];
    const size_t bytes = rows_of(j, part) * w->row_bytes;
    if (w->weight->mapped && w->data == w->weight->data) tern_file_want(w->data + expert * bytes, bytes);
}

/* Experts of a mapped file that is not all in memory: those of the step are prefetched before the first is read, so
 * that the disk reads them together and not page by page. */
static void want_experts(const routed_job *j)
{
    const tern_cpu_op *op = j->all.op;
    if (!op->weight[TERN_LINEAR_W]->weight->mapped || !tern_file_waited(&j->all.step->cpu->waits)) return;
    for (uint32_t i = 0; i < j->n_groups; i++) {
        const group *g = &j->memory.groups[i];
        for (uint32_t p = 0; p < op->op->n_parts && (i == 0 || g[-1].expert != g->expert); p++)
            want_part(j, g->expert, p);
    }
}

void tern_linear__routed(tern_cpu_step *step, const tern_cpu_op *op)
{
    const tern_graph *g = step->prepared->graph;
    const bool by_token = g->values[op->op->in[TERN_LINEAR_X].value].rows == TERN_ROWS_TOKENS;
    routed_job j = {.all = {.step = step, .op = op},
                    .n_rows = tern_cpu__rows(step, TERN_ROWS_ROUTED),
                    .each = by_token ? g->n_routes : 1,
                    .dense = op->weight[TERN_LINEAR_W]->dense || !op->in_q8};
    j.packed = step->n_tokens > 1 || (op->in_q8 && j.dense);
    j.memory = memory_at((uint8_t *)step->prepared->shared, op->op->n_experts, j.n_rows);
    if (j.packed) group_rows(&j);
    else group_rows_of_token(&j);
    want_experts(&j);
    bring_rows(&j);
    const uint32_t n_tasks = number_tasks(&j);
    if (n_tasks) tern_pool_for(step->cpu->pool, n_tasks, routed_task, &j);
}
