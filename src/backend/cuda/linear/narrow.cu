/* Products with narrow matrices of f32: rows are read once, 16 bytes at a time, the narrow side lies in shared memory.
 */
#include "backend/cuda/linear/narrow.h"

#include "backend/cuda/device.cuh"

enum { SIDE = 16 }; /* of the narrow side at a time */

static __device__ __forceinline__ float plus_rest(const tern_cuda_narrow &p, uint32_t t, uint32_t n, float x)
{
    if (p.bias) x += p.bias[n];
    return p.residual.data ? x + p.residual.data[(size_t)t * p.residual.stride + n] : x;
}

/* ---- n narrow: a block has 16 rows, a warp four of them and every fourth run of 128 columns */
enum { INNER = 512, ROWS = 16, MINE = 4, RUN = 128, CHUNK = 4 * RUN };

/* 16 of n and a chunk of k, [n][k]. */
static __device__ __forceinline__ void load_chunk(const tern_cuda_narrow &p, float (&to)[SIDE][CHUNK], uint32_t n0,
                                                  uint32_t k0)
{
    if (p.turned) {
        const uint32_t k = k0 + threadIdx.x;
        const float *row = p.w + (size_t)k * p.w_stride;
#pragma unroll
        for (uint32_t j = 0; j < SIDE; j += 4) {
            const bool is_there = k < p.k && n0 + j < p.w_stride;
            const float4 w = is_there ? *(const float4 *)(row + n0 + j) : make_float4(0, 0, 0, 0);
            to[j][threadIdx.x] = w.x, to[j + 1][threadIdx.x] = w.y;
            to[j + 2][threadIdx.x] = w.z, to[j + 3][threadIdx.x] = w.w;
        }
        return;
    }
#pragma unroll
    for (uint32_t i = 0; i < SIDE * CHUNK / 4 / INNER; i++) {
        const uint32_t at = threadIdx.x + i * INNER, j = at / (CHUNK / 4), c = at % (CHUNK / 4) * 4;
        const float *row = p.w + (size_t)(n0 + j) * p.w_stride;
        *(float4 *)&to[j][c] = n0 + j < p.n ? tern_four_of<true>(row, k0 + c, p.k) : make_float4(0, 0, 0, 0);
    }
}

/* The sums of 64 numbers over the lanes of a warp: lane i has numbers 2 i and 2 i + 1. */
static __device__ __forceinline__ void sum_lanes(float (&v)[MINE * SIDE])
{
#pragma unroll
    for (int step = 0; step < 5; step++) {
        const bool upper = threadIdx.x & 16 >> step;
#pragma unroll
        for (int i = 0; i < MINE * SIDE / 2; i++) {
            const int n = MINE * SIDE / 2 >> step;
            if (i >= n) continue;
            const float send = upper ? v[i] : v[i + n], stays = upper ? v[i + n] : v[i];
            v[i] = stays + __shfl_xor_sync(~0u, send, 16 >> step);
        }
    }
}

