/* Lowering linear layers of dense weights. */
#include "backend/gpu/gpu.h"

tern_status tern_gpu__lower_linear_dense(tern_gpu_program *p, const tern_op *op, uint32_t part, tern_error *err)
{
    (void)part;
    return tern_gpu__unsupported(p->graph, op, "no kernel", err);
}
