/* Gathers the parts of a row that the ranks have made: all of them get the whole row. */
#include <string.h>

#include "backend/cpu/ops.h"
#include "ops/op.h"
#include "ranks/ranks.h"

/* Blocks of all ranks, one after the other, of the rows of a step. */
size_t tern_cpu__all_gather_shared(const tern_graph *graph, const tern_op *op)
{
    return (size_t)tern_graph_max_rows(graph, op->rows) * op->out.cols * sizeof(float);
}

void tern_cpu__all_gather(tern_cpu_step *step, const tern_cpu_op *op)
{
    tern_ranks *ranks = step->cpu->ranks;
    const uint32_t n = tern_cpu__rows(step, op->op->rows);
    const tern_cpu_rows *x = &op->in[TERN_ALL_GATHER_X];
    float *all = n == 1 ? op->out.data : step->prepared->shared;
    size_t bytes[TERN_MAX_RANKS];
    if (!ranks || ranks->n != op->op->n_ranks) {
        step->status = tern_fail(step->err, TERN_INVALID_ARGUMENT, "a graph of %u ranks: run by %u", op->op->n_ranks,
                                 ranks ? ranks->n : 1);
        return;
    }
    for (uint32_t r = 0; r < ranks->n; r++) bytes[r] = (size_t)n * op->op->rank_cols[r] * sizeof(float);
    step->status = ranks->gather(ranks, x->data, bytes, all, step->err);
    if (n == 1) return;
    const float *block = all;
    uint32_t first = 0;
    for (uint32_t r = 0; r < ranks->n; r++) {
        const uint32_t cols = op->op->rank_cols[r];
        for (uint32_t t = 0; t < n; t++, block += cols)
            memcpy(op->out.data + t * op->out.stride + first, block, cols * sizeof(float));
        first += cols;
    }
}
