/* C[m][n] = A times B of numbers that are split in planes of bf16, on tensor cores, f32 sums.
 *
 * A block has 128 x 128 of C, a warp 64 x 32, 32 steps at a time, of which two more are on their way into shared
 * memory. A has three planes, which hold all 24 bits; B has one where it is exact in bf16, else two or three. Products of
 * planes i and j are there where i + j < 3. */
#ifndef TERN_BACKEND_CUDA_TRAINING_PRODUCT_CUH
#define TERN_BACKEND_CUDA_TRAINING_PRODUCT_CUH

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "backend/cuda/device.cuh"

enum { TILE = 128, STEP = 32, STAGES = 3, PLANES = 3, THREADS = 256, PLANE_BYTES = TILE * STEP * 2 };

/* Rows of `ld` numbers, a multiple of 8, zeros beyond those that count; the planes `plane` numbers apart. */
typedef struct planes {
    __nv_bfloat16 *data;
    size_t plane;
    uint32_t ld;
} planes;

typedef struct product {
    planes a, b;        /* a: [m][k], or [k][m]; b: [k][n] */
    uint32_t m, n, k;
    tern_cuda_count rows; /* of C; n NULL: m of them */
    float *c;
    const float *residual; /* NULL: none */
    size_t c_stride, residual_stride;
    float scale;
    uint32_t splits, k_each; /* of the sum among blocks; k_each: a multiple of STEP */
    float *partials;         /* [splits][m][n] */
} product;

static __device__ __forceinline__ void copy_or_zeros(uint32_t to, const void *from, bool is_there)
{
    asm volatile("cp.async.cg.shared.global [%0],[%1],16,%2;" ::"r"(to), "l"(from), "r"(is_there ? 16 : 0) : "memory");
}

template <bool TRANSPOSED> static __device__ __forceinline__ void matrices(uint32_t (&r)[4], uint32_t from)
{
    if (TRANSPOSED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3},[%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(from)
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3},[%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(from)
                     : "memory");
}

static __device__ __forceinline__ void mma_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},"
                 "{%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Where 8 numbers lie in a tile [128][32] or [32][128]: no two of eight neighbouring rows in the same banks. */
static __device__ __forceinline__ uint32_t in_narrow(uint32_t row, uint32_t eight)
{
    return row * 64 + ((eight ^ (row >> 1 & 3)) << 4);
}

static __device__ __forceinline__ uint32_t in_wide(uint32_t row, uint32_t eight)
{
    return row * 256 + ((eight ^ (row & 7)) << 4);
}

/* A tile of rows [first, ...) and steps [at, ...) of p; `wide`: its rows are steps. */
template <bool WIDE>
static __device__ __forceinline__ void load_tile(const planes &p, uint32_t plane, uint32_t first, uint32_t end,
                                                 uint32_t at, uint32_t k, uint32_t to)
{
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t j = threadIdx.x + i * THREADS, row = WIDE ? j / 16 : j / 4, eight = WIDE ? j % 16 : j % 4;
        const uint32_t r = (WIDE ? at : first) + row, c = (WIDE ? first : at) + eight * 8;
        const bool is_there = r < (WIDE ? k : end) && c < p.ld;
        const size_t from = is_there ? plane * p.plane + (size_t)r * p.ld + c : 0;
        copy_or_zeros(to + (WIDE ? in_wide(row, eight) : in_narrow(row, eight)), p.data + from, is_there);
    }
}

template <bool KM, int NB>
static __device__ __forceinline__ void load_stage(const product &p, uint32_t m0, uint32_t n0, uint32_t at, uint32_t to)
{
    for (uint32_t plane = 0; plane < PLANES; plane++) load_tile<KM>(p.a, plane, m0, p.m, at, p.k, to + plane * PLANE_BYTES);
    for (uint32_t plane = 0; plane < NB; plane++)
        load_tile<true>(p.b, plane, n0, p.n, at, p.k, to + (PLANES + plane) * PLANE_BYTES);
}

/* 16 rows of A and 16 steps. */
template <bool KM>
static __device__ __forceinline__ void fragment_a(uint32_t (&a)[4], uint32_t tile, uint32_t m, uint32_t k)
{
    const uint32_t lane = threadIdx.x % 32;
    if (KM) matrices<true>(a, tile + in_wide(k + lane % 8 + lane / 16 * 8, m / 8 + lane / 8 % 2));
    else matrices<false>(a, tile + in_narrow(m + lane % 16, k / 8 + lane / 16));
}

/* 16 columns of B and 16 steps: two for each 8 columns. */
static __device__ __forceinline__ void fragment_b(uint32_t (&b)[4], uint32_t tile, uint32_t n, uint32_t k)
{
    const uint32_t lane = threadIdx.x % 32;
    matrices<true>(b, tile + in_wide(k + lane % 8 + lane / 8 % 2 * 8, n / 8 + lane / 16));
}

