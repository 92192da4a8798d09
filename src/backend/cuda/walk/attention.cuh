/* ROPE_ATTENTION: a block has up to four heads that share keys, and a split of the positions; the one with the last
 * position writes its keys and values first. A warp has two of each 32 positions, its lanes the numbers of a head. The
 * block of a unit that ends last adds the splits. */
#ifndef TERN_BACKEND_CUDA_WALK_ATTENTION_CUH
#define TERN_BACKEND_CUDA_WALK_ATTENTION_CUH

#include "backend/cuda/attention/cache.cuh"
#include "backend/cuda/walk/block.cuh"

enum { OWN = 2, CHUNK = WALK_WARPS * OWN, UNIT_HEADS = TERN_CUDA_WALK_HEADS, LEAST_POSITIONS = 16 };

/* A unit of heads, a split of its positions. */
struct split_of {
    uint32_t unit, kv, head0, n_heads, split, n_splits, from, to;
};

static __device__ __forceinline__ split_of split_at(const tern_cuda_walk_attention &s, uint32_t item, uint32_t position)
{
    const tern_cuda_attention &a = s.attention;
    const uint32_t group = a.n_heads / a.n_kv_heads, first = tern_first_seen(a.window, position);
    const uint32_t n = position + 1 - first;
    split_of at;
    at.unit = item % s.units;
    at.split = item / s.units;
    at.kv = at.unit / s.unit_parts;
    at.head0 = at.kv * group + at.unit % s.unit_parts * UNIT_HEADS;
    at.n_heads = min((uint32_t)UNIT_HEADS, (at.kv + 1) * group - at.head0);
    const uint32_t most = min(a.splits, (n + LEAST_POSITIONS - 1) / LEAST_POSITIONS), each = (n + most - 1) / most;
    at.n_splits = (n + each - 1) / each;
    at.from = first + min(at.split * each, n);
    at.to = first + min((at.split + 1) * each, n);
    return at;
}

/* A head of q or k as it is after the norm and the rotation, by a warp: to[head_dim]. */
static __device__ __forceinline__ void turned(const tern_cuda_rope &p, const float *x, const float *norm,
                                              const float *table, float *to)
{
    const uint32_t lane = threadIdx.x % 32, dim = p.rope_dim ? p.rope_dim : p.head_dim, half = dim / 2;
    float r = 1.0f, squares = 0;
    for (uint32_t d = lane; d < p.head_dim; d += 32) {
        const float v = __ldcg(x + d);
        to[d] = v;
        squares += v * v;
    }
    if (norm) {
        r = 1.0f / sqrtf(tern_warp_sum(squares) / (float)p.head_dim + p.eps);
        for (uint32_t d = lane; d < p.head_dim; d += 32) to[d] = to[d] * r * __ldg(norm + d);
    }
    __syncwarp();
    for (uint32_t i = lane; i < half; i += 32) {
        float *a = to + (p.adjacent ? 2 * i : i), *b = p.adjacent ? a + 1 : a + half;
        const float u = *a, v = *b, c = __ldg(table + 2 * i), sine = __ldg(table + 2 * i + 1);
        *a = u * c - v * sine;
        *b = v * c + u * sine;
    }
    __syncwarp();
}

/* q of the unit into shared memory; of the last split k and v into their caches, whose order a barrier of the block
 * gives. */
static __device__ __forceinline__ void rotate(const tern_cuda_walk_attention &s, const split_of &at, uint32_t position,
                                              const uint32_t *pages, float *q)
{
    const tern_cuda_rope &p = s.rope;
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, dim = p.head_dim;
    const float *table = p.table + (size_t)position * p.table_stride;
    if (warp < at.n_heads) {
        turned(p, p.q.data + (size_t)(at.head0 + warp) * dim, p.q_norm, table, q + warp * dim);
        for (uint32_t d = lane; d < dim; d += 32) q[warp * dim + d] *= s.attention.scale;
    }
    if (at.split + 1 == at.n_splits && (warp == UNIT_HEADS || warp == UNIT_HEADS + 1)) {
        const bool is_k = warp == UNIT_HEADS;
        const size_t to = tern_cache_at(pages[position / TERN_CUDA_PAGE], at.kv, position, p.n_kv_heads, dim);
        const float *x = (is_k ? p.k.data : p.v.data) + (size_t)at.kv * dim;
        float *room = q + UNIT_HEADS * dim;
        if (is_k) turned(p, x, p.k_norm, table, room);
        for (uint32_t d = lane; d < dim; d += 32)
            tern_cache_put(is_k ? p.k_cache : p.v_cache, to + d, is_k ? room[d] : __ldcg(x + d));
    }
    __syncthreads();
}

