/* C[m][n] = sum over k of A[m][k] B[n][k], of numbers that are planes of halves, on tensor cores with f32 sums.
 *
 * A has two planes, B one where it is exact in a half, else two, of which the product of the second ones is left out.
 * Tensor cores cut what they add up, so that a few steps are summed by themselves and added to the rest in f32. */
#ifndef TERN_BACKEND_CUDA_TRAINING_PRODUCT_CUH
#define TERN_BACKEND_CUDA_TRAINING_PRODUCT_CUH

#include "backend/cuda/device.cuh"
#include "backend/cuda/training/planes.cuh"

enum { PARTIALS_BYTES = 64 << 20 };

typedef struct product {
    planes a, b; /* [m][k], [n][k] */
    uint32_t m, n, k;
    uint32_t n_planes;    /* of b */
    tern_cuda_count rows; /* of C; n NULL: m of them */
    float *c;
    const float *residual; /* NULL: none; may be c */
    size_t c_stride, residual_stride;
    float scale;
    float *partials;         /* PARTIALS_BYTES of scratch; NULL: sums are not shared */
    uint32_t splits, k_each; /* of the sum among blocks; chosen when it is started */
} product;

extern "C" {
/* Chooses kernel and splits. */
cudaError_t tern_cuda_multiply(product *p, cudaStream_t stream);

/* The tensor cores of sm_90a; false: not on this device, or not for so small a product. */
bool tern_cuda_multiply_wgmma(product *p, cudaStream_t stream, cudaError_t *result);
}

static __device__ __forceinline__ uint32_t rows_of(const product &p)
{
    return p.rows.n ? tern_rows_now(p.rows) : p.m;
}

static __device__ __forceinline__ float finished(const product &p, uint32_t r, uint32_t col, float x)
{
    if (p.a.inverse) x *= p.a.inverse[r];
    if (p.b.inverse) x *= p.b.inverse[col];
    x *= p.scale;
    return p.residual ? x + p.residual[r * p.residual_stride + col] : x;
}

static __device__ __forceinline__ void put(const product &p, uint32_t rows, uint32_t r, uint32_t col, float x)
{
    if (r >= rows || col >= p.n) return;
    if (p.splits > 1) p.partials[((size_t)blockIdx.z * p.m + r) * p.n + col] = x;
    else p.c[r * p.c_stride + col] = finished(p, r, col, x);
}

#endif
