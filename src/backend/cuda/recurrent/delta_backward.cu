/* VARLEN_GATED_DELTA_BACKWARD (ops/ref/recurrent/recurrent.h): a block for each head walks the rows of the step from
 * the last to the first, with the gradient of the state in registers. The states before the rows of a chunk are
 * computed again from the one that the forward kept. */
#include "backend/cuda/launch.cuh"
#include "backend/cuda/recurrent/lanes.cuh"

enum { CHUNK = TERN_CUDA_DELTA_CHUNK, MOST_WARPS = TERN_CUDA_BACKWARD_VALUES / COLUMNS, ADD_THREADS = 128 };

/* Numbers that the warps of a block add up, for two rows in turn. */
template <int KEYS> struct row_sums {
    float of[2][MOST_WARPS][2][KEYS]; /* dq, dk */
    float rates[2][MOST_WARPS][2];    /* of ln decay, of beta */
};

static __device__ __forceinline__ bool begins(const tern_cuda_delta &p, uint32_t t)
{
    return p.runs.sequences[t] == t;
}

template <int KEYS> static __device__ __forceinline__ void clear(lane_state<KEYS> &s)
{
#pragma unroll
    for (int i = 0; i < KEYS / SLICES; i++) s.of[i] = make_float4(0, 0, 0, 0);
}

/* The state before row `first`, which begins a chunk that ends before row `end`. */
template <int KEYS, bool ALIGNED>
static __device__ inline void chunk_state(const tern_cuda_delta &p, const lane_place &l, uint32_t first, uint32_t n,
                                          lane_state<KEYS> &s)
{
    const uint32_t kept = state_kept(p, first, n);
    clear(s);
    if (kept != NO_STATE) load_state(p, l, kept, s);
    if (kept != NO_STATE || first == 0) return;
    load_state(p, l, first / CHUNK - 1, s);
    for (uint32_t t = first - CHUNK; t < first; t++) {
        if (begins(p, t)) clear(s);
        take_row<KEYS, ALIGNED>(p, l, t, s);
    }
}

