/* LINEAR_DX and LINEAR_DW: numbers are split into planes of bf16, then multiplied on tensor cores. */
#include "backend/cuda/training/product.cuh"
#include "backend/cuda/training/training.h"
#include "backend/cuda/unpack.cuh"

/* Scratch of planes, and how many blocks there should be of a product at least. */
enum { PLANES_BYTES = 96 << 20, BLOCKS = 264, MOST_SPLITS = 16, LEAST_STEPS = 8 };

static uint32_t padded(uint32_t n) { return (n + 7) / 8 * 8; }

/* Numbers of 8 bits each, of which one is what those before it have left: three are all of a float. */
template <int N, int EACH> static __device__ __forceinline__ void split(float x, __nv_bfloat16 (&out)[N][EACH], int at)
{
#pragma unroll
    for (int i = 0; i < N; i++) {
        out[i][at] = __float2bfloat16_rn(x);
        x -= __bfloat162float(out[i][at]);
    }
}

template <int N> static __device__ __forceinline__ void store_pair(const planes &p, size_t at, __nv_bfloat16 (&x)[N][2])
{
#pragma unroll
    for (int i = 0; i < N; i++) *(uint32_t *)(p.data + i * p.plane + at) = *(const uint32_t *)x[i];
}

/* What is split: floats of rows t of the step, times by[t] and times along[c] where they are there. */
typedef struct floats {
    tern_cuda_count count;
    const float *data;
    size_t stride;
    uint32_t cols;
    const float *by, *along;
    planes out;
} floats;

static __global__ void split_floats(floats p)
{
    const uint32_t t = blockIdx.y, c = (blockIdx.x * THREADS + threadIdx.x) * 2;
    if (c >= p.out.ld) return;
    const bool is_there = t < tern_rows_now(p.count);
    const float by = is_there && p.by ? p.by[t] : 1;
    __align__(4) __nv_bfloat16 pair[PLANES][2];
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) {
        float x = is_there && c + i < p.cols ? p.data[t * p.stride + c + i] * by : 0;
        if (p.along && c + i < p.cols) x *= p.along[c + i];
        split(x, pair, i);
    }
    store_pair(p.out, (size_t)t * p.out.ld + c, pair);
}

static void start_floats(const floats *p, cudaStream_t stream)
{
    const uint32_t pairs = p->out.ld / 2;
    split_floats<<<dim3((pairs + THREADS - 1) / THREADS, p->count.most), THREADS, 0, stream>>>(*p);
}

static __global__ void split_levels(tern_cuda_count count, tern_cuda_q8 q, uint32_t cols, planes out)
{
    const uint32_t t = blockIdx.y, c = blockIdx.x * THREADS + threadIdx.x;
    if (c >= out.ld) return;
    const bool is_there = t < tern_rows_now(count) && c < cols;
    out.data[(size_t)t * out.ld + c] = __float2bfloat16_rn(is_there ? (float)q.data[(size_t)t * q.stride + c] : 0);
}

/* FORMAT -1: that of the weight. */
template <int FORMAT, int N> static __global__ void split_weight(tern_cuda_weight w, uint32_t first, planes out)
{
    const uint32_t r = blockIdx.y, c = (blockIdx.x * THREADS + threadIdx.x) * 2;
    if (c >= out.ld) return;
    const uint8_t *row = w.data + (size_t)(first + r) * w.row_bytes;
    __align__(4) __nv_bfloat16 pair[N][2];
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t format = FORMAT < 0 ? w.format : (uint32_t)FORMAT;
        split(c + i < w.cols ? tern_element(format, row, c + i, w.cols) : 0, pair, i);
    }
    store_pair(out, (size_t)r * out.ld + c, pair);
}

static bool is_exact(uint32_t format)
{
    return format == TERN_GPU_TERNARY || format == TERN_GPU_BF16;
}

static void start_weight(const tern_cuda_weight *w, uint32_t first, uint32_t n, planes out, cudaStream_t stream)
{
    const dim3 grid((out.ld / 2 + THREADS - 1) / THREADS, n);
    switch (w->format) {
    case TERN_GPU_TERNARY: split_weight<TERN_GPU_TERNARY, 1><<<grid, THREADS, 0, stream>>>(*w, first, out); break;
    case TERN_GPU_BF16: split_weight<TERN_GPU_BF16, 1><<<grid, THREADS, 0, stream>>>(*w, first, out); break;
    case TERN_GPU_F16: split_weight<TERN_GPU_F16, 2><<<grid, THREADS, 0, stream>>>(*w, first, out); break;
    case TERN_GPU_F32: split_weight<TERN_GPU_F32, 3><<<grid, THREADS, 0, stream>>>(*w, first, out); break;
    default: split_weight<-1, 3><<<grid, THREADS, 0, stream>>>(*w, first, out);
    }
}

