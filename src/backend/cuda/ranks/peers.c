/* Joining the devices of ranks by NCCL. */
#include "backend/cuda/ranks/peers.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"

tern_status tern_cuda__nccl_status(const tern_nccl *nccl, int result, const char *what, tern_error *err)
{
    if (result == 0) return TERN_OK;
    return tern_fail(err, TERN_INTERNAL, "nccl: %s: %s", what, nccl->get_error_string(result));
}

void tern_cuda__peers_identify(tern_cuda *cuda, char name[static TERN_PEER_NAME_BYTES],
                               char why[static TERN_PEERS_WHY_BYTES])
{
    const char *reason = NULL;
    char bus[32] = "", host[64] = "";
    const tern_nccl *nccl = tern_nccl_load(&reason);
    if (nccl && cudaDeviceGetPCIBusId(bus, sizeof bus, cuda->index) != cudaSuccess) reason = "its device has no bus";
    gethostname(host, sizeof host - 1);
    name[0] = 0;
    if (reason) snprintf(why, TERN_PEERS_WHY_BYTES, "%s", reason);
    else snprintf(name, TERN_PEER_NAME_BYTES, "%s %s", host, bus);
}

static tern_status open_comm(tern_cuda_peers *p, tern_ranks *ranks, tern_error *err)
{
    const size_t bytes[TERN_MAX_RANKS] = {sizeof(tern_nccl_id)};
    tern_nccl_id id = {0};
    int made = p->rank == 0 ? p->nccl->get_unique_id(&id) : 0;
    TERN_TRY(ranks->gather(ranks, &id, bytes, &id, err));
    TERN_TRY(tern_cuda__nccl_status(p->nccl, made, "an id", err));
    return tern_cuda__nccl_status(p->nccl, p->nccl->comm_init_rank(&p->comm, (int)p->n, id, (int)p->rank),
                                  "joining the ranks", err);
}

/* Each sends its number to all: a way that does not work is known before anything goes over it. */
static tern_status try_ways(tern_cuda *cuda, tern_error *err)
{
    const tern_cuda_peers *p = cuda->peers;
    uint32_t found[TERN_MAX_RANKS] = {0};
    uint32_t *mine = p->words + 1, *all = mine + 1;
    TERN_TRY(tern_cuda__write(cuda, (uint8_t *)mine, &p->rank, sizeof p->rank, err));
    TERN_TRY(tern_cuda__nccl_status(p->nccl, p->nccl->group_start(), "a group", err));
    for (uint32_t r = 0; r < p->n; r++) {
        p->nccl->send(mine, sizeof *mine, TERN_NCCL_UINT8, (int)r, p->comm, cuda->stream);
        p->nccl->recv(all + r, sizeof *all, TERN_NCCL_UINT8, (int)r, p->comm, cuda->stream);
    }
    TERN_TRY(tern_cuda__nccl_status(p->nccl, p->nccl->group_end(), "a word to each rank", err));
    TERN_TRY(tern_cuda__read(cuda, (const uint8_t *)all, found, p->n * sizeof *found, err));
    for (uint32_t r = 0; r < p->n; r++)
        if (found[r] != r)
            return tern_fail(err, TERN_INTERNAL, "nccl: rank %u has sent %u here, %u expected", r, found[r], r);
    return TERN_OK;
}

tern_status tern_cuda__peers_join(tern_cuda *cuda, tern_ranks *ranks, tern_error *err)
{
    const char *why;
    void *memory = NULL;
    tern_cuda_peers *p = cuda->peers = tern_calloc(1, sizeof *p);
    if (!p) return tern_fail_alloc(err, sizeof *p);
    *p = (tern_cuda_peers){.nccl = tern_nccl_load(&why), .rank = ranks->rank, .n = ranks->n};
    TERN_TRY(open_comm(p, ranks, err));
    TERN_TRY(tern_cuda__status(cudaMalloc(&memory, TERN_CUDA_PEERS_WORDS * sizeof(uint32_t)), "memory", err));
    p->words = memory;
    TERN_TRY(tern_cuda__status(cudaMemset(p->words, 0, TERN_CUDA_PEERS_WORDS * sizeof(uint32_t)), "memory", err));
    TERN_TRY(try_ways(cuda, err));
    cuda->base.info.joined = true;
    snprintf(cuda->base.info.exchange, sizeof cuda->base.info.exchange, "%s", p->nccl->version);
    return TERN_OK;
}

void tern_cuda__peers_close(tern_cuda *cuda)
{
    tern_cuda_peers *p = cuda->peers;
    if (!p) return;
    cudaFree(p->staging);
    cudaFree(p->words);
    if (p->comm) p->nccl->comm_abort(p->comm); /* all that was sent has arrived, or never will */
    tern_free(p);
    cuda->peers = NULL;
}
