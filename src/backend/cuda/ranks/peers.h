/* The devices of ranks that were joined by NCCL, as the files of this folder share them. */
#ifndef TERN_BACKEND_CUDA_PEERS_H
#define TERN_BACKEND_CUDA_PEERS_H

#include "backend/cuda/cuda_internal.h"
#include "backend/cuda/ranks/nccl.h"
#include "backend/cuda/ranks/passes.h"
#include "backend/peers.h"

/* A word of the device that says "infinite", this rank's number, and one of each rank. */
enum { TERN_CUDA_PEERS_WORDS = 2 + TERN_MAX_RANKS, TERN_CUDA_PIECE_BYTES = 32 << 20 };
_Static_assert((int)TERN_CUDA_MAX_RANKS == (int)TERN_MAX_RANKS, "a pass of each rank");

struct tern_cuda_peers {
    const tern_nccl *nccl;
    tern_nccl_comm *comm;
    uint32_t rank, n;
    uint32_t *words;  /* [TERN_CUDA_PEERS_WORDS], of the device */
    uint8_t *staging; /* [n - 1][TERN_CUDA_PIECE_BYTES], gradients of other ranks; NULL until they are needed */
    bool *infinite;   /* where it is told at the end; NULL: nobody has asked */
};

/* OK for 0; else INTERNAL with NCCL's words. */
tern_status tern_cuda__nccl_status(const tern_nccl *nccl, int result, const char *what, tern_error *err);

#endif
