/* LINEAR_DX, LINEAR_DW and LINEAR of a large f16 weight: numbers become planes of halves, which are multiplied on
 * tensor cores. */
#include "backend/cuda/formats.h"
#include "backend/cuda/linear/narrow.h"
#include "backend/cuda/training/product.cuh"
#include "backend/cuda/training/training.h"

/* Scratch of the planes of a part of a weight. */
enum { PLANES_BYTES = 96 << 20, PART = 128 };

static uint32_t padded(uint32_t n)
{
    return (n + 7) / 8 * 8;
}

/* Bytes of all planes, and of planes with what belongs to their rows. */
static size_t numbers_bytes(size_t rows, uint32_t cols)
{
    return tern_cuda_rounded(rows * padded(cols) * sizeof(__half) * PLANES);
}

static size_t planes_bytes(size_t rows, uint32_t cols)
{
    return numbers_bytes(rows, cols) + tern_cuda_rounded(rows * ((cols + CHUNK - 1) / CHUNK) * sizeof(float));
}

static planes planes_at(uint8_t **at, size_t rows, uint32_t cols)
{
    float *inverse = (float *)(*at + numbers_bytes(rows, cols));
    const planes p = {(__half *)*at, rows * padded(cols), padded(cols), inverse};
    *at += planes_bytes(rows, cols);
    return p;
}

/* How many of n, each of so many numbers, fit in PLANES_BYTES. */
static uint32_t part_of(uint32_t n, size_t numbers)
{
    const size_t most = PLANES_BYTES / (numbers * sizeof(__half) * PLANES) / PART * PART;
    return most >= n ? n : most ? (uint32_t)most : PART;
}

static uint32_t dx_part(uint32_t most, uint32_t n_rows, uint32_t cols)
{
    return part_of(n_rows, cols > most ? cols : most);
}

size_t tern_cuda_dx_bytes(uint32_t most, uint32_t n_rows, uint32_t cols)
{
    const uint32_t part = dx_part(most, n_rows, cols);
    return PARTIALS_BYTES + planes_bytes(cols, part) + planes_bytes(most, part);
}

static cudaError_t narrow_dx(const tern_cuda_gradient *g, cudaStream_t stream)
{
    const tern_cuda_narrow p = {g->count,
                                g->dy,
                                g->residual,
                                g->out,
                                (const float *)g->weight.data,
                                NULL,
                                g->weight.row_bytes / (uint32_t)sizeof(float),
                                true,
                                g->cols,
                                g->n_rows};
    return tern_cuda_run_narrow(&p, stream);
}

cudaError_t tern_cuda_run_linear_dx(const tern_cuda_gradient *g, cudaStream_t stream)
{
    const tern_cuda_weight *w = &g->weight;
    if (!g->bf16 && w->format == TERN_GPU_F32 && tern_cuda_is_narrow(g->cols, g->n_rows)) return narrow_dx(g, stream);
    const uint32_t most = g->count.most, part = dx_part(most, g->n_rows, g->cols),
                   n_planes = g->bf16 ? 1 : tern_cuda_weight_planes(w->format);
    const bool ternary = w->format == TERN_GPU_TERNARY;
    uint8_t *at = g->scratch + PARTIALS_BYTES;
    const planes weights = planes_at(&at, g->cols, part), dy = planes_at(&at, most, part);
    cudaError_t e = cudaSuccess;
    for (uint32_t first = 0; first < g->n_rows && !e; first += part) {
        const uint32_t n = g->n_rows - first < part ? g->n_rows - first : part;
        const tern_cuda_rows rows = {g->dy.data + first, g->dy.stride};
        const tern_cuda_floats from = {g->count, rows, n, NULL,
                                       ternary && w->row_scales ? w->row_scales + first : NULL};
        product p = {dy, weights, most, g->cols, n, n_planes, g->count, g->out.data};
        p.a.ld = p.b.ld = padded(n);
        p.b.inverse = NULL;
        p.c_stride = g->out.stride;
        p.scale = ternary && !w->row_scales ? w->scale : g->bf16 ? 1.0f : 1.0f / tern_cuda_weight_times(w->format);
        p.residual = first ? g->out.data : g->residual.data;
        p.residual_stride = first ? g->out.stride : g->residual.stride;
        p.partials = (float *)g->scratch;
        p.bf16 = g->bf16;
        if (g->bf16)
            tern_cuda_round_rows_bf16(&from, p.a, stream), tern_cuda_round_weight_bf16(w, first, n, p.b, stream);
        else tern_cuda_split_rows(&from, p.a, stream), tern_cuda_split_weight(w, first, n, p.b, stream);
        e = tern_cuda_multiply(&p, stream);
    }
    return e;
}

