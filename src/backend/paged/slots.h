/* Which expert lies in which slot of a room, and which makes way for another. Plain data: nothing is copied here. */
#ifndef TERN_BACKEND_PAGED_SLOTS_H
#define TERN_BACKEND_PAGED_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define TERN_NO_SLOT UINT32_MAX

typedef struct tern_slot {
    uint32_t layer, expert; /* layer TERN_NO_SLOT: empty */
    uint64_t used;          /* the clock when it was last marked */
    bool in_use, pinned;
} tern_slot;

/* Layers run one after the other, again and again, so what was used longest ago is what comes next, and the plain least
 * recently used order would throw out just that. Each layer therefore has a share of the room that others cannot take:
 * (n_slots - n_used) / n_layers slots, one more in the first layers; n_used slots go around. Evicts the least recently
 * used slot of the layers above their share. */
typedef struct tern_slots {
    uint32_t n_slots, n_layers, n_experts;
    uint32_t n_shared; /* slots that are some layer's share */
    uint64_t clock;
    uint32_t *slot_of;  /* [n_layers][n_experts] or TERN_NO_SLOT */
    uint32_t *held;     /* [n_layers] slots with an expert of it */
    tern_slot *slots;   /* [n_slots] */
    uint64_t evictions; /* experts that made way */
    uint16_t *taken;    /* [n_layers][n_experts] tokens that took it, of */
    uint16_t *tokens;   /* [n_layers] so many */
    uint32_t *usual;    /* [n_layers] the expert that is pinned by tern_slots_note, or TERN_NO_SLOT */
} tern_slots;

/* n_used: experts of a token, at most n_slots. On failure there is nothing to free. Errors: OUT_OF_MEMORY. */
tern_status tern_slots_init(tern_slots *slots, uint32_t n_slots, uint32_t n_layers, uint32_t n_experts, uint32_t n_used,
                            tern_error *err);
void tern_slots_deinit(tern_slots *slots); /* zeroed is fine */

/* Where an expert is, or TERN_NO_SLOT. */
uint32_t tern_slots_find(const tern_slots *slots, uint32_t layer, uint32_t expert);
/* The slot is in use, so that nothing takes it before tern_slots_release, and was used now. */
void tern_slots_mark(tern_slots *slots, uint32_t slot);
/* Nothing is in use any more. */
void tern_slots_release(tern_slots *slots);
/* A slot for an expert that is not there: an empty one, or one whose expert makes way; none in use, none pinned.
 * TERN_NO_SLOT: there is none. The expert is then there, not yet in use. */
uint32_t tern_slots_take(tern_slots *slots, uint32_t layer, uint32_t expert);
/* The slot is empty: its expert did not come. */
void tern_slots_forget(tern_slots *slots, uint32_t slot);
/* An expert that is there stays there, or need not any more. At least n_used slots must stay free of pins: false, and
 * nothing is changed, where they would not, or where the expert is not there. */
bool tern_slots_pin(tern_slots *slots, uint32_t layer, uint32_t expert, bool pinned);
/* A token took these n experts of a layer. An expert that more than half of the last tokens took is pinned while this
 * holds, if it has a slot and the layer has a share. A few other tokens in turn then do not cost it its slot. */
void tern_slots_note(tern_slots *slots, uint32_t layer, const uint32_t *experts, uint32_t n);

#endif
