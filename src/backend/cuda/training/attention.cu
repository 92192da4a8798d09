/* VARLEN_ATTENTION: causal attention of packed rows, with an online softmax. */
#include "backend/cuda/training/attention.cuh"

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
    load_rows<DIM, M>(q, p.q, t0, 0, n, h, p.head_dim);
    const uint32_t from = first_seen(p, t0);
    for (uint32_t at = from / S::rows * S::rows; at <= last; at += S::rows) {
        __syncthreads();
        load_rows<DIM, M>(k, p.k, at, from, last + 1, kv, p.head_dim);
        load_rows<DIM, M>(v, p.v, at, from, last + 1, kv, p.head_dim);
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
            for (int r = 0; r < S::runs; r++)
                o[i][r].x *= by, o[i][r].y *= by, o[i][r].z *= by, o[i][r].w *= by;
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

cudaError_t tern_cuda_run_varlen(const tern_cuda_varlen *p, cudaStream_t stream)
{
    if (p->head_dim <= 64) return start_varlen<64, 4>(p, stream);
    if (p->head_dim <= 128 && fits_shared(bytes_of<128, 4>())) return start_varlen<128, 4>(p, stream);
    if (p->head_dim <= 128) return start_varlen<128, 2>(p, stream);
    return fits_shared(bytes_of<256, 2>()) ? start_varlen<256, 2>(p, stream) : start_varlen<256, 1>(p, stream);
}
