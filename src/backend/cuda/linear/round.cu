// Rows in 16 bits for the products of 16-bit factors, as ops/ref/halves/halves.h has them: a block for each row, which
// it reads twice.
#include <cuda_bf16.h>

#include "backend/cuda/linear/common.cuh"
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

cudaError_t tern_cuda_round_rows(const tern_cuda_linear *p, cudaStream_t s)
{
    const bool aligned = tern_is_aligned(p->x), bf16 = p->halves == TERN_HALVES_BF16;
    void (*kernel)(tern_cuda_count, tern_cuda_rows, tern_cuda_half_rows, uint32_t) =
        bf16      ? aligned ? round_rows<true, true> : round_rows<true, false>
             : aligned ? round_rows<false, true>
                  : round_rows<false, false>;
    return tern_launch(kernel, p->count.most, THREADS, 0, s, p->count, p->x, p->rounded, p->weight[0].cols);
}
