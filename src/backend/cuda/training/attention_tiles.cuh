/* Attention of packed rows on tensor cores, for heads of at most 128: a warp has 16 rows of its block's 64 and all
 * columns of a tile. Tiles lie in shared memory as f32 (T float): a float is the sum of two of tf32, 11 bits each, and
 * of their products the one of the second parts is left out; tensor cores cut what they add up, so that 32 steps are
 * summed by themselves. Or they lie there rounded to bf16, and so are the probabilities and their gradients: one
 * product each. */
#ifndef TERN_BACKEND_CUDA_TRAINING_ATTENTION_TILES_CUH
#define TERN_BACKEND_CUDA_TRAINING_ATTENTION_TILES_CUH

#include <cuda_bf16.h>

#include "backend/cuda/training/attention.cuh"

/* BESIDE: sums that a warp has under way at once. */
enum { OWN = 64, TILE_THREADS = 128, STEP = 8, BESIDE = 4 };

/* From row to row of a tile, so that no two of eight neighbouring rows meet in the same banks. */
template <typename T, int DIM> static constexpr int row_stride = DIM + 16 / (int)sizeof(T);

template <typename T, int DIM, int OTHER> struct Tiles {
    static constexpr int stride = row_stride<T, DIM>, own = OWN * stride, other = OTHER * stride; /* numbers */
    static constexpr int columns = DIM / 8, eights = OTHER / 8;
    /* Buffers of the other rows: two where there is room, so that the next are on their way while these are
     * multiplied. */
    static constexpr int buffers = sizeof(T) == 2 ? 2 : 1;
};

/* Rows of q, k, v and, where there is room for it, dout to bf16. */
void tern_cuda_round_attention(const tern_cuda_varlen *p, cudaStream_t stream);

/* The lane's place in fragments: row g (and 8 more), columns 2 t and 2 t + 1 of eight. */
static __device__ __forceinline__ uint32_t lane_row()
{
    return threadIdx.x % 32 / 4;
}
static __device__ __forceinline__ uint32_t lane_column()
{
    return threadIdx.x % 4;
}
static __device__ __forceinline__ uint32_t warp_row()
{
    return threadIdx.x / 32 * 16;
}

/* Rounded, so that what is left has either sign and what tensor cores cut off it adds up to nothing. */
static __device__ __forceinline__ void split(float x, uint32_t &high, uint32_t &low)
{
    high = (__float_as_uint(x) + 0x1000u) & 0xffffe000u;
    low = __float_as_uint(x - __uint_as_float(high));
}

static __device__ __forceinline__ void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},"
        "{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* load_rows, all of it asked for at once; to be waited for with rows_wait. */
template <int DIM, int ROWS>
static __device__ __forceinline__ void ask_rows(float *to, tern_cuda_rows from, uint32_t t0, uint32_t first, uint32_t n,
                                                uint32_t h, uint32_t head_dim)
{
    if (head_dim % 4 || from.stride % 4 || ((size_t)from.data & 15)) {
        load_rows<DIM, ROWS>(to, from, t0, first, n, h, head_dim);
        return;
    }
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(to);
#pragma unroll 8
    for (uint32_t i = threadIdx.x; i < ROWS * (DIM / 4); i += TILE_THREADS) {
        const uint32_t row = i / (DIM / 4), d = i % (DIM / 4) * 4, t = t0 + row;
        const bool is_there = t >= first && t < n && d < head_dim;
        const float *x = is_there ? from.data + (size_t)t * from.stride + (size_t)h * head_dim + d : from.data;
        asm volatile("cp.async.cg.shared.global [%0],[%1],16,%2;" ::"r"(at + (row * (DIM + 4) + d) * 4), "l"(x),
                     "r"(is_there ? 16 : 0)
                     : "memory");
    }
}

static __device__ __forceinline__ void rows_wait()
{
    asm volatile("cp.async.wait_all;" ::: "memory");
}

/* 16 rows and 8 steps. */
typedef struct fragment {
    uint32_t high[4], low[4];
} fragment;

/* c[n] += a b(n), where b(n) is the numbers b[n * of_n] and b[n * of_n + second]. Products of one c wait for each
 * other, so that those of others come in between. */
