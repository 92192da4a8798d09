/* REQUANTIZE (ops/ref/update.h): the largest exponent, the sum of all magnitudes, the scale, then the codes. */
#include "backend/cuda/training/exact.cuh"
#include "backend/cuda/training/table.cuh"

enum { THREADS = 256 };

/* Scratch: words 0: the exponent; 2 and 3: the sum; 4 to 6: scale, factor and bound. */
enum { EXPONENT, SUM = 2, RULE = 4 };

static __device__ __forceinline__ float master(const tern_cuda_update &p, uint64_t i)
{
    if (p.w_type == TERN_CUDA_BF16) return flushed(__uint_as_float((uint32_t)((const uint16_t *)p.w)[i] << 16));
    return flushed(((const float *)p.w)[i]);
}

/* The elements of a block. */
static __device__ __forceinline__ uint64_t first_of(const tern_cuda_update &p, uint32_t each)
{
    return (uint64_t)(blockIdx.x - p.first) * each;
}

static __device__ __forceinline__ uint64_t end_of(const tern_cuda_update &p, uint32_t each)
{
    return min((unsigned long long)p.n, (unsigned long long)first_of(p, each) + each);
}

static __global__ void __launch_bounds__(THREADS) exponents(const tern_cuda_updates all)
{
    const tern_cuda_update p = update_of<false>(all);
    const float bound = p.clamp > 0 ? mul_of(p.clamp, flushed(p.scales[0])) : 0;
    uint32_t most = 0;
    for (uint64_t i = first_of(p, all.each) + threadIdx.x, end = end_of(p, all.each); i < end; i += THREADS) {
        float x = master(p, i);
        if (bound > 0) {
            x = x > bound ? bound : x < -bound ? -bound : x;
            if (p.w_type == TERN_CUDA_BF16) ((uint16_t *)p.w)[i] = bf16_nearest(x);
            else ((float *)p.w)[i] = x;
            x = master(p, i);
        }
        most = max(most, __float_as_uint(x) & 0x7fffffffu);
    }
    most = __reduce_max_sync(~0u, most);
    if (threadIdx.x % 32 == 0) atomicMax(p.totals + EXPONENT, most >> 23);
}

static __device__ uint32_t units(uint32_t bits, uint32_t exponent)
{
    const uint32_t down = exponent - (bits >> 23 & 255u), digits = ((bits & 0x7fffffu) | 0x800000u) << 8;
    if ((bits & 0x7fffffffu) == 0 || down > 32) return 0;
    if (down == 0) return digits;
    return (down == 32 ? 0 : digits >> down) + (digits >> (down - 1) & 1u);
}

static __global__ void __launch_bounds__(THREADS) magnitudes(const tern_cuda_updates all)
{
    const tern_cuda_update p = update_of<false>(all);
    const uint32_t exponent = p.totals[EXPONENT];
    unsigned long long sum = 0;
    for (uint64_t i = first_of(p, all.each) + threadIdx.x, end = end_of(p, all.each); i < end; i += THREADS)
        sum += units(__float_as_uint(master(p, i)), exponent);
    for (int k = 16; k > 0; k /= 2) sum += __shfl_xor_sync(~0u, sum, k);
    if (threadIdx.x % 32 == 0) atomicAdd((unsigned long long *)(p.totals + SUM), sum);
}

/* tern_absmean_scale of quant/absmean.c. */
static __device__ float scale_of(unsigned long long sum, uint32_t n, uint32_t exponent)
{
    const uint32_t least = 0x3727c5acu; /* 1e-5 */
    uint32_t quotient = 0, rest = 0;
    int bit = 63;
    if (sum == 0 || n == 0) return __uint_as_float(least);
    for (; quotient < 1u << 24; bit--) {
        const uint32_t carry = rest >> 31;
        rest = rest << 1 | (bit >= 0 ? (uint32_t)(sum >> bit) & 1u : 0);
        const uint32_t goes = carry || rest >= n;
        rest -= goes ? n : 0;
        quotient = quotient << 1 | goes;
    }
    const uint32_t more = rest != 0 || (bit >= 0 && (sum & ((2ull << bit) - 1)) != 0);
    uint32_t digits = quotient >> 1;
    digits += quotient & (more | digits) & 1u;
    const int32_t bits = ((int32_t)exponent + bit - 7) * (1 << 23) + (int32_t)digits;
    return __uint_as_float(bits > (int32_t)least ? (uint32_t)bits : least);
}

