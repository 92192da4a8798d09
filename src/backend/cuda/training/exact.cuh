/* Floats that every device agrees on (base/flush.h), and the random bits of ops/ref/update.h. */
#ifndef TERN_BACKEND_CUDA_EXACT_CUH
#define TERN_BACKEND_CUDA_EXACT_CUH

#include "backend/cuda/device.cuh"

static __device__ __forceinline__ uint32_t flush_bits(uint32_t bits)
{
    const uint32_t size = bits & 0x7fffffffu;
    if (size > 0x7f800000u || size < 0x01000000u) return 0;
    return size == 0x7f800000u ? (bits & 0x80000000u) | 0x7f7fffffu : bits;
}

static __device__ __forceinline__ float flushed(float x) { return __uint_as_float(flush_bits(__float_as_uint(x))); }
static __device__ __forceinline__ float add_of(float a, float b) { return flushed(__fadd_rn(a, b)); }
static __device__ __forceinline__ float sub_of(float a, float b) { return flushed(__fsub_rn(a, b)); }
static __device__ __forceinline__ float mul_of(float a, float b) { return flushed(__fmul_rn(a, b)); }
static __device__ __forceinline__ float div_of(float a, float b) { return flushed(__fdiv_rn(a, b)); }

static __device__ __forceinline__ uint32_t mixed_bits(uint32_t h)
{
    h ^= h >> 16;
    h *= 0x85ebca6bu;
    h ^= h >> 13;
    h *= 0xc2b2ae35u;
    return h ^ h >> 16;
}

static __device__ __forceinline__ uint32_t random_bits(uint32_t seed, uint32_t index)
{
    return mixed_bits(mixed_bits(index + 0x9e3779b9u) ^ mixed_bits(seed + 0x7f4a7c15u));
}

static __device__ __forceinline__ uint16_t bf16_nearest(float v)
{
    const uint32_t bits = __float_as_uint(v);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

#endif
