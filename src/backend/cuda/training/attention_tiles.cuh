/* Attention of packed rows on tensor cores, for heads of at most 128: a warp has 16 rows of its block's 64 and all
 * columns of a tile, tiles lie in shared memory as f32. A float is the sum of two of tf32, 11 bits each; of their
 * products the one of the second parts is left out. Tensor cores cut what they add up, so that 32 steps are summed by
 * themselves. */
#ifndef TERN_BACKEND_CUDA_TRAINING_ATTENTION_TILES_CUH
#define TERN_BACKEND_CUDA_TRAINING_ATTENTION_TILES_CUH

#include "backend/cuda/training/attention.cuh"

/* BESIDE: sums that a warp has under way at once. */
enum { OWN = 64, TILE_THREADS = 128, STEP = 8, BESIDE = 4 };

template <int DIM, int OTHER> struct Tiles {
    static constexpr int stride = DIM + 4, own = OWN * stride, other = OTHER * stride; /* floats */
    static constexpr int columns = DIM / 8, eights = OTHER / 8;
};

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
    constexpr int stride = DIM + 4;
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
    constexpr int stride = DIM + 4;
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
