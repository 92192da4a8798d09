/* ALL_GATHER among the devices of ranks: all rows that a graph may have, so that a recorded step is any step. */
#include "backend/cuda/ranks/peers.h"
#include "ops/graph.h"
#include "ops/op.h"

static bool is_even(const tern_cuda_place_blocks *place)
{
    for (uint32_t r = 1; r < place->n; r++)
        if (place->cols[r] != place->cols[0]) return false;
    return true;
}

static int exchange(const tern_cuda_all_gather *g, cudaStream_t stream)
{
    const tern_cuda_peers *p = g->peers;
    const tern_cuda_place_blocks *place = &g->place;
    float *block = (float *)(uintptr_t)place->blocks;
    const size_t mine = (size_t)place->rows * place->cols[p->rank];
    if (is_even(place)) return p->nccl->all_gather(g->x, block, mine, TERN_NCCL_FLOAT32, p->comm, stream);
    int result = p->nccl->group_start();
    for (uint32_t r = 0; r < p->n && result == 0; r++) {
        const size_t n = (size_t)place->rows * place->cols[r];
        result = p->nccl->send(g->x, mine, TERN_NCCL_FLOAT32, (int)r, p->comm, stream);
        if (result == 0) result = p->nccl->recv(block, n, TERN_NCCL_FLOAT32, (int)r, p->comm, stream);
        block += n;
    }
    const int ended = p->nccl->group_end();
    return result ? result : ended;
}

static cudaError_t all_gather(const void *params, cudaStream_t stream)
{
    const tern_cuda_all_gather *g = params;
    return exchange(g, stream) == 0 ? tern_cuda_run_place_blocks(&g->place, stream) : cudaErrorUnknown;
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
