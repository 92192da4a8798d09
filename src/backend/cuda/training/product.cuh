/* C[m][n] = sum over k of A[m][k] B[n][k], of numbers that are planes of halves, on tensor cores with f32 sums.
 *
 * A has two planes, B one where it is exact in a half, else two, of which the product of the second ones is left out.
 * Tensor cores cut what they add up, so that a few steps are summed by themselves and added to the rest in f32, times
 * the inverse of A's chunk. In bf16 both have one plane, and tensor cores add up all steps: what they cut is far less
 * than what bf16 rounds off. */
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
    float *partials; /* PARTIALS_BYTES of scratch; NULL: sums are not shared */
    bool bf16;       /* a and b are one plane of bf16 each, without inverses */
    /* Chosen when it is started: */
    uint32_t splits, k_each; /* of the sum among blocks */
    bool pairs;              /* two neighbours of C and of the residual may be read and written at once */
} product;

extern "C" {
/* Chooses kernel and splits. */
cudaError_t tern_cuda_multiply(product *p, cudaStream_t stream);

/* The tensor cores of sm_90a, without partials; false: not on this device, or not for so small a product. */
bool tern_cuda_multiply_wgmma(product *p, cudaStream_t stream, cudaError_t *result);
}

static __device__ __forceinline__ uint32_t rows_of(const product &p)
{
    return p.rows.n ? tern_rows_now(p.rows) : p.m;
}

/* What sums of row r over the chunk of step k are multiplied with. */
static __device__ __forceinline__ float inverse_of(const product &p, uint32_t k, uint32_t r)
{
    return p.a.inverse[(size_t)(k / CHUNK) * p.m + min(r, p.m - 1)];
}

static __device__ __forceinline__ float scaled(const product &p, uint32_t col, float x)
{
    return (p.b.inverse ? x * p.b.inverse[col] : x) * p.scale;
}

#endif
