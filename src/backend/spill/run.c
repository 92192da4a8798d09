/* Running a graph part by part: before each, the pages of its layer come to the device. */
#include <string.h>

#include "backend/spill/spill_internal.h"
#include "ops/op.h"

typedef struct step {
    tern_spill *s;
    tern_prepared *p;
    uint32_t n_tokens, n_outputs;
} step;

static const uint32_t *param(const tern_prepared *p, uint32_t value)
{
    const tern_binding *at = &p->bindings[value];
    return (const uint32_t *)(const void *)(at->buffer->copy + at->offset);
}

static const uint8_t *param_start(const tern_prepared *p)
{
    const uint32_t counts = p->graph->params[TERN_PARAM_COUNTS];
    return (const uint8_t *)param(p, counts) - p->values[counts].offset;
}

static tern_status read_counts(step *t, tern_error *err)
{
    const tern_graph *g = t->p->graph;
    const uint32_t *counts = param(t->p, g->params[TERN_PARAM_COUNTS]);
    t->n_tokens = counts[0];
    t->n_outputs = counts[1];
    if (t->n_tokens && t->n_tokens <= g->max_tokens && t->n_outputs <= g->max_outputs) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "step of %u tokens and %u outputs: 1 to %u and at most %u expected",
                     t->n_tokens, t->n_outputs, g->max_tokens, g->max_outputs);
}

static tern_status fail_param(const step *t, const char *what, uint32_t found, uint32_t most, tern_error *err)
{
    return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: a step with %s %u: at most %u expected", t->s->wrap.name, what,
                     found, most);
}

/* The pages that each sequence of the step reads, by its own numbers. */
static tern_status find_reach(const step *t, const tern_spill_part *part, tern_error *err)
{
    const tern_prepared *p = t->p;
    const tern_graph *g = p->graph;
    const uint32_t *positions = param(p, g->params[TERN_PARAM_POSITIONS]),
                   *sequences = param(p, g->params[TERN_PARAM_SEQUENCES]);
    const tern_op sees = {.window = part->window};
    for (uint32_t i = 0; i < g->n_sequences; i++) {
        p->first[i] = UINT32_MAX;
        p->last[i] = 0;
    }
    for (uint32_t i = 0; i < t->n_tokens; i++) {
        const uint32_t sequence = sequences[i], page = positions[i] / TERN_PAGE_SIZE,
                       seen = part->attends ? tern_op_first_seen(&sees, positions[i]) / TERN_PAGE_SIZE : page;
        if (sequence >= g->n_sequences) return fail_param(t, "sequence", sequence, g->n_sequences - 1, err);
        if (page >= g->max_pages) return fail_param(t, "position", positions[i], g->max_pages * TERN_PAGE_SIZE, err);
        if (seen < p->first[sequence]) p->first[sequence] = seen;
        if (page > p->last[sequence]) p->last[sequence] = page;
    }
    return TERN_OK;
}

static tern_status need_page(const step *t, tern_spill_need *need, uint32_t page, tern_error *err)
{
    tern_spill_cache *cache = need->part->cache;
    if (page >= cache->pages.n_pages) return fail_param(t, "page", page, cache->pages.n_pages - 1, err);
    if (tern_frames_need(&cache->pages, page)) return TERN_OK;
    cache->covered[page] = 0;
    need->pages[need->n++] = page;
    return TERN_OK;
}

/* How much of which pages the step writes. */
static void cover(const step *t, const tern_spill_part *part)
{
    const tern_graph *g = t->p->graph;
    const uint32_t *positions = param(t->p, g->params[TERN_PARAM_POSITIONS]),
                   *sequences = param(t->p, g->params[TERN_PARAM_SEQUENCES]), *table = param(t->p, part->table);
    for (uint32_t i = 0; i < t->n_tokens; i++)
        part->cache->covered[table[sequences[i] * g->max_pages + positions[i] / TERN_PAGE_SIZE]]++;
}

/* The pages that a part needs, from here on its layer's turn. */
static tern_status find_need(const step *t, const tern_spill_part *part, tern_spill_need *need, tern_error *err)
{
    const tern_graph *g = t->p->graph;
    const uint32_t *table = param(t->p, part->table);
    need->part = part;
    need->n = need->n_brought = 0;
    TERN_TRY(find_reach(t, part, err));
    tern_frames_turn(&part->cache->pages);
    for (uint32_t i = 0; i < g->n_sequences; i++)
        for (uint32_t k = t->p->first[i]; k <= t->p->last[i]; k++)
            TERN_TRY(need_page(t, need, table[i * g->max_pages + k], err));
    if (part->writes) cover(t, part);
    return TERN_OK;
}

