// Rows in 16 bits for the products of 16-bit factors, as ops/ref/halves/halves.h has them: a block for each row. It has
// the row in registers, and norms it first where a norm is before the product; it reads other rows twice.
#include <cuda_bf16.h>

#include "backend/cuda/linear/common.cuh"
#include "backend/cuda/rows/levels.cuh"
#include "ops/halves.h"

enum { THREADS = 256 };

// 2^k of the definition, and its inverse.
struct Power {
    float by, back;
};

static __device__ __forceinline__ Power power_of(float top)
{
    enum { BIAS = 127, TOP = 14 };
    const int exponent = (int)(__float_as_uint(top) >> 23 & 255), power = min(2 * BIAS + TOP - exponent, 2 * BIAS - 1);
    return {__uint_as_float((uint32_t)power << 23), __uint_as_float((uint32_t)(2 * BIAS - power) << 23)};
}

static __device__ __forceinline__ float top_of(float top, float4 v)
{
    return fmaxf(fmaxf(top, fmaxf(fabsf(v.x), fabsf(v.y))), fmaxf(fabsf(v.z), fabsf(v.w)));
}

template <bool BF> static __device__ __forceinline__ uint32_t pack(float a, float b)
{
    if (BF) {
        const __nv_bfloat162 h = __floats2bfloat162_rn(a, b);
        return *(const uint32_t *)&h;
    }
    const __half2 h = __floats2half2_rn(a, b);
    return *(const uint32_t *)&h;
}

// Four columns from c on.
template <bool BF> static __device__ __forceinline__ void put_four(uint16_t *row, uint32_t c, float4 v, float by)
{
    *(uint2 *)(row + c) = make_uint2(pack<BF>(v.x * by, v.y * by), pack<BF>(v.z * by, v.w * by));
}

// A row that ends at a multiple of 8 columns, with zeros.
template <bool BF, bool ALIGNED>
static __global__ void __launch_bounds__(THREADS)
    round_rows(tern_cuda_count count, tern_cuda_rows x, tern_cuda_half_rows out, uint32_t cols)
{
    __shared__ float room[32];
    tern_follow();
    const uint32_t t = blockIdx.x;
    if (t >= tern_rows_now(count)) return;
    const float *row = x.data + (size_t)t * x.stride;
    float top = 0;
    for (uint32_t c = threadIdx.x * 4; !BF && c < cols; c += THREADS * 4)
        top = top_of(top, tern_four_of<ALIGNED>(row, c, cols));
    const Power k = BF ? Power{1, 1} : power_of(tern_block_max(top, room));
    for (uint32_t c = threadIdx.x * 4; c < out.stride; c += THREADS * 4)
        put_four<BF>((uint16_t *)out.rows + (size_t)t * out.stride, c, tern_four_of<ALIGNED>(row, c, cols), k.by);
    if (threadIdx.x == 0) out.scales[t] = k.back;
}

// Rows of up to HELD * 4 columns for each thread.
enum { HELD = 8, FOURS = THREADS * 4 };

template <bool BF, bool NORM>
static __global__ void __launch_bounds__(THREADS) round_held(const __grid_constant__ tern_cuda_rounded_norm all)
{
    __shared__ float sums[32], tops[32];
    const tern_cuda_norm &p = all.norm;
    const tern_cuda_half_rows out = all.rounded;
    const uint32_t t = blockIdx.x, mine = threadIdx.x * 4;
    tern_follow();
    if (t >= tern_rows_now(p.count)) return;
    const float *row = p.x.data + (size_t)t * p.x.stride + mine;
    float4 held[HELD];
    float squares = 0, top = 0;
#pragma unroll
    for (int i = 0; i < HELD; i++) {
        held[i] = make_float4(0, 0, 0, 0);
        if (mine + i * FOURS < p.cols) held[i] = *(const float4 *)(row + i * FOURS);
        if (NORM) squares = squares_of(held[i], squares);
    }
    const float r = NORM ? 1.0f / sqrtf(tern_block_sum(squares, sums) / (float)p.cols + p.eps) : 1;
#pragma unroll
    for (int i = 0; i < HELD; i++) {
        if (NORM && mine + i * FOURS < p.cols) {
            held[i] = product_of(held[i], __ldg((const float4 *)(p.weight + mine + i * FOURS)), r);
            *(float4 *)(p.out.data + (size_t)t * p.out.stride + mine + i * FOURS) = held[i];
        }
        top = most_of(held[i], top);
    }
    const Power k = BF ? Power{1, 1} : power_of(tern_block_max(top, tops));
#pragma unroll
    for (int i = 0; i < HELD; i++)
        if (mine + i * FOURS < out.stride)
            put_four<BF>((uint16_t *)out.rows + (size_t)t * out.stride, mine + i * FOURS, held[i], k.by);
    if (threadIdx.x == 0) out.scales[t] = k.back;
}

template <bool NORM> static cudaError_t start_held(const tern_cuda_rounded_norm *p, cudaStream_t s)
{
    const auto kernel = p->halves == TERN_HALVES_BF16 ? round_held<true, NORM> : round_held<false, NORM>;
    return tern_launch(kernel, p->norm.count.most, THREADS, 0, s, *p);
}

static bool can_hold(tern_cuda_rows x, uint32_t cols)
{
    return cols % 4 == 0 && cols <= HELD * FOURS && tern_is_aligned(x);
}

bool tern_cuda_can_round_norm(const tern_cuda_norm *p)
{
    return !p->residual.data && p->group == p->cols && can_hold(p->x, p->cols) && tern_is_aligned(p->out) &&
           (uintptr_t)p->weight % 16 == 0;
}

cudaError_t tern_cuda_run_rounded_norm(const tern_cuda_rounded_norm *p, cudaStream_t s)
{
    return start_held<true>(p, s);
}

cudaError_t tern_cuda_round_rows(const tern_cuda_linear *p, cudaStream_t s)
{
    const bool aligned = tern_is_aligned(p->x), bf16 = p->halves == TERN_HALVES_BF16;
    tern_cuda_rounded_norm held = {{}, p->halves, p->rounded};
    held.norm.count = p->count;
    held.norm.x = p->x;
    held.norm.cols = p->weight[0].cols;
    if (can_hold(p->x, held.norm.cols)) return start_held<false>(&held, s);
    void (*kernel)(tern_cuda_count, tern_cuda_rows, tern_cuda_half_rows, uint32_t) =
        bf16      ? aligned ? round_rows<true, true> : round_rows<true, false>
             : aligned ? round_rows<false, true>
                  : round_rows<false, false>;
    return tern_launch(kernel, p->count.most, THREADS, 0, s, p->count, p->x, p->rounded, p->weight[0].cols);
}
