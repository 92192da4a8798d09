/* VARLEN_ATTENTION_BACKWARD: the probabilities are made again from the statistics (FlashAttention-2, Dao 2023). One
 * kernel has tiles of queries and makes dq, one has tiles of keys and makes dk and dv: each sum in one order. */
#include "backend/cuda/training/attention_tiles.cuh"

static __global__ void deltas(tern_cuda_varlen p)
{
    const uint32_t t = blockIdx.x, lane = threadIdx.x % 32;
    if (t >= tern_rows_now(p.count)) return;
    for (uint32_t h = threadIdx.x / 32; h < p.n_heads; h += THREADS / 32) {
        const float *a = p.dout.data + (size_t)t * p.dout.stride + (size_t)h * p.head_dim;
        const float *b = p.out.data + (size_t)t * p.out.stride + (size_t)h * p.head_dim;
        float sum = 0;
        for (uint32_t d = lane; d < p.head_dim; d += 32) sum = fmaf(a[d], b[d], sum);
        sum = tern_warp_sum(sum);
        if (lane > 0) continue;
        p.deltas[(size_t)t * p.n_heads + h] = sum;
        if (!p.queries) continue;
        const float *statistics = p.statistics.data + (size_t)t * p.statistics.stride;
        p.queries[(size_t)h * p.count.most + t] =
            make_float4(statistics[h], 1.0f / statistics[p.n_heads + h], sum, __uint_as_float(first_seen(p, t)));
    }
}

static __global__ void sinks_backward(tern_cuda_varlen p)
{
    __shared__ float room[32];
    const uint32_t h = blockIdx.x, n = tern_rows_now(p.count);
    float sum = 0;
    for (uint32_t t = threadIdx.x; t < n; t += THREADS) {
        const float *statistics = p.statistics.data + (size_t)t * p.statistics.stride;
        sum += tern_exp(p.sinks[h] - statistics[h]) / statistics[p.n_heads + h] * p.deltas[(size_t)t * p.n_heads + h];
    }
    sum = tern_block_sum(sum, room);
    if (threadIdx.x == 0) p.dsinks[h] -= sum;
}

/* What a query's row needs: maximum, 1 / sum, delta, and the first row that it sees. */
typedef struct query {
    float most, inverse, delta;
    uint32_t t, first;
} query;

static __device__ __forceinline__ query query_of(const tern_cuda_varlen &p, uint32_t t, uint32_t n, uint32_t h)
{
    if (t >= n) return {0, 0, 0, 0, ~0u};
    const float *statistics = p.statistics.data + (size_t)t * p.statistics.stride;
    return {statistics[h], 1.0f / statistics[p.n_heads + h], p.deltas[(size_t)t * p.n_heads + h], t, first_seen(p, t)};
}

/* Asks for these rows from the table: zeros, which make no gradient, from row n on. */
static __device__ __forceinline__ void ask_query(float4 *to, const tern_cuda_varlen &p, uint32_t t, uint32_t n,
                                                 uint32_t h)
{
    const float4 *from = p.queries + (t < n ? (size_t)h * p.count.most + t : 0);
    asm volatile("cp.async.cg.shared.global [%0],[%1],16,%2;" ::"r"((uint32_t)__cvta_generic_to_shared(to)), "l"(from),
                 "r"(t < n ? 16 : 0)
                 : "memory");
}

/* From products q k and dout v to the probability and the gradient of q k. */
static __device__ __forceinline__ void gradients(const tern_cuda_varlen &p, const query &q, uint32_t key, float &s,
                                                 float &dp)
{
    if (key < q.first || key > q.t) {
        s = dp = 0;
        return;
    }
    const float c = capped(p, s);
    s = tern_exp(c - q.most) * q.inverse;
    dp = s * (dp - q.delta);
    if (p.softcap > 0) {
        const float u = c / p.softcap;
        dp *= 1.0f - u * u;
    }
    dp *= p.scale;
}

