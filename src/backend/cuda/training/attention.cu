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

template <typename T, int DIM, int OTHER>
static __global__ void __launch_bounds__(TILE_THREADS, DIM == 64 ? 4 : 1) varlen_tiles(tern_cuda_varlen p)
{
    using S = Tiles<T, DIM, OTHER>;
    extern __shared__ __align__(16) float memory[];
    T *q = (T *)memory, *others = q + S::own;
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
    const Sources<T> rows(p);
    const auto ask = [&](uint32_t at) {
        T *to = others + at / OTHER % S::buffers * 2 * S::other;
        ask_rows<DIM, OTHER>(to, rows.k, at, from, last + 1, kv, p.head_dim);
        ask_rows<DIM, OTHER>(to + S::other, rows.v, at, from, last + 1, kv, p.head_dim);
    };
    ask_rows<DIM, OWN>(q, rows.q, t0, 0, n, h, p.head_dim);
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

template <typename T, int DIM, int OTHER> static cudaError_t start_tiles(const tern_cuda_varlen *p, cudaStream_t stream)
{
    using S = Tiles<T, DIM, OTHER>;
    const dim3 grid((p->count.most + OWN - 1) / OWN, p->n_heads);
    return start(varlen_tiles<T, DIM, OTHER>, p, grid, sizeof(T) * (S::own + S::buffers * 2 * S::other), stream,
                 TILE_THREADS);
}

/* Rows of heads to bf16, each head padded with zeros to DIM numbers. */
template <int DIM>
static __global__ void __launch_bounds__(THREADS)
    round_heads(tern_cuda_count count, tern_cuda_rows from, uint32_t n_heads, uint32_t head_dim, uint16_t *to)
{
    const uint32_t unit = blockIdx.x * THREADS + threadIdx.x, d = unit % (DIM / 8) * 8, h = unit / (DIM / 8) % n_heads;
    const uint32_t t = unit / (DIM / 8) / n_heads;
    if (t >= tern_rows_now(count)) return;
    const float *at = from.data + (size_t)t * from.stride + (size_t)h * head_dim + d;
    __align__(16) float x[8];
    if (head_dim % 8 == 0 && from.stride % 4 == 0 && ((size_t)from.data & 15) == 0 && d < head_dim) {
        *(float4 *)x = *(const float4 *)at;
        *(float4 *)(x + 4) = *(const float4 *)(at + 4);
    } else {
#pragma unroll
        for (uint32_t i = 0; i < 8; i++) x[i] = d + i < head_dim ? at[i] : 0;
    }
    *(uint4 *)(to + (size_t)unit * 8) =
        make_uint4(pair_of(x[0], x[1]), pair_of(x[2], x[3]), pair_of(x[4], x[5]), pair_of(x[6], x[7]));
}

static void round_rows(const tern_cuda_varlen *p, tern_cuda_rows from, uint32_t n_heads, uint16_t *to,
                       cudaStream_t stream)
{
    const uint32_t dim = p->head_dim <= 64 ? 64 : 128, units = p->count.most * n_heads * (dim / 8);
    const uint32_t blocks = (units + THREADS - 1) / THREADS;
    if (dim == 64) round_heads<64><<<blocks, THREADS, 0, stream>>>(p->count, from, n_heads, p->head_dim, to);
    else round_heads<128><<<blocks, THREADS, 0, stream>>>(p->count, from, n_heads, p->head_dim, to);
}

void tern_cuda_round_attention(const tern_cuda_varlen *p, cudaStream_t stream)
{
    round_rows(p, p->q, p->n_heads, p->q16, stream);
    round_rows(p, p->k, p->n_kv_heads, p->k16, stream);
    round_rows(p, p->v, p->n_kv_heads, p->v16, stream);
    if (p->dout16) round_rows(p, p->dout, p->n_heads, p->dout16, stream);
}

/* Bytes of rows of so many heads, rounded. */
static size_t rounded_rows(uint32_t most, uint32_t n_heads, uint32_t head_dim)
{
    return tern_cuda_rounded((size_t)most * n_heads * (head_dim <= 64 ? 64 : 128) * sizeof(uint16_t));
}

size_t tern_cuda_varlen_rounded_bytes(uint32_t most, uint32_t n_heads, uint32_t n_kv_heads, uint32_t head_dim,
                                      bool backward)
{
    const size_t of_heads = rounded_rows(most, n_heads, head_dim), kv = 2 * rounded_rows(most, n_kv_heads, head_dim);
    return kv + (backward ? 2 * of_heads + (size_t)most * n_heads * sizeof(float4) : of_heads);
}

void tern_cuda_varlen_place_rounded(tern_cuda_varlen *p, uint8_t *scratch, bool backward)
{
    const size_t of_heads = rounded_rows(p->count.most, p->n_heads, p->head_dim);
    const size_t kv = rounded_rows(p->count.most, p->n_kv_heads, p->head_dim);
    p->k16 = (uint16_t *)scratch;
    p->v16 = (uint16_t *)(scratch + kv);
    p->q16 = (uint16_t *)(scratch + 2 * kv);
    p->dout16 = backward ? (uint16_t *)(scratch + 2 * kv + of_heads) : NULL;
    p->queries = backward ? (float4 *)(scratch + 2 * kv + 2 * of_heads) : NULL;
}

cudaError_t tern_cuda_run_varlen(const tern_cuda_varlen *p, cudaStream_t stream)
{
    if (p->bf16) tern_cuda_round_attention(p, stream);
    if (p->bf16 && p->head_dim <= 64) return start_tiles<__nv_bfloat16, 64, 64>(p, stream);
    if (p->bf16) return start_tiles<__nv_bfloat16, 128, 64>(p, stream);
    if (p->head_dim <= 64) return start_tiles<float, 64, 32>(p, stream);
    if (p->head_dim <= TERN_CUDA_TILE_DIM) return start_tiles<float, 128, 32>(p, stream);
    return fits_shared(bytes_of<256, 2>()) ? start_varlen<256, 2>(p, stream) : start_varlen<256, 1>(p, stream);
}
