/* The inputs of linear layers while a model reads a text. */
#include "infer/session/importance.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "graph/graph.h"
#include "infer/session/runner.h"
#include "ops/op.h"
#include "ops/operands.h"
#include "ops/ref/experts.h"

enum { DEFAULT_WINDOW = 512, BATCH = 128 };

typedef struct measurement {
    tern_importance *out;
    tern_engine *engine;
    const tern_importance_params *params;
    tern_runner runner;
    float *rows; /* [room] of the value that was read last */
    size_t room;
    uint32_t read;      /* that value, or TERN_NO_VALUE */
    tern_route *routes; /* [BATCH * n_routes] of a layer with experts */
    const int32_t *ids;
    size_t n, n_done;
} measurement;

static uint32_t smaller(size_t a, uint32_t b)
{
    return a < b ? (uint32_t)a : b;
}

static tern_status allocate_rows(measurement *s, tern_error *err)
{
    TERN_TRY(tern_imatrix_sums_make(&s->out->sums, &s->out->n, tern_engine_model(s->engine), err));
    const tern_config *c = tern_engine_config(s->engine);
    const size_t n = (size_t)BATCH * (c->n_experts ? c->n_experts_used : 1);
    for (size_t i = 0; i < s->out->n; i++)
        if (s->out->sums[i].cols * n > s->room) s->room = s->out->sums[i].cols * n;
    s->rows = tern_alloc(s->room * sizeof *s->rows);
    s->routes = tern_alloc(n * sizeof *s->routes);
    return s->rows && s->routes ? TERN_OK : tern_fail_alloc(err, s->room * sizeof *s->rows);
}

static tern_imatrix_sums *sums_of(const measurement *s, const tern_weight *w)
{
    for (size_t i = 0; i < s->out->n; i++)
        if (s->out->sums[i].weight == w) return &s->out->sums[i];
    return NULL;
}

/* The floats that an op multiplies: of quantised ones those that were quantised. */
static tern_view input_of(const tern_graph *g, const tern_op *op)
{
    const tern_view x = op->in[TERN_LINEAR_X];
    if (g->values[x.value].dtype != TERN_DTYPE_Q8) return x;
    return tern_graph__maker(g, x.value)->in[TERN_QUANTIZE_X];
}

static void add_row(tern_imatrix_sums *sums, uint32_t expert, const float *row)
{
    double *squares = sums->squares + (size_t)expert * sums->cols;
    for (uint32_t c = 0; c < sums->cols; c++) squares[c] += (double)row[c] * (double)row[c];
    sums->counts[expert]++;
}

static tern_status check_sums(const measurement *s, const tern_imatrix_sums *sums, uint32_t n, tern_error *err)
{
    for (size_t i = 0; i < (size_t)sums->n_experts * sums->cols; i++)
        if (!isfinite((float)sums->squares[i]))
            return tern_fail(err, TERN_NOT_FINITE,
                             "%s: the squares of column %u of its input add up to %g, after token %zu", sums->name,
                             (uint32_t)(i % sums->cols), sums->squares[i], s->n_done + n);
    return TERN_OK;
}

/* Rows of tokens, or of experts: each of these counts for its expert. */
static tern_status add_rows(measurement *s, tern_runner_graph *g, const tern_op *op, tern_imatrix_sums *sums,
                            uint32_t n_tokens, tern_error *err)
{
    const tern_view x = input_of(&g->graph, op);
    const tern_value *value = &g->graph.values[x.value];
    const uint32_t k = op->route.cols ? g->graph.n_routes : 1, each = value->rows == TERN_ROWS_ROUTED ? 1 : k;
    const uint32_t n_rows = n_tokens * k / each;
    if ((size_t)value->cols * n_rows > s->room)
        return tern_fail(err, TERN_INTERNAL, "%s: an input of %u columns", sums->name, value->cols);
    if (x.value != s->read) TERN_TRY(tern_runner_read(g, x.value, n_rows, s->rows, err));
    s->read = x.value;
    if (op->route.cols) TERN_TRY(tern_runner_read(g, op->route.value, n_tokens * k, (float *)(void *)s->routes, err));
    for (uint32_t r = 0; r < n_tokens * k; r++)
        add_row(sums, op->route.cols ? s->routes[r].expert : 0,
                s->rows + (size_t)(r / each) * value->cols + x.first_col);
    return check_sums(s, sums, n_tokens, err);
}

