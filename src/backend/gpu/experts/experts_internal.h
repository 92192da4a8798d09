/* Inside the lowering of layers with experts and of their gradients: what its files share. */
#ifndef TERN_BACKEND_GPU_EXPERTS_EXPERTS_INTERNAL_H
#define TERN_BACKEND_GPU_EXPERTS_EXPERTS_INTERNAL_H

#include "backend/gpu/gpu_internal.h"

/* Routed rows as group_rows.wesl puts them together, in SCRATCH. */
typedef struct tern_gpu_grouping {
    uint32_t max_tiles;   /* 0: they are not put together */
    uint32_t rows_first;  /* word of the list of rows */
    tern_gpu_range range; /* of all that was written; to be read */
} tern_gpu_grouping;

/* The dispatch that writes tiles of up to `tile` rows of one expert, `offset` bytes behind the start of SCRATCH;
 * `stable` keeps the rows of an expert in their order. The op has a route. Errors: UNSUPPORTED. */
tern_status tern_gpu__group_rows(tern_gpu_program *p, const tern_op *op, uint32_t tile, bool stable, uint64_t offset,
                                 tern_gpu_grouping *g, tern_error *err);
/* As above with all rows of an expert in one tile, in their order: for sums over them. */
tern_status tern_gpu__group_all_rows(tern_gpu_program *p, const tern_op *op, uint64_t offset, tern_gpu_grouping *g,
                                     tern_error *err);

/* The dispatch of combine.wesl: out = the sum over the routed rows of each token, times the weights of `routes` (a
 * value, or TERN_NO_VALUE: 1), and the op's residual. Errors: UNSUPPORTED. */
tern_status tern_gpu__add_combine(tern_gpu_program *p, const tern_op *op, tern_gpu_range y, uint32_t y_first,
                                  uint32_t y_stride, uint32_t routes, tern_error *err);

#endif
