/* Functions that backends around another one have in common. */
#include "backend/wrap.h"

#include <stdio.h>

#include "base/alloc.h"
#include "ops/op.h"

static const tern_wrap *wrap_of(const tern_backend *b)
{
    return (const tern_wrap *)b;
}

/* A buffer begins with the inner backend's. */
static tern_buffer *inner_buffer(const tern_buffer *buffer)
{
    return *(tern_buffer *const *)(const void *)buffer;
}

tern_status tern_wrap__give(tern_status status, tern_buffer *made, tern_buffer **out)
{
    if (status == TERN_OK) *out = made;
    else tern_free(made);
    return status;
}

static tern_status supports(tern_backend *b, const tern_graph *graph, const tern_op *op, tern_error *err)
{
    tern_backend *inner = tern_wrap__inner(b);
    if (op->kind == TERN_OP_SAMPLE)
        return tern_fail(err, TERN_UNSUPPORTED, "%s: op %s: %s", b->info.name, tern_op_name(op->kind),
                         wrap_of(b)->no_sampling);
    return inner->supports(inner, graph, op, err);
}

static tern_status wait(tern_backend *b, tern_error *err)
{
    tern_backend *inner = tern_wrap__inner(b);
    return inner->wait(inner, err);
}

static uint64_t memory_free(const tern_backend *b)
{
    const tern_backend *inner = tern_wrap__inner(b);
    return inner->memory_free ? inner->memory_free(inner) : 0;
}

static tern_status weight_bytes(const tern_backend *b, const tern_weight *w, uint64_t *bytes, tern_error *err)
{
    const tern_backend *inner = tern_wrap__inner(b);
    return inner->weight_bytes(inner, w, bytes, err);
}

static double measure(tern_backend *b, tern_measure what, tern_buffer *const *buffers, size_t n, double seconds)
{
    tern_backend *inner = tern_wrap__inner(b);
    size_t n_inner = 0;
    tern_buffer **some = tern_calloc(n + 1, sizeof *some);
    if (!some) return 0;
    for (size_t i = 0; i < n; i++)
        if (inner_buffer(buffers[i])) some[n_inner++] = inner_buffer(buffers[i]);
    const double rate = inner->measure(inner, what, some, n_inner, seconds);
    tern_free(some);
    return rate;
}

static size_t profile(const tern_backend *b, tern_profile_row *rows, size_t cap)
{
    const tern_backend *inner = tern_wrap__inner(b);
    return inner->profile(inner, rows, cap);
}

static const tern_wrap_part *part_at(const tern_wrap_parts *p, size_t i)
{
    return (const tern_wrap_part *)(const void *)((const char *)p->parts + i * p->part_bytes);
}

/* The part that one of the ops is in, and its number there. */
static const tern_wrap_part *part_of(const tern_wrap_parts *p, size_t op, size_t *number)
{
    size_t i = 0;
    while (i + 1 < p->n && part_at(p, i + 1)->graph.ops <= p->ops + op) i++;
    *number = (size_t)(p->ops + op - part_at(p, i)->graph.ops);
    return part_at(p, i);
}

static size_t first_copy(const tern_wrap_parts *p, size_t op)
{
    return p->copies ? p->copies[op] : op;
}

static const char *doubt(tern_backend *b, const tern_prepared *prepared, size_t at)
{
    tern_backend *inner = tern_wrap__inner(b);
    const tern_wrap_parts p = wrap_of(b)->parts_of(prepared);
    const char *found = NULL;
    for (size_t op = first_copy(&p, at), number; op < first_copy(&p, at + 1) && !found; op++) {
        const tern_wrap_part *part = part_of(&p, op, &number);
        found = inner->trial->doubt(inner, part->prepared, number);
    }
    return found;
}

static void prove(tern_backend *b, const tern_prepared *prepared)
{
    tern_backend *inner = tern_wrap__inner(b);
    const tern_wrap_parts p = wrap_of(b)->parts_of(prepared);
    for (size_t i = 0; i < p.n; i++) inner->trial->prove(inner, part_at(&p, i)->prepared);
}

static void give_up(tern_backend *b, const tern_prepared *prepared, size_t at)
{
    tern_backend *inner = tern_wrap__inner(b);
    const tern_wrap_parts p = wrap_of(b)->parts_of(prepared);
    for (size_t op = first_copy(&p, at), number; op < first_copy(&p, at + 1); op++) {
        const tern_wrap_part *part = part_of(&p, op, &number);
        inner->trial->give_up(inner, part->prepared, number);
    }
}

static tern_status weight_read(tern_backend *b, const tern_buffer *buffer, const tern_weight *weight, tern_weight *out,
                               tern_error *err)
{
    tern_backend *inner = tern_wrap__inner(b);
    if (inner_buffer(buffer) && inner->trial->weight_read)
        return inner->trial->weight_read(inner, inner_buffer(buffer), weight, out, err);
    return tern_fail(err, TERN_UNSUPPORTED, "%s: this weight cannot be read as a whole", b->info.name);
}

static const tern_backend_trial trial = {
    .doubt = doubt, .prove = prove, .give_up = give_up, .weight_read = weight_read};

void tern_wrap__init(tern_wrap *wrap, tern_backend *inner, const char *word, const char *no_sampling,
                     tern_wrap_parts (*parts_of)(const tern_prepared *prepared))
{
    *wrap = (tern_wrap){.base = {.info = inner->info,
                                 .trial = inner->trial ? &trial : NULL,
                                 .supports = supports,
                                 .wait = wait,
                                 .memory_free = memory_free,
                                 .weight_bytes = inner->weight_bytes ? weight_bytes : NULL,
                                 .measure = measure,
                                 .profile = profile},
                        .inner = inner,
                        .no_sampling = no_sampling,
                        .parts_of = parts_of};
    snprintf(wrap->name, sizeof wrap->name, "%s %s", word, inner->info.name);
    wrap->base.info.name = wrap->name;
    wrap->base.info.max_steps = 1;
    wrap->base.info.samples_rows = false;
}

tern_status tern_wrap__bind_part(tern_wrap_part *part, const tern_binding *at, tern_error *err)
{
    const tern_graph *g = &part->graph;
    part->bindings = tern_calloc(g->n_values, sizeof *part->bindings);
    if (!part->bindings) return tern_fail_alloc(err, g->n_values * sizeof *part->bindings);
    for (size_t i = 0; i < g->n_values; i++)
        if (g->values[i].kind == TERN_VALUE_PARAM) part->bindings[i] = at[i];
    for (size_t i = 0; i < g->n_ops; i++)
        for (uint32_t k = 0; k < tern_op_n_views(&g->ops[i]); k++) {
            const uint32_t value = tern_op_view(&g->ops[i], k).value;
            if (value != TERN_NO_VALUE) part->bindings[value] = at[value];
        }
    return TERN_OK;
}
