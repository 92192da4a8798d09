/* Lowering linear layers: ternary and dense weights go separate ways. */
#include "backend/gpu/linear/linear_internal.h"

const tern_weight *tern_gpu__weight_of_part(const tern_gpu_program *p, const tern_op *op, uint32_t part)
{
    return tern_gpu__value(p, op->in[TERN_LINEAR_W + part])->weight;
}

static bool ternary(const tern_gpu_program *p, const tern_op *op, uint32_t part)
{
    return tern_gpu__weight_of_part(p, op, part)->encoding->ternary;
}

tern_status tern_gpu__lower_linear(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    if (op->gated) {
        if (ternary(p, op, 0) != ternary(p, op, 1))
            return tern_gpu__unsupported(p->graph, op, "one of gate and up is ternary, the other is not", err);
        return ternary(p, op, 0) ? tern_gpu__lower_linear_ternary(p, op, 0, 2, err)
                                 : tern_gpu__lower_linear_dense(p, op, 0, err);
    }
    for (uint32_t part = 0, n; part < op->n_parts; part += n) {
        n = 1;
        if (!ternary(p, op, part)) {
            TERN_TRY(tern_gpu__lower_linear_dense(p, op, part, err));
            continue;
        }
        while (part + n < op->n_parts && ternary(p, op, part + n)) n++;
        TERN_TRY(tern_gpu__lower_linear_ternary(p, op, part, n, err));
    }
    return TERN_OK;
}