/* The N numbers of a row that a lane has; `at` is the row's first, head_dim a multiple of N. */
template <int N>
static __device__ __forceinline__ void lane_numbers(tern_cuda_cache c, size_t at, uint32_t head_dim, bool is_there,
                                                    float (&v)[N])
{
    const uint32_t d = threadIdx.x % 32 * N;
    if (!is_there || d >= head_dim) {
#pragma unroll
        for (int i = 0; i < N; i++) v[i] = 0;
    } else if (c.f32) {
        const float2 *from = (const float2 *)((const float *)c.data + at + d);
#pragma unroll
        for (int i = 0; i < N / 2; i++) {
            const float2 two = from[i];
            v[2 * i] = two.x, v[2 * i + 1] = two.y;
        }
    } else {
        __align__(16) uint32_t words[N / 2];
        const uint32_t *from = (const uint32_t *)((const __half *)c.data + at + d);
        if constexpr (N == 8) *(uint4 *)words = *(const uint4 *)from;
        else if constexpr (N == 4) *(uint2 *)words = *(const uint2 *)from;
        else words[0] = *from;
#pragma unroll
        for (int i = 0; i < N / 2; i++) {
            const float2 two = __half22float2(*(const __half2 *)&words[i]);
            v[2 * i] = two.x, v[2 * i + 1] = two.y;
        }
    }
}

/* Of each warp the sums over its positions: accs[warp][head][dim], and of each its largest score and its sum. */
template <int N>
static __device__ __forceinline__ void attend(const tern_cuda_attention &p, split_of at, const uint32_t *pages,
                                           const float *qs, float *accs, float *tops, float *totals)
{
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, dim = p.head_dim;
    float q[UNIT_HEADS][N], acc[UNIT_HEADS][N] = {}, top[UNIT_HEADS], total[UNIT_HEADS] = {};
#pragma unroll
    for (int h = 0; h < UNIT_HEADS; h++) {
        top[h] = -INFINITY;
#pragma unroll
        for (int i = 0; i < N; i++) q[h][i] = h < at.n_heads && lane * N + i < dim ? qs[h * dim + lane * N + i] : 0;
    }
    for (uint32_t base = at.from + warp * OWN; base < at.to; base += CHUNK) {
        float k[OWN][N], v[OWN][N], w[UNIT_HEADS][OWN];
#pragma unroll
        for (int j = 0; j < OWN; j++) {
            const uint32_t position = min(base + j, at.to - 1);
            const size_t row = tern_cache_at(pages[position / TERN_CUDA_PAGE], at.kv, position, p.n_kv_heads, dim);
            lane_numbers<N>(p.k_cache, row, dim, base + j < at.to, k[j]);
            lane_numbers<N>(p.v_cache, row, dim, base + j < at.to, v[j]);
        }
#pragma unroll
        for (int j = 0; j < OWN; j++)
#pragma unroll
            for (int h = 0; h < UNIT_HEADS; h++) {
                float x = 0;
#pragma unroll
                for (int i = 0; i < N; i++) x = fmaf(q[h][i], k[j][i], x);
                w[h][j] = x;
            }
#pragma unroll
        for (int step = 0; step < 5; step++)
#pragma unroll
            for (int j = 0; j < OWN; j++)
#pragma unroll
                for (int h = 0; h < UNIT_HEADS; h++) w[h][j] += __shfl_xor_sync(0xffffffffu, w[h][j], 16 >> step);
        if (p.softcap > 0) {
#pragma unroll
            for (int h = 0; h < UNIT_HEADS; h++)
#pragma unroll
                for (int j = 0; j < OWN; j++) w[h][j] = tern_softcap(w[h][j], p.softcap);
        }
#pragma unroll
        for (int h = 0; h < UNIT_HEADS; h++) {
            float most = top[h];
#pragma unroll
            for (int j = 0; j < OWN; j++) {
                if (base + j >= at.to) w[h][j] = -INFINITY;
                most = fmaxf(most, w[h][j]);
            }
            const float keep = exp2_of((top[h] - most) * TERN_LOG2E);
            top[h] = most;
            total[h] *= keep;
#pragma unroll
            for (int i = 0; i < N; i++) acc[h][i] *= keep;
#pragma unroll
            for (int j = 0; j < OWN; j++) {
                w[h][j] = exp2_of((w[h][j] - most) * TERN_LOG2E);
                total[h] += w[h][j];
#pragma unroll
                for (int i = 0; i < N; i++) acc[h][i] = fmaf(w[h][j], v[j][i], acc[h][i]);
            }
        }
    }
#pragma unroll
    for (int h = 0; h < UNIT_HEADS; h++) {
        if (lane == 0) tops[warp * UNIT_HEADS + h] = top[h], totals[warp * UNIT_HEADS + h] = total[h];
#pragma unroll
        for (int i = 0; i < N; i++)
            if (lane * N + i < dim) accs[(warp * UNIT_HEADS + h) * dim + lane * N + i] = acc[h][i];
    }
}

