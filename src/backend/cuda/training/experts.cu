/* Backward of experts: routed rows are put together by their expert, and each expert's rows are multiplied in tiles of
 * f32 multiply-adds; sums run over the rows of an expert in their order. */
#include "backend/cuda/device.cuh"
#include "backend/cuda/training/training.h"
#include "backend/cuda/unpack.cuh"

enum { THREADS = 256, SIDE = 64, DEPTH = 16, EACH = SIDE / 16, MOST_EXPERTS = TERN_MAX_EXPERTS };

static size_t list_bytes(uint32_t most, uint32_t n_experts)
{
    return tern_cuda_rounded((size_t)most * sizeof(uint32_t)) + tern_cuda_rounded((n_experts + 1) * sizeof(uint32_t));
}

size_t tern_cuda_routed_bytes(uint32_t most, uint32_t n_experts, uint32_t cols)
{
    return list_bytes(most, n_experts) + (size_t)most * cols * sizeof(float);
}

/* Rows in the order of their experts, and where each expert's begin. */
typedef struct list {
    uint32_t *rows, *starts; /* [most], [n_experts + 1] */
} list;

static list list_of(const tern_cuda_routed *p)
{
    const list l = {(uint32_t *)p->scratch,
                    (uint32_t *)(p->scratch + tern_cuda_rounded((size_t)p->count.most * sizeof(uint32_t)))};
    return l;
}

/* A thread for each expert: a stable counting sort. */
static __global__ void __launch_bounds__(MOST_EXPERTS) put_together(tern_cuda_routed p, list l)
{
    __shared__ uint32_t starts[MOST_EXPERTS + 1];
    const uint32_t e = threadIdx.x, n = tern_rows_now(p.count);
    uint32_t own = 0;
    for (uint32_t r = 0; r < n; r++) own += p.routes[2 * r] == e;
    starts[e + 1] = own;
    if (e == 0) starts[0] = 0;
    __syncthreads();
    if (e == 0)
        for (uint32_t i = 0; i < p.n_experts; i++) starts[i + 1] += starts[i];
    __syncthreads();
    if (e == 0) l.starts[0] = 0;
    l.starts[e + 1] = starts[e + 1];
    uint32_t at = starts[e];
    for (uint32_t r = 0; r < n; r++)
        if (p.routes[2 * r] == e) l.rows[at++] = r;
}

static void start_list(const tern_cuda_routed *p, list l, cudaStream_t stream)
{
    put_together<<<1, p->n_experts, 0, stream>>>(*p, l);
}

typedef float Tile[DEPTH][SIDE];

/* sums += a^T b, of which a thread has EACH x EACH: rows ty * EACH, columns tx + 16 j. */
static __device__ __forceinline__ void multiply(float (&sums)[EACH][EACH], const Tile &a, const Tile &b)
{
    const uint32_t ty = threadIdx.x / 16, tx = threadIdx.x % 16;
#pragma unroll
    for (int k = 0; k < DEPTH; k++)
#pragma unroll
        for (int i = 0; i < EACH; i++)
#pragma unroll
            for (int j = 0; j < EACH; j++) sums[i][j] = fmaf(a[k][ty * EACH + i], b[k][tx + 16 * j], sums[i][j]);
}

static __device__ __forceinline__ float weight_at(const tern_cuda_weight &w, uint32_t row, uint32_t c)
{
    const float x = tern_element(w.format, w.data + (size_t)row * w.row_bytes, c, w.cols);
    if (w.format != TERN_GPU_TERNARY) return x;
    return x * (w.row_scales ? w.row_scales[row] : w.scale);
}