template <int N>
static __device__ __forceinline__ void multiply(float (&c)[N][4], const fragment &a, const float *b, int of_n,
                                                int second)
{
    uint32_t high[N][2], low[N][2];
#pragma unroll
    for (int n = 0; n < N; n++) {
        split(b[n * of_n], high[n][0], low[n][0]);
        split(b[n * of_n + second], high[n][1], low[n][1]);
    }
#pragma unroll
    for (int n = 0; n < N; n++) mma(c[n], a.low, high[n][0], high[n][1]);
#pragma unroll
    for (int n = 0; n < N; n++) mma(c[n], a.high, low[n][0], low[n][1]);
#pragma unroll
    for (int n = 0; n < N; n++) mma(c[n], a.high, high[n][0], high[n][1]);
}

/* s = a b^T: the warp's 16 rows of a, 8 N rows of b. */
template <int DIM, int N>
static __device__ __forceinline__ void scores_of(float (&s)[N][4], const float *a, const float *b)
{
    constexpr int stride = row_stride<float, DIM>;
    const float *mine = a + (warp_row() + lane_row()) * stride + lane_column();
    const float *other = b + lane_row() * stride + lane_column();
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) s[n][i] = 0;
#pragma unroll 1
    for (int d0 = 0; d0 < DIM; d0 += 4 * STEP) {
        float part[N][4] = {};
#pragma unroll
        for (int d = d0; d < d0 + 4 * STEP; d += STEP) {
            fragment f;
            split(mine[d], f.high[0], f.low[0]);
            split(mine[d + 8 * stride], f.high[1], f.low[1]);
            split(mine[d + 4], f.high[2], f.low[2]);
            split(mine[d + 4 + 8 * stride], f.high[3], f.low[3]);
            multiply<N>(part, f, other + d, 8 * stride, 4);
        }
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) s[n][i] += part[n][i];
    }
}

/* o += p b: the columns 2 t and 2 t + 1 of p, which a lane has, stand for the steps t and t + 4 of a fragment, and so
 * do the rows of b. */
template <int DIM, int N>
static __device__ __forceinline__ void add_product(float (&o)[DIM / 8][4], const float (&p)[N][4], const float *b)
{
    constexpr int stride = row_stride<float, DIM>;
    const float *rows = b + lane_column() * 2 * stride + lane_row();
    fragment f[N];
#pragma unroll
    for (int k = 0; k < N; k++) {
        split(p[k][0], f[k].high[0], f[k].low[0]);
        split(p[k][2], f[k].high[1], f[k].low[1]);
        split(p[k][1], f[k].high[2], f[k].low[2]);
        split(p[k][3], f[k].high[3], f[k].low[3]);
    }
#pragma unroll
    for (int n = 0; n < DIM / 8; n += BESIDE) {
        float part[BESIDE][4] = {};
#pragma unroll
        for (int k = 0; k < N; k++) multiply<BESIDE>(part, f[k], rows + k * 8 * stride + n * 8, 8, stride);
#pragma unroll
        for (int i = 0; i < 4 * BESIDE; i++) o[n + i / 4][i % 4] += part[i / 4][i % 4];
    }
}

/* ---- the same of bf16 */
static __device__ __forceinline__ uint32_t pair_of(float x, float y)
{
    const __nv_bfloat162 h = __floats2bfloat162_rn(x, y);
    return *(const uint32_t *)&h;
}

static __device__ __forceinline__ void mma_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Four matrices of 8 x 8, the rows of each from eight lanes' addresses; TURNED: transposed. */
template <bool TURNED> static __device__ __forceinline__ void matrices(uint32_t (&r)[4], const __nv_bfloat16 *from)
{
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(from);
    if (TURNED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3},[%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(at)
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3},[%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(at)
                     : "memory");
}

/* Rows of DIM numbers, padded heads beside each other. */
struct Rounded {
    const uint16_t *data;
    uint32_t n_heads;
};

template <int DIM, int ROWS>
static __device__ __forceinline__ void ask_rows(__nv_bfloat16 *to, Rounded from, uint32_t t0, uint32_t first,
                                                uint32_t n, uint32_t h, uint32_t)
{
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(to);
#pragma unroll
    for (uint32_t j = 0; j < ROWS * (DIM / 8) / TILE_THREADS; j++) {
        const uint32_t i = threadIdx.x + j * TILE_THREADS, row = i / (DIM / 8), d = i % (DIM / 8) * 8, t = t0 + row;
        const bool is_there = t >= first && t < n;
        const uint16_t *x = is_there ? from.data + ((size_t)t * from.n_heads + h) * DIM + d : from.data;
        asm volatile(
            "cp.async.cg.shared.global [%0],[%1],16,%2;" ::"r"(at + (row * row_stride<__nv_bfloat16, DIM> + d) * 2),
            "l"(x), "r"(is_there ? 16 : 0)
            : "memory");
    }
}