template <int DIM, int M> static __global__ void __launch_bounds__(THREADS) queries_backward(tern_cuda_varlen p)
{
    using S = Shape<DIM, M>;
    extern __shared__ __align__(16) float memory[];
    float *q = memory, *dout = q + S::tile, *k = dout + S::tile, *v = k + S::tile, *ds = v + S::tile;
    const uint32_t ty = threadIdx.x / 16, tx = threadIdx.x % 16, n = tern_rows_now(p.count);
    const uint32_t t0 = (gridDim.x - 1 - blockIdx.x) * S::rows, h = blockIdx.y, kv = h / (p.n_heads / p.n_kv_heads);
    if (t0 >= n) return;
    const uint32_t last = min(t0 + S::rows, n) - 1;
    float4 dq[M][S::runs];
    query rows[M];
    clear<DIM, M>(dq);
#pragma unroll
    for (int i = 0; i < M; i++) rows[i] = query_of(p, t0 + ty * M + i, n, h);
    load_rows<DIM, S::rows>(q, p.q, t0, 0, n, h, p.head_dim);
    load_rows<DIM, S::rows>(dout, p.dout, t0, 0, n, h, p.head_dim);
    const uint32_t from = first_seen(p, t0);
    for (uint32_t at = from / S::rows * S::rows; at <= last; at += S::rows) {
        __syncthreads();
        load_rows<DIM, S::rows>(k, p.k, at, from, last + 1, kv, p.head_dim);
        load_rows<DIM, S::rows>(v, p.v, at, from, last + 1, kv, p.head_dim);
        __syncthreads();
        float s[M][M], dp[M][M];
        scores<DIM, M>(s, q, k);
        scores<DIM, M>(dp, dout, v);
#pragma unroll
        for (int i = 0; i < M; i++)
#pragma unroll
            for (int j = 0; j < M; j++) gradients(p, rows[i], at + tx + 16 * j, s[i][j], dp[i][j]);
        keep<DIM, M>(ds, dp);
        __syncwarp();
        accumulate<DIM, M>(dq, ds, k);
    }
    float by[M];
#pragma unroll
    for (int i = 0; i < M; i++) by[i] = 1;
    store_rows<DIM, M>(p.dq, dq, by, t0, n, h, p.head_dim);
}

template <int DIM, int M> static __global__ void __launch_bounds__(THREADS) keys_backward(tern_cuda_varlen p)
{
    using S = Shape<DIM, M>;
    extern __shared__ __align__(16) float memory[];
    float *k = memory, *v = k + S::tile, *q = v + S::tile, *dout = q + S::tile, *weights = dout + S::tile;
    float *ds = weights + S::p_tile;
    const uint32_t ty = threadIdx.x / 16, tx = threadIdx.x % 16, n = tern_rows_now(p.count);
    const uint32_t k0 = blockIdx.x * S::rows, kv = blockIdx.y, group = p.n_heads / p.n_kv_heads;
    if (k0 >= n) return;
    float4 dk[M][S::runs], dv[M][S::runs];
    clear<DIM, M>(dk);
    clear<DIM, M>(dv);
    load_rows<DIM, S::rows>(k, p.k, k0, 0, n, kv, p.head_dim);
    load_rows<DIM, S::rows>(v, p.v, k0, 0, n, kv, p.head_dim);
    const uint32_t end = first_past(p, k0, n, k0 + S::rows);
    for (uint32_t t0 = k0; t0 < end; t0 += S::rows)
        for (uint32_t h = kv * group; h < (kv + 1) * group; h++) {
            __syncthreads();
            load_rows<DIM, S::rows>(q, p.q, t0, 0, end, h, p.head_dim);
            load_rows<DIM, S::rows>(dout, p.dout, t0, 0, end, h, p.head_dim);
            __syncthreads();
            float s[M][M], dp[M][M];
            scores<DIM, M>(s, k, q);
            scores<DIM, M>(dp, v, dout);
#pragma unroll
            for (int j = 0; j < M; j++) {
                const query of = query_of(p, t0 + tx + 16 * j, end, h);
#pragma unroll
                for (int i = 0; i < M; i++) gradients(p, of, k0 + ty * M + i, s[i][j], dp[i][j]);
            }
            keep<DIM, M>(weights, s);
            keep<DIM, M>(ds, dp);
            __syncwarp();
            accumulate<DIM, M>(dv, weights, dout);
            accumulate<DIM, M>(dk, ds, q);
        }
    float by[M];
#pragma unroll
    for (int i = 0; i < M; i++) by[i] = 1;
    store_rows<DIM, M>(p.dk, dk, by, k0, n, kv, p.head_dim);
    store_rows<DIM, M>(p.dv, dv, by, k0, n, kv, p.head_dim);
}

