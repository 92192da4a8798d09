/* Cutting a graph into runs of ops of one side, and preparing each of them there. */
#include <string.h>

#include "backend/split/split_internal.h"
#include "base/alloc.h"
#include "ops/crossing.h"
#include "ops/op.h"

static void free_part(tern_split *s, tern_split_part *part)
{
    tern_backend *side = s->sides[part->side];
    if (part->prepared) side->prepared_free(side, part->prepared);
    tern_free(part->bindings);
    tern_free(part->crossings);
}

void tern_split__prepared_free(tern_backend *b, tern_prepared *prepared)
{
    if (!prepared) return;
    for (size_t i = 0; i < prepared->n_parts; i++) free_part(tern_split__of(b), &prepared->parts[i]);
    tern_free(prepared->parts);
    tern_free(prepared->ops);
    tern_free(prepared->rows);
    tern_free(prepared);
}

/* Neighbouring ops of one side become one part. parts[] has room for one of each op. */
static void cut(const tern_split *s, tern_prepared *p)
{
    const tern_graph *g = p->graph;
    tern_split_part *part = NULL;
    for (size_t i = 0; i < g->n_ops; i++) {
        tern_side side = tern_split__side_of(s, g, &g->ops[i]);
        if (!part || part->side != side) {
            part = &p->parts[p->n_parts++];
            *part = (tern_split_part){.side = side, .graph = *g, .only_outputs = true};
            part->graph.ops = &p->ops[i];
            part->graph.n_ops = 0;
            part->graph.logits = part->graph.tokens = TERN_NO_VALUE;
        }
        part->graph.n_ops++;
        part->only_outputs = part->only_outputs && g->ops[i].rows == TERN_ROWS_OUTPUTS;
        if (g->ops[i].out.value == g->logits) part->graph.logits = g->logits;
    }
}

/* Gives the value its place on the part's side. */
static tern_status bind(tern_split *s, const tern_prepared *p, tern_split_part *part, uint32_t value, tern_error *err)
{
    const tern_binding *at = &p->bindings[value];
    TERN_TRY(tern_split__need(s, at->buffer, part->side, err));
    part->bindings[value] = (tern_binding){.buffer = at->buffer->on[part->side], .offset = at->offset};
    return TERN_OK;
}

static tern_status add_crossing(tern_split_part *part, uint32_t value, tern_error *err)
{
    void *items = part->crossings;
    TERN_TRY(tern_grow(&items, &part->cap_crossings, part->n_crossings + 1, sizeof *part->crossings, err));
    part->crossings = items;
    part->crossings[part->n_crossings++] = value;
    return TERN_OK;
}

static tern_status use(tern_split *s, const tern_prepared *p, tern_split_part *part, uint32_t value, tern_places *where,
                       tern_error *err)
{
    const tern_value *v = &p->graph->values[value];
    if (tern_value_is_kept(v) && (where[value] & ~((tern_places)1 << part->side)))
        return tern_fail(err, TERN_UNSUPPORTED, "%s: layers of both sides use the cache %s", s->name, v->name);
    if (tern_crossing_reads(p->graph, value, (uint32_t)part->side, where)) TERN_TRY(add_crossing(part, value, err));
    return bind(s, p, part, value, err);
}

static tern_status use_op(tern_split *s, const tern_prepared *p, tern_split_part *part, const tern_op *op,
                          tern_places *where, tern_error *err)
{
    uint32_t read[TERN_OP_MAX_VIEWS], n = tern_op_values_read(op, read);
    for (uint32_t i = 0; i < n; i++) TERN_TRY(use(s, p, part, read[i], where, err));
    tern_crossing_writes(op, (uint32_t)part->side, where);
    if (op->out.value == TERN_NO_VALUE) return TERN_OK;
    p->bindings[op->out.value].buffer->made_on[part->side] = true;
    return bind(s, p, part, op->out.value, err);
}

