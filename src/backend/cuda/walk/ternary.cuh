/* Ternary weights times one int8 row, which each block makes for itself of the f32 row: norm, largest number, levels.
 *
 * A block has a run of rows of out. Its work is cut into units of eight rows (gated: of four rows of both parts) and
 * eight chunks of 16 bytes, that is 512 columns; a warp has a run of units, a lane a chunk of two rows. Weights are
 * asked for before the block waits for x. A byte of a group has columns 32 apart in its pairs of bits: they stay where
 * they are, each pair masked, and the sums of the upper ones are divided at the end. Integers are exact in any order.
 */
#ifndef TERN_BACKEND_CUDA_WALK_TERNARY_CUH
#define TERN_BACKEND_CUDA_WALK_TERNARY_CUH

#include "backend/cuda/rows/levels.cuh"
#include "backend/cuda/walk/block.cuh"

enum { UNIT_ROWS = 8, UNIT_CHUNKS = 8, AHEAD = 5, ROUNDS = 4, ROUND = WALK_THREADS * 4 };

static __device__ __forceinline__ int dot_u8s8(uint32_t a, uint32_t b, int sum)
{
    asm("dp4a.u32.s32 %0,%1,%2,%0;" : "+r"(sum) : "r"(a), "r"(b));
    return sum;
}

/* Runs of eight chunks in a row of weights. */
static __host__ __device__ inline uint32_t slabs_of(const tern_cuda_product &l)
{
    return (l.row_bytes / 16 + UNIT_CHUNKS - 1) / UNIT_CHUNKS;
}

/* Bytes of the planes of x: one for each pair of bits, 16 columns of each chunk. */
static __host__ __device__ inline uint32_t ternary_planes(const tern_cuda_product &l)
{
    return slabs_of(l) * UNIT_CHUNKS * 64;
}

/* Which rows a block has. */
struct ternary_rows {
    const Linear *l;
    uint32_t from, n; /* the first row of out; rows of weights */

    __device__ __forceinline__ const uint8_t *at(uint32_t i) const
    {
        i = min(i, n - 1);
        uint32_t row = from + (l->gated ? i / 2 : i);
        const uint32_t part = l->gated ? i % 2 : part_of_row(*l, row);
        return l->parts[part].w + (size_t)row * l->row_bytes;
    }
};

/* Two rows' 16 bytes. */
struct unit_codes {
    uint4 low, high;
};

struct unit_cursor {
    uint32_t group, slab, slabs, last_chunk;
    const uint8_t *low, *high;

    __device__ __forceinline__ void set(const ternary_rows &rows)
    {
        const uint32_t row = group * UNIT_ROWS + threadIdx.x % 32 / UNIT_CHUNKS;
        low = rows.at(row);
        high = rows.at(row + UNIT_ROWS / 2);
    }

    /* Beyond a row's end its last chunk again, times zeros of x. */
    __device__ __forceinline__ unit_codes load_and_step(const ternary_rows &rows)
    {
        const uint32_t at = min(slab * UNIT_CHUNKS + threadIdx.x % UNIT_CHUNKS, last_chunk) * 16;
        const unit_codes w = {stream16(low + at), stream16(high + at)};
        if (++slab == slabs) {
            slab = 0;
            group++;
            set(rows);
        }
        return w;
    }
};

/* Four neighbouring columns from c on. */
static __device__ __forceinline__ void put_levels(int8_t *planes, uint32_t plane, uint32_t c, uint32_t levels)
{
    *(uint32_t *)(planes + c % 128 / 32 * plane + c / 128 * 32 + c % 32) = levels;
}

/* Four columns of x beyond those that are held, normed. */
static __device__ __forceinline__ float4 columns_of(const tern_cuda_walk_linear &s, uint32_t c, float r)
{
    if (c >= s.product.cols) return make_float4(0, 0, 0, 0);
    const float4 x = __ldcg((const float4 *)((const float *)s.product.x + c));
    return s.norm ? product_of(x, __ldg((const float4 *)(s.norm + c)), r) : x;
}

/* Levels of x in the planes, with zeros beyond its columns; their sum and 1 / their scale in the room. What is no
 * number becomes 0, what is infinite the largest. */
