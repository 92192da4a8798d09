/* The shapes of the ops of the optimiser, checked once for all backends. */
#ifndef TERN_OPS_UPDATE_SHAPE_H
#define TERN_OPS_UPDATE_SHAPE_H

#include <stdbool.h>

#include "base/error.h"
#include "ops/dtype.h"

typedef struct tern_graph tern_graph;   /* ops/graph.h */
typedef struct tern_op tern_op;         /* ops/op.h */
typedef struct tern_weight tern_weight; /* quant/weight.h */

typedef struct tern_update_shape {
    uint32_t rows, cols;
    uint64_t n;         /* elements; below 2^32 */
    tern_dtype w, m, v; /* of what they are stored in; F32 where there is none */
    bool has_m, has_v;
    const tern_weight *out; /* REQUANTIZE: what it makes */
    bool ternary;           /* REQUANTIZE: codes, else dense F32 */
} tern_update_shape;

/* The shape of a SUM_SQUARES, UPDATE or REQUANTIZE. Errors: INVALID_ARGUMENT with the op, the value, what was found and
 * what is expected. */
tern_status tern_update_shape_of(tern_update_shape *shape, const tern_graph *graph, const tern_op *op, tern_error *err);

#endif
