/* Two backends in step: each op of the tested graph runs on what the reference has computed so far. */
#include <string.h>

#include "base/alloc.h"
#include "infer/compare_internal.h"

static const double default_tolerance = 1e-4;
/* An op that rounds to int8 on its way may round an element near a boundary the other way, unseen. */
static const double rounding_factor = 100;
static const double f16_tolerance = 1e-3;

static bool is_rows(const tern_value *v)
{
    return v->kind == TERN_VALUE_OUTPUT;
}

/* The value of this name that an op makes, or a cache. */
static uint32_t find_counterpart(const tern_graph *g, const tern_value *v)
{
    for (uint32_t i = 0; i < g->n_values; i++) {
        const tern_value *other = &g->values[i];
        if (other->kind == v->kind && other->dtype == v->dtype && other->cols == v->cols &&
            strcmp(other->name, v->name) == 0 && (!is_rows(v) || tern_graph__maker(g, i)))
            return i;
    }
    return TERN_NO_VALUE;
}

tern_status tern_compare__counterparts(tern_comparison *c)
{
    const tern_graph *g = &c->tested.graph->graph, *reference = &c->reference.graph->graph;
    tern_free(c->counterparts);
    c->counterparts = tern_calloc(g->n_values, sizeof *c->counterparts);
    if (!c->counterparts) return tern_fail_alloc(c->err, g->n_values * sizeof *c->counterparts);
    for (uint32_t i = 0; i < g->n_values; i++) {
        const tern_value *v = &g->values[i];
        bool wanted = v->kind == TERN_VALUE_CACHE || (is_rows(v) && tern_graph__maker(g, i));
        c->counterparts[i] = wanted ? find_counterpart(reference, v) : TERN_NO_VALUE;
        if (wanted && v->bytes > c->room) c->room = v->bytes;
    }
    tern_free(c->want);
    tern_free(c->got);
    c->want = tern_alloc(tern_size_of(c->room));
    c->got = tern_alloc(tern_size_of(c->room));
    return c->want && c->got ? TERN_OK : tern_fail_alloc(c->err, c->room);
}

tern_status tern_compare__read(const tern_comparison *c, const tern_compare_side *s, uint32_t value, uint8_t *out)
{
    return tern_bound_read(&s->graph->bound, value, out, s->graph->graph.values[value].bytes, c->err);
}

tern_status tern_compare__hand_over(const tern_comparison *c, uint32_t value)
{
    const uint64_t bytes = c->tested.graph->graph.values[value].bytes;
    TERN_TRY(tern_compare__read(c, &c->reference, c->counterparts[value], c->want));
    return tern_bound_write(&c->tested.graph->bound, value, c->want, bytes, c->err);
}

tern_status tern_compare__measure(const tern_comparison *c, uint32_t value, tern_compare_op *op, double *error)
{
    const tern_value *v = &c->tested.graph->graph.values[value];
    const tern_graph *g = &c->tested.graph->graph;
    TERN_TRY(tern_compare__read(c, &c->reference, c->counterparts[value], c->want));
    TERN_TRY(tern_compare__read(c, &c->tested, value, c->got));
    const tern_compare_bytes bytes = {.want = c->want,
                                      .got = c->got,
                                      .bytes = v->bytes,
                                      .dtype = v->dtype,
                                      .cols = v->cols,
                                      .n_rows = v->rows == TERN_ROWS_TOKENS ? g->max_tokens : g->max_outputs};
    *error = tern_compare__error(&bytes, op);
    if (*error != 0 || op->n_flips) c->result->identical = false;
    return TERN_OK;
}

/* Whether the reference's op makes what the tested one does; ops that make no rows are known by their kind. */
static bool makes_the_same(const tern_comparison *c, const tern_op *tested, const tern_op *reference)
{
    if (tested->out.value == TERN_NO_VALUE) return tested->kind == reference->kind;
    return c->counterparts[tested->out.value] == reference->out.value &&
           (tested->kind == TERN_OP_ROPE) == (reference->kind == TERN_OP_ROPE);
}

static tern_status advance_reference(tern_comparison *c, const tern_op *op, const char *name)
{
    const tern_graph *g = &c->reference.graph->graph;
    size_t end = c->reference_at;
    while (end < g->n_ops && !makes_the_same(c, op, &g->ops[end])) end++;
    if (end == g->n_ops)
        return tern_fail(c->err, TERN_INTERNAL, "op %s (%s): the reference has none that makes the same",
                         tern_op_name(op->kind), name);
    TERN_TRY(tern_bound_run_ops(&c->reference.graph->bound, c->reference_at, end + 1, c->err));
    c->reference_at = end + 1;
    return TERN_OK;
}

