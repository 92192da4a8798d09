/* Weights of any encoding times one f32 row, which each block norms for itself and keeps in shared memory.
 *
 * A warp has two rows of weights at a time (gated: the same of both parts); where a block has fewer pairs than warps,
 * several warps share the columns of a pair. */
#ifndef TERN_BACKEND_CUDA_WALK_DENSE_CUH
#define TERN_BACKEND_CUDA_WALK_DENSE_CUH

#include "backend/cuda/linear/dense.cuh"
#include "backend/cuda/walk/block.cuh"

enum { LINE = 128, MOST_LINES = 1024 };

/* How a block's pairs of rows are shared among its warps. */
struct pair_split {
    uint32_t from, to, tiles, splits;
};

static __host__ __device__ inline uint32_t dense_tiles(uint32_t rows, bool gated)
{
    return gated ? rows : (rows + 1) / 2;
}

static __device__ __forceinline__ pair_split split_pairs(const tern_cuda_walk_linear &s)
{
    const walk_share share = share_of(s.rows, s.each);
    const uint32_t tiles = dense_tiles(share.to - share.from, s.product.gated);
    return {share.from, share.to, tiles, tiles && tiles < WALK_WARPS ? WALK_WARPS / tiles : 1};
}

/* Asks for the first weights of the block, so that they lie in L2 when x is there. */
static __device__ __forceinline__ void prefetch_rows(const tern_cuda_walk_linear &s)
{
    const Linear &l = s.product;
    const walk_share share = share_of(s.rows, s.each);
    for (uint32_t i = 0; i < (l.gated ? 2u : 1u); i++) {
        uint32_t row = share.from;
        const uint32_t part = l.gated ? i : part_of_row(l, row);
        const uint32_t n = min(share.to - share.from, l.parts[part].rows - row);
        const uint8_t *at = l.parts[part].w + (size_t)row * l.row_bytes;
        const size_t lines = min((size_t)n * l.row_bytes / LINE, (size_t)MOST_LINES);
        for (size_t k = threadIdx.x; k < lines; k += WALK_THREADS)
            asm volatile("prefetch.global.L2 [%0];" ::"l"(at + k * LINE));
    }
}

static __device__ __forceinline__ void stage_floats(const walker &w, const tern_cuda_walk_linear &s, float *xs,
                                                    uint32_t width)
{
    const Linear &l = s.product;
    const float *x = (const float *)l.x;
    float squares = 0;
    for (uint32_t c = threadIdx.x; c < width; c += WALK_THREADS) {
        const float v = c < l.cols ? __ldcg(x + c) : 0;
        squares += v * v;
        xs[place_of(c / 4) * 4 + c % 4] = v;
    }
    if (s.norm) {
        const float r = 1.0f / sqrtf(walk_sum(squares, w.room->floats[0]) / (float)l.cols + s.eps);
        for (uint32_t c = threadIdx.x; c < l.cols; c += WALK_THREADS)
            xs[place_of(c / 4) * 4 + c % 4] *= r * __ldg(s.norm + c);
    }
    walk_sync();
}

/* The sums of each pair and split: sums[(tile * splits + split) * 2 + row]. */
template <int F>
static __device__ __forceinline__ void multiply_pairs(const Linear &l, pair_split p, const float *xs, float *sums)
{
    const uint32_t lane = threadIdx.x % 32, units = units_of<F>(l.cols, l.row_bytes);
    for (uint32_t item = threadIdx.x / 32; item < p.tiles * p.splits; item += WALK_WARPS) {
        const uint32_t tile = item / p.splits, split = item % p.splits;
        const uint8_t *rows[ROWS];
        float sum[ROWS][1] = {};
#pragma unroll
        for (uint32_t r = 0; r < ROWS; r++) {
            uint32_t row = l.gated ? p.from + tile : min(p.from + tile * 2 + r, p.to - 1);
            const uint32_t part = l.gated ? r : part_of_row(l, row);
            rows[r] = l.parts[part].w + (size_t)row * l.row_bytes;
        }
#pragma unroll(Format <F>::floats ? 4 : 2)
        for (uint32_t i = lane + split * 32; i < units; i += 32 * p.splits)
            multiply_units<F, 1>(sum, rows, l, xs, 0, i);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            sum[r][0] = tern_warp_sum(sum[r][0]);
            if (lane == r) sums[item * 2 + r] = sum[r][0];
        }
    }
}

template <int F>
static __device__ __noinline__ void call_multiply_pairs(const Linear &l, pair_split p, const float *xs, float *sums)
{
    multiply_pairs<F>(l, p, xs, sums);
}

/* F: the format of all such steps, or TERN_CUDA_WALK_ANY. */
template <int F>
static __device__ __forceinline__ void multiply_format(const Linear &l, pair_split p, const float *xs, float *sums)
{
    if constexpr (F != TERN_CUDA_WALK_ANY) {
        multiply_pairs<F>(l, p, xs, sums);
        return;
    }
    switch (l.format) {
#define MULTIPLY(format)                                                                                               \
    case TERN_GPU_##format: call_multiply_pairs<TERN_GPU_##format>(l, p, xs, sums); break;
        TERN_CUDA_DENSE_FORMATS(MULTIPLY)
        MULTIPLY(TERNARY)
#undef MULTIPLY
    }
}

static __device__ __forceinline__ float split_sum(const pair_split &p, const float *sums, uint32_t tile, uint32_t row)
{
    float y = 0;
    for (uint32_t k = 0; k < p.splits; k++) y += sums[(tile * p.splits + k) * 2 + row];
    return y;
}

static __device__ __forceinline__ void finish_dense(const Linear &l, const pair_split &p, const float *sums)
{
    for (uint32_t i = threadIdx.x; i < p.to - p.from; i += WALK_THREADS) {
        uint32_t row = p.from + i;
        if (l.gated) {
            finish(l, 0, row,
                   gated_of(l, row, split_sum(p, sums, i, 0) * scale_of(l.parts[0], row),
                            split_sum(p, sums, i, 1) * scale_of(l.parts[1], row)));
        } else {
            const tern_cuda_part &part = l.parts[part_of_row(l, row)];
            finish(l, 0, p.from + i, biased(part, row, split_sum(p, sums, i / 2, i % 2) * scale_of(part, row)));
        }
    }
}

static __host__ __device__ inline uint32_t dense_width(const tern_cuda_product &l)
{
    const uint32_t columns = l.format == TERN_GPU_TERNARY ? l.row_bytes * 4 : l.cols;
    return (columns + 255) / 256 * 256;
}

template <int F> static __device__ __forceinline__ void walk_dense(const walker &w, const tern_cuda_walk_linear &s)
{
    const Linear &l = s.product;
    const pair_split p = split_pairs(s);
    const uint32_t width = dense_width(l);
    float *xs = (float *)w.memory, *sums = xs + width;
    if (p.tiles) prefetch_rows(s);
    w.wait();
    stage_floats(w, s, xs, width);
    multiply_format<F>(l, p, xs, sums);
    walk_sync();
    finish_dense(l, p, sums);
}

#endif
