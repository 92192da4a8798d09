/* HADAMARD: signs, and blocks of a row by the normed Sylvester matrix, in the order of stages of
 * ops/ref/rotated/hadamard.h, whose bits it has. */
#include "backend/cuda/device.cuh"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/recurrent/recurrent.h"

enum { THREADS = 256 };

/* Where column c of the rows of blocks lies outside: heads there are in another order. */
static __device__ __forceinline__ uint32_t outside(const tern_cuda_hadamard &p, uint32_t c)
{
    if (!p.n_heads) return c;
    const uint32_t each = p.n_heads / p.n_kv_heads, place = c / p.head_dim;
    return (place % each * p.n_kv_heads + place / each) * p.head_dim + c % p.head_dim;
}

static __device__ __forceinline__ float sign_of(const tern_cuda_hadamard &p, uint32_t c)
{
    return p.signs && c < p.cols ? p.signs[c] : 1.0f;
}

/* One stage; `upper`: this thread has the upper number of the pair. */
static __device__ __forceinline__ float paired(float mine, float other, bool upper)
{
    return upper ? other - mine : mine + other;
}

/* A block of threads has EACH * THREADS columns: one block of the matrix, or several smaller ones. Thread i has columns
 * i, i + THREADS, ..: pairs lie in a warp, then in the block of threads, then in a thread. */
template <int EACH> static __global__ void __launch_bounds__(THREADS) hadamard(tern_cuda_hadamard p)
{
    __shared__ float room[EACH][THREADS];
    const uint32_t t = blockIdx.y, first = blockIdx.x * (EACH * THREADS) + threadIdx.x;
    float v[EACH];
    tern_follow();
    if (t >= tern_rows_now(p.count)) return;
    const float *x = p.x.data + (size_t)t * p.x.stride;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const uint32_t c = first + i * THREADS;
        v[i] = c < p.cols ? x[p.inverse ? c : outside(p, c)] : 0;
        if (!p.inverse) v[i] *= sign_of(p, c);
    }
    for (uint32_t d = 1; d < 32 && d < p.block; d *= 2)
#pragma unroll
        for (int i = 0; i < EACH; i++) v[i] = paired(v[i], __shfl_xor_sync(0xffffffffu, v[i], d), threadIdx.x & d);
    for (uint32_t d = 32; d < THREADS && d < p.block; d *= 2) {
        __syncthreads();
#pragma unroll
        for (int i = 0; i < EACH; i++) room[i][threadIdx.x] = v[i];
        __syncthreads();
#pragma unroll
        for (int i = 0; i < EACH; i++) v[i] = paired(v[i], room[i][threadIdx.x ^ d], threadIdx.x & d);
    }
#pragma unroll
    for (int d = 1; d < EACH; d *= 2) {
        if (d * THREADS >= p.block) break;
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            if (i & d) continue;
            const float a = v[i], b = v[i + d];
            v[i] = a + b;
            v[i + d] = a - b;
        }
    }
    float *out = p.out.data + (size_t)t * p.out.stride;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const uint32_t c = first + i * THREADS;
        if (c >= p.cols) continue;
        if (p.inverse) out[outside(p, c)] = sign_of(p, c) * (v[i] * p.scale);
        else out[c] = v[i] * p.scale;
    }
}

template <int EACH> static cudaError_t start(const tern_cuda_hadamard *p, cudaStream_t stream)
{
    const uint32_t blocks = (p->cols + EACH * THREADS - 1) / (EACH * THREADS);
    return tern_launch(hadamard<EACH>, dim3(blocks, p->count.most), THREADS, 0, stream, *p);
}

cudaError_t tern_cuda_run_hadamard(const tern_cuda_hadamard *p, cudaStream_t stream)
{
    if (p->block <= THREADS) return start<1>(p, stream);
    switch (p->block / THREADS) {
    case 2: return start<2>(p, stream);
    case 4: return start<4>(p, stream);
    case 8: return start<8>(p, stream);
    case 16: return start<16>(p, stream);
    case 32: return start<32>(p, stream);
    default: return cudaErrorInvalidValue;
    }
}