static __device__ __forceinline__ void stage_levels(const walker &w, const tern_cuda_walk_linear &s, int8_t *planes,
                                                    const float4 (&weights)[ROUNDS])
{
    const Linear &l = s.product;
    const uint32_t width = slabs_of(l) * UNIT_CHUNKS * 64, plane = width / 4, mine = threadIdx.x * 4;
    float4 held[ROUNDS];
    float r = 1.0f, most = 1e-5f, squares = 0;
    int total = 0;
    if (threadIdx.x == 0) w.room->sum = 0;
#pragma unroll
    for (int i = 0; i < ROUNDS; i++) {
        held[i] = make_float4(0, 0, 0, 0);
        if (mine + i * ROUND < l.cols) held[i] = __ldcg((const float4 *)((const float *)l.x + mine + i * ROUND));
    }
    if (s.norm) {
#pragma unroll
        for (int i = 0; i < ROUNDS; i++)
            if (i * ROUND < l.cols) squares = squares_of(held[i], squares);
        for (uint32_t c = mine + ROUNDS * ROUND; c < l.cols; c += ROUND)
            squares = squares_of(__ldcg((const float4 *)((const float *)l.x + c)), squares);
        r = 1.0f / sqrtf(walk_sum(squares, w.room->floats[0]) / (float)l.cols + s.eps);
    }
#pragma unroll
    for (int i = 0; i < ROUNDS; i++) {
        if (i * ROUND >= l.cols) break;
        if (s.norm) held[i] = product_of(held[i], weights[i], r);
        most = most_of(held[i], most);
    }
    for (uint32_t c = mine + ROUNDS * ROUND; c < l.cols; c += ROUND) most = most_of(columns_of(s, c, r), most);
    most = fminf(walk_max(most, w.room->floats[1]), 3.402823466e38f);
    const float scale = __fdiv_rn(127.0f, most);
#pragma unroll
    for (int i = 0; i < ROUNDS; i++) {
        if (i * ROUND >= width) break;
        const uint32_t levels = levels_of(held[i], scale);
        if (mine + i * ROUND < width) put_levels(planes, plane, mine + i * ROUND, levels);
        total = __dp4a((int)levels, 0x01010101, total);
    }
    for (uint32_t c = mine + ROUNDS * ROUND; c < width; c += ROUND) {
        const uint32_t levels = levels_of(columns_of(s, c, r), scale);
        put_levels(planes, plane, c, levels);
        total = __dp4a((int)levels, 0x01010101, total);
    }
    total = tern_warp_sum(total);
    if (threadIdx.x % 32 == 0) atomicAdd(&w.room->sum, total);
    if (threadIdx.x == 0) w.room->inverse = __fdiv_rn(1.0f, scale);
}

/* The same of a row that is int8 already. */
static __device__ __forceinline__ void copy_levels(const walker &w, const Linear &l, int8_t *planes)
{
    const uint32_t width = slabs_of(l) * UNIT_CHUNKS * 64;
    const int8_t *x = (const int8_t *)l.x;
    for (uint32_t c = threadIdx.x * 4; c < width; c += ROUND)
        put_levels(planes, width / 4, c, c < l.x_stride ? __ldcg((const uint32_t *)(x + c)) : 0);
    if (threadIdx.x == 0) {
        w.room->inverse = __ldcg(l.x_scales);
        w.room->sum = __ldcg(l.x_sums);
    }
}

struct unit_sums {
    int low[4], high[4];

    __device__ __forceinline__ void add(const unit_codes &w, const int8_t *x, uint32_t plane)
    {
#pragma unroll
        for (int q = 0; q < 4; q++) {
            const uint32_t mask = 0xc0c0c0c0u >> 2 * q;
            const uint4 v = *(const uint4 *)(x + q * plane);
            low[q] = dot_u8s8(w.low.x & mask, v.x, low[q]);
            high[q] = dot_u8s8(w.high.x & mask, v.x, high[q]);
            low[q] = dot_u8s8(w.low.y & mask, v.y, low[q]);
            high[q] = dot_u8s8(w.high.y & mask, v.y, high[q]);
            low[q] = dot_u8s8(w.low.z & mask, v.z, low[q]);
            high[q] = dot_u8s8(w.high.z & mask, v.z, high[q]);
            low[q] = dot_u8s8(w.low.w & mask, v.w, low[q]);
            high[q] = dot_u8s8(w.high.w & mask, v.w, high[q]);
        }
    }

