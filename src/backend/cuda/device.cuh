/* What kernels share: counts of rows, sums over warps and blocks, the exponential that every backend has. */
#ifndef TERN_BACKEND_CUDA_DEVICE_CUH
#define TERN_BACKEND_CUDA_DEVICE_CUH

#include "backend/cuda/kernels.h"

static __device__ inline uint32_t tern_rows_now(tern_cuda_count c)
{
    const uint32_t n = *c.n * c.times;
    return n < c.most ? n : c.most;
}

static __device__ inline uint32_t tern_first_row(tern_cuda_count c)
{
    return c.first ? *c.first * c.times : 0;
}

static __device__ inline float tern_warp_sum(float x)
{
    _Pragma("unroll") for (int k = 0; k < 5; k++) x += __shfl_xor_sync(0xffffffffu, x, 16 >> k);
    return x;
}

static __device__ inline int tern_warp_sum(int x)
{
    return __reduce_add_sync(0xffffffffu, x);
}

static __device__ inline float tern_warp_max(float x)
{
    _Pragma("unroll") for (int k = 0; k < 5; k++) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 16 >> k));
    return x;
}

/* Over all threads of the block, which are whole warps; in each of them. `room` [32] is free again after the next
 * barrier. */
template <typename T> static __device__ inline T tern_block_sum(T x, T *room)
{
    const uint32_t warps = blockDim.x / 32;
    x = tern_warp_sum(x);
    if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = x;
    __syncthreads();
    T sum = 0;
    for (uint32_t i = 0; i < warps; i++) sum += room[i];
    return sum;
}

static __device__ inline float tern_block_max(float x, float *room)
{
    const uint32_t warps = blockDim.x / 32;
    x = tern_warp_max(x);
    if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = x;
    __syncthreads();
    float most = room[0];
    for (uint32_t i = 1; i < warps; i++) most = fmaxf(most, room[i]);
    return most;
}

/* Numbers c to c + 3 of a row; beyond `end` zeros. ALIGNED: the first of them lies at a multiple of 16 bytes. */
template <bool ALIGNED>
static __device__ __forceinline__ float4 tern_four_of(const float *row, uint32_t c, uint32_t end)
{
    if (ALIGNED && c + 4 <= end) return *(const float4 *)(row + c);
    return make_float4(c < end ? row[c] : 0, c + 1 < end ? row[c + 1] : 0, c + 2 < end ? row[c + 2] : 0,
                       c + 3 < end ? row[c + 3] : 0);
}

/* So are numbers of its rows at multiples of four. */
static inline bool tern_is_aligned(tern_cuda_rows r)
{
    return ((size_t)r.data & 15) == 0 && r.stride % 4 == 0;
}

/* 2^x, to a few units of its last place. */
static __device__ __forceinline__ float exp2_of(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0,%1;" : "=f"(y) : "f"(x));
    return y;
}

#define TERN_LOG2E 1.4426950408889634f

/* e^x by the steps of ops/ref/ref_exp.c. */
static __device__ inline float tern_exp(float x)
{
    if (x < -87.3f) return 0;
    if (x > 88.7f) return __uint_as_float(0x7f800000u);
    if (x != x) return x;
    const float t = __fmaf_rn(x, 0x1.715476p+0f, 0x1.8p23f), n = t - 0x1.8p23f;
    const float r = __fmaf_rn(n, -0x1.c85fe0p-10f, __fmaf_rn(n, -0x1.62p-1f, x));
    float p = 0x1.6d110ep-10f;
    p = __fmaf_rn(p, r, 0x1.120b72p-7f);
    p = __fmaf_rn(p, r, 0x1.55551ap-5f);
    p = __fmaf_rn(p, r, 0x1.5554dcp-3f);
    p = __fmaf_rn(p, r, 0.5f);
    p = __fmaf_rn(p, r, 1.0f);
    p = __fmaf_rn(p, r, 1.0f);
    return __uint_as_float(__float_as_uint(p) + (__float_as_uint(t) << 23));
}

static __device__ inline float tern_softcap(float x, float cap)
{
    return cap - (cap + cap) / (tern_exp(x * (2.0f / cap)) + 1.0f);
}

/* tern_activation (ops/ref/ref_gate.c), times the other half. */
static __device__ inline float tern_gate(uint32_t activation, float g, float u, float limit)
{
    switch (activation) {
    case 0: {
        const float r = g > 0 ? g : 0;
        return r * r * u;
    }
    case 1: return g / (1.0f + tern_exp(-g)) * u;
    case 2: {
        const float w = (g + g * g * g * 0.044715f) * 1.5957691216f;
        return g / (1.0f + tern_exp(-w)) * u;
    }
    case 5: return 1.0f / (1.0f + tern_exp(-g)) * u;
    default: {
        const float x = g > limit ? limit : g, y = u > limit ? limit : u < -limit ? -limit : u;
        if (activation == 4) return x / (1.0f + tern_exp(-x)) * y;
        return x / (1.0f + tern_exp(-(x * 1.702f))) * (y + 1.0f);
    }
    }
}

#endif
