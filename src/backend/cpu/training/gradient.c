/* The gradients of linear layers: tiles of the result are shared out over the threads; each task takes its chains of
 * products a block at a time, so that weights are decoded, and operands packed, where the second cache holds them.
 *
 * Every element is one chain in order, so neither tiles nor threads show in the bits. */
#include <string.h>

#include "backend/cpu/ops.h"
#include "backend/cpu/training/gradient.h"
#include "ops/op.h"
#include "quant/encoding.h"
#include "quant/weight.h"

enum {
    TILE = TERN_GEMM_M, /* rows and columns of a task's tile at most */
    SMALL_TILE = 128,   /* where large ones would be too few */
    TASKS_PER_THREAD = 4,
    GRAIN = 32,                   /* columns of a tile are a multiple of this, except the last */
    DECODED = 256,                /* decoded rows may be written up to a multiple of this */
    MAX_STRIDE = 3 * DECODED + 16 /* a tile's columns as whole blocks: two of 320 at most */
};

/* The memory of one thread. */
typedef struct gradient_memory {
    float packed[TERN_GEMM_WORKSPACE];
    float b[TERN_GEMM_K * MAX_STRIDE];
    float sums[TILE][TILE];
} gradient_memory;

/* The result as tiles: m_tiles x n_tiles tasks. */
typedef struct gradient_job {
    const tern_cpu_step *step;
    uint32_t m, n, k; /* rows and columns of the result, products of a chain */
    uint32_t m_tile, n_tile, n_tiles;
    const tern_gradient__dx_args *dx;
    const tern_gradient__dw_args *dw;
} gradient_job;

/* Rows and columns of one task. */
typedef struct region {
    uint32_t row, col, m, n;
} region;

static uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t pieces(uint32_t n, uint32_t most)
{
    return (n + most - 1) / most;
}

/* n in equal tiles of at most `most`. */
static uint32_t tile_of(uint32_t n, uint32_t most)
{
    return pieces(pieces(n, pieces(n, most)), GRAIN) * GRAIN;
}

size_t tern_cpu__gradient_scratch(const tern_graph *graph, const tern_op *op)
{
    (void)graph;
    (void)op;
    return sizeof(gradient_memory);
}

static gradient_memory *memory_of(const gradient_job *j, uint32_t thread)
{
    return (gradient_memory *)(void *)tern_cpu__scratch(j->step, thread);
}

static region region_of(const gradient_job *j, uint32_t task)
{
    region r = {.row = task / j->n_tiles * j->m_tile, .col = task % j->n_tiles * j->n_tile};
    r.m = min_u32(j->m_tile, j->m - r.row);
    r.n = min_u32(j->n_tile, j->n - r.col);
    return r;
}

/* How many tasks there are may depend on the threads, since no task's extent shows in the bits. */
static void run_tiles(gradient_job *j, tern_task_fn task)
{
    const uint32_t n_threads = tern_pool_threads(j->step->cpu->pool);
    const uint32_t enough = n_threads == 1 ? 1 : TASKS_PER_THREAD * n_threads;
    uint32_t rows = TILE, cols = TILE;
    if (pieces(j->m, rows) * pieces(j->n, cols) < enough) cols = SMALL_TILE;
    if (pieces(j->m, rows) * pieces(j->n, cols) < enough) rows = SMALL_TILE;
    j->m_tile = tile_of(j->m, rows);
    j->n_tile = tile_of(j->n, cols);
    j->n_tiles = pieces(j->n, j->n_tile);
    tern_pool_for(j->step->cpu->pool, pieces(j->m, j->m_tile) * j->n_tiles, task, j);
}

/* Rows first .. first + n - 1 times their own scales. */
static void scale_rows(const float *scales, uint32_t n, uint32_t cols, float *b, size_t stride)
{
    for (uint32_t r = 0; r < n; r++, b += stride)
        for (uint32_t c = 0; c < cols; c++) b[c] *= scales[r];
}

/* From row to row of decoded values: not a power of two, so that rows do not meet in the same sets of the cache. */
static size_t decoded_stride(uint32_t cols)
{
    return pieces(cols, DECODED) * DECODED + 16;
}

/* Columns col .. col + n - 1 of rows first .. first + k - 1 as floats. */
static const float *weight_block(const gradient_job *j, region r, uint32_t first, uint32_t k, gradient_memory *memory,
                                 size_t *stride)
{
    const tern_buffer *buffer = j->dx->weight;
    const tern_weight *w = buffer->weight;
    first += j->dx->first_row;
    const uint8_t *rows = buffer->data + first * buffer->row_bytes;
    if (!buffer->decode) {
        *stride = buffer->row_bytes / sizeof(float);
        return (const float *)(const void *)rows + r.col;
    }
    const uint32_t block = w->encoding->block_elements, skipped = r.col % block;
    const uint32_t cols = min_u32(pieces(skipped + r.n, block) * block, buffer->cols - (r.col - skipped));
    *stride = decoded_stride(cols);
    buffer->decode(rows + (size_t)(r.col / block) * w->encoding->block_bytes, buffer->row_bytes, k, cols, memory->b,
                   *stride);
    if (w->row_scales && !j->dx->bf16) scale_rows(w->row_scales + first, k, r.n, memory->b + skipped, *stride);
    return memory->b + skipped;
}

/* out = residual (or 0) + scale * sums */
static void finish_dx(const tern_gradient__dx_args *dx, region r, float scale, const gradient_memory *memory)
{
    for (uint32_t i = 0; i < r.m; i++) {
        float *out = dx->out.data + (r.row + i) * dx->out.stride + r.col;
        const float *sums = memory->sums[i];
        const float *residual =
            dx->residual.data ? dx->residual.data + (r.row + i) * dx->residual.stride + r.col : NULL;
        for (uint32_t c = 0; c < r.n; c++) out[c] = (residual ? residual[c] : 0.0f) + scale * sums[c];
    }
}