static size_t columns_bytes(uint32_t cols)
{
    return tern_cuda_rounded(cols * sizeof(uint32_t));
}

size_t tern_cuda_dw_bytes(uint32_t most, uint32_t n_rows, uint32_t cols)
{
    const uint32_t part = part_of(n_rows, most);
    return PARTIALS_BYTES + columns_bytes(cols) + planes_bytes(part, most) + planes_bytes(cols, most);
}

static cudaError_t narrow_dw(const tern_cuda_gradient *g, cudaStream_t stream)
{
    const bool turned = g->cols <= g->n_rows; /* x is the narrow one */
    const tern_cuda_narrow_sums p = {
        g->count, turned ? g->x : g->dy,        turned ? g->dy : g->x,        g->out,
        turned,   turned ? g->cols : g->n_rows, turned ? g->n_rows : g->cols, (float *)g->scratch};
    return tern_cuda_run_narrow_sums(&p, stream);
}

cudaError_t tern_cuda_run_linear_dw(const tern_cuda_gradient *g, cudaStream_t stream)
{
    if (!g->bf16 && g->x.data && tern_cuda_is_narrow(g->n_rows, g->cols)) return narrow_dw(g, stream);
    const uint32_t most = g->count.most, part = part_of(g->n_rows, most);
    const uint32_t n_planes = g->x.data && !g->bf16 ? PLANES : 1;
    uint8_t *at = g->scratch + PARTIALS_BYTES;
    uint32_t *columns = (uint32_t *)at;
    at += columns_bytes(g->cols);
    const planes dy = planes_at(&at, part, most);
    planes x = planes_at(&at, g->cols, most);
    const tern_cuda_floats rows = {g->count, g->x, g->cols, NULL, NULL};
    if (!g->x.data || g->bf16) x.inverse = NULL;
    if (g->x.data && g->bf16) tern_cuda_round_columns_bf16(&rows, x, stream);
    else if (g->x.data) tern_cuda_split_whole_columns(&rows, x, columns, stream);
    else if (g->bf16) tern_cuda_round_levels_bf16(g->count, g->q8, g->cols, x, stream);
    else tern_cuda_split_levels(g->count, g->q8, g->cols, x, stream);
    cudaError_t e = cudaGetLastError();
    for (uint32_t first = 0; first < g->n_rows && !e; first += part) {
        const uint32_t n = g->n_rows - first < part ? g->n_rows - first : part;
        const tern_cuda_floats from = {
            g->count, {g->dy.data + first, g->dy.stride}, n, g->x.data ? NULL : g->q8.inv_scales, NULL};
        product p = {dy, x, n, g->cols, most, n_planes, {}, g->out.data + (size_t)first * g->out.stride};
        p.c_stride = p.residual_stride = g->out.stride;
        p.residual = p.c;
        p.scale = 1;
        p.partials = (float *)g->scratch;
        p.bf16 = g->bf16;
        if (g->bf16) tern_cuda_round_columns_bf16(&from, dy, stream);
        else tern_cuda_split_columns(&from, dy, stream);
        e = tern_cuda_multiply(&p, stream);
    }
    return e;
}

size_t tern_cuda_head_bytes(uint32_t most, uint32_t cols)
{
    return planes_bytes(most, cols);
}

cudaError_t tern_cuda_run_head(const tern_cuda_head *h, cudaStream_t stream)
{
    const tern_cuda_weight *w = &h->weight;
    const tern_cuda_floats from = {h->count, h->x, w->cols, NULL, NULL};
    uint8_t *at = h->scratch;
    const planes x = planes_at(&at, h->count.most, w->cols);
    const uint32_t ld = w->row_bytes / (uint32_t)sizeof(__half);
    const planes rows = {(__half *)(void *)w->data, (size_t)w->rows * ld, ld, NULL};
    product p = {x, rows, h->count.most, w->rows, w->cols, 1, h->count, h->out.data, h->residual.data};
    p.c_stride = h->out.stride;
    p.residual_stride = h->residual.stride;
    p.scale = 1;
    tern_cuda_split_rows(&from, x, stream);
    return tern_cuda_multiply(&p, stream);
}