/* made[r] = W_e^T dy[r]: a block has an expert and SIDE columns, and goes through the expert's rows. */
static __global__ void __launch_bounds__(THREADS) routed_dx(tern_cuda_routed p, list l, float *made)
{
    __shared__ Tile dy, w;
    const uint32_t e = blockIdx.y, c0 = blockIdx.x * SIDE, ty = threadIdx.x / 16, tx = threadIdx.x % 16;
    const uint32_t end = l.starts[e + 1];
    for (uint32_t first = l.starts[e]; first < end; first += SIDE) {
        float sums[EACH][EACH] = {};
        for (uint32_t k0 = 0; k0 < p.n_rows; k0 += DEPTH) {
            __syncthreads();
            for (uint32_t i = threadIdx.x; i < SIDE * DEPTH; i += THREADS) {
                const uint32_t k = k0 + i % DEPTH, row = first + i / DEPTH, c = c0 + i % SIDE, kw = k0 + i / SIDE;
                dy[i % DEPTH][i / DEPTH] =
                    k < p.n_rows && row < end ? p.dy.data[(size_t)l.rows[row] * p.dy.stride + k] : 0;
                w[i / SIDE][i % SIDE] = kw < p.n_rows && c < p.cols ? weight_at(p.weight, e * p.n_rows + kw, c) : 0;
            }
            __syncthreads();
            multiply(sums, dy, w);
        }
#pragma unroll
        for (int i = 0; i < EACH; i++)
#pragma unroll
            for (int j = 0; j < EACH; j++) {
                const uint32_t row = first + ty * EACH + i, c = c0 + tx + 16 * j;
                if (row < end && c < p.cols) made[(size_t)l.rows[row] * p.cols + c] = sums[i][j];
            }
    }
}

/* out[t] = (residual[t] or 0) + what the routed rows of t have made, in their order. */
static __global__ void __launch_bounds__(THREADS) add_up(tern_cuda_routed p, const float *made)
{
    const uint32_t t = blockIdx.y, c = blockIdx.x * THREADS + threadIdx.x;
    if (t >= tern_rows_now(p.count) / p.each || c >= p.cols) return;
    float sum = p.residual.data ? p.residual.data[(size_t)t * p.residual.stride + c] : 0;
    for (uint32_t j = 0; j < p.each; j++) sum += made[((size_t)t * p.each + j) * p.cols + c];
    p.out.data[(size_t)t * p.out.stride + c] = sum;
}

cudaError_t tern_cuda_run_routed_dx(const tern_cuda_routed *p, cudaStream_t stream)
{
    const list l = list_of(p);
    float *made = (float *)(p->scratch + list_bytes(p->count.most, p->n_experts));
    start_list(p, l, stream);
    routed_dx<<<dim3((p->cols + SIDE - 1) / SIDE, p->n_experts), THREADS, 0, stream>>>(*p, l, made);
    add_up<<<dim3((p->cols + THREADS - 1) / THREADS, p->count.most / p->each), THREADS, 0, stream>>>(*p, made);
    return cudaGetLastError();
}

static __device__ __forceinline__ float x_at(const tern_cuda_routed &p, uint32_t t, uint32_t c)
{
    return p.x.data ? p.x.data[(size_t)t * p.x.stride + c] : (float)p.q8.data[(size_t)t * p.q8.stride + c];
}

/* dw[e] += dy^T x over the rows of expert e: a block has SIDE rows and SIDE columns of its matrix. */
static __global__ void __launch_bounds__(THREADS) routed_dw(tern_cuda_routed p, list l)
{
    __shared__ Tile dy, x;
    const uint32_t e = blockIdx.z, i0 = blockIdx.y * SIDE, c0 = blockIdx.x * SIDE;
    const uint32_t ty = threadIdx.x / 16, tx = threadIdx.x % 16, begin = l.starts[e], end = l.starts[e + 1];
    float sums[EACH][EACH] = {};
    if (begin == end) return;
    for (uint32_t first = begin; first < end; first += DEPTH) {
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < SIDE * DEPTH; i += THREADS) {
            const uint32_t at = first + i / SIDE, row = i0 + i % SIDE, c = c0 + i % SIDE;
            const uint32_t r = at < end ? l.rows[at] : 0, t = r / p.each;
            const float scale = p.x.data || at >= end ? 1.0f : p.q8.inv_scales[t];
            dy[i / SIDE][i % SIDE] = at < end && row < p.n_rows ? p.dy.data[(size_t)r * p.dy.stride + row] * scale : 0;
            x[i / SIDE][i % SIDE] = at < end && c < p.cols ? x_at(p, t, c) : 0;
        }
        __syncthreads();
        multiply(sums, dy, x);
    }
#pragma unroll
    for (int i = 0; i < EACH; i++)
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            const uint32_t row = i0 + ty * EACH + i, c = c0 + tx + 16 * j;
            if (row < p.n_rows && c < p.cols) p.out.data[((size_t)e * p.n_rows + row) * p.out.stride + c] += sums[i][j];
        }
}

