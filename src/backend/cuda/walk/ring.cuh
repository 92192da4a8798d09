/* Weights on their way: one warp of each block goes through the steps by itself and copies the rows of weights that the
 * block will multiply into a ring of shared memory, as far ahead as there is room. Weights depend on nothing, so it
 * waits for nobody but its own block. */
#ifndef TERN_BACKEND_CUDA_WALK_RING_CUH
#define TERN_BACKEND_CUDA_WALK_RING_CUH

#include "backend/cuda/linear/common.cuh"
#include "backend/cuda/walk/walk.h"

enum { WALK_WARPS = 16, WALK_THREADS = WALK_WARPS * 32, GRANULE = TERN_CUDA_WALK_GRANULE };

/* A barrier of all threads of a block except those of the warp that copies. */
static __device__ __forceinline__ void walk_sync()
{
    asm volatile("bar.sync 1,%0;" ::"n"((int)WALK_THREADS) : "memory");
}

/* The same, and whether it is so for all of them. */
static __device__ __forceinline__ bool walk_and(bool x)
{
    uint32_t all;
    asm volatile("{.reg .pred p,q; setp.ne.u32 p,%1,0; bar.red.and.pred q,1,%2,p; selp.u32 %0,1,0,q;}"
                 : "=r"(all)
                 : "r"((uint32_t)x), "n"((int)WALK_THREADS)
                 : "memory");
    return all;
}

/* In shared memory. Granules are counted from the launch on. */
struct walk_ring {
    uint64_t filled[TERN_CUDA_WALK_GRANULES]; /* mbarriers: the lanes of the warp that copies */
    volatile uint32_t used;                   /* granules that have been read */
    volatile uint32_t ends;                   /* nothing is read any more */

    __device__ __forceinline__ void begin(uint32_t granules)
    {
        used = ends = 0;
        for (uint32_t i = 0; i < granules; i++)
            asm volatile("mbarrier.init.shared.b64 [%0],32;" ::"r"(shared_address(&filled[i])) : "memory");
    }
};

/* The share of a block of n things, `each` for most of them. */
struct walk_share {
    uint32_t from, to;
};

static __device__ __forceinline__ walk_share share_of(uint32_t n, uint32_t each)
{
    const uint32_t from = min(blockIdx.x * each, n);
    return {from, min(from + each, n)};
}

/* The weights of rows [from, to) of out, of each part: they lie one after the other in the ring. */
struct weight_runs {
    const uint8_t *at[TERN_CUDA_PRODUCT_PARTS];
    uint32_t ends[TERN_CUDA_PRODUCT_PARTS]; /* bytes up to the end of each */

    __device__ __forceinline__ weight_runs(const Linear &l, uint32_t from, uint32_t to)
    {
        uint32_t first = 0, bytes = 0;
#pragma unroll
        for (uint32_t i = 0; i < TERN_CUDA_PRODUCT_PARTS; i++) {
            if (i < l.n_parts) {
                const uint32_t rows = l.parts[i].rows, low = max(from, first) - first;
                at[i] = l.parts[i].w + (size_t)low * l.row_bytes - bytes;
                bytes += (max(min(to - first, rows), low) - low) * l.row_bytes * (to > first);
                first += l.gated ? 0 : rows;
            }
            ends[i] = bytes;
        }
    }

    __device__ __forceinline__ const uint8_t *source(uint32_t byte) const
    {
        return (byte < ends[0] ? at[0] : byte < ends[1] ? at[1] : at[2]) + byte;
    }
};

/* What the block reads of the ring: where the next pass lies. */
struct ring_reader {
    walk_ring *ring;
    const uint8_t *memory; /* shared: `granules` granules */
    uint32_t granules, slot, parity, used;

    /* By each warp: until the first `bytes` of the pass are there. */
    __device__ __forceinline__ void wait(uint32_t bytes) const
    {
        for (uint32_t i = threadIdx.x % 32; i * GRANULE < bytes; i += 32) {
            const uint32_t wraps = slot + i >= granules,
                           at = shared_address(&ring->filled[slot + i - wraps * granules]);
            uint32_t done;
            do
                asm volatile("{.reg .pred p; mbarrier.test_wait.parity.shared.b64 p,[%1],%2; selp.u32 %0,1,0,p;}"
                             : "=r"(done)
                             : "r"(at), "r"((uint32_t)(parity ^ wraps))
                             : "memory");
            while (!done);
        }
        __syncwarp();
    }

    __device__ __forceinline__ uint4 at(uint32_t byte) const
    {
        const uint32_t place = slot * GRANULE + byte, end = granules * GRANULE;
        return *(const uint4 *)(memory + (place < end ? place : place - end));
    }

    /* The pass has been read, by all of the block. */
    __device__ __forceinline__ void pass_on(uint32_t bytes)
    {
        const uint32_t n = (bytes + GRANULE - 1) / GRANULE;
        used += n;
        slot += n;
        if (slot >= granules) slot -= granules, parity ^= 1;
        if (threadIdx.x == 0) ring->used = used;
    }
};

/* What the warp that copies has filled so far. */
struct ring_writer {
    walk_ring *ring;
    uint8_t *memory;
    uint32_t granules, slot, filled;

    __device__ __forceinline__ bool fill(const weight_runs &runs)
    {
        const uint32_t bytes = runs.ends[TERN_CUDA_PRODUCT_PARTS - 1], lane = threadIdx.x % 32;
        for (uint32_t from = 0; from < bytes; from += GRANULE) {
            while (filled - ring->used >= granules)
                if (ring->ends) return false;
            const uint32_t to = shared_address(memory + slot * GRANULE);
#pragma unroll
            for (uint32_t at = lane * 16; at < GRANULE; at += 32 * 16)
                if (from + at < bytes) copy16(to + at, runs.source(from + at));
            asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(&ring->filled[slot]))
                         : "memory");
            filled++;
            slot = slot + 1 == granules ? 0 : slot + 1;
        }
        return !ring->ends;
    }
};

/* Asks for the block's share of a norm's weights, so that they lie in L2 when all blocks read them. */
static __device__ __forceinline__ void ask_for_share(const float *norm, uint32_t cols)
{
    const uint32_t line = blockIdx.x + threadIdx.x % 32 * gridDim.x;
    if (norm && line * 32 < cols) asm volatile("prefetch.global.L2 [%0];" ::"l"(norm + line * 32));
}

static __device__ __forceinline__ void stream_weights(const tern_cuda_walk &p, walk_ring *ring, uint8_t *memory)
{
    ring_writer writer = {ring, memory, p.granules, 0, 0};
    bool goes_on = p.granules > 0;
    for (uint32_t i = 0; goes_on && i < p.n_steps * p.times; i++) {
        const tern_cuda_step &step = p.steps[i % p.n_steps];
        if (step.kind != TERN_CUDA_STEP_TERNARY) continue;
        const tern_cuda_walk_linear &s = step.of.linear;
        const walk_share share = share_of(s.rows, s.each);
        ask_for_share(s.norm, s.product.cols);
        for (uint32_t from = share.from; goes_on && from < share.to; from += s.pass)
            goes_on = writer.fill(weight_runs(s.product, from, min(from + s.pass, share.to)));
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
}

#endif
