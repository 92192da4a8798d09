/* SAMPLE of each row of logits: slices of a row give their highest, then a block for each row draws from those. */
#include "backend/cuda/launch.cuh"
#include "backend/cuda/sample/choose.cuh"

struct block_threads {
    static constexpr uint32_t threads = 256;
    static __device__ void sync()
    {
        __syncthreads();
    }
    static __device__ bool all(bool x)
    {
        return __syncthreads_and(x);
    }
};

static __global__ void __launch_bounds__(block_threads::threads) find_in_slice(tern_cuda_sample_rows p)
{
    __shared__ candidate room[32];
    tern_follow();
    const uint32_t row = blockIdx.y, each = (p.n_vocab + gridDim.x - 1) / gridDim.x, from = blockIdx.x * each;
    const uint32_t top_k = row < tern_rows_now(p.count) ? min(p.samplers[row].top_k, (uint32_t)MOST) : 0;
    if (top_k == 0) return;
    candidate *found = p.found + ((size_t)row * gridDim.x + blockIdx.x) * MOST;
    const id_range range = {min(from, p.n_vocab), min(from + each, p.n_vocab)};
    find_best<block_threads>(logits_of{p.logits.data + (size_t)row * p.logits.stride, p.screened}, range, top_k, room, found);
}

static __global__ void __launch_bounds__(block_threads::threads) choose(tern_cuda_sample_rows p)
{
    __shared__ candidate room[32], found[MOST];
    __shared__ shortlist s;
    __shared__ float weights[MOST];
    const uint32_t row = blockIdx.x;
    tern_follow();
    if (row >= tern_rows_now(p.count)) return;
    const tern_cuda_row_sampler c = p.samplers[row];
    const uint32_t top_k = min(c.top_k, (uint32_t)MOST);
    if (top_k == 0) return;
    const found_in_slices of = {p.found + (size_t)row * p.slices * MOST, top_k};
    find_best<block_threads>(of, {0, p.slices * top_k}, top_k, room, found);
    const cuts cut = {c.temperature, c.top_p, c.min_p, c.draw};
    const uint32_t token = token_of<block_threads>(cut, found, top_k, s, weights);
    if (threadIdx.x == 0) p.tokens[row] = token;
}

cudaError_t tern_cuda_run_sample_rows(const tern_cuda_sample_rows *p, cudaStream_t stream)
{
    const cudaError_t e =
        tern_launch(find_in_slice, dim3(p->slices, p->count.most), block_threads::threads, 0, stream, *p);
    return e ? e : tern_launch(choose, p->count.most, block_threads::threads, 0, stream, *p);
}
