/* Ternary weights times one int8 row, which each block makes for itself of the f32 row: norm, largest number, levels.
 *
 * A block has a run of rows of out, whose weights lie in the ring, a pass of them at a time. The work is cut into units
 * of eight rows of weights and eight chunks of 16 bytes, that is 512 columns; a warp has a run of units, a lane a chunk
 * of two rows. A byte of a chunk has columns 32 apart in its pairs of bits: they stay where they are, each pair masked,
 * and the sums of the upper ones are divided at the end. Integers are exact in any order.
 */
#ifndef TERN_BACKEND_CUDA_WALK_TERNARY_CUH
#define TERN_BACKEND_CUDA_WALK_TERNARY_CUH

#include "backend/cuda/rows/levels.cuh"
#include "backend/cuda/walk/block.cuh"

enum { UNIT_ROWS = 8, UNIT_CHUNKS = 8, ROUNDS = 4, ROUND = WALK_THREADS * 4 };

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

/* Four neighbouring columns from c on. */
static __device__ __forceinline__ void put_levels(int8_t *planes, uint32_t plane, uint32_t c, uint32_t levels)
{
    *(uint32_t *)(planes + c % 128 / 32 * plane + c / 128 * 32 + c % 32) = levels;
}

static __device__ __forceinline__ float4 columns_at(const float *x, uint32_t c)
{
    return __ldcg((const float4 *)(x + c));
}

/* Asks for the norm's weights of the next step, which will be in its slot when this one ends. */
static __device__ __forceinline__ void ask_for_norm(const walker &w, const tern_cuda_step &next)
{
    const tern_cuda_walk_linear &s = next.of.linear;
    if (next.kind != TERN_CUDA_STEP_TERNARY || !s.norm) return;
    const uint32_t to = shared_address(w.norm_of(s));
#pragma unroll 1
    for (uint32_t c = threadIdx.x * 4; c < s.product.cols; c += ROUND) copy16(to + c * 4, s.norm + c);
    copies_commit();
}

static __device__ __forceinline__ float4 times(float4 v, float r)
{
    return make_float4(v.x * r, v.y * r, v.z * r, v.w * r);
}

/* Columns from c on times the norm's weights. */
static __device__ __forceinline__ float4 weighed(const tern_cuda_walk_linear &s, const float *norm, float4 v,
                                                 uint32_t c)
{
    if (!s.norm) return v;
    const float4 n = *(const float4 *)(norm + c);
    return make_float4(v.x * n.x, v.y * n.y, v.z * n.z, v.w * n.w);
}

/* Levels of x in the planes, with zeros beyond its columns; their sum and 1 / their scale in the room. What is no
 * number becomes 0, what is infinite the largest. */
static __device__ __forceinline__ void stage_levels(const walker &w, const tern_cuda_walk_linear &s, int8_t *planes,
                                                    const float *norm)
{
    const Linear &l = s.product;
    const float *x = (const float *)l.x;
    const uint32_t width = ternary_planes(l), plane = width / 4, mine = threadIdx.x * 4;
    float4 held[ROUNDS];
    float r = 1.0f, most = 0, squares = 0;
    int total = 0;
    if (threadIdx.x == 0) w.room->sum = 0;
#pragma unroll
    for (int i = 0; i < ROUNDS; i++) {
        held[i] = make_float4(0, 0, 0, 0);
        if (mine + i * ROUND < l.cols) held[i] = columns_at(x, mine + i * ROUND);
    }
#pragma unroll
    for (int i = 0; i < ROUNDS; i++) {
        if (i * ROUND >= l.cols) break;
        squares = squares_of(held[i], squares);
        if (mine + i * ROUND < l.cols) held[i] = weighed(s, norm, held[i], mine + i * ROUND);
        most = most_of(held[i], most);
    }
#pragma unroll 1
    for (uint32_t c = mine + ROUNDS * ROUND; c < l.cols; c += ROUND) {
        const float4 v = columns_at(x, c);
        squares = squares_of(v, squares);
        most = most_of(weighed(s, norm, v, c), most);
    }
    walk_sum_and_max(squares, most, w.room->floats);
    if (s.norm) r = __frsqrt_rn(squares / (float)l.cols + s.eps);
    const float scale = __fdiv_rn(127.0f, fminf(fmaxf(most * r, 1e-5f), 3.402823466e38f));
#pragma unroll
    for (int i = 0; i < ROUNDS; i++) {
        if (i * ROUND >= width) break;
        const uint32_t levels = levels_of(times(held[i], r), scale);
        if (mine + i * ROUND < width) put_levels(planes, plane, mine + i * ROUND, levels);
        total = __dp4a((int)levels, 0x01010101, total);
    }
#pragma unroll 1
    for (uint32_t c = mine + ROUNDS * ROUND; c < width; c += ROUND) {
        const float4 v = c < l.cols ? weighed(s, norm, columns_at(x, c), c) : make_float4(0, 0, 0, 0);
        const uint32_t levels = levels_of(times(v, r), scale);
        put_levels(planes, plane, c, levels);
        total = __dp4a((int)levels, 0x01010101, total);
    }
    total = tern_warp_sum(total);
    if (threadIdx.x % 32 == 0) atomicAdd(&w.room->sum, total);
    if (threadIdx.x == 0) w.room->inverse = __frcp_rn(scale);
}

