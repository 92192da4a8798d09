/* Running a graph whose experts need not all be there: part after part, and what is missing copied in between. */
#include <string.h>

#include "backend/paged/paged_internal.h"
#include "ops/routing.h"

static tern_status read_counts(tern_paged_step *s, tern_error *err)
{
    const tern_graph *g = s->p->graph;
    const tern_binding *at = &s->p->at[g->params[TERN_PARAM_COUNTS]];
    uint32_t counts[2];
    TERN_TRY(
        s->paged->wrap.inner->buffer_read(s->paged->wrap.inner, at->buffer, at->offset, counts, sizeof counts, err));
    s->n_tokens = counts[0];
    s->n_outputs = counts[1];
    s->n_rows = tern_rows_of(TERN_ROWS_ROUTED, s->n_tokens, s->n_outputs, g->n_routes);
    if (s->n_tokens && s->n_tokens <= g->max_tokens && s->n_outputs <= g->max_outputs) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "step of %u tokens and %u outputs: 1 to %u and at most %u expected",
                     s->n_tokens, s->n_outputs, g->max_tokens, g->max_outputs);
}

/* The choice of the routers: waits for the run. */
static tern_status read_routes(const tern_paged_step *s, const tern_paged_part *part, tern_error *err)
{
    const tern_binding *at = &s->p->at[part->route];
    const uint32_t n = s->paged->options.n_experts;
    TERN_TRY(s->paged->wrap.inner->buffer_read(s->paged->wrap.inner, at->buffer, at->offset, s->p->routes,
                                               (uint64_t)s->n_rows * 8, err));
    for (uint32_t r = 0; r < s->n_rows; r++)
        if (s->p->routes[2 * r] >= n)
            return tern_fail(err, TERN_INTERNAL, "%s: layer %u, row %u: expert %u of %u", s->paged->wrap.name,
                             part->layer, r, s->p->routes[2 * r], n);
    return TERN_OK;
}

static tern_paged_room *room_of(const tern_paged_step *s, uint32_t layer)
{
    return &s->paged->rooms.rooms[s->paged->rooms.places[layer].room];
}

/* Marks what is there of the experts of the rows left, so that none makes way for another of them. */
static void mark_those_there(const tern_paged_step *s, uint32_t layer)
{
    tern_slots *slots = &room_of(s, layer)->slots;
    const uint32_t place = s->paged->rooms.places[layer].layer;
    tern_slots_release(slots);
    for (uint32_t r = 0; r < s->n_rows; r++) {
        const uint32_t slot = s->p->done[r] ? TERN_NO_SLOT : tern_slots_find(slots, place, s->p->routes[2 * r]);
        if (slot == TERN_NO_SLOT || slots->slots[slot].in_use) continue;
        tern_slots_mark(slots, slot);
        s->paged->hits++;
    }
}

/* Says which experts are going to be copied, each of them once. */
static void want_missing(const tern_paged_step *s, uint32_t layer)
{
    const tern_slots *slots = &room_of(s, layer)->slots;
    const uint32_t place = s->paged->rooms.places[layer].layer;
    bool said[TERN_MAX_EXPERTS] = {0};
    for (uint32_t r = 0; r < s->n_rows; r++) {
        const uint32_t expert = s->p->routes[2 * r];
        if (said[expert] || tern_slots_find(slots, place, expert) != TERN_NO_SLOT) continue;
        said[expert] = true;
        tern_paged__want(s->paged, layer, expert);
    }
}

/* Copies an expert into a slot, if one can be had. */
static tern_status bring(const tern_paged_step *s, uint32_t layer, uint32_t expert, uint32_t *slot, tern_error *err)
{
    tern_slots *slots = &room_of(s, layer)->slots;
    *slot = tern_slots_take(slots, s->paged->rooms.places[layer].layer, expert);
    if (*slot == TERN_NO_SLOT) return TERN_OK;
    const tern_status status = tern_paged__copy(s->paged, layer, expert, *slot, err);
    if (status != TERN_OK) {
        tern_slots_forget(slots, *slot);
        return status;
    }
    tern_slots_mark(slots, *slot);
    s->paged->misses++;
    return TERN_OK;
}

/* Brings as many of the missing experts as there is room for, and says of each row left where its expert is; of other
 * rows that they have none. *n_left: rows whose expert did not fit. */
static tern_status map_rows(const tern_paged_step *s, uint32_t layer, uint32_t *n_left, tern_error *err)
{
    const tern_slots *slots = &room_of(s, layer)->slots;
    const uint32_t place = s->paged->rooms.places[layer].layer;
    *n_left = 0;
    for (uint32_t r = 0; r < s->n_rows; r++) {
        const uint32_t expert = s->p->routes[2 * r];
        uint32_t slot = s->p->done[r] ? TERN_NO_SLOT : tern_slots_find(slots, place, expert);
        if (!s->p->done[r] && slot == TERN_NO_SLOT) TERN_TRY(bring(s, layer, expert, &slot, err));
        s->p->mapped[2 * r] = slot == TERN_NO_SLOT ? slots->n_slots : slot;
        s->p->mapped[2 * r + 1] = s->p->routes[2 * r + 1];
        *n_left += !s->p->done[r] && slot == TERN_NO_SLOT;
        s->p->done[r] = s->p->done[r] || slot != TERN_NO_SLOT;
    }
    return TERN_OK;
}

/* The experts that tokens with these experts chose next, so that they are copied while the device computes. A copy that
 * fails is tried again when it is needed. */