template <int N>
static __device__ __noinline__ void call_attend(const tern_cuda_attention &p, split_of at, const uint32_t *pages,
                                                const float *qs, float *accs, float *tops, float *totals)
{
    attend<N>(p, at, pages, qs, accs, tops, totals);
}

/* N: the numbers of a head that a lane has, or TERN_CUDA_WALK_ANY. */
template <int N>
static __device__ __forceinline__ void attend_any(const tern_cuda_attention &p, const split_of &at,
                                                  const uint32_t *pages, const float *qs, float *accs, float *tops,
                                                  float *totals)
{
    if constexpr (N != TERN_CUDA_WALK_ANY) attend<N>(p, at, pages, qs, accs, tops, totals);
    else if (p.head_dim <= 64) call_attend<2>(p, at, pages, qs, accs, tops, totals);
    else if (p.head_dim <= 128) call_attend<4>(p, at, pages, qs, accs, tops, totals);
    else call_attend<8>(p, at, pages, qs, accs, tops, totals);
}

/* The sums of all warps, as a split of its heads: its largest score, its sum, its numbers. */
static __device__ __forceinline__ void write_split(const tern_cuda_attention &p, const split_of &at, const float *accs,
                                                   float *tops, const float *totals)
{
    static_assert(WALK_WARPS * UNIT_HEADS == 64, "one warp weighs all, two to a lane");
    const uint32_t dim = p.head_dim, lane = threadIdx.x;
    float *out = p.partials + ((size_t)at.head0 * p.splits + at.split) * (dim + 2);
    if (lane < 32) {
        const float mine = tops[lane], other = tops[lane + 32];
        float top = fmaxf(mine, other);
#pragma unroll
        for (int k = 4; k < 32; k *= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, k));
        const float keep = exp2_of((mine - top) * TERN_LOG2E), also = exp2_of((other - top) * TERN_LOG2E);
        float total = totals[lane] * keep + totals[lane + 32] * also;
#pragma unroll
        for (int k = 4; k < 32; k *= 2) total += __shfl_xor_sync(0xffffffffu, total, k);
        if (lane < at.n_heads) {
            __stcg(out + (size_t)lane * p.splits * (dim + 2), top);
            __stcg(out + (size_t)lane * p.splits * (dim + 2) + 1, total);
        }
        tops[lane] = keep;
        tops[lane + 32] = also;
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < at.n_heads * dim; i += WALK_THREADS) {
        const uint32_t h = i / dim, d = i - h * dim;
        float x = 0;
#pragma unroll
        for (int k = 0; k < WALK_WARPS; k++)
            x = fmaf(accs[(k * UNIT_HEADS + h) * dim + d], tops[k * UNIT_HEADS + h], x);
        __stcg(out + (size_t)h * p.splits * (dim + 2) + 2 + d, x);
    }
}

