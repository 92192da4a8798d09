/* Gradients and masters from device to device, beside what runs. */
#include "backend/cuda/ranks/peers.h"

/* Between a start and an end; what a call says is kept for the end, which must come in any case. */
typedef struct group {
    const tern_cuda_peers *peers;
    cudaStream_t stream;
    int result; /* the first that was not 0 */
} group;

static void note(group *g, int result)
{
    if (g->result == 0) g->result = result;
}

static tern_status begin(group *g, const tern_cuda_peers *peers, cudaStream_t stream, tern_error *err)
{
    *g = (group){.peers = peers, .stream = stream};
    return tern_cuda__nccl_status(peers->nccl, peers->nccl->group_start(), "a group", err);
}

static tern_status end(group *g, const char *what, tern_error *err)
{
    note(g, g->peers->nccl->group_end());
    return tern_cuda__nccl_status(g->peers->nccl, g->result, what, err);
}

/* ---- gradients to their owners */

static void send_piece(group *g, const tern_collective_piece *piece)
{
    tern_collective_place from = piece->from;
    for (size_t done = 0; done < piece->bytes;) {
        const tern_collective_part part = tern_collective_next_part(&from, piece->bytes - done);
        note(g, g->peers->nccl->send(part.tensor->buffer->data + part.at, part.bytes, TERN_NCCL_UINT8,
                                     (int)part.tensor->owner, g->peers->comm, g->stream));
        done += part.bytes;
    }
}

/* Where what another rank has sent lies. */
static uint8_t *staged(const tern_cuda_peers *p, uint32_t rank)
{
    return p->staging + (size_t)(rank - (rank > p->rank)) * TERN_CUDA_PIECE_BYTES;
}

static void receive_piece(group *g, const tern_collective_piece *piece, uint32_t rank)
{
    tern_collective_place from = piece->from;
    for (size_t done = 0; done < piece->bytes;) {
        const tern_collective_part part = tern_collective_next_part(&from, piece->bytes - done);
        note(g, g->peers->nccl->recv(staged(g->peers, rank) + done, part.bytes, TERN_NCCL_UINT8, (int)rank,
                                     g->peers->comm, g->stream));
        done += part.bytes;
    }
}

static tern_status add_piece(const tern_cuda_peers *p, const tern_collective_piece *piece,
                             const tern_collective_passes *passes, cudaStream_t stream, tern_error *err)
{
    tern_collective_place to = piece->from;
    for (size_t done = 0; done < piece->bytes;) {
        const tern_collective_part part = tern_collective_next_part(&to, piece->bytes - done);
        tern_cuda_passes sums = {.sum = (float *)(void *)(part.tensor->sum->data + part.at),
                                 .count = part.bytes / sizeof(float),
                                 .n = passes->n,
                                 .first = passes->first,
                                 .infinite = p->words};
        for (uint32_t r = 0; r < passes->n; r++) {
            const uint8_t *g = r == p->rank ? part.tensor->buffer->data + part.at : staged(p, r) + done;
            sums.g[r] = (const float *)(const void *)g;
        }
        TERN_TRY(tern_cuda__status(tern_cuda_run_passes(&sums, stream), "sums of gradients", err));
        done += part.bytes;
    }
    return TERN_OK;
}

static tern_status make_staging(tern_cuda_peers *p, tern_error *err)
{
    void *memory = NULL;
    if (p->staging) return TERN_OK;
    TERN_TRY(tern_cuda__status(cudaMalloc(&memory, (size_t)(p->n - 1) * TERN_CUDA_PIECE_BYTES + 16),
                               "memory for gradients of other ranks", err));
    p->staging = memory;
    return TERN_OK;
}

static tern_status add_pieces(const tern_cuda_peers *p, const tern_collective_piece *pieces,
                              const tern_collective_passes *passes, cudaStream_t stream, tern_error *err)
{
    group g;
    TERN_TRY(begin(&g, p, stream, err));
    for (uint32_t r = 0; r < p->n; r++) {
        if (r == p->rank) continue;
        if (p->rank < passes->n) send_piece(&g, &pieces[r]);
        if (r < passes->n) receive_piece(&g, &pieces[p->rank], r);
    }
    TERN_TRY(end(&g, "gradients", err));
    return add_piece(p, &pieces[p->rank], passes, stream, err);
}

tern_status tern_cuda__peers_add(tern_cuda *cuda, const tern_collective_tensor *tensors, size_t n,
                                 const tern_collective_passes *passes, tern_error *err)
{
    tern_cuda_peers *p = cuda->peers;
    tern_collective_place places[TERN_MAX_RANKS];
    tern_collective_piece pieces[TERN_MAX_RANKS];
    cudaStream_t stream;
    TERN_TRY(make_staging(p, err));
    TERN_TRY(tern_cuda__beside(cuda, passes->beside, &stream, err));
    p->infinite = passes->infinite;
    tern_collective_begin(places, p->n, tensors, n);
    while (tern_collective_next(places, pieces, p->n, TERN_CUDA_PIECE_BYTES))
        TERN_TRY(add_pieces(p, pieces, passes, stream, err));
    return TERN_OK;
}

/* ---- what owners have to all */

enum { TOGETHER = 64 }; /* tensors in a group */

tern_status tern_cuda__peers_spread(tern_cuda *cuda, const tern_collective_tensor *tensors, size_t n, tern_error *err)
{
    const tern_cuda_peers *p = cuda->peers;
    cudaStream_t stream;
    TERN_TRY(tern_cuda__beside(cuda, false, &stream, err));
    for (size_t i = 0; i < n; i += TOGETHER) {
        group g;
        TERN_TRY(begin(&g, p, stream, err));
        for (size_t k = i; k < n && k < i + TOGETHER; k++) {
            uint8_t *data = tensors[k].buffer->data;
            note(&g, p->nccl->broadcast(data, data, tensors[k].bytes, TERN_NCCL_UINT8, (int)tensors[k].owner, p->comm,
                                        stream));
        }
        TERN_TRY(end(&g, "what was updated", err));
    }
    return TERN_OK;
}

tern_status tern_cuda__peers_finish(tern_cuda *cuda, tern_error *err)
{
    tern_cuda_peers *p = cuda->peers;
    uint32_t infinite = 0;
    if (!p->infinite) return TERN_OK;
    TERN_TRY(tern_cuda__read(cuda, (const uint8_t *)p->words, &infinite, sizeof infinite, err));
    *p->infinite = *p->infinite || infinite;
    p->infinite = NULL;
    infinite = 0;
    return tern_cuda__write(cuda, (uint8_t *)p->words, &infinite, sizeof infinite, err);
}
