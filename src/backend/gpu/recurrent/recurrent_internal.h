/* Inside the lowering of recurrent ops: what its files share. */
#ifndef TERN_BACKEND_GPU_RECURRENT_RECURRENT_INTERNAL_H
#define TERN_BACKEND_GPU_RECURRENT_RECURRENT_INTERNAL_H

#include "backend/gpu/gpu_internal.h"

/* The layout of the weight of a convolution, [channels][taps] f32. Errors: UNSUPPORTED. */
tern_status tern_gpu__conv_taps(const tern_gpu_program *p, const tern_op *op, tern_gpu_layout *layout, tern_error *err);
/* Whether the kernels have room for the op's heads, of `values` values each. Errors: UNSUPPORTED. */
tern_status tern_gpu__delta_heads(const tern_op *op, uint32_t values, tern_error *err);

#endif
