/* SAMPLE of one token, and what the next step reads. Each block finds the highest of its share of the logits, the one
 * that ends last the highest of all, and does the rest. */
#ifndef TERN_BACKEND_CUDA_WALK_SAMPLE_CUH
#define TERN_BACKEND_CUDA_WALK_SAMPLE_CUH

#include "backend/cuda/sample/choose.cuh"
#include "backend/cuda/walk/block.cuh"

struct walk_threads {
    static constexpr uint32_t threads = WALK_THREADS;
    static __device__ void sync()
    {
        walk_sync();
    }
    static __device__ bool all(bool x)
    {
        return walk_and(x);
    }
};

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

static __device__ __forceinline__ void walk_sample(const walker &w, const tern_cuda_sample &p)
{
    __shared__ candidate room[32], found[MOST];
    __shared__ shortlist s;
    __shared__ float weights[MOST];
    tern_cuda_sampler *c = (tern_cuda_sampler *)p.sampler;
    w.wait();
    const uint32_t top_k = min(__ldcg(&c->top_k), (uint32_t)MOST);
    if (__ldcg(p.counts + 1) == 0 || top_k == 0) return;
    const walk_share mine = share_of(p.n_vocab, p.each);
    find_best<walk_threads>(logits_of{p.logits, p.screened}, {mine.from, mine.to}, top_k, room, p.found + blockIdx.x * top_k);
    if (!is_last_block(w, p.done, gridDim.x)) return;
    find_best<walk_threads>(found_of{p.found}, {0, gridDim.x * top_k}, top_k, room, found);
    const cuts cut = {c->temperature, c->top_p, c->min_p, c->draws[c->n_done]};
    const uint32_t token = token_of<walk_threads>(cut, found, top_k, s, weights);
    if (threadIdx.x == 0) finish_sample(p, c, token);
}

#endif
