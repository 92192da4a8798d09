/* A channel of a convolution over the rows of a run. */
#ifndef TERN_BACKEND_CUDA_RECURRENT_CONV_CUH
#define TERN_BACKEND_CUDA_RECURRENT_CONV_CUH

#include "backend/cuda/launch.cuh"
#include "backend/cuda/recurrent/run.cuh"

/* Rows that a thread has of a long step; steps of at most so many rows are walked run by run. */
enum { THREADS = 128, ROWS = 16, TAPS = TERN_CUDA_CONV_TAPS };

/* A channel's weights and the inputs before a row, the oldest first: the last p.taps of TAPS. */
struct channel {
    float weight[TAPS], inputs[TAPS];
};

static __device__ __forceinline__ bool is_tap(const tern_cuda_conv &p, int k)
{
    return k + p.taps >= TAPS;
}

static __device__ __forceinline__ void load_weight(const tern_cuda_conv &p, channel &w, uint32_t c)
{
#pragma unroll
    for (int k = 0; k < TAPS; k++)
        w.weight[k] = is_tap(p, k) ? p.weight[(size_t)c * p.weight_stride + k + p.taps - TAPS] : 0;
}

/* Where input k of TAPS - 1 lies in the tail of a state. */
static __device__ __forceinline__ size_t tail_at(const tern_cuda_conv &p, uint32_t state, int k, uint32_t c)
{
    return ((size_t)state * (p.taps - 1) + k + p.taps - TAPS) * p.cols + c;
}

static __device__ __forceinline__ float input_at(const tern_cuda_conv &p, uint32_t t, uint32_t c)
{
    return p.x.data[(size_t)t * p.x.stride + c];
}

/* The next input pushes out the oldest. */
static __device__ __forceinline__ void push(channel &w, float x)
{
#pragma unroll
    for (int k = 0; k + 1 < TAPS; k++) w.inputs[k] = w.inputs[k + 1];
    w.inputs[TAPS - 1] = x;
}

/* The inputs before the first row of a run, as if it had been pushed last. */
static __device__ __forceinline__ void load_tail(const tern_cuda_conv &p, channel &w, uint32_t t, uint32_t c)
{
    const uint32_t state = state_before(p.runs, t);
#pragma unroll
    for (int k = 0; k < TAPS; k++)
        w.inputs[k] = k && state != NO_STATE && is_tap(p, k - 1) ? p.state[tail_at(p, state, k - 1, c)] : 0;
}

/* The inputs before row t, whose run begins there or before, as if the one before had been pushed last. */
static __device__ __forceinline__ void load_before(const tern_cuda_conv &p, channel &w, uint32_t t, uint32_t c)
{
    const uint32_t sequence = p.runs.sequences[t];
    uint32_t back = 0; /* rows of the run before t, as far as they matter */
    while (back + 1 < TAPS && back < t && p.runs.sequences[t - back - 1] == sequence) back++;
    const uint32_t state = back + 1 < TAPS ? state_before(p.runs, t - back) : NO_STATE;
#pragma unroll
    for (int k = 0; k < TAPS; k++) {
        const int of = k - (TAPS - (int)back); /* row t - back + of; below 0: of the tail */
        w.inputs[k] = 0;
        if (of >= 0) w.inputs[k] = input_at(p, t - back + of, c);
        else if (TAPS - 1 + of >= 0 && state != NO_STATE && is_tap(p, TAPS - 1 + of))
            w.inputs[k] = p.state[tail_at(p, state, TAPS - 1 + of, c)];
    }
}

#endif
