/* ROPE, KV_WRITE and ROPE_KV: a warp for each head of a token. */
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

cudaError_t tern_cuda_run_rope(const tern_cuda_rope *p, cudaStream_t stream)
{
    const uint32_t n_kv = p->n_kv_heads;
    const uint32_t heads = (p->q.data ? p->n_heads : 0) + (p->k.data ? n_kv : 0) + (p->v.data ? n_kv : 0);
    return tern_launch(rope, dim3((heads + WARPS - 1) / WARPS, p->count.most), WARPS * 32, 0, stream, *p);
}
