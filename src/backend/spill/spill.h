/* A backend around another one, whose device has too little memory for the keys and values of a long context. They lie
 * in memory of the host or on a disk, and the pages that a layer reads are copied to the device before it runs
 * (docs/decisions/0058-tiers.md). Callers use it as any other backend. */
#ifndef TERN_BACKEND_SPILL_SPILL_H
#define TERN_BACKEND_SPILL_SPILL_H

#include "backend/backend.h"

typedef struct tern_spill_options {
    uint64_t bytes;   /* of the device, for the keys and values of all sessions; they share them */
    const char *disk; /* the folder where the others lie; NULL: memory of the host. Copied */
} tern_spill_options;

/* The backend owns `inner` from here on, unless this fails. Its graphs are cut before each layer's attention, so it
 * does one step at a time, and the host samples. Memory of the device is taken when the first graph is prepared: no
 * more than all of that graph's keys and values. A layer that does not fit is cut into groups of heads, of which one
 * must (prepare: OUT_OF_MEMORY, with what is needed; UNSUPPORTED, where the inner backend cannot). Errors: UNSUPPORTED
 * (a backend that never waits), OUT_OF_MEMORY. */
tern_status tern_spill_open(tern_backend **backend, tern_backend *inner, const tern_spill_options *options,
                            tern_error *err);

#endif
