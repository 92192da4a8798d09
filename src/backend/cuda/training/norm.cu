/* Gradients of norms, and those that are sums over rows: of norm weights, biases and embedding tables. */
#include "backend/cuda/device.cuh"
#include "backend/cuda/training/training.h"

enum { THREADS = 256, COLUMNS = 32, LINES = 32 };

static __global__ void norm_backward(tern_cuda_norm_backward p)
{
    __shared__ float room[32], sums[32];
    const uint32_t t = blockIdx.y, first = blockIdx.x * p.group;
    if (t >= tern_rows_now(p.count)) return;
    const float *x = p.x.data + (size_t)t * p.x.stride + first, *dy = p.dy.data + (size_t)t * p.dy.stride + first;
    float squares = 0, sum = 0;
    for (uint32_t c = threadIdx.x; c < p.group; c += THREADS) {
        squares += x[c] * x[c];
        sum += dy[c] * p.weight[c] * x[c];
    }
    const float r = 1.0f / sqrtf(tern_block_sum(squares, room) / (float)p.group + p.eps);
    const float k = r * r * r * (tern_block_sum(sum, sums) / (float)p.group);
    if (p.factors && threadIdx.x == 0) p.factors[(size_t)t * gridDim.x + blockIdx.x] = r;
    if (!p.out.data) return;
    float *out = p.out.data + (size_t)t * p.out.stride + first;
    for (uint32_t c = threadIdx.x; c < p.group; c += THREADS) {
        float dx = __fsub_rn(__fmul_rn(__fmul_rn(dy[c], p.weight[c]), r), __fmul_rn(x[c], k)); /* may cancel out */
        if (p.residual.data) dx += p.residual.data[(size_t)t * p.residual.stride + first + c];
        out[c] = dx;
    }
}

/* The sums of a column's lines, in order. */
static __device__ float column_sum(float sum)
{
    __shared__ float lines[LINES][COLUMNS + 1];
    lines[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    float all = 0;
    for (uint32_t i = 0; i < LINES; i++) all += lines[i][threadIdx.x];
    return all;
}

static __global__ void norm_weight_backward(tern_cuda_norm_backward p)
{
    const uint32_t c = blockIdx.x * COLUMNS + threadIdx.x, groups = p.cols / p.group;
    const uint32_t n = tern_rows_now(p.count) * groups;
    float sum = 0;
    for (uint32_t i = threadIdx.y; i < n && c < p.group; i += LINES) {
        const uint32_t t = i / groups, col = i % groups * p.group + c;
        sum += p.dy.data[(size_t)t * p.dy.stride + col] * (p.x.data[(size_t)t * p.x.stride + col] * p.factors[i]);
    }
    sum = column_sum(sum);
    if (threadIdx.y == 0 && c < p.group) p.dweight[c] += sum;
}

static dim3 columns_grid(uint32_t cols)
{
    return dim3((cols + COLUMNS - 1) / COLUMNS);
}

cudaError_t tern_cuda_run_norm_backward(const tern_cuda_norm_backward *p, cudaStream_t stream)
{
    norm_backward<<<dim3(p->cols / p->group, p->count.most), THREADS, 0, stream>>>(*p);
    if (p->dweight) norm_weight_backward<<<columns_grid(p->group), dim3(COLUMNS, LINES), 0, stream>>>(*p);
    return cudaGetLastError();
}

static __global__ void bias_backward(tern_cuda_row_sums p)
{
    const uint32_t c = blockIdx.x * COLUMNS + threadIdx.x, n = tern_rows_now(p.count);
    float sum = 0;
    for (uint32_t t = threadIdx.y; t < n && c < p.cols; t += LINES) sum += p.dy.data[(size_t)t * p.dy.stride + c];
    sum = column_sum(sum);
    if (threadIdx.y == 0 && c < p.cols) p.sums[c] += sum;
}

cudaError_t tern_cuda_run_bias_backward(const tern_cuda_row_sums *p, cudaStream_t stream)
{
    bias_backward<<<columns_grid(p->cols), dim3(COLUMNS, LINES), 0, stream>>>(*p);
    return cudaGetLastError();
}

/* A row of the table belongs to the first token that has it, which adds the others, in order. */
static __global__ void embed_backward(tern_cuda_row_sums p)
{
    __shared__ uint32_t found[THREADS / 32];
    const uint32_t t = blockIdx.y, c = blockIdx.x * THREADS + threadIdx.x, n = tern_rows_now(p.count);
    if (t >= n) return;
    const int32_t id = p.ids[t];
    bool earlier = (uint32_t)id >= p.n_rows;
    for (uint32_t u = threadIdx.x; u < t && !earlier; u += THREADS) earlier = p.ids[u] == id;
    if (__syncthreads_or(earlier)) return;
    float *out = p.sums + (size_t)id * p.cols + c, sum = c < p.cols ? *out : 0;
    for (uint32_t first = t; first < n; first += THREADS) {
        const uint32_t u = first + threadIdx.x, same = __ballot_sync(~0u, u < n && p.ids[u] == id);
        if (threadIdx.x % 32 == 0) found[threadIdx.x / 32] = same;
        __syncthreads();
        for (uint32_t i = 0; i < THREADS / 32; i++)
            for (uint32_t left = found[i]; left; left &= left - 1) {
                const uint32_t from = first + i * 32 + __ffs((int)left) - 1;
                if (c < p.cols) sum = __fadd_rn(sum, p.dy.data[(size_t)from * p.dy.stride + c]);
            }
        __syncthreads();
    }
    if (c < p.cols) *out = sum;
}

cudaError_t tern_cuda_run_embed_backward(const tern_cuda_row_sums *p, cudaStream_t stream)
{
    embed_backward<<<dim3((p->cols + THREADS - 1) / THREADS, p->count.most), THREADS, 0, stream>>>(*p);
    return cudaGetLastError();
}
