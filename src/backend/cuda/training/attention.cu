/* VARLEN_ATTENTION: causal attention of packed rows, with an online softmax; of narrow heads on tensor cores. */
#include "backend/cuda/training/attention_tiles.cuh"

template <int DIM, int M> static __global__ void __launch_bounds__(THREADS) varlen(tern_cuda_varlen p)
{
    using S = Shape<DIM, M>;
    extern __shared__ __align__(16) float memory[];
    float *q = memory, *k = q + S::tile, *v = k + S::tile, *weights = v + S::tile;
    const uint32_t ty = threadIdx.x / 16, tx = threadIdx.x % 16, n = tern_rows_now(p.count);
    const uint32_t t0 = (gridDim.x - 1 - blockIdx.x) * S::rows, h = blockIdx.y, kv = h / (p.n_heads / p.n_kv_heads);
    const float none = __uint_as_float(0xff800000u);
    if (t0 >= n) return;
    const uint32_t last = min(t0 + S::rows, n) - 1;
    float4 o[M][S::runs];
    float most[M], sum[M];
    uint32_t first[M];
    clear<DIM, M>(o);
#pragma unroll
    for (int i = 0; i < M; i++) {
        most[i] = none, sum[i] = 0;
        first[i] = first_seen(p, min(t0 + ty * M + i, last));
    }
    load_rows<DIM, S::rows>(q, p.q, t0, 0, n, h, p.head_dim);
    const uint32_t from = first_seen(p, t0);
    for (uint32_t at = from / S::rows * S::rows; at <= last; at += S::rows) {
        __syncthreads();
        load_rows<DIM, S::rows>(k, p.k, at, from, last + 1, kv, p.head_dim);
        load_rows<DIM, S::rows>(v, p.v, at, from, last + 1, kv, p.head_dim);
        __syncthreads();
        float s[M][M];
        scores<DIM, M>(s, q, k);
#pragma unroll
        for (int i = 0; i < M; i++) {
            const uint32_t t = t0 + ty * M + i;
            float top = none, all = 0;
#pragma unroll
            for (int j = 0; j < M; j++) {
                const uint32_t of = at + tx + 16 * j;
                s[i][j] = of >= first[i] && of <= t ? capped(p, s[i][j]) : none;
                top = fmaxf(top, s[i][j]);
            }
            top = fmaxf(most[i], most_of_sixteen(top));
            const float by = most[i] == none ? 0 : tern_exp(most[i] - top);
#pragma unroll
            for (int j = 0; j < M; j++) {
                s[i][j] = s[i][j] == none ? 0 : tern_exp(s[i][j] - top);
                all += s[i][j];
            }
            sum[i] = sum[i] * by + sum_of_sixteen(all);
            most[i] = top;
#pragma unroll
            for (int r = 0; r < S::runs; r++) o[i][r].x *= by, o[i][r].y *= by, o[i][r].z *= by, o[i][r].w *= by;
        }
        keep<DIM, M>(weights, s);
        __syncwarp(); /* rows of a thread's warp alone */
        accumulate<DIM, M>(o, weights, v);
    }
    float by[M];
#pragma unroll
    for (int i = 0; i < M; i++) {
        const uint32_t t = t0 + ty * M + i;
        most[i] += 0.0f;
        if (p.sinks) sum[i] += tern_exp(p.sinks[h] - most[i]);
        by[i] = 1.0f / sum[i];
        if (tx || t >= n) continue;
        float *statistics = p.statistics.data + (size_t)t * p.statistics.stride;
        statistics[h] = most[i];
        statistics[p.n_heads + h] = sum[i];
    }
    store_rows<DIM, M>(p.out, o, by, t0, n, h, p.head_dim);
}

template <int DIM, int M> static size_t bytes_of(void)
{
    return sizeof(float) * (3 * Shape<DIM, M>::tile + Shape<DIM, M>::p_tile);
}

template <int DIM, int M> static cudaError_t start_varlen(const tern_cuda_varlen *p, cudaStream_t stream)
{
    const dim3 grid((p->count.most + Shape<DIM, M>::rows - 1) / Shape<DIM, M>::rows, p->n_heads);
    return start(varlen<DIM, M>, p, grid, bytes_of<DIM, M>(), stream);
}

/* What a row has seen so far: two rows of a lane. */
typedef struct seen {
    float most[2], sum[2];
    uint32_t first[2], t[2];
} seen;

