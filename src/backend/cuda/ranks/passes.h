/* Kernels of what ranks exchange: plain structs, for C and for CUDA's C++. */
#ifndef TERN_BACKEND_CUDA_PASSES_H
#define TERN_BACKEND_CUDA_PASSES_H

#include "backend/cuda/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { TERN_CUDA_MAX_RANKS = 16 };

/* sum = F(F(sum) + F(g)) for each pass, in order, F being tern_flush; the first time sum is 0. */
typedef struct tern_cuda_passes {
    float *sum;                          /* [count] */
    const float *g[TERN_CUDA_MAX_RANKS]; /* [n][count] */
    uint64_t count;
    uint32_t n;
    bool first;
    uint32_t *infinite; /* becomes 1 where a number is NaN or infinite */
} tern_cuda_passes;
cudaError_t tern_cuda_run_passes(const tern_cuda_passes *p, cudaStream_t stream);

/* Blocks [n][rows][cols[r]], one after the other, become rows of all their columns. */
typedef struct tern_cuda_place_blocks {
    const float *blocks;
    float *out;
    uint32_t stride, rows, n, cols[TERN_CUDA_MAX_RANKS];
} tern_cuda_place_blocks;
cudaError_t tern_cuda_run_place_blocks(const tern_cuda_place_blocks *p, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
