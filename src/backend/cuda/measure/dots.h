/* A launch that multiplies int8 on tensor cores and reads no memory: the rate that products could reach. */
#ifndef TERN_BACKEND_CUDA_MEASURE_DOTS_H
#define TERN_BACKEND_CUDA_MEASURE_DOTS_H

#include <cuda_runtime_api.h>

#include "backend/cuda/linear/product.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Threads of a block, and independent sums of a warp in mma.sync. */
enum { TERN_CUDA_DOTS_THREADS = 256, TERN_CUDA_DOTS_SUMS = 8 };

typedef struct tern_cuda_dots {
    bool wgmma; /* the instruction that prompts use on this device; false: mma.sync */
    uint32_t blocks, steps;
    double multiply_adds; /* of the whole launch */
} tern_cuda_dots;

/* A launch of a few milliseconds on this device; no device is asked. */
tern_cuda_dots tern_cuda__dots(const tern_cuda_product_device *d);
cudaError_t tern_cuda_run_dots(const tern_cuda_dots *p, uint32_t *sink, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