static tern_status add_step(measurement *s, tern_runner_graph *g, uint32_t n_tokens, tern_error *err)
{
    s->read = TERN_NO_VALUE;
    for (size_t i = 0; i < g->graph.n_ops; i++) {
        const tern_op *op = &g->graph.ops[i];
        if (op->kind != TERN_OP_LINEAR) continue;
        tern_imatrix_sums *sums = sums_of(s, g->graph.values[op->in[TERN_LINEAR_W].value].weight);
        if (sums) TERN_TRY(add_rows(s, g, op, sums, n_tokens, err)); /* else a table or a router */
    }
    return TERN_OK;
}

static tern_status run_step(measurement *s, uint32_t first, uint32_t n, tern_error *err)
{
    const tern_runner_step step = {.ids = s->ids + s->n_done, .n_tokens = n, .first_position = first};
    tern_runner_graph *g = n == 1 ? &s->runner.graphs->decode : &s->runner.graphs->prefill;
    TERN_TRY(tern_runner_run(&s->runner, &step, NULL, err));
    TERN_TRY(add_step(s, g, n, err));
    s->n_done += n;
    if (!s->params->progress || s->params->progress(s->params->context, (double)s->n_done / (double)s->n))
        return TERN_OK;
    return tern_fail(err, TERN_CANCELLED, "cancelled after %zu of %zu tokens", s->n_done, s->n);
}

static tern_status run(measurement *s, tern_error *err)
{
    const uint32_t window = s->out->window;
    const tern_runner_params params = {.n_ctx = window,
                                       .n_batch = smaller(window, BATCH),
                                       .max_outputs = 1,
                                       .kv = {TERN_DTYPE_F32, TERN_DTYPE_F32},
                                       .f32_blocks = true,
                                       .unfused = true,
                                       .keep_all = true};
    TERN_TRY(tern_runner_open(&s->runner, s->engine, &params, err));
    while (s->n - s->n_done >= 2) {
        const uint32_t n = smaller(s->n - s->n_done, window);
        for (uint32_t at = 0; at < n; at += BATCH) TERN_TRY(run_step(s, at, smaller(n - at, BATCH), err));
        s->out->n_windows++;
    }
    s->out->n_tokens = s->n_done;
    return TERN_OK;
}

static tern_status check(measurement *s, tern_error *err)
{
    const uint32_t limit = tern_engine_config(s->engine)->n_ctx_train;
    s->out->window = s->params->window ? s->params->window : smaller(limit, DEFAULT_WINDOW);
    if (s->out->window < 2 || s->out->window > limit)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "window of %u tokens: 2 to %u, the context, expected",
                         s->out->window, limit);
    if (s->n < 2) return tern_fail(err, TERN_INVALID_ARGUMENT, "text of %zu tokens: at least 2 expected", s->n);
    return tern_engine__needs_waiting(s->engine, "an importance matrix", err);
}

tern_status tern_importance_measure(tern_importance *out, tern_engine *engine, const int32_t *ids, size_t n,
                                    const tern_importance_params *params, tern_error *err)
{
    static const tern_importance_params defaults;
    measurement s = {.out = out, .engine = engine, .params = params ? params : &defaults, .ids = ids, .n = n};
    tern_status status;
    *out = (tern_importance){0};
    TERN_GOTO(check(&s, err));
    TERN_GOTO(allocate_rows(&s, err));
    TERN_GOTO(run(&s, err));
fail:
    tern_runner_deinit(&s.runner);
    tern_free(s.rows);
    tern_free(s.routes);
    if (status != TERN_OK) tern_importance_deinit(out);
    return status;
}

void tern_importance_deinit(tern_importance *importance)
{
    tern_imatrix_sums_free(importance->sums, importance->n);
    *importance = (tern_importance){0};
}
