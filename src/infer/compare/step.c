/* Two backends in step: each op of the tested graph runs on what the reference has computed so far. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "infer/compare/internal.h"
#include "ops/op.h"

/* With a tolerance that was given: an op that rounds to int8 on its way may round an element near a boundary the other
 * way, unseen. */
static const double rounding_factor = 100;

static bool is_rows(const tern_value *v)
{
    return v->kind == TERN_VALUE_OUTPUT;
}

/* The value of this name that an op makes, or that a session keeps. */
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
        bool wanted = tern_value_is_kept(v) || (is_rows(v) && tern_graph__maker(g, i));
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

tern_status tern_compare__copy_to_tested(const tern_comparison *c, uint32_t value)
{
    const uint64_t bytes = c->tested.graph->graph.values[value].bytes;
    TERN_TRY(tern_compare__read(c, &c->reference, c->counterparts[value], c->want));
    return tern_bound_write(&c->tested.graph->bound, value, c->want, bytes, c->err);
}

/* The reference's values of an op's inputs, read when their terms are first needed. */
typedef struct terms_source {
    const tern_comparison *c;
    const tern_op *op;
    uint32_t value;
    uint8_t **contents; /* [n_values] of the tested graph; NULL: not asked yet */
} terms_source;

static tern_status read_inputs(terms_source *s, tern_error *err)
{
    const tern_graph *g = &s->c->tested.graph->graph;
    s->contents = tern_calloc(g->n_values, sizeof *s->contents);
    if (!s->contents) return tern_fail_alloc(err, g->n_values * sizeof *s->contents);
    for (uint32_t i = 0; i + 1 < tern_op_n_views(s->op); i++) { /* all but the result */
        const uint32_t id = tern_op_view(s->op, i).value;
        if (id == TERN_NO_VALUE || !is_rows(&g->values[id]) || s->contents[id]) continue;
        s->contents[id] = tern_alloc_aligned(tern_size_of(g->values[id].bytes), 64);
        if (!s->contents[id]) return tern_fail_alloc(err, g->values[id].bytes);
        TERN_TRY(tern_compare__read(s->c, &s->c->reference, s->c->counterparts[id], s->contents[id]));
    }
    return TERN_OK;
}

static bool sum_terms(void *context, uint64_t row, uint32_t cols, double *out)
{
    terms_source *s = context;
    const tern_graph *g = &s->c->tested.graph->graph;
    tern_error ignored = {0};
    if (!s->contents && read_inputs(s, &ignored) != TERN_OK) return false;
    const tern_op_inputs inputs = {.op = s->op,
                                   .values = g->values,
                                   .contents = s->contents,
                                   .max_tokens = g->max_tokens,
                                   .max_outputs = g->max_outputs,
                                   .n_tokens = g->max_tokens,
                                   .n_outputs = g->max_outputs};
    return tern_op_terms(&inputs, s->value, row, cols, out);
}

tern_status tern_compare__measure(const tern_comparison *c, uint32_t value, const tern_op *op,
                                  const tern_tolerance *tolerance, tern_difference *d)
{
    const tern_graph *g = &c->tested.graph->graph;
    const tern_value *v = &g->values[value];
    const uint32_t max_rows = tern_graph_max_rows(g, v->rows);
    terms_source source = {.c = c, .op = op, .value = value};
    TERN_TRY(tern_compare__read(c, &c->reference, c->counterparts[value], c->want));
    TERN_TRY(tern_compare__read(c, &c->tested, value, c->got));
    tern_compared compared = {.value = v,
                              .got = c->got,
                              .want = c->want,
                              .n_rows = max_rows,
                              .cols = v->cols,
                              .max_rows = max_rows,
                              .terms = op ? sum_terms : NULL,
                              .context = &source};
    if (tern_value_is_kept(v)) compared.n_rows = v->bytes / tern_row_bytes(v->dtype, v->cols, 1);
    const tern_status status = tern_difference_find(&compared, tolerance, d, c->err);
    for (uint32_t i = 0; source.contents && i < g->n_values; i++) tern_free_aligned(source.contents[i]);
    tern_free(source.contents);
    if (status == TERN_OK && !d->identical) c->result->identical = false;
    return status;
}

/* Whether an op leaves its result where one of its inputs was. */
static bool works_in_place(const tern_op *op)
{
    for (uint32_t i = 0; i < op->n_in; i++)
        if (op->in[i].value == op->out.value) return true;
    return false;
}

/* Whether the reference's op makes what the tested one does; ops that make no rows of their own are known by their
 * kind. */
static bool has_same_output(const tern_comparison *c, const tern_op *tested, const tern_op *reference)
{
    if (tested->out.value == TERN_NO_VALUE) return tested->kind == reference->kind;
    const bool in_place = works_in_place(tested);
    return c->counterparts[tested->out.value] == reference->out.value && in_place == works_in_place(reference) &&
           (!in_place || tested->kind == reference->kind);
}