/* The same of a row that is int8 already. */
static __device__ __forceinline__ void copy_levels(const walker &w, const Linear &l, int8_t *planes)
{
    const uint32_t width = ternary_planes(l);
    const int8_t *x = (const int8_t *)l.x;
#pragma unroll 1
    for (uint32_t c = threadIdx.x * 4; c < width; c += ROUND)
        put_levels(planes, width / 4, c, c < l.x_stride ? __ldcg((const uint32_t *)(x + c)) : 0);
    if (threadIdx.x == 0) {
        w.room->inverse = __ldcg(l.x_scales);
        w.room->sum = __ldcg(l.x_sums);
    }
}

struct unit_sums {
    int low[4], high[4];

    __device__ __forceinline__ void add(const uint4 &one, const uint4 &other, const int8_t *x, uint32_t plane)
    {
#pragma unroll
        for (int q = 0; q < 4; q++) {
            const uint32_t mask = 0xc0c0c0c0u >> 2 * q;
            const uint4 v = *(const uint4 *)(x + q * plane);
            low[q] = dot_u8s8(one.x & mask, v.x, low[q]);
            high[q] = dot_u8s8(other.x & mask, v.x, high[q]);
            low[q] = dot_u8s8(one.y & mask, v.y, low[q]);
            high[q] = dot_u8s8(other.y & mask, v.y, high[q]);
            low[q] = dot_u8s8(one.z & mask, v.z, low[q]);
            high[q] = dot_u8s8(other.z & mask, v.z, high[q]);
            low[q] = dot_u8s8(one.w & mask, v.w, low[q]);
            high[q] = dot_u8s8(other.w & mask, v.w, high[q]);
        }
    }

    /* Into the sums of rows, which have room for whole units. */
    __device__ __forceinline__ void flush(int *sums)
    {
        int a = (low[0] >> 6) + (low[1] >> 4) + (low[2] >> 2) + low[3];
        int b = (high[0] >> 6) + (high[1] >> 4) + (high[2] >> 2) + high[3];
#pragma unroll
        for (int k = 0; k < 3; k++) {
            a += __shfl_xor_sync(0xffffffffu, a, 1 << k);
            b += __shfl_xor_sync(0xffffffffu, b, 1 << k);
        }
        const uint32_t lane = threadIdx.x % 32;
        if (lane % UNIT_CHUNKS < 2)
            atomicAdd(sums + lane / UNIT_CHUNKS + lane % UNIT_CHUNKS * 4, lane % UNIT_CHUNKS ? b : a);
#pragma unroll
        for (int q = 0; q < 4; q++) low[q] = high[q] = 0;
    }
};

/* The sums of n rows of weights, the next ones of the ring. Beyond a row's end its last chunk again, times zeros of x.
 */
