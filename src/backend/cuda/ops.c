/* How each kind of op is run: what is not here the backend refuses by name. */
#include "backend/cuda/cuda_internal.h"

const tern_cuda_op_row tern_cuda__ops[TERN_OP_COUNT] = {
    [TERN_OP_EMBED] = {tern_cuda__lower_embed, NULL},
    [TERN_OP_RMS_NORM] = {tern_cuda__lower_norm, NULL},
    [TERN_OP_QUANTIZE] = {tern_cuda__lower_quantize, NULL},
    [TERN_OP_NORM_QUANT] = {tern_cuda__lower_quantize, NULL},
    [TERN_OP_LINEAR] = {tern_cuda__lower_linear, tern_cuda__linear_supports},
    [TERN_OP_ROPE] = {tern_cuda__lower_rope, NULL},
    [TERN_OP_KV_WRITE] = {tern_cuda__lower_kv_write, NULL},
    [TERN_OP_ROPE_KV] = {tern_cuda__lower_rope_kv, NULL},
    [TERN_OP_ATTENTION] = {tern_cuda__lower_attention, tern_cuda__attention_supports},
    [TERN_OP_GATE] = {tern_cuda__lower_gate, NULL},
    [TERN_OP_ADD] = {tern_cuda__lower_add, NULL},
    [TERN_OP_SCALE] = {tern_cuda__lower_scale, NULL},
    [TERN_OP_GATHER] = {tern_cuda__lower_gather, NULL},
    [TERN_OP_SAMPLE] = {tern_cuda__lower_sample, NULL},
    [TERN_OP_ROUTE] = {tern_cuda__lower_route, NULL},
    [TERN_OP_COMBINE] = {tern_cuda__lower_combine, NULL},
};
