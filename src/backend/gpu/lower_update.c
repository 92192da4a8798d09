/* Lowering the optimiser. */
#include "backend/gpu/gpu.h"

tern_status tern_gpu__lower_update(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    return tern_gpu__unsupported(p->graph, op, "no kernel", err);
}
