/* The graph of the optimiser: norms of gradients, steps, and ternary codes made anew. */
#include <stdio.h>

#include "graph/training.h"

typedef struct builder {
    tern_graph *graph;
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
    op.layer = UINT32_MAX;
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
    tern_value value = {.kind = TERN_VALUE_WEIGHT, .weight = w, .cols = w->cols, .bytes = w->bytes};
    snprintf(value.name, sizeof value.name, "%s", w->name);
    return add_value(u, value);
}

static tern_view training(const builder *u)
{
    return (tern_view){.value = u->graph->params[TERN_PARAM_TRAINING]};
}

static void add_norms(builder *u, const tern_graph_update *updates, size_t n)
{
    tern_value norms = {.kind = TERN_VALUE_OUTPUT,
                        .dtype = TERN_DTYPE_F32,
                        .cols = (uint32_t)n,
                        .bytes = n * sizeof(float),
                        .name = "norms"};
    tern_view out = add_value(u, norms);
    u->graph->norms = out.value;
    for (size_t i = 0; i < n; i++) {
        tern_view gradient = state(u, updates[i].weight, TERN_STATE_GRADIENT, TERN_DTYPE_F32);
        tern_view one = {.value = out.value, .first_col = (uint32_t)i, .cols = 1};
        add_op(u,
               (tern_op){.kind = TERN_OP_SUM_SQUARES,
                         .n_in = TERN_SUM_SQUARES_INPUTS,
                         .in = {[TERN_SUM_SQUARES_GRADIENT] = gradient}},
               one);
    }
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

static void add_steps(builder *u, const tern_graph_update *updates, size_t n, bool steps, bool sync)
{
    for (size_t i = 0; i < n; i++) {
        const tern_graph_update *of = &updates[i];
        if (!steps && !of->has_master) continue;
        bool codes = of->has_master && sync;
        tern_view w = {0}, master = {0};
        if (codes || !of->has_master) w = weight(u, of->weight);
        if (of->has_master) master = state(u, of->weight, TERN_STATE_MASTER, of->master);
        if (steps) add_update(u, of, (uint32_t)i, of->has_master ? master : w);
        tern_op requantize = {.kind = TERN_OP_REQUANTIZE,
                              .n_in = TERN_REQUANTIZE_INPUTS,
                              .in = {[TERN_REQUANTIZE_MASTER] = master, [TERN_REQUANTIZE_TRAINING] = training(u)},
                              .threshold = of->threshold,
                              .clamp = of->clamp};
        if (codes) add_op(u, requantize, w);
    }
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
    builder u = {.graph = graph, .err = err};
    add_params(&u);
    if (phase == TERN_GRAPH_NORMS) add_norms(&u, updates, n_updates);
    else add_steps(&u, updates, n_updates, phase == TERN_GRAPH_UPDATE, sync);
    if (u.status != TERN_OK) tern_graph_deinit(graph);
    return u.status;
}