/* Over the lanes that have the columns of a key. */
static __device__ __forceinline__ float sum_of_quads(float x)
{
#pragma unroll
    for (int step = 1; step < QUADS; step *= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}

static __device__ __forceinline__ float sum_of(float4 x)
{
    return (x.x + x.y) + (x.z + x.w);
}

static __device__ __forceinline__ float4 product_of(float4 a, float4 b)
{
    return make_float4(a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w);
}

/* The lane's part of a row, in the names of the definition: u is in `s`, and the gradient of the state before the row
 * comes out. */
template <int KEYS, bool ALIGNED>
static __device__ inline void row_backward(const tern_cuda_delta_backward &of, const lane_place &l, uint32_t t,
                                           lane_state<KEYS> &s, lane_state<KEYS> &ds, row_sums<KEYS> &sums)
{
    const tern_cuda_delta &p = of.forward;
    const uint32_t warp = threadIdx.x / 32, turn = t % 2, key = key_head(p, l.head);
    const float *q = head_row(p.q, t, key, p.keys), *k = head_row(p.k, t, key, p.keys);
    const float decay = tern_exp(log_decay(p, t, l.head)), beta = beta_of(p, t, l.head);
    const float4 v = tern_four_of<ALIGNED>(head_row(p.v, t, l.head, p.values), l.column, p.values);
    const float4 dy = tern_four_of<ALIGNED>(head_row(p.out, t, l.head, p.values), l.column, p.values);
    float4 m = make_float4(0, 0, 0, 0), e = m, x = m;
#pragma unroll
    for (int i = 0; i < lane_state<KEYS>::fours; i++) {
        const float4 queries = tern_four_of<ALIGNED>(q, key_of(l, 4 * i), p.keys),
                     keys = tern_four_of<ALIGNED>(k, key_of(l, 4 * i), p.keys);
#pragma unroll
        for (int r = 0; r < 4; r++) {
            float4 &u = s.of[4 * i + r], &dn = ds.of[4 * i + r];
            u = scaled_by(u, decay);
            add_product(dn, (&queries.x)[r], dy);
            add_product(m, (&keys.x)[r], u);
            add_product(e, (&keys.x)[r], dn);
            const float4 both = product_of(dn, u);
            x = make_float4(x.x + both.x, x.y + both.y, x.z + both.z, x.w + both.w);
        }
    }
    m = sum_of_slices(m);
    e = sum_of_slices(e);
    x = sum_of_slices(x);
    const float4 rest = make_float4(v.x - m.x, v.y - m.y, v.z - m.z, v.w - m.w), d = scaled_by(rest, beta),
                 dv = scaled_by(e, beta), w = scaled_by(dv, -1.0f);
    const float dlog = sum_of_quads(sum_of(product_of(w, m)) + sum_of(x)),
                dbeta = sum_of_quads(sum_of(product_of(e, rest)));
#pragma unroll
    for (int i = 0; i < lane_state<KEYS>::fours; i++) {
        const float4 keys = tern_four_of<ALIGNED>(k, key_of(l, 4 * i), p.keys);
#pragma unroll
        for (int r = 0; r < 4; r++) {
            const float4 u = s.of[4 * i + r];
            float4 &dn = ds.of[4 * i + r], next = u;
            add_product(next, (&keys.x)[r], d);
            const float to_q = sum_of_quads(sum_of(product_of(next, dy))),
                        to_k = sum_of_quads(sum_of(product_of(dn, d)) + sum_of(product_of(u, w)));
            add_product(dn, (&keys.x)[r], w);
            dn = scaled_by(dn, decay);
            if (threadIdx.x % QUADS) continue;
            sums.of[turn][warp][0][key_of(l, 4 * i + r)] = to_q;
            sums.of[turn][warp][1][key_of(l, 4 * i + r)] = to_k;
        }
    }
    if (threadIdx.x % 32 == 0) sums.rates[turn][warp][0] = dlog, sums.rates[turn][warp][1] = dbeta;
    if (l.slice == 0 && l.column < p.values)
        put_four<false>(of.dv.data + (size_t)t * of.dv.stride + l.head * p.values + l.column, dv);
}

/* Once all warps have theirs, in order. */
template <int KEYS>
static __device__ inline void finish_row(const tern_cuda_delta_backward &of, uint32_t head, uint32_t t,
                                         const row_sums<KEYS> &sums, float &ddecay, float &ddt)
{
    const tern_cuda_delta &p = of.forward;
    const uint32_t warps = blockDim.x / 32, turn = t % 2;
    for (uint32_t i = threadIdx.x; i < 2 * p.keys; i += blockDim.x) {
        const uint32_t which = i / p.keys, key = i % p.keys;
        float sum = 0;
        for (uint32_t warp = 0; warp < warps; warp++) sum += sums.of[turn][warp][which][key];
        of.parts[((size_t)t * p.n_heads + head) * 2 * p.keys + i] = sum;
    }
    if (threadIdx.x) return;
    float dlog = 0, dbeta = 0;
    for (uint32_t warp = 0; warp < warps; warp++) dlog += sums.rates[turn][warp][0], dbeta += sums.rates[turn][warp][1];
    const float x = p.a.data[(size_t)t * p.a.stride + head] + p.dt[head], beta = beta_of(p, t, head);
    const float da = dlog * rate_of(p, head) * sigmoid_of(x);
    of.da.data[(size_t)t * of.da.stride + head] = da;
    of.db.data[(size_t)t * of.db.stride + head] = dbeta * (beta * (1.0f - beta));
    ddecay += dlog * softplus_of(x);
    ddt += da;
}

template <int KEYS, bool ALIGNED>
static __global__ void __launch_bounds__(MOST_WARPS * 32)
    delta_backward(const __grid_constant__ tern_cuda_delta_backward of)
{
    __shared__ row_sums<KEYS> sums;
    const tern_cuda_delta &p = of.forward;
    const uint32_t lane = threadIdx.x % 32, n = tern_rows_now(p.count);
    const lane_place l = {blockIdx.x, threadIdx.x / 32 * COLUMNS + lane % QUADS * 4, lane / QUADS};
    /* number i of row r of the chunk: a lane reads what it wrote */
    float4 *states = (float4 *)(of.states + l.head * of.states_each) + threadIdx.x;
    lane_state<KEYS> s, ds;
    float ddecay = 0, ddt = 0;
    clear(ds);
    for (uint32_t end = n; end > 0;) {
        const uint32_t first = (end - 1) / CHUNK * CHUNK;
        chunk_state<KEYS, ALIGNED>(p, l, first, n, s);
        for (uint32_t t = first; t < end; t++) {
            if (begins(p, t)) clear(s);
#pragma unroll
            for (int i = 0; i < KEYS / SLICES; i++) states[((t - first) * (KEYS / SLICES) + i) * blockDim.x] = s.of[i];
            if (t + 1 < end) take_row<KEYS, ALIGNED>(p, l, t, s);
        }
        for (uint32_t t = end; t-- > first;) {
            if (t + 1 == n || begins(p, t + 1)) clear(ds);
#pragma unroll
            for (int i = 0; i < KEYS / SLICES; i++) s.of[i] = states[((t - first) * (KEYS / SLICES) + i) * blockDim.x];
            row_backward<KEYS, ALIGNED>(of, l, t, s, ds, sums);
            __syncthreads();
            finish_row(of, l.head, t, sums, ddecay, ddt);
        }
        end = first;
    }
    if (threadIdx.x) return;
    if (of.ddecay) of.ddecay[l.head] += ddecay * (p.log_decay ? rate_of(p, l.head) : 1.0f);
    if (of.ddt) of.ddt[l.head] += ddt;
}

/* dq and dk: the heads that share a head of keys, in order. */
static __global__ void __launch_bounds__(ADD_THREADS) add_heads(const __grid_constant__ tern_cuda_delta_backward of)
{
    const tern_cuda_delta &p = of.forward;
    const uint32_t t = blockIdx.x, key = blockIdx.y;
    if (t >= tern_rows_now(p.count)) return;
    for (uint32_t i = threadIdx.x; i < 2 * p.keys; i += ADD_THREADS) {
        const tern_cuda_rows to = i < p.keys ? of.dq : of.dk;
        float sum = 0;
        for (uint32_t head = 0; head < p.n_heads; head++)
            if (key_head(p, head) == key) sum += of.parts[((size_t)t * p.n_heads + head) * 2 * p.keys + i];
        to.data[(size_t)t * to.stride + key * p.keys + i % p.keys] = sum;
    }
}

template <int KEYS, bool ALIGNED> static cudaError_t start(const tern_cuda_delta_backward *p, cudaStream_t stream)
{
    const uint32_t warps = (p->forward.values + COLUMNS - 1) / COLUMNS;
    const cudaError_t e =
        tern_launch_together(delta_backward<KEYS, ALIGNED>, p->forward.n_heads, warps * 32, 0, stream, false, 1, *p);
    if (e != cudaSuccess) return e;
    return tern_launch_together(add_heads, dim3(p->forward.count.most, p->forward.n_key_heads), ADD_THREADS, 0, stream,
                                false, 1, *p);
}

cudaError_t tern_cuda_run_delta_backward(const tern_cuda_delta_backward *p, cudaStream_t stream)
{
    const bool aligned = has_aligned_heads(&p->forward);
    switch (tern_cuda_lane_keys(p->forward.keys)) {
    case 64: return aligned ? start<64, true>(p, stream) : start<64, false>(p, stream);
    case 128: return aligned ? start<128, true>(p, stream) : start<128, false>(p, stream);
    default: return start<TERN_CUDA_DELTA_KEYS, false>(p, stream); /* more than registers hold: no model has them */
    }
}
