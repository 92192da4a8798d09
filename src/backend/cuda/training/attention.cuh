/* What attention of packed rows and its backward share; and for heads of more than 128, all in f32: tiles of 16 * M
 * rows of a head in shared memory, 256 threads of which each has M rows and every 16th column of a tile. */
#ifndef TERN_BACKEND_CUDA_TRAINING_ATTENTION_CUH
#define TERN_BACKEND_CUDA_TRAINING_ATTENTION_CUH

#include "backend/cuda/device.cuh"
#include "backend/cuda/training/training.h"

enum { THREADS = 256 };

template <int DIM, int M> struct Shape {
    static constexpr int rows = 16 * M, stride = DIM + 4, tile = rows * stride; /* floats */
    static constexpr int p_stride = rows + 4, p_tile = rows * p_stride, runs = DIM / 64;
};

/* Rows t0 .. of head h; zeros before `first`, from n on and beyond head_dim: what nobody sees is not read. */
template <int DIM, int ROWS>
static __device__ void load_rows(float *to, tern_cuda_rows from, uint32_t t0, uint32_t first, uint32_t n, uint32_t h,
                                 uint32_t head_dim)
{
    const bool fours = head_dim % 4 == 0 && from.stride % 4 == 0 && ((size_t)from.data & 15) == 0;
    for (uint32_t i = threadIdx.x; i < ROWS * (DIM / 4); i += blockDim.x) {
        const uint32_t row = i / (DIM / 4), d = i % (DIM / 4) * 4, t = t0 + row;
        const float *at = from.data + (size_t)t * from.stride + (size_t)h * head_dim + d;
        float4 x = make_float4(0, 0, 0, 0);
        const bool is_there = t >= first && t < n;
        if (is_there && fours && d < head_dim) x = *(const float4 *)at;
        if (is_there && !fours) {
            x.x = d < head_dim ? at[0] : 0, x.y = d + 1 < head_dim ? at[1] : 0;
            x.z = d + 2 < head_dim ? at[2] : 0, x.w = d + 3 < head_dim ? at[3] : 0;
        }
        *(float4 *)(to + row * (DIM + 4) + d) = x;
    }
}

/* s = a b^T: rows of a, columns are rows of b. */
template <int DIM, int M>
static __device__ __forceinline__ void scores(float (&s)[M][M], const float *a, const float *b)
{
    using S = Shape<DIM, M>;
    const uint32_t ty = threadIdx.x / 16, tx = threadIdx.x % 16;
#pragma unroll
    for (int i = 0; i < M; i++)
#pragma unroll
        for (int j = 0; j < M; j++) s[i][j] = 0;
#pragma unroll 4
    for (int d = 0; d < DIM; d += 4) {
        float4 x[M], y[M];
#pragma unroll
        for (int i = 0; i < M; i++) x[i] = *(const float4 *)(a + (ty * M + i) * S::stride + d);
#pragma unroll
        for (int j = 0; j < M; j++) y[j] = *(const float4 *)(b + (tx + 16 * j) * S::stride + d);
#pragma unroll
        for (int i = 0; i < M; i++)
#pragma unroll
            for (int j = 0; j < M; j++) {
                s[i][j] = fmaf(x[i].x, y[j].x, s[i][j]);
                s[i][j] = fmaf(x[i].y, y[j].y, s[i][j]);
                s[i][j] = fmaf(x[i].z, y[j].z, s[i][j]);
                s[i][j] = fmaf(x[i].w, y[j].w, s[i][j]);
            }
    }
}

/* Into shared memory, for accumulate. */
template <int DIM, int M> static __device__ __forceinline__ void keep(float *to, const float (&p)[M][M])
{
    const uint32_t ty = threadIdx.x / 16, tx = threadIdx.x % 16;
#pragma unroll
    for (int i = 0; i < M; i++)
#pragma unroll
        for (int j = 0; j < M; j++) to[(ty * M + i) * Shape<DIM, M>::p_stride + tx + 16 * j] = p[i][j];
}

