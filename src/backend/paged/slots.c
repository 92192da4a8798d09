/* Which expert lies in which slot of a room, and which makes way for another. */
#include "backend/paged/slots.h"

#include "base/alloc.h"

enum { TOKENS_KEPT = 48, TOKENS_TO_TELL = 16 }; /* when what is long ago counts for half; from when on one is usual */

tern_status tern_slots_init(tern_slots *s, uint32_t n_slots, uint32_t n_layers, uint32_t n_experts, uint32_t n_used,
                            tern_error *err)
{
    const size_t n_keys = (size_t)n_layers * n_experts;
    *s = (tern_slots){.n_slots = n_slots, .n_layers = n_layers, .n_experts = n_experts, .n_shared = n_slots - n_used};
    s->slot_of = tern_alloc(n_keys * sizeof *s->slot_of);
    s->held = tern_calloc(n_layers, sizeof *s->held);
    s->slots = tern_calloc(n_slots, sizeof *s->slots);
    s->taken = tern_calloc(n_keys, sizeof *s->taken);
    s->tokens = tern_calloc(n_layers, sizeof *s->tokens);
    s->usual = tern_alloc(n_layers * sizeof *s->usual);
    if (!s->slot_of || !s->held || !s->slots || !s->taken || !s->tokens || !s->usual) {
        tern_slots_deinit(s);
        return tern_fail_alloc(err, n_keys * sizeof *s->slot_of + n_slots * sizeof *s->slots);
    }
    for (size_t i = 0; i < n_keys; i++) s->slot_of[i] = TERN_NO_SLOT;
    for (uint32_t i = 0; i < n_slots; i++) s->slots[i].layer = TERN_NO_SLOT;
    for (uint32_t i = 0; i < n_layers; i++) s->usual[i] = TERN_NO_SLOT;
    return TERN_OK;
}

void tern_slots_deinit(tern_slots *s)
{
    tern_free(s->slot_of);
    tern_free(s->held);
    tern_free(s->slots);
    tern_free(s->taken);
    tern_free(s->tokens);
    tern_free(s->usual);
    *s = (tern_slots){0};
}

static uint32_t *place_of(const tern_slots *s, uint32_t layer, uint32_t expert)
{
    return &s->slot_of[(size_t)layer * s->n_experts + expert];
}

uint32_t tern_slots_find(const tern_slots *s, uint32_t layer, uint32_t expert)
{
    return *place_of(s, layer, expert);
}

void tern_slots_mark(tern_slots *s, uint32_t slot)
{
    s->slots[slot].in_use = true;
    s->slots[slot].used = ++s->clock;
}

void tern_slots_release(tern_slots *s)
{
    for (uint32_t i = 0; i < s->n_slots; i++) s->slots[i].in_use = false;
}

static uint32_t share_of(const tern_slots *s, uint32_t layer)
{
    return s->n_shared / s->n_layers + (layer < s->n_shared % s->n_layers);
}

/* Whether the slot may go to an expert of `layer` without taking another layer's share. */
static bool is_spare(const tern_slots *s, const tern_slot *slot, uint32_t layer)
{
    return s->held[slot->layer] + (slot->layer == layer) > share_of(s, slot->layer);
}

/* Empty ones first, then spare ones, then the others; the longest unused of each. */
static uint32_t find_victim(const tern_slots *s, uint32_t layer)
{
    uint32_t best = TERN_NO_SLOT;
    bool best_spare = false;
    for (uint32_t i = 0; i < s->n_slots; i++) {
        const tern_slot *slot = &s->slots[i];
        if (slot->in_use || slot->pinned) continue;
        if (slot->layer == TERN_NO_SLOT) return i;
        const bool spare = is_spare(s, slot, layer);
        if (best != TERN_NO_SLOT && (spare < best_spare || (spare == best_spare && slot->used >= s->slots[best].used)))
            continue;
        best = i;
        best_spare = spare;
    }
    return best;
}

void tern_slots_forget(tern_slots *s, uint32_t slot)
{
    tern_slot *at = &s->slots[slot];
    if (at->layer == TERN_NO_SLOT) return;
    s->held[at->layer]--;
    *place_of(s, at->layer, at->expert) = TERN_NO_SLOT;
    *at = (tern_slot){.layer = TERN_NO_SLOT};
}

uint32_t tern_slots_take(tern_slots *s, uint32_t layer, uint32_t expert)
{
    const uint32_t slot = find_victim(s, layer);
    if (slot == TERN_NO_SLOT) return slot;
    s->evictions += s->slots[slot].layer != TERN_NO_SLOT;
    tern_slots_forget(s, slot);
    s->slots[slot] = (tern_slot){.layer = layer, .expert = expert, .used = ++s->clock};
    s->held[layer]++;
    *place_of(s, layer, expert) = slot;
    return slot;
}

bool tern_slots_pin(tern_slots *s, uint32_t layer, uint32_t expert, bool pinned)
{
    const uint32_t slot = tern_slots_find(s, layer, expert);
    uint32_t n = 0;
    if (slot == TERN_NO_SLOT) return false;
    for (uint32_t i = 0; i < s->n_slots; i++) n += s->slots[i].pinned;
    if (pinned && !s->slots[slot].pinned && n >= s->n_shared) return false;
    s->slots[slot].pinned = pinned;
    return true;
}

/* The expert that more than half of the tokens took, the most taken one; or TERN_NO_SLOT. */
static uint32_t usual_of(const tern_slots *s, uint32_t layer)
{
    const uint16_t *taken = &s->taken[(size_t)layer * s->n_experts];
    uint32_t best = 0;
    for (uint32_t e = 1; e < s->n_experts; e++)
        if (taken[e] > taken[best]) best = e;
    return s->tokens[layer] >= TOKENS_TO_TELL && 2u * taken[best] > s->tokens[layer] ? best : TERN_NO_SLOT;
}

static void count(tern_slots *s, uint32_t layer, const uint32_t *experts, uint32_t n)
{
    uint16_t *taken = &s->taken[(size_t)layer * s->n_experts];
    if (s->tokens[layer] == TOKENS_KEPT) {
        s->tokens[layer] /= 2;
        for (uint32_t e = 0; e < s->n_experts; e++) taken[e] /= 2;
    }
    s->tokens[layer]++;
    for (uint32_t i = 0; i < n; i++) taken[experts[i]]++;
}

void tern_slots_note(tern_slots *s, uint32_t layer, const uint32_t *experts, uint32_t n)
{
    count(s, layer, experts, n);
    const uint32_t usual = share_of(s, layer) ? usual_of(s, layer) : TERN_NO_SLOT;
    if (usual == s->usual[layer]) return;
    if (s->usual[layer] != TERN_NO_SLOT) tern_slots_pin(s, layer, s->usual[layer], false);
    s->usual[layer] = usual != TERN_NO_SLOT && tern_slots_pin(s, layer, usual, true) ? usual : TERN_NO_SLOT;
}
