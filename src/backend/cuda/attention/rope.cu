/* ROPE, KV_WRITE and ROPE_KV: a warp for each head of a token, or for several where whole heads are turned, all of
 * which it asks for before it writes any. */
#include "backend/cuda/attention/cache.cuh"
#include "backend/cuda/launch.cuh"

enum { WARPS = 4 };

/* The mean square of a head's numbers makes this factor. */
static __device__ float head_factor(const float *x, uint32_t n, float eps)
{
    float sum = 0;
    for (uint32_t d = threadIdx.x % 32; d < n; d += 32) sum += x[d] * x[d];
    return 1.0f / sqrtf(tern_warp_sum(sum) / (float)n + eps);
}

/* In place: normed where there is a norm, then turned. */
static __device__ void turn(const tern_cuda_rope &p, float *x, const float *norm, const float *table)
{
    const uint32_t lane = threadIdx.x % 32, dim = p.rope_dim ? p.rope_dim : p.head_dim, half = dim / 2;
    if (norm) {
        const float r = head_factor(x, p.head_dim, p.eps);
        for (uint32_t d = lane; d < p.head_dim; d += 32) x[d] = x[d] * r * norm[d];
        __syncwarp();
    }
    for (uint32_t i = lane; p.turns && i < half; i += 32) {
        float *a = x + (p.adjacent ? 2 * i : i), *b = p.adjacent ? a + 1 : a + half;
        const float u = *a, v = *b, c = table[2 * i], s = p.back ? -table[2 * i + 1] : table[2 * i + 1];
        *a = u * c - v * s;
        *b = v * c + u * s;
    }
    __syncwarp();
}

static __global__ void rope(tern_cuda_rope p)
{
    const uint32_t t = blockIdx.y, lane = threadIdx.x % 32;
    uint32_t head = blockIdx.x * WARPS + threadIdx.x / 32;
    tern_follow();
    if (t >= tern_rows_now(p.count)) return;
    const uint32_t position = p.place.positions[t], n_q = p.q.data ? p.n_heads : 0, n_k = p.k.data ? p.n_kv_heads : 0;
    const float *table = p.table + (size_t)position * p.table_stride;
    if (head < n_q) {
        turn(p, p.q.data + (size_t)t * p.q.stride + (size_t)head * p.head_dim, p.q_norm, table);
        return;
    }
    head -= n_q;
    const bool is_k = head < n_k;
    if (!is_k) head -= n_k;
    if (head >= p.n_kv_heads || (!is_k && !p.v.data)) return;
    const tern_cuda_rows rows = is_k ? p.k : p.v;
    float *x = rows.data + (size_t)t * rows.stride + (size_t)head * p.head_dim;
    if (is_k) turn(p, x, p.k_norm, table);
    const tern_cuda_cache cache = is_k ? p.k_cache : p.v_cache;
    if (!cache.data) return;
    const uint32_t page = p.place.pages[p.place.sequences[t] * p.place.max_pages + position / TERN_CUDA_PAGE];
    const size_t at = tern_cache_at(page, head, position, p.n_kv_heads, 1);
    if (cache.bits) {
        tern_block_store(cache, at, x, p.head_dim);
        return;
    }
    for (uint32_t d = lane; d < p.head_dim; d += 32) tern_cache_put(cache, at * p.head_dim + d, x[d]);
}

/* ---- whole heads: a warp has BATCH heads of a token, a lane PAIRS pairs of numbers of each */
enum { BATCH = 4 };

enum head_kind { QUERY, KEY, VALUE, NOTHING };

struct head_place {
    enum head_kind kind;
    uint32_t head; /* among those of its kind */
    float *x;
};

static __device__ __forceinline__ head_place place_of(const tern_cuda_rope &p, uint32_t t, uint32_t head)
{
    const tern_cuda_rows rows[] = {p.q, p.k, p.v};
    const uint32_t heads[] = {p.q.data ? p.n_heads : 0, p.k.data ? p.n_kv_heads : 0, p.v.data ? p.n_kv_heads : 0};
#pragma unroll
    for (int kind = QUERY; kind < NOTHING; kind++) {
        if (head < heads[kind])
            return {(head_kind)kind, head, rows[kind].data + (size_t)t * rows[kind].stride + head * p.head_dim};
        head -= heads[kind];
    }
    return {NOTHING, 0, NULL};
}

/* Where the numbers of a lane's pair j are. */
struct pair_places {
    uint32_t a, b;
    bool is_there;
};

static __device__ __forceinline__ pair_places pair_of(const tern_cuda_rope &p, int j)
{
    const uint32_t i = threadIdx.x % 32 + 32 * j, half = p.head_dim / 2;
    return {p.adjacent ? 2 * i : i, p.adjacent ? 2 * i + 1 : i + half, i < half};
}

template <int PAIRS>
static __device__ __forceinline__ void norm_head(const tern_cuda_rope &p, float2 (&x)[PAIRS], const float *weight)
{
    float sum = 0;
#pragma unroll
    for (int j = 0; j < PAIRS; j++) sum += x[j].x * x[j].x + x[j].y * x[j].y;
    const float r = 1.0f / sqrtf(tern_warp_sum(sum) / (float)p.head_dim + p.eps);
#pragma unroll
    for (int j = 0; j < PAIRS; j++) {
        const pair_places at = pair_of(p, j);
        if (at.is_there) x[j] = make_float2(x[j].x * r * weight[at.a], x[j].y * r * weight[at.b]);
    }
}