/* From products to probabilities before they are divided; returns what earlier ones are multiplied with. */
template <int N>
static __device__ __forceinline__ void weigh(const tern_cuda_varlen &p, float (&s)[N][4], seen &r, uint32_t at,
                                             float (&by)[2])
{
    const float none = __uint_as_float(0xff800000u);
    float top[2] = {none, none}, all[2] = {0, 0};
#pragma unroll
    for (int k = 0; k < N; k++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const uint32_t of = at + k * 8 + lane_column() * 2 + i % 2;
            s[k][i] = of >= r.first[i / 2] && of <= r.t[i / 2] ? capped(p, s[k][i]) : none;
            top[i / 2] = fmaxf(top[i / 2], s[k][i]);
        }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        top[i] = fmaxf(r.most[i], most_of_four(top[i]));
        by[i] = r.most[i] == none ? 0 : tern_exp(r.most[i] - top[i]);
    }
#pragma unroll
    for (int k = 0; k < N; k++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            s[k][i] = s[k][i] == none ? 0 : tern_exp(s[k][i] - top[i / 2]);
            all[i / 2] += s[k][i];
        }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        r.sum[i] = r.sum[i] * by[i] + sum_of_four(all[i]);
        r.most[i] = top[i];
    }
}

template <int DIM, int OTHER>
static __global__ void __launch_bounds__(TILE_THREADS, DIM == 64 ? 4 : 1) varlen_tiles(tern_cuda_varlen p)
{
    using S = Tiles<DIM, OTHER>;
    extern __shared__ __align__(16) float memory[];
    float *q = memory, *k = q + S::own, *v = k + S::other;
    const uint32_t n = tern_rows_now(p.count), t0 = (gridDim.x - 1 - blockIdx.x) * OWN, h = blockIdx.y;
    const uint32_t kv = h / (p.n_heads / p.n_kv_heads);
    if (t0 >= n) return;
    const uint32_t last = min(t0 + OWN, n) - 1, from = first_seen(p, t0), end = t0 + warp_row() + 15;
    float o[S::columns][4] = {};
    seen r;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        r.most[i] = __uint_as_float(0xff800000u), r.sum[i] = 0;
        r.t[i] = t0 + warp_row() + lane_row() + i * 8;
        r.first[i] = first_seen(p, min(r.t[i], last));
    }
    ask_rows<DIM, OWN>(q, p.q, t0, 0, n, h, p.head_dim);
    for (uint32_t at = from / OTHER * OTHER; at <= last; at += OTHER) {
        __syncthreads();
        ask_rows<DIM, OTHER>(k, p.k, at, from, last + 1, kv, p.head_dim);
        ask_rows<DIM, OTHER>(v, p.v, at, from, last + 1, kv, p.head_dim);
        rows_wait();
        __syncthreads();
        if (at > end) continue; /* all of it comes after the warp's rows */
        float s[S::eights][4], by[2];
        scores_of<DIM, S::eights>(s, q, k);
        weigh<S::eights>(p, s, r, at, by);
#pragma unroll
        for (int c = 0; c < S::columns; c++)
#pragma unroll
            for (int i = 0; i < 4; i++) o[c][i] *= by[i / 2];
        add_product<DIM, S::eights>(o, s, v);
    }
    float by[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        r.most[i] += 0.0f;
        if (p.sinks) r.sum[i] += tern_exp(p.sinks[h] - r.most[i]);
        by[i] = 1.0f / r.sum[i];
        if (lane_column() || r.t[i] >= n) continue;
        float *statistics = p.statistics.data + (size_t)r.t[i] * p.statistics.stride;
        statistics[h] = r.most[i];
        statistics[p.n_heads + h] = r.sum[i];
    }
    store_fragments<DIM>(p.out, o, by[0], by[1], t0, n, h, p.head_dim);
}

template <int DIM, int OTHER> static cudaError_t start_tiles(const tern_cuda_varlen *p, cudaStream_t stream)
{
    using S = Tiles<DIM, OTHER>;
    const dim3 grid((p->count.most + OWN - 1) / OWN, p->n_heads);
    return start(varlen_tiles<DIM, OTHER>, p, grid, sizeof(float) * (S::own + 2 * S::other), stream, TILE_THREADS);
}

cudaError_t tern_cuda_run_varlen(const tern_cuda_varlen *p, cudaStream_t stream)
{
    if (p->head_dim <= 64) return start_tiles<64, 32>(p, stream);
    if (p->head_dim <= 128) return start_tiles<128, 32>(p, stream);
    return fits_shared(bytes_of<256, 2>()) ? start_varlen<256, 2>(p, stream) : start_varlen<256, 1>(p, stream);
}
