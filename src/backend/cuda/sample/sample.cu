/* SAMPLE: the top_k highest logits, the cuts, the draw, and what the next step reads; the rules are those of
 * infer/sampler_cuts.c, with sums in f32. One block. */
#include "backend/cuda/device.cuh"
#include "backend/cuda/sample/sample.h"

enum { THREADS = 1024, MOST = TERN_CUDA_MAX_TOP_K };
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

static __device__ candidate candidate_of(const float *logits, uint32_t id)
{
    return (candidate)key_of(logits[id]) << 32 | (uint32_t)~id;
}

/* The best of this thread's logits after `last`; 0: none. */
static __device__ candidate best_after(const tern_cuda_sample &p, candidate last)
{
    candidate best = 0;
    for (uint32_t id = threadIdx.x; id < p.n_vocab; id += THREADS) {
        const candidate c = candidate_of(p.logits, id);
        if (c < last && c > best) best = c;
    }
    return best;
}

/* Over the block; `room` [32]. */
static __device__ candidate best_of_all(candidate mine, candidate *room)
{
    for (int k = 16; k; k >>= 1) {
        const candidate other = __shfl_xor_sync(0xffffffffu, mine, k);
        if (other > mine) mine = other;
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = mine;
    __syncthreads();
    candidate best = 0;
    for (uint32_t i = 0; i < THREADS / 32; i++)
        if (room[i] > best) best = room[i];
    return best;
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

static __device__ void finish(const tern_cuda_sample &p, tern_cuda_sampler *c, uint32_t token)
{
    const uint32_t done = c->n_done + 1;
    bool ends = done >= c->n_tokens || token == NONE;
    for (uint32_t i = 0; i < c->n_ends; i++) ends = ends || c->end_ids[i] == token;
    c->n_done = done;
    p.tokens[0] = done;
    p.tokens[done] = token;
    if (token != NONE) {
        p.ids[0] = (int32_t)token;
        p.positions[0]++;
    }
    if (ends) p.counts[0] = p.counts[1] = 0;
}

static __global__ void __launch_bounds__(THREADS) sample(tern_cuda_sample p)
{
    __shared__ candidate room[32];
    __shared__ shortlist s;
    __shared__ float weights[MOST];
    tern_cuda_sampler *c = (tern_cuda_sampler *)p.sampler;
    const uint32_t top_k = min(c->top_k, (uint32_t)MOST), local = threadIdx.x;
    if (p.counts[1] == 0 || top_k == 0) return;
    bool finite = true;
    candidate mine = best_after(p, ~(candidate)0);
    if (local == 0) s.n = 0;
    for (uint32_t i = 0; i < top_k; i++) {
        const candidate best = best_of_all(mine, room);
        if (best == 0) break;
        finite = finite && (uint32_t)(best >> 32) != NOT_FINITE;
        if (local == 0) {
            s.ids[i] = ~(uint32_t)best;
            s.x[i] = logit_of((uint32_t)(best >> 32));
            s.n = i + 1;
        }
        if (mine == best && i + 1 < top_k) mine = best_after(p, best);
    }
    __syncthreads();
    if (local < s.n) {
        const float temperature = fmaxf(c->temperature, 1e-30f);
        const float x = fmaxf(0.5f * s.x[local] - 0.5f * s.x[0], -50.0f * temperature) / (0.5f * temperature);
        s.w[local] = x < -87.3f ? 0 : tern_exp(x);
        weights[local] = x; /* until all have read s.x */
    }
    __syncthreads();
    if (local < s.n) s.x[local] = weights[local];
    __syncthreads();
    if (local < s.n) weights[local] = kept(s, c, local);
    __syncthreads();
    if (local) return;
    const uint32_t token = top_k > 1 ? drawn(s, weights, c->draws[c->n_done]) : s.ids[0];
    finish(p, c, finite ? token : NONE);
}

cudaError_t tern_cuda_run_sample(const tern_cuda_sample *p, cudaStream_t stream)
{
    sample<<<1, THREADS, 0, stream>>>(*p);
    return cudaGetLastError();
}