template <bool ALIGNED> static __global__ void __launch_bounds__(INNER, 1) narrow_n(tern_cuda_narrow p)
{
    __shared__ __align__(16) float w[SIDE][CHUNK];
    __shared__ float sums[4][4][MINE * SIDE];
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = warp / 4, stripe = warp % 4;
    if (blockIdx.x * ROWS >= tern_rows_now(p.count)) return;
    const uint32_t first = tern_first_row(p.count), rows = first + tern_rows_now(p.count);
    const uint32_t t0 = first + blockIdx.x * ROWS, n0 = blockIdx.y * SIDE;
    const float *x[MINE];
    float c[MINE * SIDE];
#pragma unroll
    for (int i = 0; i < MINE; i++) x[i] = p.x.data + (size_t)min(t0 + group * MINE + i, rows - 1) * p.x.stride;
#pragma unroll
    for (int i = 0; i < MINE * SIDE; i++) c[i] = 0;
    const uint32_t mine = stripe * RUN + lane * 4;
    float4 next[MINE];
#pragma unroll
    for (int i = 0; i < MINE; i++) next[i] = tern_four_of<ALIGNED>(x[i], mine, p.k);
    for (uint32_t k0 = 0; k0 < p.k; k0 += CHUNK) {
        float4 now[MINE];
        __syncthreads();
        load_chunk(p, w, n0, k0);
#pragma unroll
        for (int i = 0; i < MINE; i++) now[i] = next[i], next[i] = tern_four_of<ALIGNED>(x[i], k0 + CHUNK + mine, p.k);
        __syncthreads();
#pragma unroll
        for (int j = 0; j < SIDE; j++) {
            const float4 b = *(const float4 *)&w[j][mine];
#pragma unroll
            for (int i = 0; i < MINE; i++) {
                float s = c[i * SIDE + j];
                s = fmaf(now[i].x, b.x, s), s = fmaf(now[i].y, b.y, s);
                s = fmaf(now[i].z, b.z, s), c[i * SIDE + j] = fmaf(now[i].w, b.w, s);
            }
        }
    }
    sum_lanes(c);
    sums[stripe][group][lane * 2] = c[0], sums[stripe][group][lane * 2 + 1] = c[1];
    __syncthreads();
    const uint32_t t = t0 + threadIdx.x / SIDE, n = n0 + threadIdx.x % SIDE, of = threadIdx.x / SIDE / MINE;
    if (threadIdx.x >= ROWS * SIDE || t >= rows || n >= p.n) return;
    const uint32_t at = threadIdx.x % (MINE * SIDE);
    const float y = sums[0][of][at] + sums[1][of][at] + (sums[2][of][at] + sums[3][of][at]);
    p.out.data[(size_t)t * p.out.stride + n] = plus_rest(p, t, n, y);
}

/* ---- k narrow: a block has 64 rows and 128 columns, a thread four of the rows and twice four of the columns */
enum { OUTER = 256, TALL = 64, WIDE = 128 };

static __device__ __forceinline__ void load_sides(const tern_cuda_narrow &p, float (&x)[SIDE][TALL],
                                                  float (&w)[SIDE][WIDE], uint32_t t0, uint32_t n0, uint32_t k0,
                                                  uint32_t rows)
{
    for (uint32_t i = threadIdx.x; i < SIDE * TALL; i += OUTER) {
        const uint32_t k = i % SIDE, t = i / SIDE;
        x[k][t] = t0 + t < rows && k0 + k < p.k ? p.x.data[(size_t)(t0 + t) * p.x.stride + k0 + k] : 0;
    }
    for (uint32_t i = threadIdx.x; i < SIDE * WIDE; i += OUTER) {
        const uint32_t k = p.turned ? i / WIDE : i % SIDE, n = p.turned ? i % WIDE : i / SIDE;
        const size_t at = p.turned ? (size_t)(k0 + k) * p.w_stride + n0 + n : (size_t)(n0 + n) * p.w_stride + k0 + k;
        w[k][n] = n0 + n < p.n && k0 + k < p.k ? p.w[at] : 0;
    }
}

template <bool ALIGNED>
static __device__ __forceinline__ void put_four(const tern_cuda_narrow &p, uint32_t t, uint32_t n, const float *y)
{
    float *out = p.out.data + (size_t)t * p.out.stride + n;
    const float *residual = p.residual.data + (size_t)t * p.residual.stride + n;
    if (ALIGNED && n + 4 <= p.n) {
        float4 v = make_float4(y[0], y[1], y[2], y[3]);
        const float4 r = p.residual.data ? *(const float4 *)residual : make_float4(0, 0, 0, 0);
        v.x += r.x, v.y += r.y, v.z += r.z, v.w += r.w;
        *(float4 *)out = v;
        return;
    }
    for (uint32_t i = 0; i < 4 && n + i < p.n; i++) out[i] = p.residual.data ? y[i] + residual[i] : y[i];
}