template <int DIM, int N>
static __device__ __forceinline__ void scores_of(float (&s)[N][4], const __nv_bfloat16 *a, const __nv_bfloat16 *b)
{
    constexpr int stride = row_stride<__nv_bfloat16, DIM>;
    const uint32_t lane = threadIdx.x % 32;
    const __nv_bfloat16 *mine = a + (warp_row() + lane % 16) * stride + lane / 16 * 8;
    const __nv_bfloat16 *other = b + (lane % 8 + lane / 16 * 8) * stride + lane / 8 % 2 * 8;
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) s[n][i] = 0;
#pragma unroll
    for (int d = 0; d < DIM; d += 16) {
        uint32_t f[4];
        matrices<false>(f, mine + d);
#pragma unroll
        for (int n = 0; n < N; n += 2) {
            uint32_t g[4];
            matrices<false>(g, other + n * 8 * stride + d);
            mma_bf16(s[n], f, g[0], g[1]);
            mma_bf16(s[n + 1], f, g[2], g[3]);
        }
    }
}

/* Two eights of columns of p, as a lane has them, are the fragment of 16 steps. */
template <int DIM, int N>
static __device__ __forceinline__ void add_product(float (&o)[DIM / 8][4], const float (&p)[N][4],
                                                   const __nv_bfloat16 *b)
{
    constexpr int stride = row_stride<__nv_bfloat16, DIM>;
    const uint32_t lane = threadIdx.x % 32;
    const __nv_bfloat16 *rows = b + lane % 16 * stride + lane / 16 * 8;
#pragma unroll
    for (int k = 0; k < N; k += 2) {
        const uint32_t f[4] = {pair_of(p[k][0], p[k][1]), pair_of(p[k][2], p[k][3]), pair_of(p[k + 1][0], p[k + 1][1]),
                               pair_of(p[k + 1][2], p[k + 1][3])};
#pragma unroll
        for (int n = 0; n < DIM / 8; n += 2) {
            uint32_t g[4];
            matrices<true>(g, rows + k * 8 * stride + n * 8);
            mma_bf16(o[n], f, g[0], g[1]);
            mma_bf16(o[n + 1], f, g[2], g[3]);
        }
    }
}

/* Where a kernel reads rows of q, k, v or dout: as they are, or rounded. */
template <typename T> struct Sources {
    tern_cuda_rows q, k, v, dout;
    __device__ Sources(const tern_cuda_varlen &p) : q(p.q), k(p.k), v(p.v), dout(p.dout)
    {
    }
};

template <> struct Sources<__nv_bfloat16> {
    Rounded q, k, v, dout;
    __device__ Sources(const tern_cuda_varlen &p)
        : q{p.q16, p.n_heads}, k{p.k16, p.n_kv_heads}, v{p.v16, p.n_kv_heads}, dout{p.dout16, p.n_heads}
    {
    }
};

/* Over the four lanes that share rows. */
static __device__ __forceinline__ float sum_of_four(float x)
{
    x += __shfl_xor_sync(~0u, x, 1);
    return x + __shfl_xor_sync(~0u, x, 2);
}

static __device__ __forceinline__ float most_of_four(float x)
{
    x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
    return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}

/* The warp's rows of head h, from row t0 of the block on, rows g times low and g + 8 times high. */
template <int DIM>
static __device__ __forceinline__ void store_fragments(tern_cuda_rows to, const float (&o)[DIM / 8][4], float low,
                                                       float high, uint32_t t0, uint32_t n, uint32_t h,
                                                       uint32_t head_dim)
{
#pragma unroll
    for (int k = 0; k < DIM / 8; k++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const uint32_t t = t0 + warp_row() + lane_row() + i / 2 * 8, d = k * 8 + lane_column() * 2 + i % 2;
            if (t < n && d < head_dim)
                to.data[(size_t)t * to.stride + (size_t)h * head_dim + d] = o[k][i] * (i < 2 ? low : high);
        }
}

#endif
