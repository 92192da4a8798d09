/* The program's side of the CUDA module: opening it. The other files of this folder are the module. */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "backend/cuda/module.h"
#include "base/module.h"

static const tern_module module = {
    .file = TERN_CUDA_MODULE_FILE,
    .function = TERN_CUDA_MODULE_OPEN,
    .use = "cuda",
    .get = "`make cuda` makes it (with nvcc, of the CUDA toolkit), the package tern-cuda has it",
    .library = "needs no library but the C library of this system",
};

static const tern_cuda_host host = {
#define MEMBER(result, give, name, parameters, arguments) .name = name,
    TERN_CUDA_HOST_LIST(MEMBER)
#undef MEMBER
};

tern_status tern_cuda_load(const tern_cuda_module **out, tern_error *err)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static const tern_cuda_module *opened;
    tern_cuda_module_open_fn open = NULL;
    tern_status status = TERN_OK;
    pthread_mutex_lock(&lock);
    if (!opened) status = tern_module_open(&module, &open, err); /* for ever: backends may be open until the end */
    if (open) opened = open(&host);
    *out = opened;
    pthread_mutex_unlock(&lock);
    return status;
}

bool tern_cuda_has_driver(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (driver) dlclose(driver);
    return driver != NULL;
}

bool tern_cuda_is_kernel(const char *name)
{
#define EQUALS(id, kernel) || strcmp(name, kernel) == 0
    return false TERN_CUDA_PRODUCT_LIST(EQUALS);
#undef EQUALS
}
