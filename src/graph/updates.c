/* The graph of the optimiser: norms of gradients, steps, and ternary codes made anew. */
#include <stdio.h>

#include "base/alloc.h"
#include "graph/training.h"
#include "model/model.h"
#include "ops/op.h"
#include "quant/weight.h"

typedef struct builder {
    tern_graph *graph;
    uint32_t layer; /* of the ops that are added */
    tern_error *err;
    tern_status status; /* sticky */
} builder;

static tern_view add_value(builder *u, tern_value value)
{
    uint32_t id = 0;
    if (u->status == TERN_OK) u->status = tern_graph__add_value(u->graph, value, &id, u->err);
    return (tern_view){.value = id, .cols = value.cols};
}

static void add_op(builder *u, tern_op op, tern_view out)
{
    op.layer = u->layer;
    op.out = out;
    if (u->status == TERN_OK) u->status = tern_graph__add_op(u->graph, &op, u->err);
}

/* Those that every graph has, though no op of this one reads rows. */
static void add_params(builder *u)
{
    static const struct {
        tern_param which;
        const char *name;
        uint32_t bytes;
    } params[] = {{TERN_PARAM_COUNTS, "counts", 12},
                  {TERN_PARAM_IDS, "ids", 4},
                  {TERN_PARAM_POSITIONS, "positions", 4},
                  {TERN_PARAM_SEQUENCES, "sequences", 4},
                  {TERN_PARAM_OUTPUTS, "outputs", 4},
                  {TERN_PARAM_PAGES, "pages", 4},
                  {TERN_PARAM_TRAINING, "training", sizeof(tern_train_params)}};
    tern_graph *g = u->graph;
    for (uint32_t i = 0; i < TERN_PARAM_COUNT; i++) g->params[i] = TERN_NO_VALUE;
    for (size_t i = 0; i < sizeof params / sizeof *params; i++) {
        tern_value value = {
            .kind = TERN_VALUE_PARAM, .dtype = TERN_DTYPE_U32, .bytes = params[i].bytes, .offset = g->param_bytes};
        snprintf(value.name, sizeof value.name, "%s", params[i].name);
        g->params[params[i].which] = add_value(u, value).value;
        g->param_bytes += (value.bytes + TERN_PARAM_ALIGNMENT - 1) / TERN_PARAM_ALIGNMENT * TERN_PARAM_ALIGNMENT;
    }
}

static tern_view state(builder *u, const tern_weight *w, tern_state which, tern_dtype dtype)
{
    static const char *const names[TERN_STATE_COUNT] = {"master", "grad", "m", "v"};
    for (uint32_t i = 0; i < u->graph->n_values; i++) {
        const tern_value *v = &u->graph->values[i];
        if (v->kind == TERN_VALUE_STATE && v->weight == w && v->state == which)
            return (tern_view){.value = i, .cols = v->cols};
    }
    tern_value value = {.kind = TERN_VALUE_STATE,
                        .dtype = dtype,
                        .cols = w->cols,
                        .n_rows = w->rows,
                        .weight = w,
                        .state = which,
                        .bytes = tern_row_bytes(dtype, w->cols, w->rows)};
    snprintf(value.name, sizeof value.name, "%s.%s", names[which], w->name);
    return add_value(u, value);
}

static tern_view weight(builder *u, const tern_weight *w)
{
    for (uint32_t i = 0; i < u->graph->n_values; i++)
        if (u->graph->values[i].kind == TERN_VALUE_WEIGHT && u->graph->values[i].weight == w)
            return (tern_view){.value = i, .cols = w->cols};
    tern_value value = {.kind = TERN_VALUE_WEIGHT, .weight = w, .cols = w->cols, .bytes = w->bytes};
    snprintf(value.name, sizeof value.name, "%s", w->name);
    return add_value(u, value);
}

static tern_view training(const builder *u)
{
    return (tern_view){.value = u->graph->params[TERN_PARAM_TRAINING]};
}

