/* Running a split graph: part after part, with the rows that cross carried over in between. */
#include <string.h>

#include "backend/split/split_internal.h"
#include "ops/crossing.h"

typedef struct step {
    uint32_t n_tokens, n_outputs;
} step;

static tern_status read_counts(const tern_prepared *p, step *out, tern_error *err)
{
    const tern_graph *g = p->graph;
    const tern_binding *at = &p->bindings[g->params[TERN_PARAM_COUNTS]];
    memcpy(&out->n_tokens, at->buffer->copy + at->offset, 4);
    memcpy(&out->n_outputs, at->buffer->copy + at->offset + 4, 4);
    if (out->n_tokens && out->n_tokens <= g->max_tokens && out->n_outputs <= g->max_outputs) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "step of %u tokens and %u outputs: 1 to %u and at most %u expected",
                     out->n_tokens, out->n_outputs, g->max_tokens, g->max_outputs);
}

/* Reading waits for what was run on the other side before. */
static tern_status carry(tern_split *s, tern_prepared *p, const tern_split_part *part, uint32_t value, const step *now,
                         tern_error *err)
{
    const tern_binding *at = &p->bindings[value];
    tern_side other = tern_split__other(part->side);
    tern_backend *from = s->sides[other], *to = s->sides[part->side];
    uint64_t bytes = tern_crossing_bytes(p->graph, value, now->n_tokens, now->n_outputs);
    TERN_TRY(
        tern_split__at(s, other, from->buffer_read(from, at->buffer->on[other], at->offset, p->rows, bytes, err), err));
    TERN_TRY(tern_split__at(s, part->side,
                            to->buffer_write(to, at->buffer->on[part->side], at->offset, p->rows, bytes, err), err));
    s->crossed_bytes += bytes;
    return TERN_OK;
}

static tern_status run_part(tern_split *s, tern_prepared *p, const tern_split_part *part, const step *now,
                            tern_error *err)
{
    tern_backend *b = s->sides[part->side];
    if (part->only_outputs && now->n_outputs == 0) return TERN_OK;
    for (size_t i = 0; i < part->n_crossings; i++) TERN_TRY(carry(s, p, part, part->crossings[i], now, err));
    return tern_split__at(s, part->side, b->run(b, part->prepared, 1, err), err);
}

tern_status tern_split__run(tern_backend *b, tern_prepared *prepared, uint32_t n_steps, tern_error *err)
{
    tern_split *s = tern_split__of(b);
    step now;
    if (n_steps != 1) return tern_fail(err, TERN_INVALID_ARGUMENT, "run of %u steps: %s takes 1", n_steps, s->name);
    TERN_TRY(read_counts(prepared, &now, err));
    for (size_t i = 0; i < prepared->n_parts; i++) TERN_TRY(run_part(s, prepared, &prepared->parts[i], &now, err));
    s->runs++;
    return TERN_OK;
}