static void prefetch(const tern_paged_step *s, uint32_t layer)
{
    tern_paged *p = s->paged;
    uint32_t likely[TERN_MAX_ROUTES];
    if (p->last_layer != layer || layer + 1 == p->options.n_layers) return;
    tern_slots *slots = &room_of(s, layer + 1)->slots;
    const uint32_t n = tern_predict_likely(&p->predict, layer, p->last, s->n_rows, likely);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t place = p->rooms.places[layer + 1].layer;
        if (tern_slots_find(slots, place, likely[i]) != TERN_NO_SLOT) continue;
        const uint32_t slot = tern_slots_take(slots, place, likely[i]);
        if (slot == TERN_NO_SLOT) return;
        if (tern_paged__copy(p, layer + 1, likely[i], slot, NULL) != TERN_OK) {
            tern_slots_forget(slots, slot);
            return;
        }
        p->prefetched++;
    }
}

/* The use of a step of one token, recorded for later steps. */
static void note(const tern_paged_step *s, uint32_t layer)
{
    tern_paged *p = s->paged;
    uint32_t experts[TERN_MAX_ROUTES];
    if (s->n_tokens != 1) return;
    for (uint32_t r = 0; r < s->n_rows; r++) experts[r] = s->p->routes[2 * r];
    if (layer > 0 && p->last_layer == layer - 1) tern_predict_note(&p->predict, layer - 1, p->last, experts, s->n_rows);
    memcpy(p->last, experts, s->n_rows * sizeof *experts);
    p->last_layer = layer;
}

/* The contents of the room after a step of one token, whose experts are there now. */
static void note_use(const tern_paged_step *s, uint32_t layer)
{
    tern_slots_note(&room_of(s, layer)->slots, s->paged->rooms.places[layer].layer, s->paged->last, s->n_rows);
}

static tern_status run_experts(const tern_paged_step *s, tern_paged_part *part, tern_error *err)
{
    tern_backend *b = s->paged->wrap.inner;
    TERN_TRY(read_routes(s, part, err));
    note(s, part->layer);
    memset(s->p->done, 0, s->n_rows * sizeof *s->p->done);
    want_missing(s, part->layer);
    for (uint32_t n_left = s->n_rows; n_left;) {
        if (!b->info.never_waits) TERN_TRY(b->wait(b, err)); /* what runs may use the slots that are filled now */
        mark_those_there(s, part->layer);
        TERN_TRY(map_rows(s, part->layer, &n_left, err));
        if (n_left && !part->again)
            return tern_fail(err, TERN_INTERNAL, "%s: layer %u: %u rows without an expert", s->paged->wrap.name,
                             part->layer, n_left);
        TERN_TRY(b->buffer_write(b, s->p->slots, 0, s->p->mapped, (uint64_t)s->n_rows * 8, err));
        TERN_TRY(b->run(b, part->base.prepared, 1, err));
    }
    if (s->n_tokens == 1) note_use(s, part->layer);
    prefetch(s, part->layer);
    return TERN_OK;
}

static tern_status run_part(const tern_paged_step *s, tern_paged_part *part, tern_error *err)
{
    if (part->only_outputs && s->n_outputs == 0) return TERN_OK;
    if (part->layer != TERN_PAGED_NOWHERE) return run_experts(s, part, err);
    return s->paged->wrap.inner->run(s->paged->wrap.inner, part->base.prepared, 1, err);
}

/* The parts that are left. */
static tern_status run_parts(tern_paged_step *s, tern_error *err)
{
    if (s->n_tokens == 0) TERN_TRY(read_counts(s, err));
    for (; s->next < s->p->n_parts; s->next++) TERN_TRY(run_part(s, &s->p->parts[s->next], err));
    s->paged->runs++;
    return TERN_OK;
}

/* Under the lock. */
static tern_status go_on(tern_paged *p, tern_error *err)
{
    const tern_status status = p->step.p ? run_parts(&p->step, err) : TERN_OK;
    if (status != TERN_PENDING) p->step.p = NULL;
    return status;
}

static tern_status begin(tern_paged *p, tern_prepared *prepared, tern_error *err)
{
    if (p->step.p)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "%s: a step while another one is under way: one at a time expected", p->wrap.name);
    TERN_TRY(tern_paged__shrink(p, err));
    p->last_layer = TERN_PAGED_NOWHERE;
    p->step = (tern_paged_step){.paged = p, .p = prepared};
    const tern_status status = go_on(p, err);
    return status == TERN_PENDING ? TERN_OK : status; /* it has begun: waiting for it ends it */
}

tern_status tern_paged__run(tern_backend *b, tern_prepared *prepared, uint32_t n_steps, tern_error *err)
{
    tern_paged *p = tern_paged__of(b);
    if (n_steps != 1)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "run of %u steps: %s takes 1", n_steps, p->wrap.name);
    pthread_mutex_lock(&p->lock);
    const tern_status status = begin(p, prepared, err);
    pthread_mutex_unlock(&p->lock);
    return status;
}

tern_status tern_paged__go_on(tern_paged *p, tern_error *err)
{
    if (!p->wrap.inner->info.never_waits) return TERN_OK;
    pthread_mutex_lock(&p->lock);
    const tern_status status = go_on(p, err);
    pthread_mutex_unlock(&p->lock);
    return status;
}

void tern_paged__give_up(tern_paged *p)
{
    p->step.p = NULL;
    if (p->wrap.inner->read_cancel) p->wrap.inner->read_cancel(p->wrap.inner);
}