/* Where its pages are now; what the table says of others is not looked at. */
static tern_status write_table(const step *t, const tern_spill_part *part, tern_error *err)
{
    const tern_graph *g = t->p->graph;
    tern_backend *b = t->s->wrap.inner;
    const uint32_t *table = param(t->p, part->table), *frame_of = part->cache->pages.frame_of;
    uint32_t from = UINT32_MAX, to = 0;
    TERN_TRY(find_reach(t, part, err));
    for (uint32_t i = 0; i < g->n_sequences; i++)
        for (uint32_t k = t->p->first[i]; k <= t->p->last[i]; k++) {
            const uint32_t at = i * g->max_pages + k, frame = frame_of[table[at]];
            if (part->frame_table[at] == frame) continue;
            part->frame_table[at] = frame;
            from = at < from ? at : from;
            to = at;
        }
    if (from == UINT32_MAX) return TERN_OK;
    return b->buffer_write(b, t->p->params, t->p->values[part->frames].offset + from * sizeof *table,
                           part->frame_table + from, (to + 1 - from) * sizeof *table, err);
}

/* The pages that the part writes, when it runs. */
static void mark_written(const tern_spill_need *need)
{
    tern_spill_cache *cache = need->part->cache;
    for (uint32_t i = 0; i < need->n; i++) {
        const uint32_t page = need->pages[i];
        if (!cache->covered[page]) continue;
        cache->known[page] = true;
        cache->pool->frames.frames[cache->pages.frame_of[page]].dirty = true;
    }
}

static tern_spill_part *next_with_cache(const tern_prepared *p, size_t at)
{
    while (at < p->n_parts && !p->parts[at].cache) at++;
    return at < p->n_parts ? &p->parts[at] : NULL;
}

static tern_status bring(const step *t, tern_spill_need *need, tern_error *err)
{
    const tern_spill_part *part = need->part;
    tern_frames_keep(&part->cache->pool->frames, part->place, 1);
    TERN_TRY(tern_spill__bring(t->s, need, false, err));
    t->s->hits += need->n - need->n_brought;
    TERN_TRY(write_table(t, part, err));
    mark_written(need);
    return TERN_OK;
}

/* Brings the next part while `runs` runs. A prompt first writes groups of heads, then reads groups from the first one
 * on. That one is not a neighbour of the last written, so no frames are left for it, and it is brought in its turn. */
static tern_status bring_ahead(const step *t, const tern_spill_part *runs, tern_spill_need *need, tern_error *err)
{
    const tern_spill_part *part = need->part;
    const bool same = runs->cache->pool == part->cache->pool;
    if (!t->s->wrap.inner->copies || (same && part->place != runs->place + 1)) return TERN_OK;
    tern_frames_keep(&part->cache->pool->frames, same ? runs->place : part->place, same ? 2 : 1);
    return tern_spill__bring(t->s, need, true, err);
}

static tern_status run_with_cache(const step *t, tern_spill_part *part, tern_error *err)
{
    tern_prepared *p = t->p;
    tern_backend *b = t->s->wrap.inner;
    const tern_spill_part *next = next_with_cache(p, (size_t)(part - p->parts) + 1);
    tern_spill_need *now = &p->needs[0], *ahead = &p->needs[1];
    if (now->part != part) TERN_TRY(find_need(t, part, now, err));
    ahead->part = NULL;
    if (next) TERN_TRY(find_need(t, next, ahead, err));
    if (next) tern_spill__want(ahead);
    TERN_TRY(bring(t, now, err));
    TERN_TRY(b->run(b, part->base.prepared, 1, err));
    if (next) TERN_TRY(bring_ahead(t, part, ahead, err));
    const tern_spill_need before = *now;
    *now = *ahead;
    *ahead = before;
    return TERN_OK;
}

static tern_status run_parts(step *t, tern_error *err)
{
    tern_prepared *p = t->p;
    tern_backend *b = t->s->wrap.inner;
    TERN_TRY(read_counts(t, err));
    TERN_TRY(b->buffer_write(b, p->params, 0, param_start(p), p->graph->param_bytes, err));
    p->needs[0].part = p->needs[1].part = NULL;
    for (size_t i = 0; i < p->n_orders; i++)
        tern_frames_begin(&p->orders[i].pool->frames, p->orders[i].layers, p->orders[i].n);
    for (size_t i = 0; i < p->n_parts; i++) {
        tern_spill_part *part = &p->parts[i];
        if (part->only_outputs && t->n_outputs == 0) continue;
        if (part->cache) TERN_TRY(run_with_cache(t, part, err));
        else TERN_TRY(b->run(b, part->base.prepared, 1, err));
    }
    return TERN_OK;
}

tern_status tern_spill__run(tern_backend *b, tern_prepared *prepared, uint32_t n_steps, tern_error *err)
{
    tern_spill *s = tern_spill__of(b);
    step t = {.s = s, .p = prepared};
    if (n_steps != 1)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "run of %u steps: %s takes 1", n_steps, s->wrap.name);
    pthread_mutex_lock(&s->lock);
    const tern_status status = run_parts(&t, err);
    pthread_mutex_unlock(&s->lock);
    return status;
}
