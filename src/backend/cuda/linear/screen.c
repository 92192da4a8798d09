/* `--head exact`: the screen of an output table, and the launch of a LINEAR that has one. */
#include <assert.h>
#include <stddef.h>

#include "backend/cuda/cuda_internal.h"
#include "ops/graph.h"
#include "ops/op.h"
#include "quant/encoding.h"
#include "quant/weight.h"

static_assert(sizeof(tern_cuda_wanted) == sizeof(tern_wanted), "one struct in two languages");
static_assert(offsetof(tern_cuda_wanted, pinned) == offsetof(tern_wanted, pinned), "one struct in two languages");
static_assert((int)TERN_CUDA_SCREEN_WANTED == (int)TERN_SAMPLE_MAX_TOP_K, "as many as a device draws from");

static const tern_weight *table_of(const tern_graph *graph, const tern_op *op)
{
    return graph->values[op->in[TERN_LINEAR_W].value].weight;
}

/* The layout of the table's copy. */
static tern_status copy_layout(tern_gpu_layout *layout, uint32_t rows, uint32_t cols, tern_error *err)
{
    const tern_weight copy = {
        .name = "the screen", .encoding = tern_encoding_by_name("q8_0"), .rows = rows, .cols = cols};
    return tern_cuda__layout(layout, &copy, err);
}

tern_status tern_cuda__screen_supports(const tern_graph *graph, const tern_op *op, tern_error *err)
{
    enum { BLOCK = 32 };
    const tern_weight *w = table_of(graph, op);
    tern_gpu_layout layout;
    TERN_TRY(tern_cuda__layout(&layout, w, err));
    const bool floats = layout.format >= TERN_GPU_F32 && layout.format <= TERN_GPU_BF16;
    if (!floats || op->n_parts != 1)
        return tern_fail(err, TERN_UNSUPPORTED,
                         "cuda: --head exact of a table in %s, which is no larger than its screen: leave the flag out "
                         "(f32, f16 or bf16 expected)",
                         w->encoding->name);
    if (w->cols % BLOCK == 0) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED, "cuda: --head exact of %u columns: a multiple of %d expected", w->cols,
                     BLOCK);
}

static tern_status make(tern_cuda *cuda, tern_buffer *table, const tern_cuda_weight *w, tern_error *err)
{
    tern_gpu_layout copy;
    tern_buffer *memory;
    TERN_TRY(copy_layout(&copy, w->rows, w->cols, err));
    if (tern_cuda__buffer_make(cuda, copy.bytes + (uint64_t)w->rows * sizeof(float), &memory, err) != TERN_OK)
        return tern_error_prefix(err, "the screen of the output table (--head exact)");
    const tern_cuda_screen_table screen = {.table = *w,
                                           .copy = memory->data,
                                           .copy_bytes = copy.row_bytes,
                                           .errors = (float *)(void *)(memory->data + copy.bytes)};
    const tern_status status =
        tern_cuda__status(tern_cuda_screen_build(&screen, cuda->stream), "the screen of the output table", err);
    if (status != TERN_OK) {
        tern_cuda__buffer_free(memory);
        return status;
    }
    table->screen = memory;
    table->screen_table = screen;
    return TERN_OK;
}

tern_status tern_cuda__screens_make(tern_cuda *cuda, const tern_prepared *p, tern_error *err)
{
    for (size_t i = 0; i < p->graph->n_ops; i++) {
        const tern_op *op = &p->graph->ops[i];
        if (!op->screened || tern_cuda__is_head(p->graph, op)) continue;
        tern_buffer *table = p->bindings[op->in[TERN_LINEAR_W].value].buffer;
        const tern_cuda_weight w = tern_cuda__weight(p, op->in[TERN_LINEAR_W]);
        if (!table->screen) TERN_TRY(make(cuda, table, &w, err));
    }
    return TERN_OK;
}

static cudaError_t run(const void *params, cudaStream_t stream)
{
    return tern_cuda_run_screened((const tern_cuda_screened *)params, stream);
}

size_t tern_cuda__screen_scratch(const tern_op *op)
{
    return op->screened ? sizeof(tern_cuda_screen_plan) : 0;
}

void tern_cuda__lower_screened(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out)
{
    const tern_cuda_screen_table *screen = &p->bindings[op->in[TERN_LINEAR_W].value].buffer->screen_table;
    const tern_cuda_linear full = out->params.linear;
    tern_cuda_screened s = {.full = full,
                            .estimate = full,
                            .errors = screen->errors,
                            .counts = tern_cuda__param(p, TERN_PARAM_COUNTS),
                            .more = (const tern_cuda_wanted *)(const void *)tern_cuda__param(p, TERN_PARAM_WANTED),
                            .plan = p->scratch};
    const uint32_t most = full.count.most < TERN_CUDA_SCREEN_ROWS ? full.count.most : TERN_CUDA_SCREEN_ROWS;
    s.full.count.n = &s.plan->full_rows;
    s.estimate.count = (tern_cuda_count){.n = &s.plan->rows, .times = 1, .most = most, .usual = most};
    s.estimate.kernel = 0;
    s.estimate.weight[0] = (tern_cuda_weight){.data = screen->copy,
                                              .format = TERN_GPU_Q8_0,
                                              .rows = full.weight[0].rows,
                                              .cols = full.weight[0].cols,
                                              .row_bytes = screen->copy_bytes};
    out->run = run;
    out->weight_bytes = (uint64_t)screen->copy_bytes * full.weight[0].rows;
    out->params.screened = s;
}