template <int PAIRS>
static __device__ __forceinline__ void turn_head(float2 (&x)[PAIRS], const float2 (&table)[PAIRS], bool back)
{
#pragma unroll
    for (int j = 0; j < PAIRS; j++) {
        const float u = x[j].x, v = x[j].y, c = table[j].x, s = back ? -table[j].y : table[j].y;
        x[j] = make_float2(u * c - v * s, v * c + u * s);
    }
}

template <int PAIRS>
static __device__ __forceinline__ void put_head(const tern_cuda_rope &p, const head_place &h, const float2 (&x)[PAIRS],
                                                uint32_t page, uint32_t position)
{
    const tern_cuda_cache cache = h.kind == KEY ? p.k_cache : p.v_cache;
    const size_t to = tern_cache_at(page, h.head, position, p.n_kv_heads, p.head_dim);
#pragma unroll
    for (int j = 0; j < PAIRS; j++) {
        const pair_places at = pair_of(p, j);
        if (!at.is_there) continue;
        if (h.kind != VALUE) h.x[at.a] = x[j].x, h.x[at.b] = x[j].y;
        if (h.kind == QUERY || !cache.data) continue;
        tern_cache_put(cache, to + at.a, x[j].x);
        tern_cache_put(cache, to + at.b, x[j].y);
    }
}

template <int PAIRS>
static __global__ void __launch_bounds__(WARPS * 32) rope_heads(const __grid_constant__ tern_cuda_rope p)
{
    const uint32_t t = blockIdx.y, first = (blockIdx.x * WARPS + threadIdx.x / 32) * BATCH;
    tern_follow();
    if (t >= tern_rows_now(p.count)) return;
    head_place heads[BATCH];
    float2 x[BATCH][PAIRS], table[PAIRS];
    const uint32_t position = p.place.positions[t];
#pragma unroll
    for (int b = 0; b < BATCH; b++) {
        heads[b] = place_of(p, t, first + b);
#pragma unroll
        for (int j = 0; j < PAIRS; j++) {
            const pair_places at = pair_of(p, j);
            x[b][j] = make_float2(0, 0);
            if (heads[b].kind != NOTHING && at.is_there) x[b][j] = make_float2(heads[b].x[at.a], heads[b].x[at.b]);
        }
    }
    const uint32_t page = p.k_cache.data || p.v_cache.data
                              ? p.place.pages[p.place.sequences[t] * p.place.max_pages + position / TERN_CUDA_PAGE]
                              : 0;
#pragma unroll
    for (int j = 0; j < PAIRS; j++) {
        const uint32_t i = threadIdx.x % 32 + 32 * j;
        table[j] = make_float2(1, 0);
        if (i < p.head_dim / 2) table[j] = *(const float2 *)(p.table + (size_t)position * p.table_stride + 2 * i);
    }
#pragma unroll
    for (int b = 0; b < BATCH; b++) {
        const float *norm = heads[b].kind == QUERY ? p.q_norm : heads[b].kind == KEY ? p.k_norm : NULL;
        if (heads[b].kind == NOTHING) continue;
        if (norm) norm_head<PAIRS>(p, x[b], norm);
        if (heads[b].kind != VALUE) turn_head<PAIRS>(x[b], table, p.back);
        put_head<PAIRS>(p, heads[b], x[b], page, position);
    }
}

/* Caches in blocks need whole rows; pairs of the table are read together. */
static bool has_whole_heads(const tern_cuda_rope *p)
{
    return p->turns && (!p->rope_dim || p->rope_dim == p->head_dim) && p->head_dim % 2 == 0 && p->head_dim <= 256 &&
           !p->k_cache.bits && !p->v_cache.bits && p->table_stride % 2 == 0 && (uintptr_t)p->table % 8 == 0;
}

static cudaError_t run_heads(const tern_cuda_rope *p, uint32_t heads, cudaStream_t stream)
{
    const dim3 grid((heads + WARPS * BATCH - 1) / (WARPS * BATCH), p->count.most);
    if (p->head_dim <= 64) return tern_launch(rope_heads<1>, grid, WARPS * 32, 0, stream, *p);
    if (p->head_dim <= 128) return tern_launch(rope_heads<2>, grid, WARPS * 32, 0, stream, *p);
    return tern_launch(rope_heads<4>, grid, WARPS * 32, 0, stream, *p);
}

cudaError_t tern_cuda_run_rope(const tern_cuda_rope *p, cudaStream_t stream)
{
    const uint32_t n_kv = p->n_kv_heads;
    const uint32_t heads = (p->q.data ? p->n_heads : 0) + (p->k.data ? n_kv : 0) + (p->v.data ? n_kv : 0);
    if (has_whole_heads(p)) return run_heads(p, heads, stream);
    return tern_launch(rope, dim3((heads + WARPS - 1) / WARPS, p->count.most), WARPS * 32, 0, stream, *p);
}
