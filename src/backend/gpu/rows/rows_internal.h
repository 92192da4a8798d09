/* Inside the lowering of ops on rows: what its files share. */
#ifndef TERN_BACKEND_GPU_ROWS_ROWS_INTERNAL_H
#define TERN_BACKEND_GPU_ROWS_ROWS_INTERNAL_H

#include "backend/gpu/gpu_internal.h"

/* Whether all rows of a view of f32 are whole vectors of four. */
bool tern_gpu__in_fours(const tern_gpu_program *p, tern_view view);
/* A workgroup for each row; candidates: with subgroups of 16 and of 4, without, of 128 invocations, and the one for any
 * number of columns, which is taken unless `fours`. NULL as tern_gpu__add. */
tern_gpu_dispatch *tern_gpu__add_rowwise(tern_gpu_program *p, const tern_op *op, const tern_gpu_pipeline candidates[5],
                                         bool fours, tern_error *err);
/* The part that the kernel reads as vectors of four floats: to the end of the last one, also where the value ends
 * before. */
void tern_gpu__bind_vectors(const tern_gpu_program *p, tern_gpu_dispatch *d, tern_view view);

#endif
