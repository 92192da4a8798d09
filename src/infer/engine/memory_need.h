/* The memory of a model and a session of it, by use, and whether that much is free: checked before anything is
 * allocated. */
#ifndef TERN_INFER_ENGINE_MEMORY_NEED_H
#define TERN_INFER_ENGINE_MEMORY_NEED_H

#include "infer/session/runner.h"

/* One side: a backend, or one of the two of a split one. Bytes. */
typedef struct tern_memory_need {
    tern_backend *backend;
    uint64_t weights;       /* as the backend holds them */
    uint64_t there;         /* of them, what is in memory already */
    uint64_t cache;         /* keys and values; of a backend that spills the room for them that is not taken yet */
    uint64_t largest_layer; /* keys and values of the layer that has the most */
    uint64_t least_layer;   /* of one head of a layer, where that has the most: a device needs no more at a time */
    uint64_t activations;   /* of the graph that takes the most: graphs share them */
    uint64_t other;         /* outputs of each graph, constants, parameters */
    uint64_t total;         /* of all but what is there */
    uint64_t free;          /* of the device now; 0: not known */
    uint64_t largest;       /* single buffer, weights apart: those some devices cut */
    char largest_name[80];
} tern_memory_need;

typedef struct tern_memory_needs {
    tern_memory_need sides[TERN_BACKEND_MAX_SIDES];
    uint32_t n;
} tern_memory_needs;

/* The memory of a session like this; with_weights: and of the engine's weights. Errors: those of building graphs;
 * with_weights: those of a weight that the backend cannot hold. */
tern_status tern_memory_needs_of(tern_engine *engine, const tern_runner_params *params, bool with_weights,
                                 tern_memory_needs *out, tern_error *err);
/* OUT_OF_MEMORY where a side has less free than that takes: what is needed and for what, what is free, and what would
 * fit. LIMIT for a buffer that is larger than any of the device. OK when the engine was opened with no_memory_check,
 * and where nothing is known. */
tern_status tern_memory_check(tern_engine *engine, const tern_runner_params *params, bool with_weights,
                              tern_error *err);

#endif