template <bool ALIGNED> static __global__ void __launch_bounds__(OUTER) narrow_k(tern_cuda_narrow p)
{
    __shared__ __align__(16) float x[SIDE][TALL], w[SIDE][WIDE];
    if (blockIdx.y * TALL >= tern_rows_now(p.count)) return;
    const uint32_t first = tern_first_row(p.count), rows = first + tern_rows_now(p.count);
    const uint32_t ty = threadIdx.x / 16, tx = threadIdx.x % 16, t0 = first + blockIdx.y * TALL;
    const uint32_t n0 = blockIdx.x * WIDE;
    float c[4][8] = {};
    for (uint32_t k0 = 0; k0 < p.k; k0 += SIDE) {
        __syncthreads();
        load_sides(p, x, w, t0, n0, k0, rows);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < SIDE; k++) {
            const float4 a = *(const float4 *)&x[k][ty * 4], b = *(const float4 *)&w[k][tx * 4],
                         d = *(const float4 *)&w[k][64 + tx * 4];
            const float left[4] = {a.x, a.y, a.z, a.w}, right[8] = {b.x, b.y, b.z, b.w, d.x, d.y, d.z, d.w};
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 8; j++) c[i][j] = fmaf(left[i], right[j], c[i][j]);
        }
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const uint32_t t = t0 + ty * 4 + i;
        if (t >= rows) continue;
        put_four<ALIGNED>(p, t, n0 + tx * 4, c[i]);
        put_four<ALIGNED>(p, t, n0 + 64 + tx * 4, c[i] + 4);
    }
}

bool tern_cuda_is_narrow(uint32_t n, uint32_t k)
{
    return n <= TERN_CUDA_NARROW || k <= TERN_CUDA_NARROW;
}

cudaError_t tern_cuda_run_narrow(const tern_cuda_narrow *p, cudaStream_t stream)
{
    if (p->n <= TERN_CUDA_NARROW) {
        const dim3 grid((p->count.most + ROWS - 1) / ROWS, (p->n + SIDE - 1) / SIDE);
        if (tern_is_aligned(p->x)) narrow_n<true><<<grid, INNER, 0, stream>>>(*p);
        else narrow_n<false><<<grid, INNER, 0, stream>>>(*p);
        return cudaGetLastError();
    }
    const dim3 grid((p->n + WIDE - 1) / WIDE, (p->count.most + TALL - 1) / TALL);
    if (tern_is_aligned(p->out) && (!p->residual.data || tern_is_aligned(p->residual)))
        narrow_k<true><<<grid, OUTER, 0, stream>>>(*p);
    else narrow_k<false><<<grid, OUTER, 0, stream>>>(*p);
    return cudaGetLastError();
}

/* ---- sums over rows: a block has 256 columns and a share of the rows, of which each of its four groups takes every
 * fourth run of 16 */
enum { SUMS = 256, COLUMNS = 256, GROUPS = 4, SOME = 64, BLOCKS = 264, LEAST_ROWS = 64 };

/* How many shares of the rows there are at most. */
static uint32_t shares_of(uint32_t j, uint32_t n)
{
    const uint32_t blocks = (n + COLUMNS - 1) / COLUMNS * ((j + SIDE - 1) / SIDE);
    return blocks >= BLOCKS ? 1 : (BLOCKS + blocks - 1) / blocks;
}

size_t tern_cuda_narrow_bytes(uint32_t j, uint32_t n)
{
    return (size_t)shares_of(j, n) * j * n * sizeof(float);
}

static __device__ __forceinline__ float *sum_at(const tern_cuda_narrow_sums &p, uint32_t j, uint32_t n)
{
    return p.out.data + (p.turned ? (size_t)n * p.out.stride + j : (size_t)j * p.out.stride + n);
}

/* What group 0 has becomes the sum of all. */
static __device__ __forceinline__ void add_groups(float (&c)[SIDE][4], float (&room)[SIDE * 4][COLUMNS / 4])
{
    const uint32_t group = threadIdx.x / (COLUMNS / 4), lane = threadIdx.x % (COLUMNS / 4);
    for (uint32_t g = 1; g < GROUPS; g++) {
        __syncthreads();
#pragma unroll
        for (int i = 0; i < SIDE * 4; i++)
            if (group == g) room[i][lane] = c[i / 4][i % 4];
        __syncthreads();
#pragma unroll
        for (int i = 0; i < SIDE * 4; i++)
            if (group == 0) c[i / 4][i % 4] += room[i][lane];
    }
}