static void dx_task(void *context, uint32_t task, uint32_t thread)
{
    const gradient_job *j = context;
    const tern_gradient__dx_args *dx = j->dx;
    const tern_weight *w = dx->weight->weight;
    const region r = region_of(j, task);
    gradient_memory *memory = memory_of(j, thread);
    memset(memory->sums, 0, r.m * sizeof memory->sums[0]);
    for (uint32_t first = 0; first < j->k; first += TERN_GEMM_K) {
        tern_gemm_args g = {.m = r.m, .n = r.n, .k = min_u32(TERN_GEMM_K, j->k - first), .workspace = memory->packed};
        g.a = dx->dy.data + r.row * dx->dy.stride + first;
        g.a_stride = dx->dy.stride;
        g.bf16 = dx->bf16;
        if (dx->bf16 && w->row_scales) g.a_scales = w->row_scales + dx->first_row + first;
        g.b = weight_block(j, r, first, g.k, memory, &g.b_stride);
        g.c = memory->sums[0];
        g.c_stride = TILE;
        j->step->cpu->kernels.gemm(&g);
    }
    finish_dx(dx, r, w->encoding->ternary && !w->row_scales ? w->scale : 1, memory);
}

void tern_gradient__dx(tern_cpu_step *step, const tern_gradient__dx_args *dx)
{
    gradient_job j = {.step = step, .dx = dx, .m = dx->n, .n = dx->weight->weight->cols, .k = dx->n_rows};
    step->weight_bytes += dx->n_rows * dx->weight->row_bytes;
    run_tiles(&j, dx_task);
}

void tern_cpu__linear_dx(tern_cpu_step *step, const tern_cpu_op *op)
{
    const tern_gradient__dx_args dx = {.weight = op->weight[TERN_LINEAR_DX_W],
                                       .n_rows = op->weight[TERN_LINEAR_DX_W]->weight->rows,
                                       .n = tern_cpu__rows(step, op->op->rows),
                                       .bf16 = op->op->halves,
                                       .dy = op->in[TERN_LINEAR_DX_DY],
                                       .residual = op->residual,
                                       .out = op->out};
    if (op->routes) tern_gradient__routed_dx(step, op);
    else tern_gradient__dx(step, &dx);
}

static void dw_task(void *context, uint32_t task, uint32_t thread)
{
    const gradient_job *j = context;
    const tern_gradient__dw_args *dw = j->dw;
    const region r = region_of(j, task);
    gradient_memory *memory = memory_of(j, thread);
    for (uint32_t first = 0; first < j->k; first += TERN_GEMM_K) {
        tern_gemm_args g = {.m = r.m, .n = r.n, .k = min_u32(TERN_GEMM_K, j->k - first), .workspace = memory->packed};
        g.a = dw->dy.data + first * dw->dy.stride + r.row;
        g.a_stride = dw->dy.stride;
        g.a_columns = true;
        g.bf16 = dw->bf16;
        if (dw->q.data) {
            g.a_scales = dw->q.scales + first;
            g.b = memory->b;
            g.b_stride = decoded_stride(r.n);
            j->step->cpu->kernels.decode_i8(dw->q.data + first * dw->q.stride + r.col, dw->q.stride, g.k, r.n,
                                            memory->b, g.b_stride);
        } else {
            g.b = dw->x.data + first * dw->x.stride + r.col;
            g.b_stride = dw->x.stride;
        }
        g.c = dw->dw + r.row * dw->cols + r.col;
        g.c_stride = dw->cols;
        j->step->cpu->kernels.gemm(&g);
    }
}

void tern_gradient__dw(tern_cpu_step *step, const tern_gradient__dw_args *dw)
{
    gradient_job j = {.step = step, .dw = dw, .m = dw->n_rows, .n = dw->cols, .k = dw->n};
    run_tiles(&j, dw_task);
}

tern_gradient__q8 tern_gradient__q8_of(const tern_graph *graph, const tern_cpu_op *op)
{
    const tern_view x = op->op->in[TERN_LINEAR_DW_X];
    const tern_value *value = &graph->values[x.value];
    const uint8_t *base = op->base[TERN_LINEAR_DW_X];
    if (value->dtype != TERN_DTYPE_Q8) return (tern_gradient__q8){0};
    const uint64_t scales = tern_q8_scales_offset(value->cols, tern_graph_max_rows(graph, value->rows));
    tern_gradient__q8 q = {.stride = (size_t)tern_q8_stride(value->cols)};
    q.data = base + x.first_row * q.stride + x.first_col;
    q.scales = (const float *)(const void *)(base + scales) + x.first_row;
    return q;
}

void tern_cpu__linear_dw(tern_cpu_step *step, const tern_cpu_op *op)
{
    const tern_gradient__dw_args dw = {.n_rows = op->op->in[TERN_LINEAR_DW_DY].cols,
                                       .cols = op->op->in[TERN_LINEAR_DW_X].cols,
                                       .n = tern_cpu__rows(step, op->op->rows),
                                       .bf16 = op->op->halves,
                                       .dy = op->in[TERN_LINEAR_DW_DY],
                                       .x = op->in[TERN_LINEAR_DW_X],
                                       .q = tern_gradient__q8_of(step->prepared->graph, op),
                                       .dw = op->in[TERN_LINEAR_DW_DW].data};
    if (op->routes) tern_gradient__routed_dw(step, op);
    else tern_gradient__dw(step, &dw);
}