static __device__ __forceinline__ void multiply_rows(const ring_reader &ring, const Linear &l, uint32_t n,
                                                     const int8_t *planes, int *sums)
{
    const uint32_t slabs = slabs_of(l), plane = slabs * UNIT_CHUNKS * 16, warp = threadIdx.x / 32;
    const uint32_t row = threadIdx.x % 32 / UNIT_CHUNKS, column = threadIdx.x % UNIT_CHUNKS * 16;
    const uint32_t units = (n + UNIT_ROWS - 1) / UNIT_ROWS * slabs, row_bytes = l.row_bytes;
    const uint32_t first = units * warp / WALK_WARPS, last = units * (warp + 1) / WALK_WARPS;
    uint32_t group = first / slabs, slab = first - group * slabs, low = 0, high = 0;
    unit_sums sum = {};
    bool is_new = true;
#pragma unroll 1
    for (uint32_t unit = first; unit < last; unit++) {
        const uint32_t at = slab * UNIT_CHUNKS * 16 + column, byte = min(at, row_bytes - 16);
        if (is_new) {
            low = min(group * UNIT_ROWS + row, n - 1) * row_bytes;
            high = min(group * UNIT_ROWS + row + UNIT_ROWS / 2, n - 1) * row_bytes;
        }
        sum.add(ring.at(low + byte), ring.at(high + byte), planes + at, plane);
        is_new = ++slab == slabs || unit + 1 == last;
        if (!is_new) continue;
        sum.flush(sums + group * UNIT_ROWS);
        slab = 0;
        group++;
    }
}

/* What becomes of the sum of the thread's row of a pass, and of a gated layer's other row; asked for early. */
struct row_ending {
    uint32_t row; /* of out */
    bool is_there;
    float scale[2], bias[2], residual;

    __device__ __forceinline__ row_ending(const Linear &l, uint32_t from, uint32_t to)
    {
        row = from + threadIdx.x;
        is_there = row < to;
        if (!is_there) return;
#pragma unroll
        for (uint32_t i = 0; i < 2; i++) {
            uint32_t at = row;
            const tern_cuda_part &part = l.parts[l.gated ? i : part_of_row(l, at)];
            scale[i] = scale_of(part, at);
            bias[i] = biased(part, at, 0);
            if (!l.gated) break;
        }
        residual = l.residual ? __ldcg(l.residual + row) : 0;
    }

    /* n: rows of the pass. */
    __device__ __forceinline__ void write(const walker &w, const Linear &l, int *sums, uint32_t n) const
    {
        if (!is_there) return;
        float y = taken(w, sums + threadIdx.x) * scale[0] + bias[0];
        if (l.gated) y = activated(l.activation, y) * (taken(w, sums + n + threadIdx.x) * scale[1] + bias[1]);
        l.out[row] = y + residual;
    }

    /* The product whose sum it is; the sum is 0 for the next pass. */
    static __device__ __forceinline__ float taken(const walker &w, int *sum)
    {
        const int all = *sum;
        *sum = 0;
        return (float)(all - w.room->sum) * w.room->inverse;
    }
};

static __device__ __forceinline__ void walk_ternary(walker &w, const tern_cuda_walk_linear &s)
{
    const Linear &l = s.product;
    const walk_share share = share_of(s.rows, s.each);
    const uint32_t parts = l.gated ? 2 : 1;
    int8_t *planes = (int8_t *)w.memory;
    int *sums = (int *)(w.memory + ternary_planes(l));
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < min(s.pass, s.each) * parts + UNIT_ROWS; i += WALK_THREADS) sums[i] = 0;
    w.wait();
    if (share.from >= share.to) return;
    if (l.q8) copy_levels(w, l, planes);
    else stage_levels(w, s, planes, w.norm_of(s));
#pragma unroll 1
    for (uint32_t from = share.from; from < share.to; from += s.pass) {
        const uint32_t n = min(s.pass, share.to - from), bytes = n * parts * l.row_bytes;
        const row_ending ending(l, from, from + n);
        w.weights.wait(bytes);
        walk_sync();
        multiply_rows(w.weights, l, n * parts, planes, sums);
        walk_sync();
        w.weights.pass_on(bytes);
        ending.write(w, l, sums, n);
        if (from + n < share.to) walk_sync();
    }
}

#endif