template <int DIM, int M> static size_t bytes_of(void)
{
    return sizeof(float) * (4 * Shape<DIM, M>::tile + 2 * Shape<DIM, M>::p_tile);
}

template <int DIM, int M> static cudaError_t start_backward(const tern_cuda_varlen *p, cudaStream_t stream)
{
    const uint32_t tiles = (p->count.most + Shape<DIM, M>::rows - 1) / Shape<DIM, M>::rows;
    const cudaError_t e = start(queries_backward<DIM, M>, p, dim3(tiles, p->n_heads), bytes_of<DIM, M>(), stream);
    if (e != cudaSuccess) return e;
    return start(keys_backward<DIM, M>, p, dim3(tiles, p->n_kv_heads), bytes_of<DIM, M>(), stream);
}

/* ---- heads of at most 128, on tensor cores */
template <typename T, int DIM, int OTHER>
static __global__ void __launch_bounds__(TILE_THREADS, DIM == 64 ? 4 : 1) queries_tiles(tern_cuda_varlen p)
{
    using S = Tiles<T, DIM, OTHER>;
    extern __shared__ __align__(16) float memory[];
    T *q = (T *)memory, *dout = q + S::own, *others = dout + S::own;
    const uint32_t n = tern_rows_now(p.count), t0 = (gridDim.x - 1 - blockIdx.x) * OWN, h = blockIdx.y;
    const uint32_t kv = h / (p.n_heads / p.n_kv_heads);
    if (t0 >= n) return;
    const uint32_t last = min(t0 + OWN, n) - 1, from = first_seen(p, t0), end = t0 + warp_row() + 15;
    const uint32_t t = t0 + warp_row() + lane_row();
    const query rows[2] = {query_of(p, t, n, h), query_of(p, t + 8, n, h)};
    float dq[S::columns][4] = {};
    const Sources<T> of(p);
    const auto ask = [&](uint32_t at) {
        T *to = others + at / OTHER % S::buffers * 2 * S::other;
        ask_rows<DIM, OTHER>(to, of.k, at, from, last + 1, kv, p.head_dim);
        ask_rows<DIM, OTHER>(to + S::other, of.v, at, from, last + 1, kv, p.head_dim);
    };
    ask_rows<DIM, OWN>(q, of.q, t0, 0, n, h, p.head_dim);
    ask_rows<DIM, OWN>(dout, of.dout, t0, 0, n, h, p.head_dim);
    if (S::buffers == 2) ask(from / OTHER * OTHER);
    for (uint32_t at = from / OTHER * OTHER; at <= last; at += OTHER) {
        if (S::buffers == 1) {
            __syncthreads();
            ask(at);
        }
        rows_wait();
        __syncthreads();
        if (S::buffers == 2 && at + OTHER <= last) ask(at + OTHER);
        const T *k = others + at / OTHER % S::buffers * 2 * S::other, *v = k + S::other;
        if (at > end) continue; /* all of it comes after the warp's rows */
        float s[S::eights][4], dp[S::eights][4];
        scores_of<DIM, S::eights>(s, q, k);
        scores_of<DIM, S::eights>(dp, dout, v);
#pragma unroll
        for (int c = 0; c < S::eights; c++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                gradients(p, rows[i / 2], at + c * 8 + lane_column() * 2 + i % 2, s[c][i], dp[c][i]);
        add_product<DIM, S::eights>(dq, dp, k);
    }
    store_fragments<DIM>(p.dq, dq, 1, 1, t0, n, h, p.head_dim);
}

template <typename T, int DIM, int OTHER>
static __global__ void __launch_bounds__(TILE_THREADS) keys_tiles(tern_cuda_varlen p)
{
    using S = Tiles<T, DIM, OTHER>;
    extern __shared__ __align__(16) float memory[];
    __shared__ query queries[S::buffers == 1 ? OTHER : 1];
    __shared__ __align__(16) float4 table[S::buffers == 2 ? 2 * OTHER : 1];
    T *k = (T *)memory, *v = k + S::own, *others = v + S::own;
    const uint32_t n = tern_rows_now(p.count), k0 = blockIdx.x * OWN, h = blockIdx.y;
    const uint32_t group = p.n_heads / p.n_kv_heads, kv = h / group, mine = k0 + warp_row();
    if (k0 >= n) return;
    float dk[S::columns][4] = {}, dv[S::columns][4] = {};
    const Sources<T> of(p);
    ask_rows<DIM, OWN>(k, of.k, k0, 0, n, kv, p.head_dim);
    ask_rows<DIM, OWN>(v, of.v, k0, 0, n, kv, p.head_dim);
    const uint32_t end = first_past(p, k0, n, k0 + OWN);
    const auto ask = [&](uint32_t t0) {
        const uint32_t buffer = t0 / OTHER % S::buffers;
        T *to = others + buffer * 2 * S::other;
        ask_rows<DIM, OTHER>(to, of.q, t0, 0, end, h, p.head_dim);
        ask_rows<DIM, OTHER>(to + S::other, of.dout, t0, 0, end, h, p.head_dim);
        if (threadIdx.x >= OTHER) return;
        if constexpr (S::buffers == 1) queries[threadIdx.x] = query_of(p, t0 + threadIdx.x, end, h);
        else ask_query(&table[buffer * OTHER + threadIdx.x], p, t0 + threadIdx.x, end, h);
    };
    if (S::buffers == 2) ask(k0);
    for (uint32_t t0 = k0; t0 < end; t0 += OTHER) {
        if (S::buffers == 1) {
            __syncthreads();
            ask(t0);
        }
        rows_wait();
        __syncthreads();
        if (S::buffers == 2 && t0 + OTHER < end) ask(t0 + OTHER);
        const uint32_t buffer = t0 / OTHER % S::buffers;
        const T *q = others + buffer * 2 * S::other, *dout = q + S::other;
        if (t0 + OTHER <= mine) continue; /* all of it comes before the warp's rows */
        float s[S::eights][4], dp[S::eights][4];
        scores_of<DIM, S::eights>(s, k, q);
        scores_of<DIM, S::eights>(dp, v, dout);
#pragma unroll
        for (int c = 0; c < S::eights; c++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const uint32_t column = c * 8 + lane_column() * 2 + i % 2;
                query one;
                if constexpr (S::buffers == 1) {
                    one = queries[column];
                } else {
                    const float4 x = table[buffer * OTHER + column];
                    one = {x.x, x.y, x.z, t0 + column, __float_as_uint(x.w)};
                }
                gradients(p, one, mine + lane_row() + i / 2 * 8, s[c][i], dp[c][i]);
            }
        add_product<DIM, S::eights>(dv, s, dout);
        add_product<DIM, S::eights>(dk, dp, q);
    }
    const uint32_t stride = p.n_heads * p.head_dim;
    const tern_cuda_rows of_k = group > 1 ? tern_cuda_rows{p.of_heads, stride} : p.dk;
    const tern_cuda_rows of_v = group > 1 ? tern_cuda_rows{p.of_heads + (size_t)p.count.most * stride, stride} : p.dv;
    store_fragments<DIM>(of_k, dk, 1, 1, k0, n, h, p.head_dim);
    store_fragments<DIM>(of_v, dv, 1, 1, k0, n, h, p.head_dim);
}

/* dk and dv: the sums of a group's heads, in order. */
static __global__ void add_heads(tern_cuda_varlen p)
{
    const uint32_t t = blockIdx.y, c = blockIdx.x * TILE_THREADS + threadIdx.x, group = p.n_heads / p.n_kv_heads;
    if (t >= tern_rows_now(p.count) || c >= p.n_kv_heads * p.head_dim) return;
    const size_t stride = (size_t)p.n_heads * p.head_dim, all = p.count.most * stride;
    const float *from = p.of_heads + t * stride + (size_t)(c / p.head_dim) * group * p.head_dim + c % p.head_dim;
    float dk = 0, dv = 0;
    for (uint32_t i = 0; i < group; i++, from += p.head_dim) dk += from[0], dv += from[all];
    p.dk.data[(size_t)t * p.dk.stride + c] = dk;
    p.dv.data[(size_t)t * p.dv.stride + c] = dv;
}

size_t tern_cuda_varlen_bytes(uint32_t most, uint32_t n_heads, uint32_t n_kv_heads, uint32_t head_dim)
{
    const size_t deltas = (size_t)most * n_heads, heads = 2 * (size_t)most * n_heads * head_dim;
    return sizeof(float) * (n_heads > n_kv_heads && head_dim <= 128 ? deltas + heads : deltas);
}

template <typename T, int DIM, int OTHER> static size_t tile_bytes(void)
{
    using S = Tiles<T, DIM, OTHER>;
    return sizeof(T) * 2 * (S::own + S::buffers * S::other);
}

template <typename T, int DIM, int OTHER> static cudaError_t start_tiles(const tern_cuda_varlen *p, cudaStream_t stream)
{
    const uint32_t tiles = (p->count.most + OWN - 1) / OWN;
    const size_t bytes = tile_bytes<T, DIM, OTHER>();
    const cudaError_t e = start(queries_tiles<T, DIM, OTHER>, p, dim3(tiles, p->n_heads), bytes, stream, TILE_THREADS);
    if (e != cudaSuccess) return e;
    const cudaError_t keys = start(keys_tiles<T, DIM, OTHER>, p, dim3(tiles, p->n_heads), bytes, stream, TILE_THREADS);
    if (keys != cudaSuccess || p->n_heads == p->n_kv_heads) return keys;
    const uint32_t cols = p->n_kv_heads * p->head_dim;
    add_heads<<<dim3((cols + TILE_THREADS - 1) / TILE_THREADS, p->count.most), TILE_THREADS, 0, stream>>>(*p);
    return cudaGetLastError();
}

cudaError_t tern_cuda_run_varlen_backward(const tern_cuda_varlen *p, cudaStream_t stream)
{
    deltas<<<p->count.most, THREADS, 0, stream>>>(*p);
    if (p->bf16) tern_cuda_round_attention(p, stream);
    if (p->dsinks) sinks_backward<<<p->n_heads, THREADS, 0, stream>>>(*p);
    if (p->bf16 && p->head_dim <= 64) return start_tiles<__nv_bfloat16, 64, 64>(p, stream);
    if (p->bf16) return start_tiles<__nv_bfloat16, 128, 32>(p, stream);
    if (p->head_dim <= 64) return start_tiles<float, 64, 32>(p, stream);
    if (p->head_dim <= 128 && fits_shared(tile_bytes<float, 128, 32>())) return start_tiles<float, 128, 32>(p, stream);
    if (p->head_dim <= 128) return start_tiles<float, 128, 16>(p, stream);
    return fits_shared(bytes_of<256, 2>()) ? start_backward<256, 2>(p, stream) : start_backward<256, 1>(p, stream);
}
