// Products of an RSR matrix and a vector. One CUDA block has a row block; its warps take the groups in turns; a warp
// adds up the inputs of a group, and the sum goes to the rows that the group names. How groups are described, where
// sums are kept, and how many groups a warp has at a time are the variants:
//
//   SPLIT   starts, ends and masks in three arrays; lane 0 adds to the block's sums in shared memory   (there: 4.10)
//   FOUR    16 bytes a group; sums of each warp for itself                                              (5.7, 5.8, 5.9)
//   WORD    8 bytes a group, with the rows that it is taken from; sums of each warp for itself          (ternary 2.0)
#ifndef TERN_BENCH_RSR_CUDA_MULTIPLY_CUH
#define TERN_BENCH_RSR_CUDA_MULTIPLY_CUH

#include "matrix.cuh"

enum rsr_form { RSR_SPLIT, RSR_FOUR, RSR_WORD };

struct rsr_group {
    uint32_t start, end, plus, minus;
};

template <rsr_form FORM>
static __device__ __forceinline__ rsr_group group_of(const rsr_matrix &m, uint32_t i, uint32_t last)
{
    if (FORM == RSR_WORD) {
        const uint2 w = __ldg((const uint2 *)m.words + i);
        return {w.x & 0xffff, (w.x & 0xffff) + (w.x >> 16), w.y & 0xffff, w.y >> 16};
    }
    if (FORM == RSR_FOUR) {
        const int4 f = __ldg((const int4 *)m.fours + i);
        return {(uint32_t)f.x, (uint32_t)f.y, (uint32_t)f.z, 0};
    }
    const uint32_t mask = __ldg(m.masks + i); // a block's zeros come first, so that groups follow each other
    return {__ldg(m.starts + i), i + 1 == last ? m.cols : __ldg(m.starts + i + 1), mask & 0xffff, mask >> 16};
}

static __device__ __forceinline__ int sum_of_warp(int x)
{
    return __reduce_add_sync(~0u, x);
}
static __device__ __forceinline__ float sum_of_warp(float x)
{
#pragma unroll
    for (int i = 16; i; i >>= 1) x += __shfl_xor_sync(~0u, x, i);
    return x;
}

// The lane's part of a group's inputs; eight at a time while there are so many.
template <typename X, typename SUM>
static __device__ __forceinline__ SUM gather(const uint16_t *columns, const X *x, const rsr_group &g)
{
    SUM sum = 0;
    uint32_t i = g.start + threadIdx.x % 32;
    for (; i + 7 * 32 < g.end; i += 8 * 32)
#pragma unroll
        for (int k = 0; k < 8; k++) sum += (SUM)x[__ldg(columns + i + k * 32)];
    for (; i < g.end; i += 32) sum += (SUM)x[__ldg(columns + i)];
    return sum;
}

// K 0: m.k. AT_ONCE groups of a warp are under way together.
template <rsr_form FORM, int K, int THREADS, int AT_ONCE, typename X, typename SUM>
static __global__ void __launch_bounds__(THREADS) rsr_multiply(rsr_matrix m, const X *x, SUM *y)
{
    enum { WARPS = THREADS / 32 };
    __shared__ SUM sums[FORM == RSR_SPLIT ? 1 : WARPS][MOST_K];
    const uint32_t k = K ? K : m.k, warp = threadIdx.x / 32, lane = threadIdx.x % 32, b = blockIdx.x;
    const uint16_t *columns = m.columns + (size_t)b * m.cols;
    const uint32_t last = m.first[b + 1];
    for (uint32_t i = threadIdx.x; i < sizeof sums / sizeof(SUM); i += THREADS) (&sums[0][0])[i] = 0;
    __syncthreads();
    SUM mine = 0; // of row `lane`
    for (uint32_t i = m.first[b] + warp * AT_ONCE; i < last; i += WARPS * AT_ONCE) {
        rsr_group g[AT_ONCE];
        SUM sum[AT_ONCE];
#pragma unroll
        for (int n = 0; n < AT_ONCE; n++) g[n] = i + n < last ? group_of<FORM>(m, i + n, last) : rsr_group{};
#pragma unroll
        for (int n = 0; n < AT_ONCE; n++) sum[n] = gather<X, SUM>(columns, x, g[n]);
#pragma unroll
        for (int n = 0; n < AT_ONCE; n++) {
            sum[n] = sum_of_warp(sum[n]);
            if (FORM != RSR_SPLIT) {
                mine += (g[n].plus >> lane & 1) ? sum[n] : 0;
                mine -= (g[n].minus >> lane & 1) ? sum[n] : 0;
            } else if (lane == 0) {
                for (uint32_t rows = g[n].plus; rows; rows &= rows - 1)
                    atomicAdd(&sums[0][__ffs((int)rows) - 1], sum[n]);
                for (uint32_t rows = g[n].minus; rows; rows &= rows - 1)
                    atomicAdd(&sums[0][__ffs((int)rows) - 1], -sum[n]);
            }
        }
    }
    if (FORM != RSR_SPLIT && lane < k) sums[warp][lane] = mine;
    __syncthreads();
    if (threadIdx.x >= k || b * k + threadIdx.x >= m.rows) return;
    SUM all = 0;
    for (uint32_t w = 0; w < (FORM == RSR_SPLIT ? 1 : WARPS); w++) all += sums[w][threadIdx.x];
    y[b * k + threadIdx.x] = all;
}

