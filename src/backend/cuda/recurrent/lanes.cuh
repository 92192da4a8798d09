/* A head's state in the registers of warps, and a row of the gated delta rule. */
#ifndef TERN_BACKEND_CUDA_RECURRENT_LANES_CUH
#define TERN_BACKEND_CUDA_RECURRENT_LANES_CUH

#include "backend/cuda/recurrent/delta.cuh"

/* A warp has COLUMNS columns of values, four a lane; SLICES lanes share four columns and have every SLICES-th four of
 * keys each. */
enum { COLUMNS = 16, QUADS = COLUMNS / 4, SLICES = 32 / QUADS };

/* Four columns of a lane's keys: number 4 i + r is of key (i * SLICES + slice) * 4 + r. */
template <int KEYS> struct lane_state {
    static constexpr int fours = KEYS / SLICES / 4;
    float4 of[fours * 4];
};

struct lane_place {
    uint32_t head, column, slice;
};

static __device__ __forceinline__ uint32_t key_of(const lane_place &l, int i)
{
    return (i / 4 * SLICES + l.slice) * 4 + i % 4;
}

template <int KEYS>
static __device__ __forceinline__ void load_state(const tern_cuda_delta &p, const lane_place &l, uint32_t state,
                                                  lane_state<KEYS> &s)
{
#pragma unroll
    for (int i = 0; i < KEYS / SLICES; i++) {
        s.of[i] = make_float4(0, 0, 0, 0);
        if (state != NO_STATE && key_of(l, i) < p.keys && l.column < p.values)
            s.of[i] = *(const float4 *)state_at(p, state, l.head, key_of(l, i), l.column);
    }
}

template <int KEYS>
static __device__ __forceinline__ void store_state(const tern_cuda_delta &p, const lane_place &l, uint32_t state,
                                                   const lane_state<KEYS> &s)
{
    if (state == NO_STATE || l.column >= p.values) return;
#pragma unroll
    for (int i = 0; i < KEYS / SLICES; i++)
        if (key_of(l, i) < p.keys) *(float4 *)state_at(p, state, l.head, key_of(l, i), l.column) = s.of[i];
}

/* Over the lanes that share columns. */
static __device__ __forceinline__ float sum_of_slices(float x)
{
#pragma unroll
    for (int step = QUADS; step < 32; step *= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}

static __device__ __forceinline__ float4 sum_of_slices(float4 x)
{
    return make_float4(sum_of_slices(x.x), sum_of_slices(x.y), sum_of_slices(x.z), sum_of_slices(x.w));
}

/* The state after row t, and what comes out of four columns: (S before)^T q + (k q) d, so that S^T k and S^T q are
 * summed at once. */
template <int KEYS, bool ALIGNED>
static __device__ __forceinline__ float4 take_row(const tern_cuda_delta &p, const lane_place &l, uint32_t t,
                                                  lane_state<KEYS> &s)
{
    const float *q = head_row(p.q, t, key_head(p, l.head), p.keys), *k = head_row(p.k, t, key_head(p, l.head), p.keys);
    const float decay = tern_exp(log_decay(p, t, l.head)), beta = beta_of(p, t, l.head);
    const float4 v = tern_four_of<ALIGNED>(head_row(p.v, t, l.head, p.values), l.column, p.values);
    float4 keys[lane_state<KEYS>::fours], to_k = make_float4(0, 0, 0, 0), to_q = to_k;
    float both = 0;
#pragma unroll
    for (int i = 0; i < lane_state<KEYS>::fours; i++) {
        const float4 queries = tern_four_of<ALIGNED>(q, key_of(l, 4 * i), p.keys);
        keys[i] = tern_four_of<ALIGNED>(k, key_of(l, 4 * i), p.keys);
        both += (keys[i].x * queries.x + keys[i].y * queries.y) + (keys[i].z * queries.z + keys[i].w * queries.w);
#pragma unroll
        for (int r = 0; r < 4; r++) {
            float4 &at = s.of[4 * i + r];
            at = scaled_by(at, decay);
            add_product(to_k, (&keys[i].x)[r], at);
            add_product(to_q, (&queries.x)[r], at);
        }
    }
    to_k = sum_of_slices(to_k);
    to_q = sum_of_slices(to_q);
    both = sum_of_slices(both);
    const float4 d =
        make_float4((v.x - to_k.x) * beta, (v.y - to_k.y) * beta, (v.z - to_k.z) * beta, (v.w - to_k.w) * beta);
#pragma unroll
    for (int i = 0; i < lane_state<KEYS>::fours; i++)
#pragma unroll
        for (int r = 0; r < 4; r++) add_product(s.of[4 * i + r], (&keys[i].x)[r], d);
    add_product(to_q, both, d);
    return to_q;
}

#endif
