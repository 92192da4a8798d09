/* The highest rates of the device: reads of memory, int8 products of tensor cores, multiply-adds of f32. */
#include "backend/cuda/kernels.h"
#include "backend/cuda/linear/common.cuh"
#include "backend/cuda/linear/wgmma.cuh"
#include "backend/cuda/measure/dots.h"
#include "backend/cuda/tensor_map.cuh"

enum { BLOCKS = 2048, THREADS = TERN_CUDA_DOTS_THREADS, SUMS = TERN_CUDA_DOTS_SUMS };

static __global__ void reads(const uint4 *data, uint64_t n, uint32_t *sink)
{
    uint32_t x = 0;
    for (uint64_t i = blockIdx.x * THREADS + threadIdx.x; i < n; i += (uint64_t)BLOCKS * THREADS) {
        const uint4 v = __ldcs(data + i);
        x ^= v.x ^ v.y ^ v.z ^ v.w;
    }
    if (x == 0x9e3779b9u) *sink = x; /* so that nothing is left out */
}

cudaError_t tern_cuda_run_reads(const void *data, uint64_t bytes, uint32_t *sink, cudaStream_t stream)
{
    reads<<<BLOCKS, THREADS, 0, stream>>>((const uint4 *)data, bytes / 16, sink);
    return cudaGetLastError();
}

// int8 on tensor cores by mma.sync: eight independent sums a warp. Operands are not zero, which would save power and
// raise the clock.
static __global__ void __launch_bounds__(THREADS) mma_dots(uint32_t n, uint32_t *sink)
{
    int sums[SUMS][4] = {};
    uint32_t a[4], b[2];
    for (int i = 0; i < 4; i++) a[i] = threadIdx.x * 0x9e3779b1u >> i & 0x03030303u;
    for (int i = 0; i < 2; i++) b[i] = threadIdx.x * 0x85ebca6bu >> i;
    for (uint32_t i = 0; i < n; i++)
#pragma unroll
        for (int k = 0; k < SUMS; k++) mma_u8s8(sums[k], a, b[0], b[1]);
    int x = 0;
#pragma unroll
    for (int i = 0; i < 4 * SUMS; i++) x ^= sums[i / 4][i % 4];
    if (x == 0x2545f491) *sink = (uint32_t)x;
}

// Int8 products by wgmma, 64 rows by 256 tokens a warpgroup, as `ternary_wgmma` multiplies. Only in code for sm_90a.
static __global__ void __launch_bounds__(THREADS) wgmma_dots(uint32_t n, uint32_t *sink)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    static __shared__ __align__(1024) uint32_t tokens[256 * 128 / 4];
    int d[128] = {};
    uint32_t a[16];
    for (uint32_t i = threadIdx.x; i < sizeof tokens / 4; i += THREADS) tokens[i] = i * 0x85ebca6bu;
    for (int i = 0; i < 16; i++) a[i] = (threadIdx.x + 16 * i) * 0x9e3779b1u & 0x03030303u;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    const uint32_t from = shared_address(tokens);
    for (uint32_t i = 0; i < n; i++) {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int k = 0; k < 4; k++) wgmma(d, a + 4 * k, descriptor(from + 32 * k));
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    int x = 0;
#pragma unroll
    for (int i = 0; i < 128; i++) x ^= d[i];
    if (x == 0x2545f491) *sink = (uint32_t)x;
#endif
}

cudaError_t tern_cuda_run_dots(const tern_cuda_dots *p, uint32_t *sink, cudaStream_t stream)
{
    if (p->wgmma) wgmma_dots<<<p->blocks, THREADS, 0, stream>>>(p->steps, sink);
    else mma_dots<<<p->blocks, THREADS, 0, stream>>>(p->steps, sink);
    return cudaGetLastError();
}

static __global__ void fmas(uint32_t n, uint32_t *sink)
{
    float a[8], b = (float)threadIdx.x;
    for (int i = 0; i < 8; i++) a[i] = (float)i;
    for (uint32_t i = 0; i < n / 8; i++)
        for (int k = 0; k < 8; k++) a[k] = fmaf(a[k], b, 0.5f);
    float x = 0;
    for (int i = 0; i < 8; i++) x += a[i];
    if (x == 0.12345f) *sink = 1;
}

cudaError_t tern_cuda_run_fmas(uint32_t n, uint32_t *sink, cudaStream_t stream)
{
    fmas<<<BLOCKS, THREADS, 0, stream>>>(n, sink);
    return cudaGetLastError();
}