/* Each side that runs anything has the parameters; the counts are looked up in the host's copy. */
static tern_status bind_params(tern_split *s, const tern_prepared *p, tern_split_part *part, tern_error *err)
{
    for (uint32_t i = 0; i < TERN_PARAM_COUNT; i++)
        if (p->graph->params[i] != TERN_NO_VALUE) TERN_TRY(bind(s, p, part, p->graph->params[i], err));
    return TERN_OK;
}

static tern_status prepare_part(tern_split *s, tern_prepared *p, tern_split_part *part, tern_places *where,
                                tern_error *err)
{
    part->bindings = tern_calloc(p->graph->n_values, sizeof *part->bindings);
    if (!part->bindings) return tern_fail_alloc(err, p->graph->n_values * sizeof *part->bindings);
    TERN_TRY(bind_params(s, p, part, err));
    for (size_t i = 0; i < part->graph.n_ops; i++) TERN_TRY(use_op(s, p, part, &part->graph.ops[i], where, err));
    tern_backend *side = s->sides[part->side];
    return tern_split__at(s, part->side, side->prepare(side, &part->graph, part->bindings, &part->prepared, err), err);
}

static tern_status make_room_for_rows(tern_prepared *p, tern_error *err)
{
    uint64_t most = 0;
    const tern_graph *g = p->graph;
    for (size_t i = 0; i < p->n_parts; i++)
        for (size_t k = 0; k < p->parts[i].n_crossings; k++) {
            uint64_t bytes = tern_crossing_bytes(g, p->parts[i].crossings[k], g->max_tokens, g->max_outputs);
            if (bytes > most) most = bytes;
        }
    p->rows = tern_alloc(tern_size_of(most));
    return p->rows ? TERN_OK : tern_fail_alloc(err, most);
}

static tern_status prepare_parts(tern_split *s, tern_prepared *p, tern_error *err)
{
    const tern_graph *g = p->graph;
    p->ops = tern_calloc(g->n_ops, sizeof *p->ops);
    p->parts = tern_calloc(g->n_ops, sizeof *p->parts);
    if (!p->ops || !p->parts) return tern_fail_alloc(err, g->n_ops * (sizeof *p->ops + sizeof *p->parts));
    memcpy(p->ops, g->ops, g->n_ops * sizeof *p->ops);
    cut(s, p);
    TERN_TRY(tern_split__keep_copy(p->bindings[g->params[TERN_PARAM_COUNTS]].buffer, err));
    tern_places *where = tern_calloc(g->n_values, sizeof *where);
    tern_status status = where ? TERN_OK : tern_fail_alloc(err, g->n_values * sizeof *where);
    for (size_t i = 0; i < p->n_parts && status == TERN_OK; i++) status = prepare_part(s, p, &p->parts[i], where, err);
    tern_free(where);
    return status == TERN_OK ? make_room_for_rows(p, err) : status;
}

/* A state that ops of both sides add to would be two. */
static tern_status check_kind(const tern_split *s, const tern_graph *graph, tern_error *err)
{
    for (size_t i = 0; i < graph->n_values; i++)
        if (graph->values[i].kind == TERN_VALUE_STATE)
            return tern_fail(err, TERN_UNSUPPORTED, "%s: training (%s): one device expected; leave out --gpu-layers",
                             s->name, graph->values[i].name);
    return TERN_OK;
}

tern_status tern_split__prepare(tern_backend *b, const tern_graph *graph, const tern_binding *bindings,
                                tern_prepared **out, tern_error *err)
{
    tern_split *s = tern_split__of(b);
    TERN_TRY(check_kind(s, graph, err));
    for (size_t i = 0; i < graph->n_ops; i++) TERN_TRY(b->supports(b, graph, &graph->ops[i], err));
    tern_prepared *p = tern_calloc(1, sizeof *p);
    if (!p) return tern_fail_alloc(err, sizeof *p);
    *p = (tern_prepared){.graph = graph, .bindings = bindings};
    pthread_mutex_lock(&s->making);
    tern_status status = prepare_parts(s, p, err);
    pthread_mutex_unlock(&s->making);
    if (status == TERN_OK) *out = p;
    else tern_split__prepared_free(b, p);
    return status;
}
