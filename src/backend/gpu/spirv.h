/* The pipelines' SPIR-V, embedded in the library: made from FAMILY/FILE.wgsl by tools/wgsl (`make shaders`), committed
 * as generated/kernels.spvpack and generated/spirv.def. */
#ifndef TERN_BACKEND_GPU_SPIRV_H
#define TERN_BACKEND_GPU_SPIRV_H

#include "backend/gpu/pipelines.h"

/* The words of a pipeline's module, entry point "main"; valid for ever. */
const uint32_t *tern_gpu_spirv(tern_gpu_pipeline pipeline, size_t *n_words);

#endif