cudaError_t tern_cuda_run_routed_dw(const tern_cuda_routed *p, cudaStream_t stream)
{
    const list l = list_of(p);
    const dim3 grid((p->cols + SIDE - 1) / SIDE, (p->n_rows + SIDE - 1) / SIDE, p->n_experts);
    start_list(p, l, stream);
    routed_dw<<<grid, THREADS, 0, stream>>>(*p, l);
    return cudaGetLastError();
}

static __global__ void __launch_bounds__(THREADS) routed_bias(tern_cuda_routed p, list l)
{
    const uint32_t e = blockIdx.y, c = blockIdx.x * THREADS + threadIdx.x, end = l.starts[e + 1];
    if (c >= p.cols) return;
    float *at = p.out.data + (size_t)e * p.cols + c, sum = *at;
    for (uint32_t i = l.starts[e]; i < end; i++) sum += p.dy.data[(size_t)l.rows[i] * p.dy.stride + c];
    *at = sum;
}

cudaError_t tern_cuda_run_routed_bias(const tern_cuda_routed *p, cudaStream_t stream)
{
    const list l = list_of(p);
    start_list(p, l, stream);
    routed_bias<<<dim3((p->cols + THREADS - 1) / THREADS, p->n_experts), THREADS, 0, stream>>>(*p, l);
    return cudaGetLastError();
}

/* A thread for each token, as tern_ref_route_backward. */
static __global__ void route_backward(tern_cuda_choice p)
{
    const uint32_t t = blockIdx.x * 32 + threadIdx.x, k = p.n_routes;
    if (t >= tern_rows_now(p.count)) return;
    const float *logits = p.logits.data + (size_t)t * p.logits.stride;
    const float *residual = p.residual.data ? p.residual.data + (size_t)t * p.residual.stride : NULL;
    const uint32_t *routes = p.routes + (size_t)t * k * 2;
    float *out = p.out.data + (size_t)t * p.out.stride;
    const float first = logits[routes[0]], of_first = __uint_as_float(routes[1]);
    float sum = 0;
    for (uint32_t j = 0; j < k; j++)
        sum += __uint_as_float(routes[2 * j + 1]) * p.dweights.data[((size_t)t * k + j) * p.dweights.stride];
    for (uint32_t e = 0; e < p.n_experts; e++) {
        float d = p.rule == TERN_ROUTE_SOFTMAX_ALL ? -(of_first * tern_exp(logits[e] - first) * sum) : 0;
        for (uint32_t j = 0; j < k; j++)
            if (routes[2 * j] == e)
                d = __uint_as_float(routes[2 * j + 1]) *
                    (p.dweights.data[((size_t)t * k + j) * p.dweights.stride] - sum);
        out[e] = residual ? d + residual[e] : d;
    }
}

cudaError_t tern_cuda_run_route_backward(const tern_cuda_choice *p, cudaStream_t stream)
{
    route_backward<<<(p->count.most + 31) / 32, 32, 0, stream>>>(*p);
    return cudaGetLastError();
}

/* A block for each routed row. */
static __global__ void __launch_bounds__(THREADS) combine_backward(tern_cuda_choice p)
{
    __shared__ float room[32];
    const uint32_t r = blockIdx.x;
    if (r >= tern_rows_now(p.count)) return;
    const float *dout = p.dout.data + (size_t)(r / p.n_routes) * p.dout.stride;
    const float weight = __uint_as_float(p.routes[2 * r + 1]);
    float sum = 0;
    for (uint32_t c = threadIdx.x; c < p.cols; c += THREADS) {
        if (p.dweights.data) sum += dout[c] * p.y.data[(size_t)r * p.y.stride + c];
        if (p.out.data) p.out.data[(size_t)r * p.out.stride + c] = weight * dout[c];
    }
    if (!p.dweights.data) return;
    sum = tern_block_sum(sum, room);
    if (threadIdx.x == 0) p.dweights.data[(size_t)r * p.dweights.stride] = sum;
}

cudaError_t tern_cuda_run_combine_backward(const tern_cuda_choice *p, cudaStream_t stream)
{
    combine_backward<<<p->count.most, THREADS, 0, stream>>>(*p);
    return cudaGetLastError();
}
