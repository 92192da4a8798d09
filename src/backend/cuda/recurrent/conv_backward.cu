/* VARLEN_CONV_BACKWARD: gradients of the inputs and of the weight. */
#include "backend/cuda/recurrent/conv.cuh"

/* A thread has a channel of ROWS rows; the rows after them that their inputs reach are computed again. */
static __device__ __forceinline__ float slope_of(const channel &w, const tern_cuda_conv &p, uint32_t t, uint32_t c)
{
    float s = 0;
#pragma unroll
    for (int k = 0; k < TAPS; k++)
        if (is_tap(p, k)) s = __fmaf_rn(w.weight[k], w.inputs[k], s);
    const float g = 1.0f / (1.0f + tern_exp(-s));
    return p.out.data[(size_t)t * p.out.stride + c] * (g * (1.0f + s * (1.0f - g)));
}

static __global__ void __launch_bounds__(THREADS) conv_backward(tern_cuda_conv_backward of)
{
    const tern_cuda_conv &p = of.forward;
    const uint32_t c = blockIdx.x * THREADS + threadIdx.x, first = blockIdx.y * ROWS, n = tern_rows_now(p.count);
    if (c >= p.cols) return;
    channel w;
    float dx[ROWS] = {}, dweight[TAPS] = {};
    load_weight(p, w, c);
    if (first < n) load_before(p, w, first, c);
#pragma unroll
    for (int i = 0; i < ROWS + TAPS - 1; i++) {
        const uint32_t t = first + i;
        if (t >= n) break;
        if (i && begins_run(p.runs, t)) load_tail(p, w, t, c);
        push(w, input_at(p, t, c));
        const float ds = slope_of(w, p, t, c);
        const uint32_t back = t - p.runs.sequences[t]; /* rows of the document before */
#pragma unroll
        for (int k = 0; k < TAPS; k++) {
            const int row = i - (TAPS - 1 - k);
            if (!is_tap(p, k) || TAPS - 1 - k > (int)min(back, (uint32_t)TAPS)) continue;
            if (i < ROWS) dweight[k] = __fmaf_rn(ds, w.inputs[k], dweight[k]);
            if (row >= 0 && row < ROWS) dx[row] = __fmaf_rn(w.weight[k], ds, dx[row]);
        }
    }
#pragma unroll
    for (int i = 0; i < ROWS; i++)
        if (first + i < n) of.dx.data[(size_t)(first + i) * of.dx.stride + c] = dx[i];
    if (!of.dweight) return;
#pragma unroll
    for (int k = 0; k < TAPS; k++)
        if (is_tap(p, k)) of.parts[((size_t)blockIdx.y * p.taps + k + p.taps - TAPS) * p.cols + c] = dweight[k];
}

/* The parts in order. */
static __global__ void __launch_bounds__(THREADS) add_parts(tern_cuda_conv_backward of, uint32_t parts)
{
    const tern_cuda_conv &p = of.forward;
    const uint32_t c = blockIdx.x * THREADS + threadIdx.x, k = blockIdx.y;
    if (c >= p.cols) return;
    float sum = of.dweight[(size_t)c * p.taps + k];
#pragma unroll 8
    for (uint32_t i = 0; i < parts; i++) sum += of.parts[((size_t)i * p.taps + k) * p.cols + c];
    of.dweight[(size_t)c * p.taps + k] = sum;
}

uint32_t tern_cuda_conv_parts(uint32_t rows)
{
    return (rows + ROWS - 1) / ROWS;
}

cudaError_t tern_cuda_run_conv_backward(const tern_cuda_conv_backward *p, cudaStream_t stream)
{
    const uint32_t channels = (p->forward.cols + THREADS - 1) / THREADS;
    const uint32_t parts = tern_cuda_conv_parts(p->forward.count.most);
    const cudaError_t e = tern_launch_together(conv_backward, dim3(channels, parts), THREADS, 0, stream, false, 1, *p);
    if (e != cudaSuccess || !p->dweight) return e;
    return tern_launch_together(add_parts, dim3(channels, p->forward.taps), THREADS, 0, stream, false, 1, *p, parts);
}
