/* tern_gpu_format for CUDA's C++, which cannot read layout.h. */
#ifndef TERN_BACKEND_CUDA_FORMATS_H
#define TERN_BACKEND_CUDA_FORMATS_H

#ifndef __cplusplus
#include "backend/gpu/layout.h"
#else
enum {
    TERN_GPU_TERNARY,
#define FORMAT(name, number, vec, unit, coop, join) TERN_GPU_##name,
#include "backend/gpu/formats.def"
#undef FORMAT
    TERN_GPU_FORMAT_COUNT
};
#endif

/* As in ops/activation.h, which is not for C alone. */
#include "ops/activation.h"
#include "ops/routing.h"

#endif
