/* SPLIT and its backward: the two halves of each head. */
#include "backend/cuda/launch.cuh"
#include "backend/cuda/recurrent/run.cuh"

enum { THREADS = 256 };

template <bool BACK> static __global__ void split(tern_cuda_split p)
{
    const uint32_t t = blockIdx.y, c = blockIdx.x * THREADS + threadIdx.x;
    tern_follow();
    if (t >= tern_rows_now(p.count) || c >= p.cols) return;
    float *whole = p.whole.data + (size_t)t * p.whole.stride + c + c / p.head_dim * p.head_dim;
    float *first = p.first.data + (size_t)t * p.first.stride + c;
    float *second = p.second.data + (size_t)t * p.second.stride + c;
    if (BACK) {
        whole[0] = *first;
        whole[p.head_dim] = *second;
    } else {
        *first = whole[0];
        *second = whole[p.head_dim];
    }
}

template <bool BACK> static cudaError_t run(const tern_cuda_split *p, cudaStream_t stream)
{
    return tern_launch(split<BACK>, dim3((p->cols + THREADS - 1) / THREADS, p->count.most), THREADS, 0, stream, *p);
}

cudaError_t tern_cuda_run_split(const tern_cuda_split *p, cudaStream_t stream)
{
    return run<false>(p, stream);
}

cudaError_t tern_cuda_run_split_backward(const tern_cuda_split *p, cudaStream_t stream)
{
    return run<true>(p, stream);
}