/* Room for the norms of n weights. */
static void add_norms_value(builder *u, size_t n)
{
    tern_value norms = {.kind = TERN_VALUE_OUTPUT,
                        .dtype = TERN_DTYPE_F32,
                        .cols = (uint32_t)n,
                        .bytes = n * sizeof(float),
                        .name = "norms"};
    u->graph->norms = add_value(u, norms).value;
}

static void add_sum(builder *u, const tern_graph_update *of)
{
    const tern_op op = {.kind = TERN_OP_UPDATE,
                        .optimizer = TERN_OPTIMIZER_SGD,
                        .n_in = TERN_UPDATE_GRADIENT + 2,
                        .in = {[TERN_UPDATE_WEIGHT] = state(u, of->weight, TERN_STATE_MASTER, TERN_DTYPE_F32),
                               [TERN_UPDATE_GRADIENT] = state(u, of->weight, TERN_STATE_GRADIENT, TERN_DTYPE_F32),
                               [TERN_UPDATE_GRADIENT + 1] = training(u)}};
    add_op(u, op, (tern_view){.value = TERN_NO_VALUE});
}

static void add_norm(builder *u, const tern_graph_update *of, size_t number, bool clears)
{
    tern_view gradient = state(u, of->weight, TERN_STATE_GRADIENT, TERN_DTYPE_F32);
    tern_view one = {.value = u->graph->norms, .first_col = (uint32_t)number, .cols = 1};
    add_op(u,
           (tern_op){.kind = TERN_OP_SUM_SQUARES,
                     .n_in = TERN_SUM_SQUARES_INPUTS,
                     .in = {[TERN_SUM_SQUARES_GRADIENT] = gradient},
                     .clears = clears},
           one);
}

static void add_update(builder *u, const tern_graph_update *of, uint32_t stream, tern_view learns)
{
    tern_op op = {.kind = TERN_OP_UPDATE, .optimizer = of->optimizer, .decays = of->decays, .stream = stream};
    const bool has_v = of->optimizer == TERN_OPTIMIZER_ADAMW, has_m = has_v || of->momentum;
    op.n_in = has_v ? TERN_UPDATE_V + 1 : has_m ? TERN_UPDATE_M + 1 : TERN_UPDATE_GRADIENT + 1;
    op.in[TERN_UPDATE_WEIGHT] = learns;
    op.in[TERN_UPDATE_GRADIENT] = state(u, of->weight, TERN_STATE_GRADIENT, TERN_DTYPE_F32);
    if (has_m) op.in[TERN_UPDATE_M] = state(u, of->weight, TERN_STATE_M, of->m);
    if (has_v) op.in[TERN_UPDATE_V] = state(u, of->weight, TERN_STATE_V, of->v);
    op.in[op.n_in++] = training(u);
    add_op(u, op, (tern_view){.value = TERN_NO_VALUE});
}

static void add_step(builder *u, const tern_graph_update *of, size_t number, bool steps, bool sync)
{
    if (!steps && !of->has_master) return;
    bool codes = of->has_master && sync;
    tern_view w = {0}, master = {0};
    if (codes || !of->has_master) w = weight(u, of->weight);
    if (of->has_master) master = state(u, of->weight, TERN_STATE_MASTER, of->master);
    if (steps) add_update(u, of, (uint32_t)number, of->has_master ? master : w);
    tern_op requantize = {.kind = TERN_OP_REQUANTIZE,
                          .n_in = TERN_REQUANTIZE_INPUTS,
                          .in = {[TERN_REQUANTIZE_MASTER] = master, [TERN_REQUANTIZE_TRAINING] = training(u)},
                          .threshold = of->threshold,
                          .clamp = of->clamp};
    if (codes) add_op(u, requantize, w);
}

static tern_status check(const tern_graph_update *updates, size_t n, tern_graph_phase phase, bool sync, tern_error *err)
{
    bool any = phase != TERN_GRAPH_REQUANTIZE && n > 0;
    for (size_t i = 0; i < n && !any; i++) any = updates[i].has_master;
    if (any && (phase != TERN_GRAPH_REQUANTIZE || sync)) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT,
                     "a graph of updates of %zu weights with nothing to do: at least one %s", n,
                     phase == TERN_GRAPH_REQUANTIZE ? "with a master expected" : "expected");
}

