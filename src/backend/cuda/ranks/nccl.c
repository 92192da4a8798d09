#include "backend/cuda/ranks/nccl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static tern_nccl nccl;
static const char *missing = "libnccl.so.2 is not found (NVIDIA's package libnccl2)";

/* The pointers of the table, in its order. */
static const char *const names[] = {"ncclGetVersion",     "ncclGetUniqueId", "ncclCommInitRank", "ncclCommAbort",
                                    "ncclGetErrorString", "ncclGroupStart",  "ncclGroupEnd",     "ncclSend",
                                    "ncclRecv",           "ncclAllGather",   "ncclBroadcast"};
_Static_assert(sizeof names / sizeof *names * sizeof(void *) == offsetof(tern_nccl, version), "a name for each");

static void load(void)
{
    const char *wanted = getenv("TERN_NCCL");
    if (wanted && strcmp(wanted, "0") == 0) {
        missing = "turned off by TERN_NCCL=0";
        return;
    }
    void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    uint8_t *table = (uint8_t *)&nccl;
    int version = 0;
    for (size_t i = 0; library && i < sizeof names / sizeof *names; i++) {
        void *function = dlsym(library, names[i]);
        if (!function) {
            missing = "libnccl.so.2 is older than 2.7";
            return;
        }
        memcpy(table + i * sizeof function, &function, sizeof function);
    }
    if (!library || nccl.get_version(&version) != 0) return;
    snprintf(nccl.version, sizeof nccl.version, "NCCL %d.%d.%d", version / 10000, version / 100 % 100, version % 100);
    missing = NULL;
}

const char *tern_cuda_exchange(const char **why)
{
    const tern_nccl *found = tern_nccl_load(why);
    return found ? found->version : NULL;
}

const tern_nccl *tern_nccl_load(const char **why)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    *why = missing;
    return missing ? NULL : &nccl;
}
