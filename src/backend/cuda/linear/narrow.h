/* Products with a narrow matrix of f32 (an adapter's), by f32 multiply-adds: LINEAR, LINEAR_DX and LINEAR_DW, where
 * reading the rows takes longer than multiplying them. */
#ifndef TERN_BACKEND_CUDA_NARROW_H
#define TERN_BACKEND_CUDA_NARROW_H

#include <cuda_runtime.h>

#include "backend/cuda/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The largest narrow side: rows or columns. */
enum { TERN_CUDA_NARROW = 64 };

/* out[t][n] = residual[t][n] + bias[n] + sum over k of x[t][k] w(n, k). Here w(n, k) is w[n][k], or w[k][n] where it
 * is turned. n or k is at most TERN_CUDA_NARROW. The residual may be out. */
typedef struct tern_cuda_narrow {
    tern_cuda_count count;
    tern_cuda_rows x, residual, out;
    const float *w, *bias; /* bias NULL: none; not with a wide n */
    uint32_t w_stride;     /* a multiple of 4; w from a multiple of 16 bytes on */
    bool turned;
    uint32_t n, k;
} tern_cuda_narrow;
bool tern_cuda_is_narrow(uint32_t n, uint32_t k);
cudaError_t tern_cuda_run_narrow(const tern_cuda_narrow *p, cudaStream_t stream);

/* out(j, n) += sum over t of s[t][j] y[t][n]: out[j][n], or out[n][j] where it is turned. */
typedef struct tern_cuda_narrow_sums {
    tern_cuda_count count;
    tern_cuda_rows s, y, out;
    bool turned;
    uint32_t j, n;   /* columns of s, of y */
    float *partials; /* tern_cuda_narrow_bytes */
} tern_cuda_narrow_sums;
size_t tern_cuda_narrow_bytes(uint32_t j, uint32_t n);
cudaError_t tern_cuda_run_narrow_sums(const tern_cuda_narrow_sums *p, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
