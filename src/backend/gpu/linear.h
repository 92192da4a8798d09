/* Ternary linear layers on a GPU: which pipeline, and how its dispatches are filled. */
#ifndef TERN_BACKEND_GPU_LINEAR_H
#define TERN_BACKEND_GPU_LINEAR_H

#include "backend/gpu/gpu.h"

/* Parts [first, first + n) of a LINEAR, all of ternary weights; a gated one has both. Errors: UNSUPPORTED, OUT_OF_MEMORY. */
tern_status tern_gpu__lower_linear_ternary(tern_gpu_program *p, const tern_op *op, uint32_t first, uint32_t n, tern_error *err);

#endif