tern_status tern_graph_build_updates(tern_graph *graph, const tern_config *config, const tern_graph_update *updates,
                                     size_t n_updates, tern_graph_phase phase, bool sync, tern_error *err)
{
    *graph = (tern_graph){.max_tokens = 1,
                          .max_outputs = 1,
                          .max_pages = 1,
                          .n_sequences = 1,
                          .logits = TERN_NO_VALUE,
                          .tokens = TERN_NO_VALUE,
                          .losses = TERN_NO_VALUE,
                          .norms = TERN_NO_VALUE,
                          .n_layers = config->n_layers};
    if (phase == TERN_GRAPH_REQUANTIZE) sync = true;
    TERN_TRY(check(updates, n_updates, phase, sync, err));
    builder u = {.graph = graph, .layer = UINT32_MAX, .err = err};
    add_params(&u);
    const bool clears = phase == TERN_GRAPH_CLEAR, norms = phase == TERN_GRAPH_NORMS || clears;
    if (norms) add_norms_value(&u, n_updates);
    for (size_t i = 0; i < n_updates; i++) {
        if (updates[i].elsewhere && phase != TERN_GRAPH_REQUANTIZE && !clears) continue;
        if (norms) add_norm(&u, &updates[i], i, clears);
        else add_step(&u, &updates[i], i, phase == TERN_GRAPH_UPDATE, sync);
    }
    if (u.status != TERN_OK) tern_graph_deinit(graph);
    return u.status;
}

/* ---- in the backward */

/* The last op that touches each weight or its gradient; of one that none touches the graph's last. */
static void find_last(const tern_graph *g, const tern_graph_in_backward *what, size_t *last)
{
    for (size_t k = 0; k < what->n; k++) last[k] = SIZE_MAX;
    for (size_t i = g->n_ops; i-- > 0;)
        for (uint32_t view = 0; view < tern_op_n_views(&g->ops[i]); view++) {
            const uint32_t value = tern_op_view(&g->ops[i], view).value;
            const tern_weight *weight = value == TERN_NO_VALUE ? NULL : g->values[value].weight;
            for (size_t k = 0; weight && k < what->n; k++)
                if (last[k] == SIZE_MAX && what->updates[k].weight == weight) last[k] = i;
        }
    for (size_t k = 0; k < what->n; k++)
        if (last[k] == SIZE_MAX) last[k] = g->n_ops - 1;
}

static void add_in_backward(builder *u, const tern_graph_in_backward *what, size_t number)
{
    const tern_graph_update *of = &what->updates[number];
    if (what->norms) add_norm(u, of, number, !what->steps && !what->sums);
    if (what->sums) add_sum(u, of);
    if (what->steps) add_step(u, of, number, true, what->sync);
}

tern_status tern_graph_update_in_backward(tern_graph *graph, const tern_graph_in_backward *what, tern_error *err)
{
    if (graph->n_ops == 0 || what->n == 0 || (!what->norms && !what->steps && !what->sums))
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "a backward of %zu ops with updates of %zu weights, nothing to do: at least one expected",
                         graph->n_ops, what->n);
    builder u = {.graph = graph, .err = err};
    size_t *last = tern_calloc(what->n, sizeof *last);
    if (!last) return tern_fail_alloc(err, what->n * sizeof *last);
    find_last(graph, what, last);
    tern_op *ops = graph->ops;
    const size_t n_ops = graph->n_ops;
    graph->ops = NULL;
    graph->n_ops = graph->cap_ops = 0;
    graph->brief_gradients = true;
    if (what->norms) add_norms_value(&u, what->n);
    for (size_t i = 0; i < n_ops && u.status == TERN_OK; i++) {
        u.status = tern_graph__add_op(graph, &ops[i], err);
        u.layer = ops[i].layer;
        for (size_t k = 0; k < what->n; k++)
            if (last[k] == i) add_in_backward(&u, what, k);
    }
    tern_free(ops);
    tern_free(last);
    return u.status;
}
