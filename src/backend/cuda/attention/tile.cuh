/* Tiles of queries against a page of keys or values at a time, in f32: what the block's threads do with them. */
#ifndef TERN_BACKEND_CUDA_ATTENTION_TILE_CUH
#define TERN_BACKEND_CUDA_ATTENTION_TILE_CUH

#include "backend/cuda/attention/cache.cuh"

enum { QUERIES = 64, PAGE = TERN_CUDA_PAGE, THREADS = 128 };

/* A tile in shared memory: queries, a page of keys or values, weights of their pairs. Rows are one longer, so that
 * columns lie in different banks. */
struct tile {
    float *q, *kv, *w;
    uint32_t stride;
};

/* Its first n positions; what may lie beyond them is no number of this sequence. */
static __device__ void load_page(const tern_cuda_attention &p, tern_cuda_cache cache, uint32_t page, uint32_t kv,
                                 uint32_t n, const tile &s)
{
    const size_t at = tern_cache_at(page, kv, 0, p.n_kv_heads, 1);
    for (uint32_t i = threadIdx.x; i < PAGE * p.head_dim; i += THREADS) {
        const uint32_t row = i / p.head_dim, d = i % p.head_dim;
        s.kv[row * s.stride + d] = row < n ? tern_cache_number(cache, at + row, d, p.head_dim) : 0;
    }
}

/* A thread has four queries and four positions, eight apart, for the scores; for the sums every eighth column. Eight
 * threads of a warp share the queries. These are its rows, from t0 + group on. */
template <uint32_t COLUMNS> struct tile_rows {
    float most[4], sum[4], acc[4][COLUMNS];
    uint32_t low[4], high[4]; /* the positions that a row sees; high: one after the last, 0: no query */
};

static __device__ __forceinline__ void load_tile(const tern_cuda_attention &p, const tile &s, uint32_t t0, uint32_t n)
{
    for (uint32_t i = threadIdx.x; i < QUERIES * p.head_dim; i += THREADS) {
        const uint32_t t = t0 + i / p.head_dim;
        s.q[i / p.head_dim * s.stride + i % p.head_dim] =
            t < n ? p.q.data[(size_t)t * p.q.stride + blockIdx.x * p.head_dim + i % p.head_dim] : 0;
    }
}

template <uint32_t COLUMNS>
static __device__ __forceinline__ void begin_rows(tile_rows<COLUMNS> &r, const tern_cuda_attention &p, uint32_t first,
                                                  uint32_t n)
{
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const uint32_t t = first + i;
        r.most[i] = -INFINITY, r.sum[i] = 0;
        r.high[i] = t < n ? p.place.positions[t] + 1 : 0;
        r.low[i] = t < n ? tern_first_seen(p.window, p.place.positions[t]) : 0;
#pragma unroll
        for (uint32_t c = 0; c < COLUMNS; c++) r.acc[i][c] = 0;
    }
}

/* Products of this thread's queries with its positions of the page of keys. */
static __device__ __forceinline__ void score_page(float (&w)[4][4], const tile &s, uint32_t head_dim)
{
    const uint32_t group = threadIdx.x / 8 * 4, lane = threadIdx.x % 8;
    for (uint32_t d = 0; d < head_dim; d++) {
        float k[4];
#pragma unroll
        for (int j = 0; j < 4; j++) k[j] = s.kv[(lane + 8 * j) * s.stride + d];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float q = s.q[(group + i) * s.stride + d];
#pragma unroll
            for (int j = 0; j < 4; j++) w[i][j] = fmaf(q, k[j], w[i][j]);
        }
    }
}

/* Makes weights of the scores of row i, of positions from `at` on: left in s.w, summed up in r. */
template <uint32_t COLUMNS>
static __device__ __forceinline__ void soften_row(tile_rows<COLUMNS> &r, const tern_cuda_attention &p, const tile &s,
                                                  float (&w)[4], int i, uint32_t at, bool in_run)
{
    const uint32_t group = threadIdx.x / 8 * 4, lane = threadIdx.x % 8;
    float top = r.most[i], total = 0;
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const uint32_t position = at + lane + 8 * j;
        w[j] *= p.scale;
        if (p.softcap > 0) w[j] = tern_softcap(w[j], p.softcap);
        if (!in_run || position < r.low[i] || position >= r.high[i]) w[j] = -INFINITY;
        top = fmaxf(top, w[j]);
    }
    for (int k = 4; k; k >>= 1) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, k));
    const float keep = top == -INFINITY ? 1.0f : tern_exp(r.most[i] - top);
#pragma unroll
    for (int j = 0; j < 4; j++) {
        w[j] = top == -INFINITY ? 0 : tern_exp(w[j] - top);
        total += w[j];
        s.w[(group + i) * (PAGE + 1) + lane + 8 * j] = w[j];
    }
    for (int k = 4; k; k >>= 1) total += __shfl_xor_sync(0xffffffffu, total, k);
    r.sum[i] = r.sum[i] * keep + total;
    r.most[i] = top;
#pragma unroll
    for (uint32_t c = 0; c < COLUMNS; c++) r.acc[i][c] *= keep;
}

/* Adds the page of values by the weights in s.w. */
template <uint32_t COLUMNS>
static __device__ __forceinline__ void add_page(tile_rows<COLUMNS> &r, const tile &s, uint32_t head_dim)
{
    const uint32_t group = threadIdx.x / 8 * 4, lane = threadIdx.x % 8;
    for (uint32_t j = 0; j < PAGE; j++) {
        float weight[4];
#pragma unroll
        for (int i = 0; i < 4; i++) weight[i] = s.w[(group + i) * (PAGE + 1) + j];
#pragma unroll
        for (uint32_t c = 0; c < COLUMNS; c++) {
            const uint32_t d = lane + 8 * c;
            const float v = d < head_dim ? s.kv[j * s.stride + d] : 0;
#pragma unroll
            for (int i = 0; i < 4; i++) r.acc[i][c] = fmaf(weight[i], v, r.acc[i][c]);
        }
    }
}

template <uint32_t COLUMNS>
static __device__ __forceinline__ void store_rows(const tile_rows<COLUMNS> &r, const tern_cuda_attention &p,
                                                  uint32_t first, const bool (&is_mine)[4])
{
    const uint32_t lane = threadIdx.x % 8, head = blockIdx.x;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if (!is_mine[i]) continue;
        const float all = p.sinks ? r.sum[i] + tern_exp(p.sinks[head] - r.most[i]) : r.sum[i];
        float *out = p.out.data + (size_t)(first + i) * p.out.stride + head * p.head_dim;
#pragma unroll
        for (uint32_t c = 0; c < COLUMNS; c++)
            if (lane + 8 * c < p.head_dim) out[lane + 8 * c] = r.acc[i][c] / all;
    }
}

#endif
