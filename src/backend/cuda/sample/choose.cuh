/* SAMPLE: the top_k highest logits, the cuts and the draw; the rules are those of infer/sample/cuts.c, with sums in
 * f32. `B` is the threads that do it together: how many, their barrier, and whether something is so for all. */
#ifndef TERN_BACKEND_CUDA_SAMPLE_CHOOSE_CUH
#define TERN_BACKEND_CUDA_SAMPLE_CHOOSE_CUH

#include "backend/cuda/device.cuh"
#include "backend/cuda/sample/sample.h"

enum { MOST = TERN_CUDA_MAX_TOP_K };
#define NONE       0xffffffffu
#define NOT_FINITE 0xfffffffeu

/* Higher logits first, then lower ids: the key in the upper half, the id's complement in the lower. */
typedef unsigned long long candidate;

static __device__ uint32_t key_of(float logit)
{
    const uint32_t bits = __float_as_uint(logit), size = bits & 0x7fffffffu;
    if (size >= 0x7f800000u) return NOT_FINITE;
    if (size == 0) return 0x80000000u;
    return bits >= 0x80000000u ? ~bits : bits | 0x80000000u;
}

static __device__ float logit_of(uint32_t key)
{
    return __uint_as_float(key >= 0x80000000u ? key & 0x7fffffffu : ~key);
}

/* The source of the numbers: logits, or the ones that blocks have found among them. */
struct logits_of {
    const float *logits;
    bool screened;
    __device__ candidate at(uint32_t id) const
    {
        const float logit = __ldcg(logits + id);
        if (screened && __float_as_uint(logit) == 0xff800000u) return 0;
        return (candidate)key_of(logit) << 32 | (uint32_t)~id;
    }
};

/* The first `each` of MOST of each slice. */
struct found_in_slices {
    const candidate *found;
    uint32_t each;
    __device__ candidate at(uint32_t i) const
    {
        return __ldcg(found + (size_t)(i / each) * MOST + i % each);
    }
};

struct found_of {
    const candidate *found;
    __device__ candidate at(uint32_t i) const
    {
        return __ldcg(found + i);
    }
};

struct id_range {
    uint32_t from, to;
};

/* The best of this thread's share of a range after `last`; 0: none. */
template <typename B, typename Of> static __device__ candidate best_after(Of of, id_range range, candidate last)
{
    candidate best = 0;
    for (uint32_t i = range.from + threadIdx.x; i < range.to; i += B::threads) {
        const candidate c = of.at(i);
        if (c < last && c > best) best = c;
    }
    return best;
}

/* Over all threads; `room` [32]. */
template <typename B> static __device__ candidate best_of_all(candidate mine, candidate *room)
{
#pragma unroll
    for (int k = 0; k < 5; k++) {
        const candidate other = __shfl_xor_sync(0xffffffffu, mine, 16 >> k);
        if (other > mine) mine = other;
    }
    B::sync();
    if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = mine;
    B::sync();
    candidate best = 0;
    for (uint32_t i = 0; i < B::threads / 32; i++)
        if (room[i] > best) best = room[i];
    return best;
}

/* The n highest, highest first: found[n], in the memory of the block or the device; zeros where there are fewer. */
template <typename B, typename Of>
static __device__ void find_best(Of of, id_range range, uint32_t n, candidate *room, candidate *found)
{
    candidate mine = best_after<B>(of, range, ~(candidate)0);
    for (uint32_t i = 0; i < n; i++) {
        const candidate best = best_of_all<B>(mine, room);
        if (threadIdx.x == 0) found[i] = best;
        if (best && mine == best && i + 1 < n) mine = best_after<B>(of, range, best);
    }
    B::sync();
}

/* The cuts, and the number that is drawn with. */
struct cuts {
    float temperature, top_p, min_p, draw;
};

struct shortlist {
    uint32_t n, ids[MOST];
    float x[MOST], w[MOST];
};

/* The weight of candidate i after the cuts; 0: it is cut. */
static __device__ float kept(const shortlist &s, const cuts &c, uint32_t i)
{
    float before = 0, total = 0, most = 0;
    for (uint32_t j = 0; j < s.n; j++) {
        if (s.x[j] > s.x[i] || (s.x[j] == s.x[i] && s.ids[j] < s.ids[i])) before += s.w[j];
        total += s.w[j];
        most = fmaxf(most, s.w[j]);
    }
    const bool inside = c.top_p >= 1.0f || before <= c.top_p * total;
    return inside && s.w[i] >= c.min_p * most ? s.w[i] : 0;
}

static __device__ uint32_t drawn(const shortlist &s, const float *weights, float u)
{
    float total = 0;
    uint32_t first = NONE, last = 0;
    for (uint32_t j = 0; j < s.n; j++) total += weights[j];
    for (uint32_t i = 0; i < s.n; i++) {
        float upto = 0;
        if (weights[i] <= 0) continue;
        for (uint32_t j = 0; j < s.n; j++) upto += s.ids[j] <= s.ids[i] ? weights[j] : 0;
        last = max(last, s.ids[i]);
        if (upto > u * total) first = min(first, s.ids[i]);
    }
    return first != NONE ? first : last;
}

/* What is drawn from the highest logits, NONE where one is not finite; in thread 0. `weights` [MOST]. */
template <typename B>
static __device__ uint32_t token_of(const cuts &c, const candidate *found, uint32_t top_k, shortlist &s, float *weights)
{
    const uint32_t local = threadIdx.x;
    if (local == 0) s.n = 0;
    B::sync();
    const bool is_there = local < top_k && found[local];
    const bool finite = B::all(!is_there || (uint32_t)(found[local] >> 32) != NOT_FINITE);
    if (is_there) {
        s.ids[local] = ~(uint32_t)found[local];
        s.x[local] = logit_of((uint32_t)(found[local] >> 32));
        atomicAdd(&s.n, 1);
    }
    B::sync();
    if (local < s.n) {
        const float temperature = fmaxf(c.temperature, 1e-30f);
        const float x = fmaxf(0.5f * s.x[local] - 0.5f * s.x[0], -50.0f * temperature) / (0.5f * temperature);
        s.w[local] = x < -87.3f ? 0 : tern_exp(x);
        weights[local] = x; /* until all have read s.x */
    }
    B::sync();
    if (local < s.n) s.x[local] = weights[local];
    B::sync();
    if (local < s.n) weights[local] = kept(s, c, local);
    B::sync();
    if (local || !finite) return NONE;
    return top_k > 1 ? drawn(s, weights, c.draw) : s.ids[0];
}

#endif
