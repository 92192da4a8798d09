/* The module's side of the border: the program's functions under their own names, and what the program gets. */
#include "backend/cuda/module.h"

#include "backend/cuda/cuda_internal.h"
#include "backend/cuda/ranks/nccl.h"

static const tern_cuda_host *host;

#define FORWARD(result, give, name, parameters, arguments)                                                             \
    result name parameters                                                                                             \
    {                                                                                                                  \
        give host->name arguments;                                                                                     \
    }
TERN_CUDA_HOST_LIST(FORWARD)

static const tern_cuda_module module = {.open = tern_cuda_open,
                                        .key = tern_cuda_key,
                                        .choose = tern_cuda_choose,
                                        .alternative = tern_cuda_alternative,
                                        .start_begin = tern_cuda_start_begin,
                                        .start_end = tern_cuda_start_end,
                                        .exchange = tern_cuda_exchange,
                                        .devices = tern_cuda_devices};

__attribute__((visibility("default"))) const tern_cuda_module *tern_cuda_module_open(const tern_cuda_host *functions);

const tern_cuda_module *tern_cuda_module_open(const tern_cuda_host *functions)
{
    host = functions;
    return &module;
}
