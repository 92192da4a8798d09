/* Attention of many tokens on tensor cores. */
#ifndef TERN_BACKEND_CUDA_ATTENTION_FLASH_H
#define TERN_BACKEND_CUDA_ATTENTION_FLASH_H

#include "backend/cuda/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Heads of up to 256, a multiple of 8; cudaErrorInvalidValue: of others, or the device has too little shared memory. */
cudaError_t tern_cuda_flash(const tern_cuda_attention *p, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
