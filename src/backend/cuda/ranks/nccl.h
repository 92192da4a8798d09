/* NCCL, where the machine has it: the library is looked for when ranks are joined, and nothing is linked with it.
 * Names, types and values are those of nccl.h (NCCL 2.7 and later, which has ncclSend). */
#ifndef TERN_BACKEND_CUDA_NCCL_H
#define TERN_BACKEND_CUDA_NCCL_H

#include <cuda_runtime_api.h>

#include "base/error.h"

typedef struct tern_nccl_comm tern_nccl_comm; /* ncclComm_t is a pointer to it */
typedef struct tern_nccl_id {
    char internal[128];
} tern_nccl_id;

enum { TERN_NCCL_UINT8 = 1, TERN_NCCL_FLOAT32 = 7 };

/* Each returns 0, or what get_error_string has words for. Streams are CUDA's; a group is one call of all in it. */
typedef struct tern_nccl {
    int (*get_version)(int *version);
    int (*get_unique_id)(tern_nccl_id *id);
    int (*comm_init_rank)(tern_nccl_comm **comm, int n_ranks, tern_nccl_id id, int rank);
    int (*comm_abort)(tern_nccl_comm *comm);
    const char *(*get_error_string)(int result);
    int (*group_start)(void);
    int (*group_end)(void);
    int (*send)(const void *from, size_t count, int type, int peer, tern_nccl_comm *comm, cudaStream_t stream);
    int (*recv)(void *to, size_t count, int type, int peer, tern_nccl_comm *comm, cudaStream_t stream);
    int (*all_gather)(const void *from, void *to, size_t count, int type, tern_nccl_comm *comm, cudaStream_t stream);
    int (*broadcast)(const void *from, void *to, size_t count, int type, int root, tern_nccl_comm *comm,
                     cudaStream_t stream);
    char version[32]; /* "NCCL 2.28.9" */
} tern_nccl;

/* The library, opened once for ever; NULL, with the reason in *why (static storage), where there is none that suits, or
 * TERN_NCCL=0 in the environment says so. */
const tern_nccl *tern_nccl_load(const char **why);
/* As tern_cuda_module has it. */
const char *tern_cuda_exchange(const char **why);

#endif