static bool writes_caches(tern_op_kind kind)
{
    return kind == TERN_OP_KV_WRITE || kind == TERN_OP_ROPE_KV || kind == TERN_OP_ROPE_ATTENTION;
}

static bool changes_input(tern_op_kind kind)
{
    return kind == TERN_OP_ROPE_KV;
}

/* Calls fn for each value that the op reads, or (written) makes or changes. */
static tern_status for_values(tern_comparison *c, const tern_op *op, bool written, tern_compare_op *out,
                              tern_status (*fn)(tern_comparison *, uint32_t, tern_compare_op *))
{
    const tern_graph *g = &c->tested.graph->graph;
    for (uint32_t i = 0; i < op->n_in; i++) {
        const uint32_t id = op->in[i].value;
        if (is_rows(&g->values[id]) && (!written || changes_input(op->kind))) TERN_TRY(fn(c, id, out));
        if (g->values[id].kind == TERN_VALUE_CACHE && written && writes_caches(op->kind)) TERN_TRY(fn(c, id, out));
    }
    if (!written && op->residual.value != TERN_NO_VALUE) TERN_TRY(fn(c, op->residual.value, out));
    if (written && op->out.value != TERN_NO_VALUE) TERN_TRY(fn(c, op->out.value, out));
    return TERN_OK;
}

static tern_status give_input(tern_comparison *c, uint32_t value, tern_compare_op *out)
{
    if (c->counterparts[value] != TERN_NO_VALUE) return tern_compare__hand_over(c, value);
    return tern_fail(c->err, TERN_INTERNAL, "%s, which makes %s: the reference has no %s", tern_op_name(out->kind),
                     out->name, c->tested.graph->graph.values[value].name);
}

static tern_status judge(tern_comparison *c, uint32_t value, tern_compare_op *out)
{
    const tern_value *v = &c->tested.graph->graph.values[value];
    double error, tolerance = out->tolerance;
    TERN_TRY(tern_compare__measure(c, value, out, &error));
    if (v->dtype == TERN_DTYPE_F16 && tolerance < f16_tolerance) tolerance = f16_tolerance;
    if (!(error <= tolerance)) out->ok = false;
    if (!(error <= out->error)) out->error = error;
    return v->kind == TERN_VALUE_CACHE ? tern_compare__hand_over(c, value) : TERN_OK;
}

/* The name of what an op makes; ops without rows of their own take the name of what they read. */
static const char *name_of(const tern_graph *g, const tern_op *op)
{
    return g->values[op->out.value == TERN_NO_VALUE ? op->in[0].value : op->out.value].name;
}

static double tolerance_of(const tern_comparison *c, const tern_op *op)
{
    const double given = c->params->tolerance > 0 ? c->params->tolerance : default_tolerance;
    return op->norm_weight.value == TERN_NO_VALUE ? given : given * rounding_factor;
}

tern_status tern_compare__op(tern_comparison *c, const tern_op *op, bool decode)
{
    tern_compare_result *r = c->result;
    void *items = r->ops;
    TERN_TRY(tern_grow(&items, &r->cap_ops, r->n_ops + 1, sizeof *r->ops, c->err));
    r->ops = items;
    tern_compare_op *out = &r->ops[r->n_ops];
    *out = (tern_compare_op){.kind = op->kind,
                             .layer = op->layer,
                             .decode = decode,
                             .ok = true,
                             .run_error = -1,
                             .tolerance = tolerance_of(c, op)};
    memcpy(out->name, name_of(&c->tested.graph->graph, op), sizeof out->name);
    const size_t at = (size_t)(op - c->tested.graph->graph.ops);
    TERN_TRY(for_values(c, op, false, out, give_input));
    TERN_TRY(advance_reference(c, op, out->name));
    TERN_TRY(tern_bound_run_ops(&c->tested.graph->bound, at, at + 1, c->err));
    TERN_TRY(for_values(c, op, true, out, judge));
    if (!out->ok && r->first_bad == SIZE_MAX) r->first_bad = r->n_ops;
    r->n_ops++;
    if (c->params->progress && !c->params->progress(c->params->context, (double)r->n_ops / (double)c->n_all))
        return tern_fail(c->err, TERN_CANCELLED, "cancelled after %zu of %zu ops", r->n_ops, c->n_all);
    return TERN_OK;
}