/* All splits of the unit; shares [heads][splits] in shared memory. */
static __device__ __forceinline__ void merge_splits(const tern_cuda_attention &p, const split_of &at, float *shares)
{
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, dim = p.head_dim, step = dim + 2;
    if (warp < at.n_heads) {
        const float *in = p.partials + ((size_t)(at.head0 + warp) * p.splits + lane) * step;
        const bool is_there = lane < at.n_splits;
        const float top = is_there ? __ldcg(in) : -INFINITY, total = is_there ? __ldcg(in + 1) : 0;
        const float most = tern_warp_max(top), keep = is_there ? exp2_of((top - most) * TERN_LOG2E) : 0;
        float sum = tern_warp_sum(total * keep);
        if (p.sinks) sum += tern_exp(p.sinks[at.head0 + warp] - most);
        shares[warp * TERN_CUDA_WALK_SPLITS + lane] = keep / sum;
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < at.n_heads * dim; i += WALK_THREADS) {
        const uint32_t h = i / dim, d = i % dim;
        const float *in = p.partials + (size_t)(at.head0 + h) * p.splits * step + 2 + d;
        float x = 0;
#pragma unroll 8
        for (uint32_t k = 0; k < at.n_splits; k++)
            x = fmaf(__ldcg(in + k * step), shares[h * TERN_CUDA_WALK_SPLITS + k], x);
        p.out.data[(size_t)(at.head0 + h) * dim + d] = x;
    }
}

static __host__ __device__ inline uint32_t attention_floats(uint32_t head_dim)
{
    return WALK_WARPS * UNIT_HEADS * (head_dim + 2) + (UNIT_HEADS + 1) * head_dim + UNIT_HEADS * TERN_CUDA_WALK_SPLITS;
}

enum { NEAR_PAGES = 64, LINE_BYTES = 128 };

/* Before q is there: asks for the keys and values of a split, and keeps the numbers of its pages near. */
static __device__ __forceinline__ const uint32_t *prepare_split(const tern_cuda_walk_attention &s, const split_of &at,
                                                                const uint32_t *pages, uint32_t *near)
{
    const tern_cuda_attention &p = s.attention;
    const uint32_t first = at.from / TERN_CUDA_PAGE, n = (at.to + TERN_CUDA_PAGE - 1) / TERN_CUDA_PAGE - first;
    const uint32_t lines = (p.head_dim * (p.k_cache.f32 ? 4 : 2) + LINE_BYTES - 1) / LINE_BYTES;
    if (at.split >= at.n_splits) return pages;
    for (uint32_t i = threadIdx.x; i < n && i < NEAR_PAGES; i += WALK_THREADS) near[i] = __ldcg(pages + first + i);
    for (uint32_t i = threadIdx.x; i < (at.to - at.from) * lines && i < 2 * WALK_THREADS; i += WALK_THREADS) {
        const uint32_t position = at.from + i / lines;
        const size_t row = tern_cache_at(__ldcg(pages + position / TERN_CUDA_PAGE), at.kv, position, p.n_kv_heads,
                                         p.head_dim);
        const size_t byte = row * (p.k_cache.f32 ? 4 : 2) + i % lines * LINE_BYTES;
        asm volatile("prefetch.global.L2 [%0];" ::"l"((const uint8_t *)p.k_cache.data + byte));
        asm volatile("prefetch.global.L2 [%0];" ::"l"((const uint8_t *)p.v_cache.data + byte));
    }
    return n <= NEAR_PAGES ? near - first : pages;
}

template <int N>
static __device__ __forceinline__ void walk_attention(const walker &w, const tern_cuda_walk_attention &s)
{
    __shared__ uint32_t near[NEAR_PAGES];
    const tern_cuda_attention &p = s.attention;
    const uint32_t dim = p.head_dim, position = __ldcg(p.place.positions);
    const uint32_t *pages = p.place.pages + __ldcg(p.place.sequences) * p.place.max_pages;
    float *q = (float *)w.memory, *accs = q + (UNIT_HEADS + 1) * dim, *tops = accs + WALK_WARPS * UNIT_HEADS * dim;
    float *totals = tops + WALK_WARPS * UNIT_HEADS, *shares = totals + WALK_WARPS * UNIT_HEADS;
    uint32_t item = blockIdx.x;
    split_of at = split_at(s, item, position);
    const uint32_t *table = item < s.units * p.splits ? prepare_split(s, at, pages, near) : pages;
    w.wait();
    while (item < s.units * p.splits) {
        if (at.split < at.n_splits) {
            rotate(s, at, position, table, q);
            attend_any<N>(p, at, table, q, accs, tops, totals);
            __syncthreads();
            write_split(p, at, accs, tops, totals);
            if (is_last_block(w, s.done + at.unit, at.n_splits)) merge_splits(p, at, shares);
            __syncthreads();
        }
        item += gridDim.x;
        at = split_at(s, item, position);
        table = pages;
    }
}

#endif
