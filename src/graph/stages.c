/* Cutting a graph into stages. */
#include "graph/stages.h"

#include <string.h>

#include "base/alloc.h"
#include "ops/crossing.h"
#include "ops/op.h"

/* The life of each value, from the first stage that makes it to the last that reads it. */
typedef struct life {
    uint32_t made, read;
    bool is_made;
} life;

typedef struct cutter {
    tern_graph *graph;
    const tern_stages *stages;
    tern_places *where; /* [n_values] */
    life *lives;        /* [n_values] */
    uint32_t *stage_of; /* [n_ops] */
} cutter;

/* Ops before the layers go with the first one, ops behind them with the last. */
static void place_ops(const cutter *c)
{
    const tern_graph *g = c->graph;
    uint32_t stage = 0;
    bool inside = false;
    for (size_t i = 0; i < g->n_ops; i++) {
        const uint32_t layer = tern_op_goes_with(&g->ops[i], g->n_layers);
        if (layer != UINT32_MAX) stage = tern_stage_of(c->stages, layer);
        else if (inside) stage = c->stages->n - 1;
        inside = inside || layer != UINT32_MAX;
        c->stage_of[i] = stage;
    }
}

static tern_status use(const cutter *c, const tern_op *op, uint32_t stage, tern_error *err)
{
    uint32_t read[TERN_OP_MAX_VIEWS];
    const uint32_t n = tern_op_values_read(op, read);
    for (uint32_t i = 0; i < n; i++) {
        const tern_value *v = &c->graph->values[read[i]];
        if (tern_value_is_kept(v) && (c->where[read[i]] & ~((tern_places)1 << stage)))
            return tern_fail(err, TERN_UNSUPPORTED, "layers of two stages use the cache %s", v->name);
        if (tern_crossing_reads(c->graph, read[i], stage, c->where)) c->lives[read[i]].read = stage;
    }
    tern_crossing_writes(op, stage, c->where);
    for (uint32_t i = 0; i < tern_op_n_views(op); i++) {
        const uint32_t value = tern_op_view(op, i).value;
        if (value == TERN_NO_VALUE || !tern_op_writes_view(op, i)) continue;
        life *l = &c->lives[value];
        if (!l->is_made) *l = (life){.made = stage, .read = stage, .is_made = true};
        c->graph->values[value].stage = stage;
    }
    return TERN_OK;
}

static bool crosses(const life *l, uint32_t boundary)
{
    return l->is_made && l->made <= boundary && boundary < l->read;
}

/* SEND or RECEIVE of all that crosses between a stage and the one after it. */
static void add_crossings(const cutter *c, tern_op_kind kind, uint32_t boundary, tern_op *ops, size_t *n)
{
    for (uint32_t i = 0; i < c->graph->n_values; i++) {
        if (!crosses(&c->lives[i], boundary)) continue;
        const tern_value *v = &c->graph->values[i];
        const tern_view view = {.value = i, .cols = v->cols}, none = {.value = TERN_NO_VALUE};
        const bool sends = kind == TERN_OP_SEND;
        tern_op *op = &ops[(*n)++];
        *op = (tern_op){.kind = kind,
                        .rows = v->rows,
                        .layer = UINT32_MAX,
                        .n_in = sends ? TERN_SEND_INPUTS : TERN_RECEIVE_INPUTS,
                        .out = sends ? none : view,
                        .peer = sends ? boundary + 1 : boundary};
        if (sends) op->in[TERN_SEND_X] = view;
        for (uint32_t k = 0; k < tern_op_n_views(op); k++)
            if (tern_op_is_optional(op, k)) *tern_op_view_at(op, k) = none;
    }
}

static tern_status take_ops(const cutter *c, tern_error *err)
{
    tern_graph *g = c->graph;
    const uint32_t stage = c->stages->stage;
    const size_t most = g->n_ops + 2 * g->n_values;
    size_t n = 0;
    tern_op *ops = tern_calloc(most, sizeof *ops);
    if (!ops) return tern_fail_alloc(err, most * sizeof *ops);
    if (stage > 0) add_crossings(c, TERN_OP_RECEIVE, stage - 1, ops, &n);
    for (size_t i = 0; i < g->n_ops; i++)
        if (c->stage_of[i] == stage) ops[n++] = g->ops[i];
    if (stage + 1 < c->stages->n) add_crossings(c, TERN_OP_SEND, stage, ops, &n);
    tern_free(g->ops);
    g->ops = ops;
    g->n_ops = n;
    g->cap_ops = most;
    for (uint32_t i = 0; i < g->n_values; i++)
        if (tern_value_is_kept(&g->values[i]) && g->values[i].stage != stage) g->values[i].bytes = 0;
    g->stage = stage;
    g->n_stages = c->stages->n;
    return TERN_OK;
}

tern_status tern_graph_take_stage(tern_graph *graph, const tern_stages *stages, tern_error *err)
{
    if (stages->n < 2) return TERN_OK;
    cutter c = {.graph = graph,
                .stages = stages,
                .where = tern_calloc(graph->n_values, sizeof *c.where),
                .lives = tern_calloc(graph->n_values, sizeof *c.lives),
                .stage_of = tern_calloc(graph->n_ops, sizeof *c.stage_of)};
    tern_status status = c.where && c.lives && c.stage_of ? TERN_OK : tern_fail_alloc(err, graph->n_values * 16);
    if (status == TERN_OK) place_ops(&c);
    for (size_t i = 0; i < graph->n_ops && status == TERN_OK; i++) status = use(&c, &graph->ops[i], c.stage_of[i], err);
    if (status == TERN_OK) status = take_ops(&c, err);
    tern_free(c.where);
    tern_free(c.lives);
    tern_free(c.stage_of);
    return status;
}