template <bool KM, int NB> static cudaError_t start_product(const product *p, cudaStream_t stream)
{
    const int shared = STAGES * (PLANES + NB) * PLANE_BYTES;
    const cudaError_t e =
        cudaFuncSetAttribute(multiply_planes<KM, NB>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    if (e != cudaSuccess) return e;
    const dim3 grid((p->n + TILE - 1) / TILE, (p->m + TILE - 1) / TILE, p->splits);
    multiply_planes<KM, NB><<<grid, THREADS, shared, stream>>>(*p);
    if (p->splits > 1) add_partials<<<dim3((p->n + THREADS - 1) / THREADS, p->m), THREADS, 0, stream>>>(*p);
    return cudaGetLastError();
}

/* Products of few tiles share the steps of their sums. */
static void share_steps(product *p)
{
    const uint32_t tiles = (p->m + TILE - 1) / TILE * ((p->n + TILE - 1) / TILE), steps = (p->k + STEP - 1) / STEP;
    uint32_t splits = BLOCKS / tiles;
    if (splits > steps / LEAST_STEPS) splits = steps / LEAST_STEPS;
    if (splits > MOST_SPLITS) splits = MOST_SPLITS;
    if (splits < 1) splits = 1;
    p->k_each = (steps + splits - 1) / splits * STEP;
    p->splits = (p->k + p->k_each - 1) / p->k_each;
}

static size_t rounded(size_t bytes) { return (bytes + 255) / 256 * 256; }

/* Bytes of all planes. */
static size_t planes_bytes(size_t rows, uint32_t cols) { return rounded(rows * padded(cols) * 2 * PLANES); }

static planes planes_at(uint8_t **at, size_t rows, uint32_t cols)
{
    const planes p = {(__nv_bfloat16 *)*at, rows * padded(cols), padded(cols)};
    *at += planes_bytes(rows, cols);
    return p;
}

enum { PARTIALS_BYTES = BLOCKS * TILE * TILE * 4 };

/* How many of n, each of so many numbers, fit in PLANES_BYTES. */
static uint32_t part_of(uint32_t n, size_t numbers)
{
    const size_t most = PLANES_BYTES / (numbers * 2 * PLANES) / TILE * TILE;
    return most >= n ? n : most ? (uint32_t)most : TILE;
}

static uint32_t dx_part(uint32_t most, uint32_t n_rows, uint32_t cols)
{
    return part_of(n_rows, padded(cols > most ? cols : most));
}

size_t tern_cuda_dx_bytes(uint32_t most, uint32_t n_rows, uint32_t cols)
{
    const uint32_t part = dx_part(most, n_rows, cols);
    return PARTIALS_BYTES + planes_bytes(part, cols) + planes_bytes(most, part);
}

cudaError_t tern_cuda_run_linear_dx(const tern_cuda_gradient *g, cudaStream_t stream)
{
    const tern_cuda_weight *w = &g->weight;
    const uint32_t most = g->count.most, part = dx_part(most, g->n_rows, g->cols);
    const bool ternary = w->format == TERN_GPU_TERNARY;
    uint8_t *at = g->scratch + PARTIALS_BYTES;
    const planes weights = planes_at(&at, part, g->cols), dy = planes_at(&at, most, part);
    cudaError_t e = cudaSuccess;
    for (uint32_t first = 0; first < g->n_rows && !e; first += part) {
        const uint32_t n = g->n_rows - first < part ? g->n_rows - first : part;
        floats from = {g->count, g->dy.data + first, g->dy.stride, n, NULL, NULL, dy};
        if (ternary && w->row_scales) from.along = w->row_scales + first;
        from.out.ld = padded(n);
        start_floats(&from, stream);
        start_weight(w, first, n, weights, stream);
        product p = {from.out, weights, most, g->cols, n, g->count, g->out.data};
        p.c_stride = g->out.stride;
        p.scale = ternary && !w->row_scales ? w->scale : 1.0f;
        p.residual = first ? g->out.data : g->residual.data;
        p.residual_stride = first ? g->out.stride : g->residual.stride;
        p.partials = (float *)g->scratch;
        share_steps(&p);
        e = is_exact(w->format)           ? start_product<false, 1>(&p, stream)
            : w->format == TERN_GPU_F16 ? start_product<false, 2>(&p, stream)
                                        : start_product<false, 3>(&p, stream);
    }
    return e;
}

size_t tern_cuda_dw_bytes(uint32_t most, uint32_t n_rows, uint32_t cols)
{
    return PARTIALS_BYTES + planes_bytes(most, part_of(n_rows, most)) + planes_bytes(most, cols);
}

cudaError_t tern_cuda_run_linear_dw(const tern_cuda_gradient *g, cudaStream_t stream)
{
    const uint32_t most = g->count.most, part = part_of(g->n_rows, most);
    const bool q8 = !g->x.data;
    uint8_t *at = g->scratch + PARTIALS_BYTES;
    const planes dy = planes_at(&at, most, part), x = planes_at(&at, most, g->cols);
    const floats rows = {g->count, g->x.data, g->x.stride, g->cols, NULL, NULL, x};
    if (q8)
        split_levels<<<dim3((x.ld + THREADS - 1) / THREADS, most), THREADS, 0, stream>>>(g->count, g->q8, g->cols, x);
    else start_floats(&rows, stream);
    cudaError_t e = cudaGetLastError();
    for (uint32_t first = 0; first < g->n_rows && !e; first += part) {
        const uint32_t n = g->n_rows - first < part ? g->n_rows - first : part;
        floats from = {g->count, g->dy.data + first, g->dy.stride, n, q8 ? g->q8.inv_scales : NULL, NULL, dy};
        from.out.ld = padded(n);
        start_floats(&from, stream);
        product p = {from.out, x, n, g->cols, most, {}, g->out.data + (size_t)first * g->out.stride};
        p.c_stride = p.residual_stride = g->out.stride;
        p.residual = p.c;
        p.scale = 1;
        p.partials = (float *)g->scratch;
        share_steps(&p);
        e = q8 ? start_product<true, 1>(&p, stream) : start_product<true, 3>(&p, stream);
    }
    return e;
}