/* Tensor cores cut what they add up, so that 16 steps are summed by themselves, the smallest planes first, and added to
 * the rest in f32. */
template <bool KM, int NB>
static __device__ __forceinline__ void multiply_stage(float (&c)[4][4][4], uint32_t tiles, uint32_t m, uint32_t n)
{
#pragma unroll
    for (uint32_t k = 0; k < STEP; k += 16) {
        uint32_t b[NB][2][4];
#pragma unroll
        for (uint32_t plane = 0; plane < NB; plane++)
#pragma unroll
            for (uint32_t j = 0; j < 2; j++)
                fragment_b(b[plane][j], tiles + (PLANES + plane) * PLANE_BYTES, n + j * 16, k);
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            uint32_t a[PLANES][4];
#pragma unroll
            for (uint32_t plane = 0; plane < PLANES; plane++)
                fragment_a<KM>(a[plane], tiles + plane * PLANE_BYTES, m + i * 16, k);
#pragma unroll
            for (uint32_t j = 0; j < 4; j++) {
                float sum[4] = {};
#pragma unroll
                for (int both = PLANES - 1; both >= 0; both--)
#pragma unroll
                    for (int of_b = 0; of_b < NB && of_b <= both; of_b++)
                        mma_bf16(sum, a[both - of_b], b[of_b][j / 2][j % 2 * 2], b[of_b][j / 2][j % 2 * 2 + 1]);
#pragma unroll
                for (uint32_t e = 0; e < 4; e++) c[i][j][e] += sum[e];
            }
        }
    }
}

static __device__ __forceinline__ void put(const product &p, uint32_t rows, uint32_t r, uint32_t col, float x)
{
    if (r >= rows || col >= p.n) return;
    if (p.splits > 1) {
        p.partials[((size_t)blockIdx.z * p.m + r) * p.n + col] = x;
        return;
    }
    x *= p.scale;
    if (p.residual) x += p.residual[r * p.residual_stride + col];
    p.c[r * p.c_stride + col] = x;
}

static __device__ __forceinline__ uint32_t rows_of(const product &p)
{
    return p.rows.n ? tern_rows_now(p.rows) : p.m;
}

template <bool KM, int NB> static __global__ void __launch_bounds__(THREADS, 2) multiply_planes(product p)
{
    extern __shared__ __align__(128) uint8_t memory[];
    constexpr uint32_t stage_bytes = (PLANES + NB) * PLANE_BYTES;
    const uint32_t base = (uint32_t)__cvta_generic_to_shared(memory), warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const uint32_t m0 = blockIdx.y * TILE, n0 = blockIdx.x * TILE, rows = rows_of(p);
    const uint32_t first = blockIdx.z * p.k_each, end = min(p.k, first + p.k_each);
    const uint32_t steps = end > first ? (end - first + STEP - 1) / STEP : 0;
    const uint32_t m = warp / 4 * 64, n = warp % 4 * 32;
    float c[4][4][4] = {};
    if (m0 >= rows) return;
    for (uint32_t s = 0; s < STAGES - 1; s++) {
        if (s < steps) load_stage<KM, NB>(p, m0, n0, first + s * STEP, base + s * stage_bytes);
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    for (uint32_t s = 0; s < steps; s++) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncthreads();
        const uint32_t next = s + STAGES - 1;
        if (next < steps) load_stage<KM, NB>(p, m0, n0, first + next * STEP, base + next % STAGES * stage_bytes);
        asm volatile("cp.async.commit_group;" ::: "memory");
        multiply_stage<KM, NB>(c, base + s % STAGES * stage_bytes, m, n);
    }
#pragma unroll
    for (uint32_t i = 0; i < 4; i++)
#pragma unroll
        for (uint32_t j = 0; j < 4; j++)
#pragma unroll
            for (uint32_t e = 0; e < 4; e++)
                put(p, rows, m0 + m + i * 16 + lane / 4 + e / 2 * 8, n0 + n + j * 8 + lane % 4 * 2 + e % 2, c[i][j][e]);
}

static __global__ void add_partials(product p)
{
    const uint32_t r = blockIdx.y, col = blockIdx.x * THREADS + threadIdx.x;
    if (r >= rows_of(p) || col >= p.n) return;
    float x = 0;
    for (uint32_t z = 0; z < p.splits; z++) x += p.partials[((size_t)z * p.m + r) * p.n + col];
    x *= p.scale;
    if (p.residual) x += p.residual[r * p.residual_stride + col];
    p.c[r * p.c_stride + col] = x;
}

#endif
