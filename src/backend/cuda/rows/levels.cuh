/* Four columns of a row at a time, on the way to int8. */
#ifndef TERN_BACKEND_CUDA_ROWS_LEVELS_CUH
#define TERN_BACKEND_CUDA_ROWS_LEVELS_CUH

#include "backend/cuda/device.cuh"

/* v * scale, rounded: NaN becomes 0, an infinity the largest finite level of its sign. Finite ones never pass -127. */
static __device__ __forceinline__ int level_of(float v, float scale)
{
    return max(__float2int_rn(v * scale), -127);
}

static __device__ __forceinline__ uint32_t levels_of(float4 v, float scale)
{
    uint32_t both, all;
    asm("cvt.pack.sat.s8.s32.b32 %0,%1,%2,0;" : "=r"(both) : "r"(level_of(v.w, scale)), "r"(level_of(v.z, scale)));
    asm("cvt.pack.sat.s8.s32.b32 %0,%1,%2,%3;"
        : "=r"(all)
        : "r"(level_of(v.y, scale)), "r"(level_of(v.x, scale)), "r"(both));
    return all;
}

static __device__ __forceinline__ float4 product_of(float4 a, float4 b, float r)
{
    return make_float4(a.x * r * b.x, a.y * r * b.y, a.z * r * b.z, a.w * r * b.w);
}

static __device__ __forceinline__ float most_of(float4 v, float most)
{
    return fmaxf(fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w))), most);
}

static __device__ __forceinline__ float squares_of(float4 v, float sum)
{
    return sum + ((v.x * v.x + v.y * v.y) + (v.z * v.z + v.w * v.w));
}

#endif
