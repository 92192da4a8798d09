/* What the steps of a walk share: where the block is, and how it waits for all others. A warp of the block streams
 * weights (ring.cuh); "the block" is the others. */
#ifndef TERN_BACKEND_CUDA_WALK_BLOCK_CUH
#define TERN_BACKEND_CUDA_WALK_BLOCK_CUH

#include "backend/cuda/device.cuh"
#include "backend/cuda/linear/common.cuh"
#include "backend/cuda/walk/ring.cuh"
#include "backend/cuda/walk/walk.h"

enum { WALK_PAGES = 64 };

struct walk_room {
    __align__(16) float floats[3][32];
    float inverse;
    int sum;
    uint32_t is_last;
    uint32_t pages[WALK_PAGES]; /* those of the split of an attention before, from walker.first_page on */
};

struct walker {
    unsigned long long *arrived, target;
    uint32_t waits; /* for the step before this one */
    walk_room *room;
    uint8_t *memory; /* shared */
    float *norms;    /* shared: the slots of norms; the second one begins at */
    uint32_t second_norm;
    ring_reader weights;
    const uint32_t *positions; /* of this token what they say is known: NULL: not yet */
    uint32_t position, sequence, first_page;
    const uint32_t *pages;

    __device__ __forceinline__ float *norm_of(const tern_cuda_walk_linear &s) const
    {
        return norms + s.norm_slot * second_norm;
    }

    /* All that other blocks wrote in the step before can be read after it, past L1. */
    __device__ __forceinline__ void wait() const
    {
        if (waits && threadIdx.x == 0) {
            unsigned long long now;
            do asm volatile("ld.acquire.gpu.global.u64 %0,[%1];" : "=l"(now) : "l"(arrived) : "memory");
            while (now < target);
        }
        walk_sync();
    }

    /* After a barrier of the block. */
    __device__ __forceinline__ void arrive()
    {
        target += gridDim.x;
        if (threadIdx.x == 0)
            asm volatile("red.release.gpu.global.add.u64 [%0],%1;" ::"l"(arrived), "l"(1ull) : "memory");
    }
};

/* Whether this block is the last of n that come here; what the others wrote before is then there. */
static __device__ __forceinline__ bool is_last_block(const walker &w, uint32_t *done, uint32_t n)
{
    walk_sync();
    if (threadIdx.x == 0) {
        __threadfence();
        const bool is_last = atomicAdd(done, 1) + 1 == n;
        if (is_last) *done = 0;
        __threadfence();
        w.room->is_last = is_last;
    }
    walk_sync();
    return w.room->is_last;
}

/* Over the block; `room` is free again after the next barrier. */
static __device__ __forceinline__ float walk_sum(float x, float *room)
{
    x = tern_warp_sum(x);
    if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = x;
    walk_sync();
    float sum = 0;
#pragma unroll
    for (int i = 0; i < WALK_WARPS; i += 4) {
        const float4 four = *(const float4 *)(room + i);
        sum += (four.x + four.y) + (four.z + four.w);
    }
    return sum;
}

/* Both at once, of a sum and of numbers from 0 on. */
static __device__ __forceinline__ void walk_sum_and_max(float &sum, float &most, float (*room)[32])
{
    sum = tern_warp_sum(sum);
    most = __uint_as_float(__reduce_max_sync(0xffffffffu, __float_as_uint(most)));
    if (threadIdx.x % 32 == 0) room[0][threadIdx.x / 32] = sum, room[1][threadIdx.x / 32] = most;
    walk_sync();
    sum = 0;
#pragma unroll
    for (int i = 0; i < WALK_WARPS; i += 4) {
        const float4 s = *(const float4 *)(room[0] + i), m = *(const float4 *)(room[1] + i);
        sum += (s.x + s.y) + (s.z + s.w);
        most = fmaxf(most, fmaxf(fmaxf(m.x, m.y), fmaxf(m.z, m.w)));
    }
}

/* Where row `at` of out is among the parts: which one, and which of its rows. */
static __device__ __forceinline__ uint32_t part_of_row(const Linear &l, uint32_t &at)
{
    uint32_t part = 0;
    while (part + 1 < l.n_parts && at >= l.parts[part].rows) at -= l.parts[part++].rows;
    return part;
}

static __device__ __forceinline__ float finite_of(float v)
{
    if (v != v) return 0;
    return fminf(fmaxf(v, -3.402823466e38f), 3.402823466e38f);
}

#endif
