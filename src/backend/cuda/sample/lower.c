/* SAMPLE: of one token a step of a walk (walk/walk.h), of several rows kernels of its own. */
#include <assert.h>
#include <stddef.h>

#include "backend/cuda/cuda_internal.h"
#include "backend/cuda/sample/sample.h"
#include "ops/graph.h"
#include "ops/op.h"

static_assert(sizeof(tern_cuda_sampler) == sizeof(tern_sample_params), "one struct in two languages");
static_assert(offsetof(tern_cuda_sampler, draws) == offsetof(tern_sample_params, draws), "one struct in two languages");
static_assert(sizeof(tern_cuda_row_sampler) == sizeof(tern_sample_row), "one struct in two languages");
static_assert(offsetof(tern_cuda_row_sampler, draw) == offsetof(tern_sample_row, draw), "one struct in two languages");
static_assert((int)TERN_CUDA_MAX_TOP_K == (int)TERN_SAMPLE_MAX_TOP_K, "one limit in two languages");

static uint32_t *written(const tern_prepared *p, tern_view view)
{
    return (uint32_t *)(void *)tern_cuda__address(p, view.value);
}

/* Whether rows of the logits may be left out. */
static bool is_screened(const tern_graph *graph, tern_view logits)
{
    for (size_t i = 0; i < graph->n_ops; i++)
        if (graph->ops[i].kind == TERN_OP_LINEAR && graph->ops[i].out.value == logits.value)
            return graph->ops[i].screened;
    return false;
}

enum { MOST_SLICES = 16, SLICE_IDS = 2048 };

static uint32_t slices_of(const tern_op *op)
{
    const uint32_t n = (op->in[TERN_SAMPLE_LOGITS].cols + SLICE_IDS - 1) / SLICE_IDS;
    return n < MOST_SLICES ? n : MOST_SLICES;
}

size_t tern_cuda__sample_scratch(const tern_graph *graph, const tern_op *op)
{
    if (!op->each_row) return 0;
    return (size_t)tern_graph_max_rows(graph, op->rows) * slices_of(op) * TERN_CUDA_MAX_TOP_K * sizeof(uint64_t);
}

static cudaError_t run_rows(const void *params, cudaStream_t stream)
{
    return tern_cuda_run_sample_rows((const tern_cuda_sample_rows *)params, stream);
}

static void lower_rows(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out)
{
    const tern_view logits = op->in[TERN_SAMPLE_LOGITS];
    out->run = run_rows;
    out->params.sample_rows = (tern_cuda_sample_rows){
        .count = tern_cuda__count(p, op->rows),
        .logits = tern_cuda__rows(p, logits),
        .n_vocab = logits.cols,
        .slices = slices_of(op),
        .screened = is_screened(p->graph, logits),
        .samplers = (const tern_cuda_row_sampler *)(const void *)written(p, op->in[TERN_SAMPLE_SAMPLER]),
        .tokens = written(p, op->out),
        .found = p->scratch};
}

void tern_cuda__lower_sample(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out)
{
    const tern_view logits = op->in[TERN_SAMPLE_LOGITS];
    if (op->each_row) {
        lower_rows(p, op, out);
        return;
    }
    out->params.sample = (tern_cuda_sample){.logits = tern_cuda__rows(p, logits).data,
                                            .n_vocab = logits.cols,
                                            .screened = is_screened(p->graph, logits),
                                            .counts = written(p, op->in[TERN_SAMPLE_COUNTS]),
                                            .positions = written(p, op->in[TERN_SAMPLE_POSITIONS]),
                                            .tokens = written(p, op->out),
                                            .ids = (int32_t *)written(p, op->in[TERN_SAMPLE_IDS]),
                                            .sampler = written(p, op->in[TERN_SAMPLE_SAMPLER])};
}