/* o += p b: columns of b, of which a thread has four in each run of 64. */
template <int DIM, int M>
static __device__ __forceinline__ void accumulate(float4 (&o)[M][DIM / 64], const float *p, const float *b)
{
    using S = Shape<DIM, M>;
    const uint32_t ty = threadIdx.x / 16, tx = threadIdx.x % 16;
#pragma unroll 2
    for (int k = 0; k < S::rows; k += 4) {
        float4 w[M];
#pragma unroll
        for (int i = 0; i < M; i++) w[i] = *(const float4 *)(p + (ty * M + i) * S::p_stride + k);
#pragma unroll
        for (int e = 0; e < 4; e++)
#pragma unroll
            for (int r = 0; r < S::runs; r++) {
                const float4 y = *(const float4 *)(b + (k + e) * S::stride + r * 64 + tx * 4);
#pragma unroll
                for (int i = 0; i < M; i++) {
                    const float x = e == 0 ? w[i].x : e == 1 ? w[i].y : e == 2 ? w[i].z : w[i].w;
                    o[i][r].x = fmaf(x, y.x, o[i][r].x);
                    o[i][r].y = fmaf(x, y.y, o[i][r].y);
                    o[i][r].z = fmaf(x, y.z, o[i][r].z);
                    o[i][r].w = fmaf(x, y.w, o[i][r].w);
                }
            }
    }
}

template <int DIM, int M> static __device__ __forceinline__ void clear(float4 (&o)[M][DIM / 64])
{
#pragma unroll
    for (int i = 0; i < M; i++)
#pragma unroll
        for (int r = 0; r < DIM / 64; r++) o[i][r] = make_float4(0, 0, 0, 0);
}

/* Rows t0 .. of head h, each times by[i]. */
template <int DIM, int M>
static __device__ void store_rows(tern_cuda_rows to, const float4 (&o)[M][DIM / 64], const float (&by)[M], uint32_t t0,
                                  uint32_t n, uint32_t h, uint32_t head_dim)
{
    const uint32_t ty = threadIdx.x / 16, tx = threadIdx.x % 16;
#pragma unroll
    for (int i = 0; i < M; i++)
#pragma unroll
        for (int r = 0; r < DIM / 64; r++) {
            const uint32_t t = t0 + ty * M + i, d = r * 64 + tx * 4;
            if (t >= n) continue;
            float *at = to.data + (size_t)t * to.stride + (size_t)h * head_dim + d;
            if (d < head_dim) at[0] = o[i][r].x * by[i];
            if (d + 1 < head_dim) at[1] = o[i][r].y * by[i];
            if (d + 2 < head_dim) at[2] = o[i][r].z * by[i];
            if (d + 3 < head_dim) at[3] = o[i][r].w * by[i];
        }
}

static __device__ __forceinline__ uint32_t first_seen(const tern_cuda_varlen &p, uint32_t t)
{
    const uint32_t first = p.starts[t];
    return p.window && t - first >= p.window ? t + 1 - p.window : first;
}

static __device__ __forceinline__ float capped(const tern_cuda_varlen &p, float product)
{
    const float s = product * p.scale;
    return p.softcap > 0 ? tern_softcap(s, p.softcap) : s;
}

/* The first row from t on that sees nothing before `key`; rows see no less than those before them. */
static __device__ __forceinline__ uint32_t first_past(const tern_cuda_varlen &p, uint32_t t, uint32_t n, uint32_t key)
{
    while (t < n) {
        const uint32_t middle = t + (n - t) / 2;
        if (first_seen(p, middle) < key) t = middle + 1;
        else n = middle;
    }
    return n;
}

/* Over the 16 threads that share rows. */
static __device__ __forceinline__ float sum_of_sixteen(float x)
{
#pragma unroll
    for (int k = 8; k > 0; k /= 2) x += __shfl_xor_sync(~0u, x, k);
    return x;
}

static __device__ __forceinline__ float most_of_sixteen(float x)
{
#pragma unroll
    for (int k = 8; k > 0; k /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, k));
    return x;
}

/* Whether a block may have so many bytes of shared memory. */
static inline bool fits_shared(size_t bytes)
{
    int device = 0, most = 0;
    if (cudaGetDevice(&device) != cudaSuccess) return false;
    cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    return bytes <= (size_t)most;
}

template <typename Kernel>
static cudaError_t start(Kernel kernel, const tern_cuda_varlen *p, dim3 grid, size_t bytes, cudaStream_t stream,
                         uint32_t threads = THREADS)
{
    const cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (e != cudaSuccess) return e;
    kernel<<<grid, threads, bytes, stream>>>(*p);
    return cudaGetLastError();
}

#endif
