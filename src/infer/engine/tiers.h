/* The one place that divides a device's free memory between weights, experts (infer/experts/cache.h) and keys and
 * values (backend/spill), and sends the rest to the host or a disk. */
#ifndef TERN_INFER_ENGINE_TIERS_H
#define TERN_INFER_ENGINE_TIERS_H

#include "infer/session/runner.h"

/* Reads "all", "auto", or bytes of the device for keys and values ("800M", "3.5G"; powers of 1024). NULL: "auto".
 * Errors: INVALID_ARGUMENT. */
tern_status tern_kv_room_parse(const char *text, tern_kv_room *room, tern_error *err);

/* Puts backends around the engine's where params and the free memory require it. One spills keys and values: where
 * params limit their memory, or where those of a session of these params do not fit beside all else. One pages experts
 * that do not fit. Keys and values come first: a token reads all of them, and few of the experts.
 * Called before any weight is made. Errors, beside those of tern_memory_needs_of: INVALID_ARGUMENT (no folder for a
 * device whose memory is the host's; a size for a model without experts, or less than those of a token); UNSUPPORTED (a
 * split backend, several ranks, one that never waits); OUT_OF_MEMORY (too little on the host for what does not fit). */
tern_status tern_engine__tiers(tern_backend **backend, tern_engine *engine, const tern_engine_params *params,
                               const tern_runner_params *session, tern_error *err);

#endif
