/* The gradients of linear layers: tiles of the result are shared out over the threads; each task takes its chains of
 * products a block at a time, so that weights are decoded, and operands packed, where the second cache holds them.
 *
 * Every element is one chain in order, so neither tiles nor threads show in the bits. */
#include <string.h>

#include "backend/cpu/ops.h"

enum {
    TILE = TERN_GEMM_M, /* rows and columns of a task's tile at most */
    SMALL_TILE = 128,   /* where large ones would be too few */
    TASKS_PER_THREAD = 4,
    GRAIN = 32,                   /* columns of a tile are a multiple of this, but for the last */
    DECODED = 256,                /* decoded rows may be written up to a multiple of this */
    MAX_STRIDE = 3 * DECODED + 16 /* a tile's columns as whole blocks: two of 320 at most */
};

/* What one thread works in. */
typedef struct gradient_memory {
    float packed[TERN_GEMM_WORKSPACE];
    float b[TERN_GEMM_K * MAX_STRIDE];
    float sums[TILE][TILE];
} gradient_memory;

/* The result as tiles: m_tiles x n_tiles tasks. */
typedef struct gradient_job {
    const tern_cpu_step *step;
    const tern_cpu_op *op;
    uint32_t m, n, k; /* rows and columns of the result, products of a chain */
    uint32_t m_tile, n_tile, n_tiles;
    /* LINEAR_DW of an int8 input */
    const float *scales;
    const uint8_t *q;
    size_t q_stride;
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
    const tern_buffer *buffer = j->op->weight[TERN_LINEAR_DX_W];
    const tern_weight *w = buffer->weight;
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
    if (w->row_scales) scale_rows(w->row_scales + first, k, r.n, memory->b + skipped, *stride);
    return memory->b + skipped;
}

/* out = residual (or 0) + scale * sums */
static void finish_dx(const tern_cpu_op *op, region r, float scale, const gradient_memory *memory)
{
    for (uint32_t i = 0; i < r.m; i++) {
        float *out = op->out.data + (r.row + i) * op->out.stride + r.col;
        const float *sums = memory->sums[i];
        const float *residual =
            op->residual.data ? op->residual.data + (r.row + i) * op->residual.stride + r.col : NULL;
        for (uint32_t c = 0; c < r.n; c++) out[c] = (residual ? residual[c] : 0.0f) + scale * sums[c];
    }
}

static void dx_task(void *context, uint32_t task, uint32_t thread)
{
    const gradient_job *j = context;
    const tern_cpu_op *op = j->op;
    const tern_weight *w = op->weight[TERN_LINEAR_DX_W]->weight;
    const region r = region_of(j, task);
    gradient_memory *memory = memory_of(j, thread);
    memset(memory->sums, 0, r.m * sizeof memory->sums[0]);
    for (uint32_t first = 0; first < j->k; first += TERN_GEMM_K) {
        tern_gemm_args g = {.m = r.m, .n = r.n, .k = min_u32(TERN_GEMM_K, j->k - first), .workspace = memory->packed};
        g.a = op->in[TERN_LINEAR_DX_DY].data + r.row * op->in[TERN_LINEAR_DX_DY].stride + first;
        g.a_stride = op->in[TERN_LINEAR_DX_DY].stride;
        g.b = weight_block(j, r, first, g.k, memory, &g.b_stride);
        g.c = memory->sums[0];
        g.c_stride = TILE;
        j->step->cpu->kernels.gemm(&g);
    }
    finish_dx(op, r, w->encoding->ternary && !w->row_scales ? w->scale : 1, memory);
}

void tern_cpu__linear_dx(tern_cpu_step *step, const tern_cpu_op *op)
{
    const tern_weight *w = op->weight[TERN_LINEAR_DX_W]->weight;
    gradient_job j = {.step = step, .op = op, .m = tern_cpu__rows(step, op->op->rows), .n = w->cols, .k = w->rows};
    step->weight_bytes += op->weight[TERN_LINEAR_DX_W]->bytes;
    run_tiles(&j, dx_task);
}

static void dw_task(void *context, uint32_t task, uint32_t thread)
{
    const gradient_job *j = context;
    const tern_cpu_op *op = j->op;
    const region r = region_of(j, task);
    gradient_memory *memory = memory_of(j, thread);
    for (uint32_t first = 0; first < j->k; first += TERN_GEMM_K) {
        tern_gemm_args g = {.m = r.m, .n = r.n, .k = min_u32(TERN_GEMM_K, j->k - first), .workspace = memory->packed};
        g.a = op->in[TERN_LINEAR_DW_DY].data + first * op->in[TERN_LINEAR_DW_DY].stride + r.row;
        g.a_stride = op->in[TERN_LINEAR_DW_DY].stride;
        g.a_columns = true;
        g.b = op->in[TERN_LINEAR_DW_X].data + first * op->in[TERN_LINEAR_DW_X].stride + r.col;
        g.b_stride = op->in[TERN_LINEAR_DW_X].stride;
        if (j->q) {
            g.a_scales = j->scales + first;
            g.b = memory->b;
            g.b_stride = decoded_stride(r.n);
            j->step->cpu->kernels.decode_i8(j->q + first * j->q_stride + r.col, j->q_stride, g.k, r.n, memory->b,
                                            g.b_stride);
        }
        g.c = op->in[TERN_LINEAR_DW_DW].data + r.row * op->in[TERN_LINEAR_DW_DW].stride + r.col;
        g.c_stride = op->in[TERN_LINEAR_DW_DW].stride;
        j->step->cpu->kernels.gemm(&g);
    }
}

void tern_cpu__linear_dw(tern_cpu_step *step, const tern_cpu_op *op)
{
    const tern_graph *graph = step->prepared->graph;
    const tern_view dy = op->op->in[TERN_LINEAR_DW_DY], x = op->op->in[TERN_LINEAR_DW_X];
    const tern_value *value = &graph->values[x.value];
    gradient_job j = {.step = step, .op = op, .m = dy.cols, .n = x.cols, .k = tern_cpu__rows(step, op->op->rows)};
    if (value->dtype == TERN_DTYPE_Q8) {
        const uint32_t rows = tern_graph_max_rows(graph, value->rows);
        j.q_stride = (size_t)tern_q8_stride(value->cols);
        j.q = op->base[TERN_LINEAR_DW_X] + x.first_row * j.q_stride + x.first_col;
        j.scales =
            (const float *)(const void *)(op->base[TERN_LINEAR_DW_X] + tern_q8_scales_offset(value->cols, rows)) +
            x.first_row;
    }
    run_tiles(&j, dw_task);
}
