/* Places and numbers in pages of keys and values. */
#ifndef TERN_BACKEND_CUDA_ATTENTION_CACHE_CUH
#define TERN_BACKEND_CUDA_ATTENTION_CACHE_CUH

#include <cuda_fp16.h>

#include "backend/cuda/device.cuh"

enum { TERN_CUDA_PAGE = 32 }; /* TERN_PAGE_SIZE */

static __device__ inline size_t tern_cache_at(uint32_t page, uint32_t head, uint32_t position, uint32_t n_kv_heads,
                                              uint32_t head_dim)
{
    return (((size_t)page * n_kv_heads + head) * TERN_CUDA_PAGE + position % TERN_CUDA_PAGE) * head_dim;
}

static __device__ inline float tern_cache_get(tern_cuda_cache c, size_t at)
{
    return c.f32 ? ((const float *)c.data)[at] : __half2float(((const __half *)c.data)[at]);
}

static __device__ inline void tern_cache_put(tern_cuda_cache c, size_t at, float x)
{
    if (c.f32) ((float *)c.data)[at] = x;
    else ((__half *)c.data)[at] = __float2half_rn(x);
}

/* Of a row of a brief run, how many of its run's rows there are from it on; 0: the run is not brief. By a whole warp.
 */
static __device__ inline uint32_t tern_brief_rows(const tern_cuda_attention &p, uint32_t t, uint32_t n)
{
    const uint32_t lane = threadIdx.x % 32, row = t + lane - 15; /* below 0: beyond n */
    if (!p.splits) return 0;
    const uint32_t same = __ballot_sync(0xffffffffu, row < n && p.place.sequences[row] == p.place.sequences[t]);
    const uint32_t after = __ffs((int)~(same >> 15)) - 1, before = __clz((int)~(same << 17));
    return p.brief && before + after > p.brief ? 0 : after;
}

/* The first position that a token sees. */
static __device__ inline uint32_t tern_first_seen(uint32_t window, uint32_t position)
{
    return window && position >= window ? position + 1 - window : 0;
}

#endif