template <bool ALIGNED>
static __global__ void __launch_bounds__(SUMS, 2) narrow_sums(tern_cuda_narrow_sums p, uint32_t rows_each)
{
    __shared__ __align__(16) float s[SOME][SIDE], room[SIDE * 4][COLUMNS / 4];
    const uint32_t group = threadIdx.x / (COLUMNS / 4), n = blockIdx.x * COLUMNS + threadIdx.x % (COLUMNS / 4) * 4;
    const uint32_t j0 = blockIdx.y * SIDE, first = blockIdx.z * rows_each;
    const uint32_t end = min(first + rows_each, tern_rows_now(p.count));
    float c[SIDE][4] = {};
    for (uint32_t t0 = first; t0 < end; t0 += SOME) {
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < SOME * SIDE; i += SUMS) {
            const uint32_t t = t0 + i / SIDE, j = j0 + i % SIDE;
            s[i / SIDE][i % SIDE] = t < end && j < p.j ? p.s.data[(size_t)t * p.s.stride + j] : 0;
        }
        __syncthreads();
#pragma unroll 4
        for (uint32_t i = 0; i < SOME / GROUPS; i++) {
            const uint32_t row = group * (SOME / GROUPS) + i, t = t0 + row;
            const float4 y =
                t < end ? tern_four_of<ALIGNED>(p.y.data + (size_t)t * p.y.stride, n, p.n) : make_float4(0, 0, 0, 0);
#pragma unroll
            for (int j = 0; j < SIDE; j++) {
                const float a = s[row][j];
                c[j][0] = fmaf(a, y.x, c[j][0]), c[j][1] = fmaf(a, y.y, c[j][1]);
                c[j][2] = fmaf(a, y.z, c[j][2]), c[j][3] = fmaf(a, y.w, c[j][3]);
            }
        }
    }
    add_groups(c, room);
    if (group > 0) return;
#pragma unroll
    for (int i = 0; i < SIDE * 4; i++) {
        const uint32_t j = j0 + i / 4, col = n + i % 4;
        if (j >= p.j || col >= p.n) continue;
        if (gridDim.z > 1) p.partials[((size_t)blockIdx.z * p.j + j) * p.n + col] = c[i / 4][i % 4];
        else *sum_at(p, j, col) += c[i / 4][i % 4];
    }
}

static __global__ void add_shares(tern_cuda_narrow_sums p, uint32_t shares)
{
    const uint32_t i = blockIdx.x * SUMS + threadIdx.x;
    const size_t all = (size_t)p.j * p.n;
    if (i >= all) return;
    const uint32_t j = p.turned ? i % p.j : i / p.n, n = p.turned ? i / p.j : i % p.n;
    float sum = 0;
    for (uint32_t k = 0; k < shares; k++) sum += p.partials[k * all + (size_t)j * p.n + n];
    *sum_at(p, j, n) += sum;
}

cudaError_t tern_cuda_run_narrow_sums(const tern_cuda_narrow_sums *p, cudaStream_t stream)
{
    const uint32_t most = p->count.most, wanted = shares_of(p->j, p->n);
    uint32_t each = (most + wanted - 1) / wanted;
    each = each < LEAST_ROWS ? LEAST_ROWS : (each + SOME - 1) / SOME * SOME;
    const uint32_t shares = (most + each - 1) / each;
    const dim3 grid((p->n + COLUMNS - 1) / COLUMNS, (p->j + SIDE - 1) / SIDE, shares);
    if (tern_is_aligned(p->y)) narrow_sums<true><<<grid, SUMS, 0, stream>>>(*p, each);
    else narrow_sums<false><<<grid, SUMS, 0, stream>>>(*p, each);
    if (shares > 1) add_shares<<<(uint32_t)(((size_t)p->j * p->n + SUMS - 1) / SUMS), SUMS, 0, stream>>>(*p, shares);
    return cudaGetLastError();
}
