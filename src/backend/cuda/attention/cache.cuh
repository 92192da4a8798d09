/* Places and numbers in pages of keys and values. */
#ifndef TERN_BACKEND_CUDA_ATTENTION_CACHE_CUH
#define TERN_BACKEND_CUDA_ATTENTION_CACHE_CUH

#include <cuda_fp16.h>

#include "backend/cuda/device.cuh"

enum { TERN_CUDA_PAGE = 32 }; /* TERN_PAGE_SIZE */
/* How a cache has its numbers, for kernels compiled for one of them. */
enum { HALVES, FLOATS, BLOCKS };

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

/* ---- rows in blocks of 32 (ops/dtype.h): f16 scales, then codes; heads are multiples of 64, so that rows are whole
 * words */
enum { TERN_CUDA_BLOCK = 32, TERN_CUDA_BLOCK_NIBBLES = TERN_CUDA_BLOCK / 2 };

static __device__ __forceinline__ size_t tern_block_row_bytes(uint32_t bits, uint32_t head_dim)
{
    return head_dim / TERN_CUDA_BLOCK * (2 + 4 * bits);
}

/* Where columns d and on of a row have their codes, up to the 16 (q4_0) or 32 that lie side by side; their scale. */
static __device__ __forceinline__ uint32_t tern_block_codes_at(uint32_t bits, uint32_t head_dim, uint32_t d)
{
    const uint32_t block = d / TERN_CUDA_BLOCK;
    return head_dim / TERN_CUDA_BLOCK * 2 +
           (bits == 8 ? d : block * TERN_CUDA_BLOCK_NIBBLES + d % TERN_CUDA_BLOCK_NIBBLES);
}

static __device__ __forceinline__ float tern_block_scale(const uint8_t *row, uint32_t d)
{
    return __half2float(((const __half *)row)[d / TERN_CUDA_BLOCK]);
}

/* Four codes as bytes, plus 128: of q4_0 those of the half of a block that column d is in. */
static __device__ __forceinline__ uint32_t tern_block_centred(uint32_t bits, uint32_t word, uint32_t d)
{
    if (bits == 8) return word ^ 0x80808080u;
    return ((word >> (d / TERN_CUDA_BLOCK_NIBBLES % 2 * 4)) & 0x0f0f0f0fu) + 0x78787878u;
}

/* Number i of them times their scale: exact. */
static __device__ __forceinline__ float tern_block_number(uint32_t centred, int i, float scale)
{
    return (float)((int)(centred >> 8 * i & 255) - 128) * scale;
}

/* Columns d to d + 3 of a row, d being a multiple of 4. */
static __device__ __forceinline__ float4 tern_block_four(uint32_t bits, const uint8_t *row, uint32_t head_dim,
                                                         uint32_t d)
{
    const uint32_t word = *(const uint32_t *)(row + tern_block_codes_at(bits, head_dim, d));
    const uint32_t centred = tern_block_centred(bits, word, d);
    const float scale = tern_block_scale(row, d);
    return make_float4(tern_block_number(centred, 0, scale), tern_block_number(centred, 1, scale),
                       tern_block_number(centred, 2, scale), tern_block_number(centred, 3, scale));
}

/* A head's row as the cache has it; `at` counts rows. */
static __device__ __forceinline__ uint8_t *tern_block_row(tern_cuda_cache c, size_t at, uint32_t head_dim)
{
    return (uint8_t *)c.data + at * tern_block_row_bytes(c.bits, head_dim);
}

/* Number d of row `at`, of any cache. */
static __device__ inline float tern_cache_number(tern_cuda_cache c, size_t at, uint32_t d, uint32_t head_dim)
{
    if (!c.bits) return tern_cache_get(c, at * head_dim + d);
    const uint8_t *row = tern_block_row(c, at, head_dim), *codes = row + tern_block_codes_at(c.bits, head_dim, d);
    return tern_block_number(tern_block_centred(c.bits, *codes, d), 0, tern_block_scale(row, d));
}

/* A block's code of x, as ops/ref/ref_cache.c rounds it; 0 of NaN. */
static __device__ __forceinline__ int tern_block_code(float x, float inverse, float low, float high)
{
    const float most = 3.402823466e38f, finite = x != x ? 0 : fmaxf(fminf(x, most), -most);
    return (int)rintf(fminf(fmaxf(__fmul_rn(finite, inverse), low), high));
}

/* A row of head_dim numbers, by a whole warp, a lane each number of a block: the definition's bits
 * (tern_kv_store_fn). */
static __device__ inline void tern_block_store(tern_cuda_cache c, size_t at, const float *x, uint32_t head_dim)
{
    const uint32_t lane = threadIdx.x % 32;
    uint8_t *row = tern_block_row(c, at, head_dim);
    for (uint32_t d = lane; d < head_dim; d += TERN_CUDA_BLOCK) {
        const float v = x[d], high = tern_warp_max(v > 0 ? v : 0), low = -tern_warp_max(v < 0 ? -v : 0);
        const bool has_nan = __any_sync(0xffffffffu, v != v);
        const float scale = c.bits == 8 ? __fdiv_rn(fmaxf(high, -low), 127.0f)
                                        : __fadd_rn(__fdiv_rn(high >= -low ? high : low, -8.0f), 0.0f);
        const __half half = has_nan ? __ushort_as_half(0x7e00) : __float2half_rn(scale);
        const float stored = __half2float(half);
        const float inverse = stored < 0 || stored > 0 ? __fdiv_rn(1.0f, stored) : 0;
        if (lane == 0) ((__half *)row)[d / TERN_CUDA_BLOCK] = half;
        uint8_t *codes = row + tern_block_codes_at(c.bits, head_dim, d);
        if (c.bits == 8) {
            *codes = (uint8_t)(int8_t)tern_block_code(v, inverse, -127, 127);
            continue;
        }
        const int code = tern_block_code(v, inverse, -8, 7) + 8, upper = __shfl_down_sync(0xffffffffu, code, 16);
        if (lane < TERN_CUDA_BLOCK_NIBBLES) *codes = (uint8_t)(code + 16 * upper);
    }
}

/* How many rows of a brief run there are from row t on; 0: its run is not brief. By a whole warp. */
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