// ---- by the versions that the public code has for its multipliers
template <rsr_form FORM, int THREADS, int AT_ONCE, typename X, typename SUM>
static void rsr_by_k(const rsr_matrix &m, const X *x, SUM *y, cudaStream_t s)
{
    switch (m.k) {
#define CASE(n)                                                                                                        \
    case n: rsr_multiply<FORM, n, THREADS, AT_ONCE, X, SUM><<<m.blocks, THREADS, 0, s>>>(m, x, y); break
        CASE(2);
        CASE(4);
        CASE(6);
        CASE(8);
        CASE(10);
        CASE(12);
#undef CASE
    default: rsr_multiply<FORM, 0, THREADS, AT_ONCE, X, SUM><<<m.blocks, THREADS, 0, s>>>(m, x, y);
    }
}

template <typename X, typename SUM> static void binary_4_10(const rsr_matrix &m, const X *x, SUM *y, cudaStream_t s)
{
    if (m.k <= 2) rsr_by_k<RSR_SPLIT, 128, 1, X, SUM>(m, x, y, s);
    else if (m.k <= 4) rsr_by_k<RSR_SPLIT, 256, 1, X, SUM>(m, x, y, s);
    else rsr_by_k<RSR_SPLIT, 512, 1, X, SUM>(m, x, y, s);
}
template <typename X, typename SUM> static void binary_5_7(const rsr_matrix &m, const X *x, SUM *y, cudaStream_t s)
{
    rsr_by_k<RSR_FOUR, 256, 2, X, SUM>(m, x, y, s);
}
template <typename X, typename SUM> static void binary_5_8(const rsr_matrix &m, const X *x, SUM *y, cudaStream_t s)
{
    if (m.k > 4) rsr_by_k<RSR_FOUR, 1024, 2, X, SUM>(m, x, y, s);
    else rsr_by_k<RSR_FOUR, 256, 2, X, SUM>(m, x, y, s);
}
template <typename X, typename SUM> static void binary_5_9(const rsr_matrix &m, const X *x, SUM *y, cudaStream_t s)
{
    if (m.k > 4) rsr_by_k<RSR_FOUR, 512, 2, X, SUM>(m, x, y, s);
    else rsr_by_k<RSR_FOUR, 256, 2, X, SUM>(m, x, y, s);
}
// The dispatcher, for any shape; the longer side decides.
template <typename X, typename SUM> static void binary_5_10(const rsr_matrix &m, const X *x, SUM *y, cudaStream_t s)
{
    const uint32_t n = m.rows > m.cols ? m.rows : m.cols;
    if (m.k == 8 && n <= 4096) binary_5_7<X, SUM>(m, x, y, s);
    else if (m.k == 16 && n <= 8192) binary_5_8<X, SUM>(m, x, y, s);
    else binary_5_9<X, SUM>(m, x, y, s);
}
template <typename X, typename SUM> static void ternary_2_0(const rsr_matrix &m, const X *x, SUM *y, cudaStream_t s)
{
    if (m.k > 4) rsr_by_k<RSR_WORD, 512, 2, X, SUM>(m, x, y, s);
    else rsr_by_k<RSR_WORD, 256, 2, X, SUM>(m, x, y, s);
}

#endif
