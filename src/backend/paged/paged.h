/* A backend around another one, on which not all experts of a model are at once: those that a step needs are copied to
 * it when they are not there (docs/decisions/0030-expert-cache.md). To what uses it, it is a backend like any
 * other. */
#ifndef TERN_BACKEND_PAGED_PAGED_H
#define TERN_BACKEND_PAGED_PAGED_H

#include "backend/backend.h"

enum { TERN_PAGED_MAX_WEIGHTS = 6 }; /* matrices and biases of a layer's experts */

/* The parts of the experts of a layer: each weight is that of all of them, one after the other. */
typedef struct tern_paged_layer {
    const tern_weight *weights[TERN_PAGED_MAX_WEIGHTS];
    uint32_t n;
} tern_paged_layer;

/* Brings one expert: data[i] is to be where its rows of the layer's weight i are, until the next call. Errors: its own;
 * the step ends with it, and the next step asks again. */
typedef tern_status (*tern_paged_fetch)(void *context, uint32_t layer, uint32_t expert,
                                        const uint8_t *data[TERN_PAGED_MAX_WEIGHTS], tern_error *err);

typedef struct tern_paged_options {
    const tern_paged_layer *layers; /* [n_layers]; copied, their weights are borrowed */
    uint32_t n_layers, n_experts;
    uint32_t n_used;        /* experts of a token */
    uint32_t n_slots;       /* experts that are on the device at once: tern_paged_slots_least to n_layers * n_experts */
    tern_paged_fetch fetch; /* NULL: the weights have their data, which stays */
    void *context;
} tern_paged_options;

/* The fewest slots that a model can do with: experts of a token, for each kind of layer. */
uint32_t tern_paged_slots_least(const tern_paged_options *options);
/* Bytes of the device that so many slots take. Errors: those of weight_bytes. */
tern_status tern_paged_bytes(const tern_backend *inner, const tern_paged_options *options, uint32_t n_slots,
                             uint64_t *bytes, tern_error *err);

/* The backend owns `inner` from here on, unless this fails. Its graphs are cut where a step's experts become known, so
 * it does one step at a time. Around one that never waits `run` begins a step, and buffer_read and wait go on with it
 * before anything else: PENDING, while the routes of a layer are on their way. Another step may begin once they gave
 * something else, or it was given up (read_cancel, or its graph was freed). Errors: INVALID_ARGUMENT (n_slots),
 * UNSUPPORTED (rows that do not begin at whole bytes), OUT_OF_MEMORY. */
tern_status tern_paged_open(tern_backend **backend, tern_backend *inner, const tern_paged_options *options,
                            tern_error *err);

#endif
