/* Lowering signs and Hadamard transforms: a workgroup for each TERN_GPU_HADAMARD_CONST_CHUNK columns of a row. */
#include <math.h>

#include "backend/gpu/gpu_internal.h"

static tern_status check(const tern_op *op, tern_error *err)
{
    const uint32_t cols = op->in[TERN_HADAMARD_X].cols, block = op->block, most = TERN_GPU_HADAMARD_CONST_CHUNK;
    const bool heads_fit = op->n_heads == 0 || (op->n_kv_heads && op->n_heads % op->n_kv_heads == 0 &&
                                                (uint64_t)op->n_heads * op->head_dim == cols);
    if (block && block <= most && (block & (block - 1)) == 0 && cols % block == 0 && heads_fit) return TERN_OK;
    return tern_fail(
        err, TERN_UNSUPPORTED,
        "gpu: op hadamard of %u columns in blocks of %u, %u heads of %u in %u groups: a power of two of at "
        "most %u that divides the columns, and no heads or whole groups of them expected; --backend cpu",
        cols, block, op->n_heads, op->head_dim, op->n_kv_heads, most);
}

tern_status tern_gpu__lower_hadamard(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    const tern_view x = op->in[TERN_HADAMARD_X];
    TERN_TRY(check(op, err));
    tern_gpu_dispatch *d =
        tern_gpu__add(p, op, TERN_GPU_HADAMARD, tern_gpu__ceil_div(x.cols, TERN_GPU_HADAMARD_CONST_CHUNK),
                      tern_gpu__max_rows(p, op->rows), 1, err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_hadamard_uniform u = {.cols = x.cols,
                                         .block = op->block,
                                         .count_word = tern_gpu__count_word(p, op->rows),
                                         .x_first = x.first_col,
                                         .x_stride = tern_gpu__stride(p, x),
                                         .y_first = op->out.first_col,
                                         .y_stride = tern_gpu__stride(p, op->out),
                                         .token_rows = tern_gpu__token_rows(p, op->rows),
                                         .head_dim = op->n_heads ? op->head_dim : x.cols,
                                         .n_groups = op->n_heads ? op->n_kv_heads : 1,
                                         .group_heads = op->n_heads ? op->n_heads / op->n_kv_heads : 1,
                                         .inverse = op->inverse,
                                         .scale = (float)(1 / sqrt(op->block))};
    tern_gpu_hadamard_set(d, &u);
    tern_gpu__bind_params(p, d, false);
    tern_gpu__bind_view(p, d, x, false);
    tern_gpu__bind_value(p, d, op->in[TERN_HADAMARD_SIGNS].value, false);
    tern_gpu__bind_view(p, d, op->out, true);
    return TERN_OK;
}
