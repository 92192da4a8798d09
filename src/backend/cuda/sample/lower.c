/* SAMPLE, which is a step of a walk (walk/walk.h). */
#include <assert.h>
#include <stddef.h>

#include "backend/cuda/cuda_internal.h"
#include "backend/cuda/sample/sample.h"

static_assert(sizeof(tern_cuda_sampler) == sizeof(tern_sample_params), "one struct in two languages");
static_assert(offsetof(tern_cuda_sampler, draws) == offsetof(tern_sample_params, draws), "one struct in two languages");
static_assert((int)TERN_CUDA_MAX_TOP_K == (int)TERN_SAMPLE_MAX_TOP_K, "one limit in two languages");

static uint32_t *written(const tern_prepared *p, tern_view view)
{
    return (uint32_t *)(void *)tern_cuda__address(p, view.value);
}

tern_status tern_cuda__sample_supports(const tern_graph *graph, const tern_op *op, tern_error *err)
{
    (void)graph;
    if (!op->each_row) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED, "cuda: op %s: a token of each row: one row expected",
                     tern_op_name(op->kind));
}

void tern_cuda__lower_sample(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out)
{
    const tern_view logits = op->in[TERN_SAMPLE_LOGITS];
    out->params.sample = (tern_cuda_sample){.logits = tern_cuda__rows(p, logits).data,
                                            .n_vocab = logits.cols,
                                            .counts = written(p, op->in[TERN_SAMPLE_COUNTS]),
                                            .positions = written(p, op->in[TERN_SAMPLE_POSITIONS]),
                                            .tokens = written(p, op->out),
                                            .ids = (int32_t *)written(p, op->in[TERN_SAMPLE_IDS]),
                                            .sampler = written(p, op->in[TERN_SAMPLE_SAMPLER])};
}
