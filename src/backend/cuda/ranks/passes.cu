/* What is done with what other ranks have sent. No kernel here is launched early: those of NCCL come before. */
#include "backend/cuda/ranks/passes.h"
#include "backend/cuda/training/exact.cuh"

enum { THREADS = 256, MOST_BLOCKS = 1056 };

static unsigned blocks_of(uint64_t n)
{
    const uint64_t blocks = (n + THREADS - 1) / THREADS;
    return (unsigned)(blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS);
}

static __device__ __forceinline__ bool is_infinite(float x)
{
    return (__float_as_uint(x) & 0x7f800000u) == 0x7f800000u;
}

static __global__ void __launch_bounds__(THREADS) passes(const __grid_constant__ tern_cuda_passes p)
{
    bool infinite = false;
    for (uint64_t i = blockIdx.x * (uint64_t)THREADS + threadIdx.x; i < p.count; i += (uint64_t)gridDim.x * THREADS) {
        float sum = p.first ? 0 : p.sum[i];
        for (uint32_t r = 0; r < p.n; r++) {
            const float g = p.g[r][i];
            infinite |= is_infinite(g);
            sum = r == 0 && p.first ? flushed(g) : add_of(flushed(sum), flushed(g));
        }
        p.sum[i] = sum;
    }
    if (infinite) *p.infinite = 1;
}

cudaError_t tern_cuda_run_passes(const tern_cuda_passes *p, cudaStream_t stream)
{
    passes<<<blocks_of(p->count), THREADS, 0, stream>>>(*p);
    return cudaGetLastError();
}

static __global__ void __launch_bounds__(THREADS) place_blocks(const __grid_constant__ tern_cuda_place_blocks p)
{
    const float *block = p.blocks;
    uint32_t first = 0;
    for (uint32_t r = 0; r < p.n; r++) {
        const uint32_t cols = p.cols[r], n = p.rows * cols;
        for (uint32_t i = blockIdx.x * THREADS + threadIdx.x; i < n; i += gridDim.x * THREADS)
            p.out[(uint64_t)(i / cols) * p.stride + first + i % cols] = block[i];
        block += n;
        first += cols;
    }
}

cudaError_t tern_cuda_run_place_blocks(const tern_cuda_place_blocks *p, cudaStream_t stream)
{
    place_blocks<<<blocks_of((uint64_t)p->rows * p->cols[0]), THREADS, 0, stream>>>(*p);
    return cudaGetLastError();
}
