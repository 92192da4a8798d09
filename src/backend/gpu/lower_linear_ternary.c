/* Lowering linear layers of ternary weights. */
#include "backend/gpu/linear.h"

tern_status tern_gpu__lower_linear_ternary(tern_gpu_program *p, const tern_op *op, uint32_t first, uint32_t n, tern_error *err)
{
    (void)first;
    (void)n;
    return tern_gpu__unsupported(p->graph, op, "no kernel", err);
}
