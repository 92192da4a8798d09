/* CONV and VARLEN_CONV: a causal convolution of each channel over the rows of a run, then SiLU. */
#include "backend/cuda/recurrent/conv.cuh"

static __device__ __forceinline__ void put(const tern_cuda_conv &p, const channel &w, uint32_t t, uint32_t c)
{
    float sum = 0;
#pragma unroll
    for (int k = 0; k < TAPS; k++)
        if (is_tap(p, k)) sum = __fmaf_rn(w.weight[k], w.inputs[k], sum);
    p.out.data[(size_t)t * p.out.stride + c] = sum / (1.0f + tern_exp(-sum));
}

/* The tail after the row that was pushed last. */
static __device__ __forceinline__ void keep(const tern_cuda_conv &p, const channel &w, uint32_t state, uint32_t c)
{
#pragma unroll
    for (int k = 0; k + 1 < TAPS; k++)
        if (is_tap(p, k)) p.state[tail_at(p, state, k, c)] = w.inputs[k + 1];
}

/* A thread walks a channel through a run: what a state has is read before any row's is written. */
static __global__ void __launch_bounds__(THREADS) conv_runs(tern_cuda_conv p)
{
    const uint32_t c = blockIdx.x * THREADS + threadIdx.x;
    tern_follow();
    const uint32_t n = tern_rows_now(p.count), first = first_of_run(p.runs, blockIdx.y, n, p.count.most);
    if (first == NO_ROW || c >= p.cols) return;
    const uint32_t sequence = p.runs.sequences[first];
    channel w;
    load_weight(p, w, c);
    load_tail(p, w, first, c);
    for (uint32_t t = first; is_of(p.runs, t, n, sequence); t++) {
        const uint32_t state = state_after(p.runs, t);
        push(w, input_at(p, t, c));
        put(p, w, t, c);
        if (state != NO_STATE) keep(p, w, state, c);
    }
}

/* Results alone: a thread has a channel of ROWS rows. */
static __global__ void __launch_bounds__(THREADS) conv_rows(tern_cuda_conv p)
{
    const uint32_t c = blockIdx.x * THREADS + threadIdx.x, first = blockIdx.y * ROWS;
    tern_follow();
    const uint32_t n = tern_rows_now(p.count);
    if (first >= n || c >= p.cols) return;
    channel w;
    float x[ROWS];
    load_weight(p, w, c);
    load_before(p, w, first, c);
#pragma unroll
    for (int i = 0; i < ROWS; i++) x[i] = first + i < n ? input_at(p, first + i, c) : 0;
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        const uint32_t t = first + i;
        if (t >= n) break;
        if (i && begins_run(p.runs, t)) load_tail(p, w, t, c);
        push(w, x[i]);
        put(p, w, t, c);
    }
}

/* The inputs up to row t of a run that begins at `first`, whose tail is in `tail`. */
static __device__ __forceinline__ void load_until(const tern_cuda_conv &p, channel &w, const channel &tail,
                                                  uint32_t first, uint32_t t, uint32_t c)
{
#pragma unroll
    for (int k = 0; k < TAPS; k++) {
        const int of = (int)(t - first) + k - (TAPS - 1); /* row of the run; below 0: of the tail */
        w.inputs[k] = of >= 0 ? input_at(p, first + of, c) : 0;
    }
    const int back = (int)min(t - first + 1, (uint32_t)TAPS); /* inputs that are of rows */
#pragma unroll
    for (int b = 1; b < TAPS; b++)
        if (b == back)
#pragma unroll
            for (int k = 0; k + b < TAPS; k++) w.inputs[k] = tail.inputs[k + b];
}

/* The states after conv_rows: a thread walks the kept rows of a run. */
static __global__ void __launch_bounds__(THREADS) conv_states(tern_cuda_conv p)
{
    __shared__ uint32_t states[THREADS];
    const uint32_t c = blockIdx.x * THREADS + threadIdx.x;
    tern_follow();
    const uint32_t n = tern_rows_now(p.count), first = first_of_run(p.runs, blockIdx.y, n, p.count.most);
    if (first == NO_ROW) return;
    const uint32_t sequence = p.runs.sequences[first];
    channel tail, w;
    if (c < p.cols) load_tail(p, tail, first, c);
    for (uint32_t t0 = first; is_of(p.runs, t0, n, sequence); t0 += THREADS) {
        const uint32_t own = t0 + threadIdx.x;
        states[threadIdx.x] = is_of(p.runs, own, n, sequence) ? state_after(p.runs, own) : NO_STATE;
        const bool any = __syncthreads_or(states[threadIdx.x] != NO_STATE);
        for (uint32_t i = 0; any && i < THREADS && c < p.cols; i++) {
            if (states[i] == NO_STATE) continue;
            load_until(p, w, tail, first, t0 + i, c);
            keep(p, w, states[i], c);
        }
        __syncthreads();
    }
}

cudaError_t tern_cuda_run_conv(const tern_cuda_conv *p, cudaStream_t stream)
{
    const uint32_t channels = (p->cols + THREADS - 1) / THREADS, most = p->count.most;
    const dim3 runs(channels, runs_at_most(p->runs, most)), rows(channels, (most + ROWS - 1) / ROWS);
    if (p->state && most <= ROWS) return tern_launch(conv_runs, runs, THREADS, 0, stream, *p);
    const cudaError_t e = tern_launch(conv_rows, rows, THREADS, 0, stream, *p);
    if (e != cudaSuccess || !p->state) return e;
    return tern_launch(conv_states, runs, THREADS, 0, stream, *p);
}
