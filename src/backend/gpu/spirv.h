/* The pipelines' SPIR-V, embedded in the library: made from FAMILY/FILE.wgsl by tools/wgsl (`make shaders`), committed
 * as generated/kernels.spvpack and generated/spirv.def. */
#ifndef TERN_BACKEND_GPU_SPIRV_H
#define TERN_BACKEND_GPU_SPIRV_H

#include "backend/gpu/pipelines.h"
#include "base/error.h"

/* Unpacks the words of a pipeline's module, entry point "main"; the caller frees them with tern_free. Thread-safe. */
tern_status tern_gpu_spirv(tern_gpu_pipeline pipeline, uint32_t **words, size_t *n_words, tern_error *err);
/* All modules in their packed form, to tell one build's from another's. */
const void *tern_gpu_spirv_pack(size_t *n_bytes);

#endif