    /* Into the sums of the block's rows, which have room for whole units. */
    __device__ __forceinline__ void flush(int *sums, uint32_t group)
    {
        int a = (low[0] >> 6) + (low[1] >> 4) + (low[2] >> 2) + low[3];
        int b = (high[0] >> 6) + (high[1] >> 4) + (high[2] >> 2) + high[3];
#pragma unroll
        for (int k = 0; k < 3; k++) {
            a += __shfl_xor_sync(0xffffffffu, a, 1 << k);
            b += __shfl_xor_sync(0xffffffffu, b, 1 << k);
        }
        const uint32_t lane = threadIdx.x % 32, row = group * UNIT_ROWS + lane / UNIT_CHUNKS;
        if (lane % UNIT_CHUNKS < 2) atomicAdd(sums + row + lane % UNIT_CHUNKS * 4, lane % UNIT_CHUNKS ? b : a);
#pragma unroll
        for (int q = 0; q < 4; q++) low[q] = high[q] = 0;
    }
};

static __device__ __forceinline__ void finish_ternary(const walker &w, const Linear &l, const int *sums, uint32_t from,
                                                      uint32_t to)
{
    const float inverse = w.room->inverse;
    const int less = w.room->sum;
    for (uint32_t i = threadIdx.x; i < to - from; i += WALK_THREADS) {
        uint32_t row = from + i;
        if (l.gated) {
            finish_gated(l, 0, row, (float)(sums[2 * i] - less) * (inverse * scale_of(l.parts[0], row)),
                         (float)(sums[2 * i + 1] - less) * (inverse * scale_of(l.parts[1], row)));
        } else {
            const tern_cuda_part &part = l.parts[part_of_row(l, row)];
            finish(l, 0, from + i, biased(part, row, (float)(sums[i] - less) * (inverse * scale_of(part, row))));
        }
    }
}

static __device__ __forceinline__ void walk_ternary(const walker &w, const tern_cuda_walk_linear &s)
{
    const Linear &l = s.product;
    const walk_share share = share_of(s.rows, s.each);
    const uint32_t slabs = slabs_of(l), plane = slabs * UNIT_CHUNKS * 16, warp = threadIdx.x / 32;
    const ternary_rows rows = {&l, share.from, (share.to - share.from) * (l.gated ? 2 : 1)};
    const uint32_t groups = (rows.n + UNIT_ROWS - 1) / UNIT_ROWS, units = groups * slabs;
    const uint32_t first = units * warp / WALK_WARPS, last = units * (warp + 1) / WALK_WARPS;
    int8_t *planes = (int8_t *)w.memory;
    int *sums = (int *)(w.memory + plane * 4);
    uint32_t group = first / slabs, slab = first - group * slabs;
    unit_codes held[AHEAD];
    float4 weights[ROUNDS];
    unit_cursor next = {group, slab, slabs, l.row_bytes / 16 - 1, NULL, NULL};
    if (first < last) next.set(rows);
#pragma unroll
    for (int i = 0; i < AHEAD; i++) {
        if (first + i >= last) break;
        held[i] = next.load_and_step(rows);
    }
#pragma unroll
    for (int i = 0; i < ROUNDS; i++) {
        const uint32_t c = threadIdx.x * 4 + i * ROUND;
        if (s.norm && c < l.cols) weights[i] = __ldg((const float4 *)(s.norm + c));
    }
    for (uint32_t i = threadIdx.x; i < groups * UNIT_ROWS; i += WALK_THREADS) sums[i] = 0;
    w.wait();
    if (l.q8) copy_levels(w, l, planes);
    else stage_levels(w, s, planes, weights);
    __syncthreads();
    unit_sums sum = {};
    const int8_t *x = planes + threadIdx.x % UNIT_CHUNKS * 16;
#pragma unroll 1
    for (uint32_t base = first; base < last; base += AHEAD) {
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            if (base + i >= last) break;
            sum.add(held[i], x + slab * UNIT_CHUNKS * 16, plane);
            if (base + i + AHEAD < last) held[i] = next.load_and_step(rows);
            if (++slab == slabs || base + i + 1 == last) {
                sum.flush(sums, group);
                slab = 0;
                group++;
            }
        }
    }
    __syncthreads();
    finish_ternary(w, l, sums, share.from, share.to);
}

#endif