static __global__ void rule(const tern_cuda_updates all)
{
    const tern_cuda_update p = all.all[blockIdx.x];
    const float scale = scale_of(*(const unsigned long long *)(p.totals + SUM), (uint32_t)p.n, p.totals[EXPONENT]);
    const bool by_threshold = p.threshold > 0;
    float *out = (float *)(p.totals + RULE);
    out[0] = scale;
    out[1] = by_threshold ? 1.0f : div_of(1.0f, scale);
    out[2] = by_threshold ? mul_of(p.threshold, scale) : 0.5f;
}

static __device__ __forceinline__ int code_of(float w, const float *r)
{
    const float v = __fmul_rn(w, r[1]);
    return (v > r[2]) - (v < -r[2]);
}

/* A thread makes a byte: four codes, 32 columns apart. */
static __device__ void codes(const tern_cuda_update &p)
{
    const uint64_t n = (uint64_t)p.rows * p.row_bytes, first = (uint64_t)(blockIdx.x - p.first_codes) * TERN_CUDA_CODES;
    const float *r = (const float *)(p.totals + RULE);
    for (uint64_t i = first + threadIdx.x; i < first + TERN_CUDA_CODES && i < n; i += THREADS) {
        const uint32_t row = (uint32_t)(i / p.row_bytes), b = (uint32_t)(i % p.row_bytes);
        uint32_t byte = 0;
        if (b == 0) p.scales[row] = r[0];
        for (uint32_t k = 0; k < 4; k++) {
            const uint32_t c = b / 32 * 128 + k * 32 + b % 32;
            const int code = c < p.cols ? code_of(master(p, (uint64_t)row * p.cols + c), r) : 0;
            byte |= (uint32_t)(code + 1) << (6 - 2 * k);
        }
        p.out[i] = (uint8_t)byte;
    }
}

static __device__ void blended(const tern_cuda_update &p)
{
    const float *r = (const float *)(p.totals + RULE), blend = flushed(p.params->next_blend);
    const uint64_t first = (uint64_t)(blockIdx.x - p.first_codes) * TERN_CUDA_CODES;
    for (uint64_t i = first + threadIdx.x; i < first + TERN_CUDA_CODES && i < p.n; i += THREADS) {
        const float x = master(p, i), ternary = __fmul_rn((float)code_of(x, r), r[0]);
        const float moved = add_of(x, mul_of(blend, sub_of(ternary, x)));
        ((float *)p.out)[i] = blend >= 1 ? ternary : moved;
    }
}

static __global__ void __launch_bounds__(THREADS) written(const tern_cuda_updates all)
{
    const tern_cuda_update p = update_of<true>(all);
    if (p.ternary) codes(p);
    else blended(p);
}

cudaError_t tern_cuda_run_requantize(const tern_cuda_updates *p, cudaStream_t stream)
{
    const cudaError_t e =
        cudaMemsetAsync(p->totals, 0, (size_t)p->n * TERN_CUDA_TOTALS * sizeof *p->totals, stream);
    if (e != cudaSuccess) return e;
    exponents<<<p->blocks, THREADS, 0, stream>>>(*p);
    magnitudes<<<p->blocks, THREADS, 0, stream>>>(*p);
    rule<<<p->n, 1, 0, stream>>>(*p);
    written<<<p->code_blocks, THREADS, 0, stream>>>(*p);
    return cudaGetLastError();
}
