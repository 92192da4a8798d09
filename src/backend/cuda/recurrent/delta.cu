/* GATED_DELTA row by row: the state of a head stays in registers along a run. */
#include "backend/cuda/launch.cuh"
#include "backend/cuda/recurrent/lanes.cuh"

template <int KEYS, bool ALIGNED> static __global__ void __launch_bounds__(32) delta_rows(tern_cuda_delta p)
{
    const uint32_t quad = threadIdx.x % QUADS;
    const lane_place l = {blockIdx.y, blockIdx.x * COLUMNS + quad * 4, threadIdx.x / QUADS};
    tern_follow();
    const uint32_t n = tern_rows_now(p.count), first = first_of_run(p.runs, blockIdx.z, n, p.count.most);
    if (first == NO_ROW || is_chunked(p, first, n)) return;
    const uint32_t sequence = p.runs.sequences[first];
    lane_state<KEYS> s;
    load_state(p, l, state_before(p.runs, first), s);
    for (uint32_t t = first; is_of(p.runs, t, n, sequence); t++) {
        store_state(p, l, state_kept(p, t, n), s);
        const float4 y = take_row<KEYS, ALIGNED>(p, l, t, s);
        float *out = p.out.data + (size_t)t * p.out.stride + (size_t)l.head * p.values + l.column;
        if (l.slice == 0 && l.column < p.values) put_four<ALIGNED>(out, y);
        store_state(p, l, state_after(p.runs, t), s);
    }
}

template <int KEYS> static cudaError_t start(const tern_cuda_delta *p, cudaStream_t stream)
{
    const dim3 grid((p->values + COLUMNS - 1) / COLUMNS, p->n_heads, runs_at_most(p->runs, p->count.most));
    if (has_aligned_heads(p)) return tern_launch(delta_rows<KEYS, true>, grid, 32, 0, stream, *p);
    return tern_launch(delta_rows<KEYS, false>, grid, 32, 0, stream, *p);
}

static cudaError_t run_rows(const tern_cuda_delta *p, cudaStream_t stream)
{
    if (p->keys <= 32) return start<32>(p, stream);
    if (p->keys <= 64) return start<64>(p, stream);
    if (p->keys <= 128) return start<128>(p, stream);
    return start<TERN_CUDA_DELTA_KEYS>(p, stream);
}

cudaError_t tern_cuda_run_delta(const tern_cuda_delta *p, cudaStream_t stream)
{
    const cudaError_t e = p->chunked ? run_rows(p, stream) : cudaSuccess;
    if (e != cudaSuccess || p->chunked == UINT32_MAX) return e;
    return tern_delta_chunks(p, stream);
}
