/* Inside the lowering of attention: what its files share. */
#ifndef TERN_BACKEND_GPU_ATTENTION_ATTENTION_INTERNAL_H
#define TERN_BACKEND_GPU_ATTENTION_ATTENTION_INTERNAL_H

#include "backend/gpu/gpu_internal.h"

/* Errors: UNSUPPORTED, when a cache is larger than a binding of the device. */
tern_status tern_gpu__check_cache(const tern_gpu_program *p, const tern_op *op, tern_view cache, tern_error *err);
/* The error of a head dimension that no kernel takes. */
tern_status tern_gpu__no_head(const tern_op *op, tern_error *err);

#endif
