/* Four columns of a row at a time, on the way to int8. */
#ifndef TERN_BACKEND_CUDA_ROWS_LEVELS_CUH
#define TERN_BACKEND_CUDA_ROWS_LEVELS_CUH

#include "backend/cuda/device.cuh"

/* v * scale, rounded: what is no number becomes 0, what is infinite the last level. */
static __device__ __forceinline__ uint32_t levels_of(float4 v, float scale)
{
    uint32_t both, all;
    asm("cvt.pack.sat.s8.s32.b32 %0,%1,%2,0;"
        : "=r"(both)
        : "r"(__float2int_rn(v.w * scale)), "r"(__float2int_rn(v.z * scale)));
    asm("cvt.pack.sat.s8.s32.b32 %0,%1,%2,%3;"
        : "=r"(all)
        : "r"(__float2int_rn(v.y * scale)), "r"(__float2int_rn(v.x * scale)), "r"(both));
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
