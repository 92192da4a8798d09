/* SAMPLE: the top_k highest logits, the cuts, the draw, and what the next step reads; the rules are those of
 * infer/sampler_cuts.c, with sums in f32. Each block finds the highest of its share of the logits, the one that ends
 * last the highest of all, and does the rest. */
#ifndef TERN_BACKEND_CUDA_WALK_SAMPLE_CUH
#define TERN_BACKEND_CUDA_WALK_SAMPLE_CUH

#include "backend/cuda/sample/sample.h"
#include "backend/cuda/walk/block.cuh"

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

/* Of what: logits, or what blocks have found among them. */
struct logits_of {
    const float *logits;
    __device__ candidate at(uint32_t id) const
    {
        return (candidate)key_of(__ldcg(logits + id)) << 32 | (uint32_t)~id;
    }
};

struct found_of {
    const candidate *found;
    __device__ candidate at(uint32_t i) const
    {
        return __ldcg(found + i);
    }
};

/* The best of this thread's share of [from, to) after `last`; 0: none. */
template <typename Of> static __device__ candidate best_after(Of of, walk_share share, candidate last)
{
    candidate best = 0;
    for (uint32_t i = share.from + threadIdx.x; i < share.to; i += WALK_THREADS) {
        const candidate c = of.at(i);
        if (c < last && c > best) best = c;
    }
    return best;
}

/* Over the block; `room` [32]. */
static __device__ candidate best_of_all(candidate mine, candidate *room)
{
#pragma unroll
    for (int k = 0; k < 5; k++) {
        const candidate other = __shfl_xor_sync(0xffffffffu, mine, 16 >> k);
        if (other > mine) mine = other;
    }
    walk_sync();
    if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = mine;
    walk_sync();
    candidate best = 0;
    for (uint32_t i = 0; i < WALK_WARPS; i++)
        if (room[i] > best) best = room[i];
    return best;
}

/* The n highest, highest first: found[n], in the memory of the block or the device; zeros where there are fewer. */
template <typename Of>
static __device__ void find_best(Of of, walk_share share, uint32_t n, candidate *room, candidate *found)
{
    candidate mine = best_after(of, share, ~(candidate)0);
    for (uint32_t i = 0; i < n; i++) {
        const candidate best = best_of_all(mine, room);
        if (threadIdx.x == 0) found[i] = best;
        if (best && mine == best && i + 1 < n) mine = best_after(of, share, best);
    }
    walk_sync();
}

struct shortlist {
    uint32_t n, ids[MOST];
    float x[MOST], w[MOST];
};

/* The weight of candidate i after the cuts; 0: it is cut. */
static __device__ float kept(const shortlist &s, const tern_cuda_sampler *c, uint32_t i)
{
    float before = 0, total = 0, most = 0;
    for (uint32_t j = 0; j < s.n; j++) {
        if (s.x[j] > s.x[i] || (s.x[j] == s.x[i] && s.ids[j] < s.ids[i])) before += s.w[j];
        total += s.w[j];
        most = fmaxf(most, s.w[j]);
    }
    const bool inside = c->top_p >= 1.0f || before <= c->top_p * total;
    return inside && s.w[i] >= c->min_p * most ? s.w[i] : 0;
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

static __device__ void finish_sample(const tern_cuda_sample &p, tern_cuda_sampler *c, uint32_t token)
{
    const uint32_t done = __ldcg(&c->n_done) + 1;
    bool ends = done >= c->n_tokens || token == NONE;
    for (uint32_t i = 0; i < c->n_ends; i++) ends = ends || c->end_ids[i] == token;
    c->n_done = done;
    p.tokens[0] = done;
    p.tokens[done] = token;
    if (token != NONE) {
        p.ids[0] = (int32_t)token;
        p.positions[0] = __ldcg(p.positions) + 1;
    }
    if (ends) p.counts[0] = p.counts[1] = 0;
}

/* The draw from the highest logits, by one block. */
static __device__ void draw(const tern_cuda_sample &p, tern_cuda_sampler *c, const candidate *found, uint32_t top_k,
                            shortlist &s, float *weights)
{
    const uint32_t local = threadIdx.x;
    if (local == 0) s.n = 0;
    walk_sync();
    const bool is_there = local < top_k && found[local];
    bool finite = walk_and(!is_there || (uint32_t)(found[local] >> 32) != NOT_FINITE);
    if (is_there) {
        s.ids[local] = ~(uint32_t)found[local];
        s.x[local] = logit_of((uint32_t)(found[local] >> 32));
        atomicAdd(&s.n, 1);
    }
    walk_sync();
    if (local < s.n) {
        const float temperature = fmaxf(c->temperature, 1e-30f);
        const float x = fmaxf(0.5f * s.x[local] - 0.5f * s.x[0], -50.0f * temperature) / (0.5f * temperature);
        s.w[local] = x < -87.3f ? 0 : tern_exp(x);
        weights[local] = x; /* until all have read s.x */
    }
    walk_sync();
    if (local < s.n) s.x[local] = weights[local];
    walk_sync();
    if (local < s.n) weights[local] = kept(s, c, local);
    walk_sync();
    if (local) return;
    const uint32_t token = top_k > 1 ? drawn(s, weights, c->draws[c->n_done]) : s.ids[0];
    finish_sample(p, c, finite ? token : NONE);
}

static __device__ __forceinline__ void walk_sample(const walker &w, const tern_cuda_sample &p)
{
    __shared__ candidate room[32], found[MOST];
    __shared__ shortlist s;
    __shared__ float weights[MOST];
    tern_cuda_sampler *c = (tern_cuda_sampler *)p.sampler;
    w.wait();
    const uint32_t top_k = min(__ldcg(&c->top_k), (uint32_t)MOST);
    if (__ldcg(p.counts + 1) == 0 || top_k == 0) return;
    find_best(logits_of{p.logits}, share_of(p.n_vocab, p.each), top_k, room, p.found + blockIdx.x * top_k);
    if (!is_last_block(w, p.done, gridDim.x)) return;
    find_best(found_of{p.found}, {0, gridDim.x * top_k}, top_k, room, found);
    draw(p, c, found, top_k, s, weights);
}

#endif
