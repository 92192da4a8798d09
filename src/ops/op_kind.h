/* Which ops there are. */
#ifndef TERN_OPS_OP_KIND_H
#define TERN_OPS_OP_KIND_H

/* X(NAME, "word"): what each computes, and its inputs, are in ops/operands.h. */
#define TERN_OP_LIST(X)                                                                                                \
    X(EMBED, "embed")                                                                                                  \
    X(RMS_NORM, "rms_norm")                                                                                            \
    X(QUANTIZE, "quantize")                                                                                            \
    X(LINEAR, "linear")                                                                                                \
    X(ROPE, "rope")                                                                                                    \
    X(KV_WRITE, "kv_write")                                                                                            \
    X(ATTENTION, "attention")                                                                                          \
    X(GATE, "gate")                                                                                                    \
    X(ADD, "add")                                                                                                      \
    X(GATHER, "gather")                                                                                                \
    X(ALL_GATHER, "all_gather")                                                                                        \
    X(SEND, "send")                                                                                                    \
    X(RECEIVE, "receive")                                                                                              \
    X(SAMPLE, "sample")                                                                                                \
    X(NORM_QUANT, "norm_quant")                                                                                        \
    X(ROPE_KV, "rope_kv")                                                                                              \
    X(ROPE_ATTENTION, "rope_attention")                                                                                \
    X(HADAMARD, "hadamard")                                                                                            \
    X(SPLIT, "split")                                                                                                  \
    X(CONV, "conv")                                                                                                    \
    X(GATED_DELTA, "gated_delta")                                                                                      \
    X(ROUTE, "route")                                                                                                  \
    X(COMBINE, "combine")                                                                                              \
    X(SCALE, "scale")                                                                                                  \
    X(DROPOUT, "dropout")                                                                                              \
    X(FAKE_QUANTIZE, "fake_quantize")                                                                                  \
    X(VARLEN_ATTENTION, "varlen_attention")                                                                            \
    X(VARLEN_CONV, "varlen_conv")                                                                                      \
    X(VARLEN_GATED_DELTA, "varlen_gated_delta")                                                                        \
    X(CROSS_ENTROPY, "cross_entropy")                                                                                  \
    X(LINEAR_DX, "linear_dx")                                                                                          \
    X(LINEAR_DW, "linear_dw")                                                                                          \
    X(BIAS_BACKWARD, "bias_backward")                                                                                  \
    X(RMS_NORM_BACKWARD, "rms_norm_backward")                                                                          \
    X(ROPE_BACKWARD, "rope_backward")                                                                                  \
    X(VARLEN_ATTENTION_BACKWARD, "varlen_attention_backward")                                                          \
    X(SPLIT_BACKWARD, "split_backward")                                                                                \
    X(VARLEN_CONV_BACKWARD, "varlen_conv_backward")                                                                    \
    X(VARLEN_GATED_DELTA_BACKWARD, "varlen_gated_delta_backward")                                                      \
    X(SOFTCAP_BACKWARD, "softcap_backward")                                                                            \
    X(GATE_BACKWARD, "gate_backward")                                                                                  \
    X(ROUTE_BACKWARD, "route_backward")                                                                                \
    X(COMBINE_BACKWARD, "combine_backward")                                                                            \
    X(EMBED_BACKWARD, "embed_backward")                                                                                \
    X(SUM_SQUARES, "sum_squares")                                                                                      \
    X(UPDATE, "update")                                                                                                \
    X(REQUANTIZE, "requantize")

typedef enum tern_op_kind {
#define TERN_OP_ENUM(name, word) TERN_OP_##name,
    TERN_OP_LIST(TERN_OP_ENUM)
#undef TERN_OP_ENUM
        TERN_OP_COUNT
} tern_op_kind;

const char *tern_op_name(tern_op_kind kind);

#endif
