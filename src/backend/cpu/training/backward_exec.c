/* The ops of a training step beside the linear layers: which function runs each, and the memory that it needs. */
#include "backend/cpu/training/training.h"

typedef void (*exec_fn)(tern_cpu_step *, const tern_cpu_op *);

exec_fn tern_cpu__backward_exec(tern_op_kind kind)
{
    switch (kind) {
    case TERN_OP_SCALE: return tern_cpu__scale;
    case TERN_OP_DROPOUT: return tern_cpu__dropout;
    case TERN_OP_FAKE_QUANTIZE: return tern_cpu__fake_quantize;
    case TERN_OP_VARLEN_ATTENTION: return tern_cpu__varlen_attention;
    case TERN_OP_CROSS_ENTROPY: return tern_cpu__cross_entropy;
    case TERN_OP_RMS_NORM_BACKWARD: return tern_cpu__rms_norm_backward;
    case TERN_OP_ROPE_BACKWARD: return tern_cpu__rope_backward;
    case TERN_OP_VARLEN_ATTENTION_BACKWARD: return tern_cpu__varlen_attention_backward;
    case TERN_OP_GATE_BACKWARD: return tern_cpu__gate_backward;
    case TERN_OP_EMBED_BACKWARD: return tern_cpu__embed_backward;
    default: return NULL;
    }
}

size_t tern_cpu__backward_scratch(const tern_graph *graph, const tern_op *op)
{
    switch (op->kind) {
    case TERN_OP_SCALE:
    case TERN_OP_DROPOUT:
    case TERN_OP_FAKE_QUANTIZE:
    case TERN_OP_GATE_BACKWARD: return op->in[0].cols * sizeof(float); /* a row without its residual */
    case TERN_OP_VARLEN_ATTENTION: return tern_varlen_attention__scratch(graph, op);
    case TERN_OP_VARLEN_ATTENTION_BACKWARD: return tern_varlen_attention__backward_scratch(op);
    default: return 0;
    }
}

size_t tern_cpu__backward_shared(const tern_graph *graph, const tern_op *op)
{
    switch (op->kind) {
    case TERN_OP_RMS_NORM_BACKWARD: return graph->max_tokens * sizeof(float); /* 1 / the root of each row */
    case TERN_OP_VARLEN_ATTENTION: return tern_varlen_attention__shared(graph, op);
    case TERN_OP_VARLEN_ATTENTION_BACKWARD: return tern_varlen_attention__backward_shared(graph, op);
    default: return 0;
    }
}
