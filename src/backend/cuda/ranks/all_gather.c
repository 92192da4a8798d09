/* ALL_GATHER among the devices of ranks: all rows that a graph may have, so that a recorded step is any step. */
#include "backend/cuda/ranks/peers.h"

static cudaError_t all_gather(const void *params, cudaStream_t stream)
{
    const tern_cuda_all_gather *g = params;
    const tern_cuda_peers *p = g->peers;
    float *blocks = (float *)(uintptr_t)g->place.blocks;
    int result = p->nccl->group_start();
    for (uint32_t r = 0; r < p->n && result == 0; r++) {
        const size_t n = (size_t)g->place.rows * g->place.cols[r];
        result = p->nccl->broadcast(g->x, blocks, n, TERN_NCCL_FLOAT32, (int)r, p->comm, stream);
        blocks += n;
    }
    const int ended = p->nccl->group_end();
    if (result != 0 || ended != 0) return cudaErrorUnknown;
    return tern_cuda_run_place_blocks(&g->place, stream);
}

size_t tern_cuda__all_gather_scratch(const tern_graph *graph, const tern_op *op)
{
    if (op->kind != TERN_OP_ALL_GATHER) return 0;
    return (size_t)tern_graph_max_rows(graph, op->rows) * op->out.cols * sizeof(float);
}

tern_status tern_cuda__all_gather_supports(const tern_cuda *cuda, const tern_op *op, tern_error *err)
{
    if (cuda->peers && cuda->peers->n == op->n_ranks) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED, "cuda: op %s of %u ranks, whose devices were not joined",
                     tern_op_name(op->kind), op->n_ranks);
}

void tern_cuda__lower_all_gather(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out)
{
    const tern_cuda_rows to = tern_cuda__rows(p, op->out);
    tern_cuda_place_blocks place = {.blocks = p->scratch,
                                    .out = to.data,
                                    .stride = to.stride,
                                    .rows = tern_graph_max_rows(p->graph, op->rows),
                                    .n = op->n_ranks};
    for (uint32_t r = 0; r < op->n_ranks; r++) place.cols[r] = op->rank_cols[r];
    out->run = all_gather;
    out->params.all_gather = (tern_cuda_all_gather){.peers = p->cuda ? p->cuda->peers : NULL,
                                                    .x = tern_cuda__rows(p, op->in[TERN_ALL_GATHER_X]).data,
                                                    .place = place};
}
