/* The inputs of linear layers while a model reads a text: the importance of columns for quantising. */
#ifndef TERN_INFER_SESSION_IMPORTANCE_H
#define TERN_INFER_SESSION_IMPORTANCE_H

#include "infer/engine/engine.h"
#include "model/imatrix.h"

typedef struct tern_importance_params {
    uint32_t window; /* tokens that are read together, each window starting empty; 0: 512, or the context */
    bool (*progress)(void *context, double done); /* false: CANCELLED; may be NULL */
    void *context;
} tern_importance_params;

/* One entry for each matrix of the layers, in the order of files. */
typedef struct tern_importance {
    tern_imatrix_sums *sums;
    size_t n;
    uint32_t n_windows, window;
    uint64_t n_tokens;
} tern_importance;

/* Reads the text window by window through a graph without fusions. Sums are in double. Ternary layers: of what goes
 * into their quantiser. Errors: INVALID_ARGUMENT (fewer than one window of 2 tokens, a window beyond the context; a
 * backend that never waits), OUT_OF_MEMORY, CANCELLED, NOT_FINITE (a sum that is not, with the layer), those of the
 * backend. */
tern_status tern_importance_measure(tern_importance *out, tern_engine *engine, const int32_t *ids, size_t n,
                                    const tern_importance_params *params, tern_error *err);
void tern_importance_deinit(tern_importance *importance);

#endif
