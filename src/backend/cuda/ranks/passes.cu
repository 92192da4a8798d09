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

/* A block of threads has a row, or a part of one where rows are few. T: as many floats as all columns are multiples of.
 */
template <typename T>
static __global__ void __launch_bounds__(THREADS) place_blocks(const __grid_constant__ tern_cuda_place_blocks p)
{
    constexpr uint32_t EACH = sizeof(T) / sizeof(float);
    const T *from = (const T *)p.blocks;
    T *to = (T *)p.out + (uint64_t)blockIdx.x * (p.stride / EACH);
    for (uint32_t r = 0; r < p.n; r++) {
        const uint32_t cols = p.cols[r] / EACH;
        for (uint32_t i = blockIdx.y * THREADS + threadIdx.x; i < cols; i += gridDim.y * THREADS)
            to[i] = from[(uint64_t)blockIdx.x * cols + i];
        from += (uint64_t)p.rows * cols;
        to += cols;
    }
}

cudaError_t tern_cuda_run_place_blocks(const tern_cuda_place_blocks *p, cudaStream_t stream)
{
    uint32_t all = p->stride | (uint32_t)((uintptr_t)p->out / sizeof(float));
    for (uint32_t r = 0; r < p->n; r++) all |= p->cols[r];
    const dim3 grid(p->rows, p->rows < 64 ? 8 : 1);
    if (all % 4 == 0) place_blocks<float4><<<grid, THREADS, 0, stream>>>(*p);
    else place_blocks<float><<<grid, THREADS, 0, stream>>>(*p);
    return cudaGetLastError();
}
