/* Products of weights with rows: the kernels of product.h, and a plain one, a warp for each number of the result, for
 * what they lack. */
#include "backend/cuda/device.cuh"
#include "backend/cuda/linear/narrow.h"
#include "backend/cuda/linear/product.h"
#include "backend/cuda/unpack.cuh"
#include "ops/halves.h"

enum { WARPS = 8, FEW_ROWS = 8 };

static __device__ float product(const tern_cuda_linear &p, const tern_cuda_weight &w, uint32_t row, uint32_t t)
{
    const uint32_t lane = threadIdx.x % 32, x_row = t / p.x_times;
    const uint8_t *in = w.data + (size_t)row * w.row_bytes;
    const float scale = w.format != TERN_GPU_TERNARY ? 1.0f : w.row_scales ? w.row_scales[row] : w.scale;
    if (!p.x.data) {
        const int8_t *q = p.q8.data + (size_t)x_row * p.q8.stride;
        int sum = 0;
        for (uint32_t c = lane; c < w.cols; c += 32) sum += (int)tern_element(w.format, in, c, w.cols) * q[c];
        return (float)tern_warp_sum(sum) * (scale * p.q8.inv_scales[x_row]);
    }
    float sum = 0;
    if (p.halves) {
        const uint16_t *x = (const uint16_t *)p.rounded.rows + (size_t)x_row * p.rounded.stride;
        for (uint32_t c = lane; c < w.cols; c += 32) {
            const float v = tern_element(w.format, in, c, w.cols);
            if (p.halves == TERN_HALVES_BF16) sum = fmaf(v, __uint_as_float((uint32_t)x[c] << 16), sum);
            else sum = fmaf(__half2float(__float2half_rn(v)), __half2float(__ushort_as_half(x[c])), sum);
        }
        return tern_warp_sum(sum) * p.rounded.scales[x_row];
    }
    const float *x = p.x.data + (size_t)x_row * p.x.stride;
    for (uint32_t c = lane; c < w.cols; c += 32) sum = fmaf(tern_element(w.format, in, c, w.cols), x[c], sum);
    return tern_warp_sum(sum) * scale;
}

static __device__ float with_bias(const tern_cuda_linear &p, uint32_t part, uint32_t row, uint32_t t)
{
    const float y = product(p, p.weight[part], row, t);
    return p.bias[part] ? y + p.bias[part][row] : y;
}

static __global__ void linear(tern_cuda_linear p)
{
    uint32_t t = blockIdx.y;
    uint32_t at = blockIdx.x * WARPS + threadIdx.x / 32, part = 0, n = p.weight[0].rows / p.n_experts, row = at;
    if (t >= tern_rows_now(p.count)) return;
    while (!p.gated && row >= n && part + 1 < p.n_parts) {
        row -= n;
        n = p.weight[++part].rows / p.n_experts;
    }
    if (row >= n) return;
    t += tern_first_row(p.count);
    if (p.routes && p.routes[2 * t] >= p.n_experts) return; /* no expert: another run's row */
    if (p.routes) row += p.routes[2 * t] * n;
    float y = with_bias(p, part, row, t);
    if (p.gated) y = tern_gate(p.activation, y, with_bias(p, 1, row, t), p.limit);
    if (threadIdx.x % 32) return;
    if (p.residual.data) y += p.residual.data[(size_t)t * p.residual.stride + at];
    p.out.data[(size_t)t * p.out.stride + at] = y;
}

bool tern_cuda_has_linear(uint32_t format, bool q8)
{
    return q8 ? format == TERN_GPU_TERNARY : tern_has_element(format);
}

/* An adapter beside a layer, for many rows. */
bool tern_cuda_linear_is_narrow(const tern_cuda_linear *p)
{
    const tern_cuda_weight *w = &p->weight[0];
    const bool plain = !p->routes && p->n_experts == 1 && p->x_times == 1 && p->n_parts == 1 && !p->gated;
    return plain && p->x.data && w->format == TERN_GPU_F32 && p->count.most > FEW_ROWS &&
           tern_cuda_is_narrow(w->rows, w->cols) && (!p->bias[0] || w->rows <= TERN_CUDA_NARROW);
}

static cudaError_t run_narrow(const tern_cuda_linear *p, cudaStream_t stream)
{
    const tern_cuda_weight *w = &p->weight[0];
    const tern_cuda_narrow narrow = {p->count,
                                     p->x,
                                     p->residual,
                                     p->out,
                                     (const float *)w->data,
                                     p->bias[0],
                                     w->row_bytes / (uint32_t)sizeof(float),
                                     false,
                                     w->rows,
                                     w->cols};
    return tern_cuda_run_narrow(&narrow, stream);
}

static cudaError_t run_parts(const tern_cuda_linear *p, cudaStream_t stream)
{
    tern_cuda_product product;
    if (tern_cuda_linear_is_narrow(p)) return run_narrow(p, stream);
    if (tern_cuda_product_of(p, p->device, &product)) {
        const tern_cuda_product_kernel kernel =
            p->kernel ? (tern_cuda_product_kernel)(p->kernel - 1) : tern_cuda_product_select(&product, p->device);
        return (cudaError_t)tern_cuda_product_launch(&product, kernel, p->device, stream);
    }
    uint32_t rows = 0;
    for (uint32_t i = 0; i < (p->gated ? 1 : p->n_parts); i++) rows += p->weight[i].rows / p->n_experts;
    linear<<<dim3((rows + WARPS - 1) / WARPS, p->count.most), WARPS * 32, 0, stream>>>(*p);
    return cudaGetLastError();
}

cudaError_t tern_cuda_run_linear(const tern_cuda_linear *p, cudaStream_t stream)
{
    tern_cuda_linear parts;
    cudaError_t e = p->halves && !p->is_rounded ? tern_cuda_round_rows(p, stream) : cudaSuccess;
    for (uint32_t at = 0; at < p->n_parts && !e;) {
        at = tern_cuda_alike_parts(p, at, &parts);
        e = run_parts(&parts, stream);
    }
    return e;
}