static tern_status advance_reference(tern_comparison *c, const tern_op *op, const char *name)
{
    const tern_graph *g = &c->reference.graph->graph;
    size_t end = c->reference_at;
    while (end < g->n_ops && !has_same_output(c, op, &g->ops[end])) end++;
    if (end == g->n_ops)
        return tern_fail(c->err, TERN_INTERNAL, "op %s (%s): the reference has none that makes the same",
                         tern_op_name(op->kind), name);
    TERN_TRY(tern_bound_run_ops(&c->reference.graph->bound, c->reference_at, end + 1, c->err));
    c->reference_at = end + 1;
    return TERN_OK;
}

/* Whether an earlier view of the op is of the same value, written as well. */
static bool written_before(const tern_op *op, uint32_t i)
{
    for (uint32_t k = 0; k < i; k++)
        if (tern_op_view(op, k).value == tern_op_view(op, i).value && tern_op_writes_view(op, k)) return true;
    return false;
}

/* Calls fn for each value that the op reads, or (written) makes or changes. Writes into caches and states are small
 * beside them: both sides have the same ones before the op. */
static tern_status for_values(tern_comparison *c, const tern_op *op, bool written, tern_compare_op *out,
                              tern_status (*fn)(tern_comparison *, const tern_op *, uint32_t, tern_compare_op *))
{
    const uint32_t n = tern_op_n_views(op);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t id = tern_op_view(op, i).value;
        if (id == TERN_NO_VALUE) continue;
        const tern_value *v = &c->tested.graph->graph.values[id];
        const bool reads = !written && i + 1 < n && is_rows(v);
        const bool writes =
            written && tern_op_writes_view(op, i) && !written_before(op, i) && (is_rows(v) || tern_value_is_kept(v));
        if (reads || writes) TERN_TRY(fn(c, op, id, out));
    }
    return TERN_OK;
}

static tern_status copy_input(tern_comparison *c, const tern_op *op, uint32_t value, tern_compare_op *out)
{
    (void)op;
    if (c->counterparts[value] != TERN_NO_VALUE) return tern_compare__copy_to_tested(c, value);
    return tern_fail(c->err, TERN_INTERNAL, "%s, which makes %s: the reference has no %s", tern_op_name(out->kind),
                     out->name, c->tested.graph->graph.values[value].name);
}

static tern_tolerance tolerance_of(const tern_comparison *c, const tern_op *op)
{
    const bool rounded = op->norm_weight.value != TERN_NO_VALUE && !op->norm_f32;
    const double given = c->params->tolerance, share = rounded ? given * rounding_factor : given;
    if (!(given > 0)) return tern_op_tolerance(op);
    return (tern_tolerance){.of_row = share, .of_terms = share, .of_int8 = 1, .few_int8 = true};
}

static tern_status compare_output(tern_comparison *c, const tern_op *op, uint32_t value, tern_compare_op *out)
{
    const tern_tolerance tolerance = tolerance_of(c, op);
    tern_difference d;
    TERN_TRY(tern_compare__measure(c, value, op, &tolerance, &d));
    if (!d.ok) out->ok = false;
    if (!isnan(out->error) && !(d.worst <= out->error)) out->error = d.worst;
    out->n_flips += d.n_flips;
    return tern_value_is_kept(&c->tested.graph->graph.values[value]) ? tern_compare__copy_to_tested(c, value) : TERN_OK;
}

/* The name of what an op makes; ops without rows of their own take the name of what they read. */
static const char *name_of(const tern_graph *g, const tern_op *op)
{
    return g->values[op->out.value == TERN_NO_VALUE ? op->in[0].value : op->out.value].name;
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
                             .tolerance = tolerance_of(c, op).of_row};
    memcpy(out->name, name_of(&c->tested.graph->graph, op), sizeof out->name);
    const size_t at = (size_t)(op - c->tested.graph->graph.ops);
    TERN_TRY(for_values(c, op, false, out, copy_input));
    TERN_TRY(advance_reference(c, op, out->name));
    TERN_TRY(tern_bound_run_ops(&c->tested.graph->bound, at, at + 1, c->err));
    TERN_TRY(for_values(c, op, true, out, compare_output));
    if (!out->ok && r->first_bad == SIZE_MAX) r->first_bad = r->n_ops;
    r->n_ops++;
    if (c->params->progress && !c->params->progress(c->params->context, (double)r->n_ops / (double)c->n_all))
        return tern_fail(c->err, TERN_CANCELLED, "cancelled after %zu of %zu ops", r->n_ops, c->n_all);
    return TERN_OK;
}
