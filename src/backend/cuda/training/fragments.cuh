/* From what two warpgroups have multiplied to C: 64 rows each, fragments of wgmma, of which a thread has `N` numbers.
 */
#ifndef TERN_BACKEND_CUDA_TRAINING_FRAGMENTS_CUH
#define TERN_BACKEND_CUDA_TRAINING_FRAGMENTS_CUH

#include "backend/cuda/cluster.cuh"
#include "backend/cuda/training/product.cuh"

enum { CONSUMERS = 256, BATCH = 16 };

/* What a block works on: rows of A and of B; the first step, and how many times STEP. */
struct place {
    uint32_t m0, n0, first, steps;
};

/* Number i of a warpgroup's fragments: the row has them in pairs. */
static __device__ __forceinline__ uint32_t row_of(uint32_t i)
{
    return (threadIdx.x >> 5 & 3) * 16 + (threadIdx.x >> 2 & 7) + (i >> 1 & 1) * 8;
}

static __device__ __forceinline__ uint32_t column_of(uint32_t i)
{
    return i / 4 * 8 + 2 * (threadIdx.x & 3) + (i & 1);
}

/* Numbers i to i + 15 of C. What they are added to is asked for before any is written, which may be the same memory. */
static __device__ __forceinline__ void put(const product &p, const place &at, uint32_t i, const float (&x)[BATCH])
{
    const uint32_t rows = rows_of(p), m0 = at.m0 + threadIdx.x / 128 * 64;
    float2 old[BATCH / 2];
#pragma unroll
    for (uint32_t j = 0; j < BATCH / 2; j++) {
        const uint32_t r = m0 + row_of(i + 2 * j), c = at.n0 + column_of(i + 2 * j);
        const float *from = p.residual + r * p.residual_stride + c;
        old[j] = make_float2(0, 0);
        if (!p.residual || r >= rows || c >= p.n) continue;
        if (p.pairs) old[j] = *(const float2 *)from;
        else old[j].x = from[0], old[j].y = c + 1 < p.n ? from[1] : 0;
    }
#pragma unroll
    for (uint32_t j = 0; j < BATCH / 2; j++) {
        const uint32_t r = m0 + row_of(i + 2 * j), c = at.n0 + column_of(i + 2 * j);
        float *to = p.c + r * p.c_stride + c;
        if (r >= rows || c >= p.n) continue;
        const float a = scaled(p, c, x[2 * j]) + old[j].x, b = scaled(p, min(c + 1, p.n - 1), x[2 * j + 1]) + old[j].y;
        if (p.pairs) *(float2 *)to = make_float2(a, b);
        else to[0] = a;
        if (!p.pairs && c + 1 < p.n) to[1] = b;
    }
}

/* The sums of the blocks that share them: each block has a part of the numbers. */
template <int N>
static __device__ __forceinline__ void put_shared(const product &p, const place &at, float *memory, const float (&c)[N])
{
    const cluster_share mine = share_of_cluster(N / BATCH);
    asm volatile("bar.sync 1,%0;" ::"n"((int)CONSUMERS) : "memory"); /* the ring is read by both */
#pragma unroll
    for (uint32_t i = 0; i < N; i++) memory[i * CONSUMERS + threadIdx.x] = c[i];
    cluster_sync();
    for (uint32_t batch = mine.from; batch < mine.to; batch++) {
        float x[BATCH] = {};
        for (uint32_t z = 0; z < p.splits; z++)
#pragma unroll
            for (uint32_t i = 0; i < BATCH; i++)
                x[i] += float_of_block(&memory[(batch * BATCH + i) * CONSUMERS + threadIdx.x], z);
        put(p, at, batch * BATCH, x);
    }
}

/* All numbers. For a sum that blocks share, `memory` is CONSUMERS * N floats of each, and nobody ends before it was
 * read: other threads of the block come to two cluster_sync meanwhile. */
template <int N>
static __device__ __forceinline__ void put_all(const product &p, const place &at, float *memory, const float (&c)[N])
{
    if (p.splits > 1) {
        put_shared(p, at, memory, c);
        cluster_sync();
        return;
    }
#pragma unroll
    for (uint32_t i = 0; i < N; i += BATCH) {
        float x[BATCH];
#pragma unroll
        for (uint32_t j = 0; j < BATCH; j++) x[j] = c[i + j];
        put(p, at, i, x);
    }
}

#endif
