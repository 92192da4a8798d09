/* Queries about an op, and the rope tables that ops read. */
#include <math.h>

#include "ops/op.h"

const char *tern_op_name(tern_op_kind kind)
{
    static const char *const names[] = {
#define TERN_OP_WORD(name, word) word,
        TERN_OP_LIST(TERN_OP_WORD)
#undef TERN_OP_WORD
    };
    return kind < TERN_OP_COUNT ? names[kind] : "unknown";
}

#define BIT(input) (1u << (input))

/* The inputs that an op of each kind writes, a bit for each. */
static const uint32_t written[TERN_OP_COUNT] = {
    [TERN_OP_ROPE] = BIT(TERN_ROPE_X),
    [TERN_OP_ROPE_BACKWARD] = BIT(TERN_ROPE_X),
    [TERN_OP_KV_WRITE] = BIT(TERN_KV_WRITE_K_CACHE) | BIT(TERN_KV_WRITE_V_CACHE),
    [TERN_OP_ROPE_KV] = BIT(TERN_ROPE_KV_QKV) | BIT(TERN_ROPE_KV_K_CACHE) | BIT(TERN_ROPE_KV_V_CACHE),
    [TERN_OP_ROPE_ATTENTION] = BIT(TERN_ROPE_KV_K_CACHE) | BIT(TERN_ROPE_KV_V_CACHE),
    [TERN_OP_SAMPLE] =
        BIT(TERN_SAMPLE_COUNTS) | BIT(TERN_SAMPLE_IDS) | BIT(TERN_SAMPLE_POSITIONS) | BIT(TERN_SAMPLE_SAMPLER),
    [TERN_OP_SPLIT] = BIT(TERN_SPLIT_GATE),
    [TERN_OP_CONV] = BIT(TERN_CONV_STATE),
    [TERN_OP_GATED_DELTA] = BIT(TERN_GATED_DELTA_STATE),
    [TERN_OP_VARLEN_GATED_DELTA] = BIT(TERN_VARLEN_GATED_DELTA_STATES),
    [TERN_OP_VARLEN_CONV_BACKWARD] = BIT(TERN_VARLEN_CONV_DWEIGHT),
    [TERN_OP_VARLEN_GATED_DELTA_BACKWARD] = BIT(TERN_VARLEN_GATED_DELTA_DK) | BIT(TERN_VARLEN_GATED_DELTA_DV) |
                                            BIT(TERN_VARLEN_GATED_DELTA_DA) | BIT(TERN_VARLEN_GATED_DELTA_DB) |
                                            BIT(TERN_VARLEN_GATED_DELTA_DDECAY) | BIT(TERN_VARLEN_GATED_DELTA_DDT),
    [TERN_OP_VARLEN_ATTENTION] = BIT(TERN_VARLEN_ATTENTION_STATISTICS),
    [TERN_OP_VARLEN_ATTENTION_BACKWARD] =
        BIT(TERN_VARLEN_ATTENTION_DK) | BIT(TERN_VARLEN_ATTENTION_DV) | BIT(TERN_VARLEN_ATTENTION_DSINKS),
    [TERN_OP_CROSS_ENTROPY] = BIT(TERN_CROSS_ENTROPY_LOGITS),
    [TERN_OP_LINEAR_DW] = BIT(TERN_LINEAR_DW_DW),
    [TERN_OP_BIAS_BACKWARD] = BIT(TERN_BIAS_BACKWARD_DBIAS),
    [TERN_OP_RMS_NORM_BACKWARD] = BIT(TERN_NORM_BACKWARD_DWEIGHT),
    [TERN_OP_GATE_BACKWARD] = BIT(TERN_GATE_BACKWARD_DUP),
    [TERN_OP_COMBINE_BACKWARD] = BIT(TERN_COMBINE_BACKWARD_DWEIGHTS),
    [TERN_OP_EMBED_BACKWARD] = BIT(TERN_EMBED_BACKWARD_DW),
    [TERN_OP_REQUANTIZE] = BIT(TERN_REQUANTIZE_MASTER),
};

bool tern_op_writes(const tern_op *op, uint32_t i)
{
    if (op->kind == TERN_OP_UPDATE) return i + 1 < op->n_in;
    if (op->kind == TERN_OP_SUM_SQUARES) return op->clears;
    if (op->kind == TERN_OP_REQUANTIZE && !(op->clamp > 0)) return false;
    return written[op->kind] >> i & 1;
}

enum { OPTIONAL_VIEWS = 3 + TERN_LINEAR_MAX_PARTS + 2 + 1 };

uint32_t tern_op_n_views(const tern_op *op)
{
    return op->n_in + OPTIONAL_VIEWS + 1;
}

bool tern_op_is_optional(const tern_op *op, uint32_t i)
{
    return i >= op->n_in && i < op->n_in + OPTIONAL_VIEWS;
}

tern_view *tern_op_view_at(tern_op *op, uint32_t i)
{
    if (i < op->n_in) return &op->in[i];
    switch (i - op->n_in) {
    case 0: return &op->residual;
    case 1: return &op->norm_weight;
    case 2: return &op->sinks;
    case OPTIONAL_VIEWS - 1: return &op->route;
    case OPTIONAL_VIEWS: return &op->out;
    default: break;
    }
    const uint32_t k = i - op->n_in - 3;
    return k < TERN_LINEAR_MAX_PARTS ? &op->bias[k] : &op->head_norms[k - TERN_LINEAR_MAX_PARTS];
}

tern_view tern_op_view(const tern_op *op, uint32_t i)
{
    tern_view view = *tern_op_view_at((tern_op *)(uintptr_t)op, i);
    if (tern_op_is_optional(op, i) && view.cols == 0) view.value = TERN_NO_VALUE;
    return view;
}

bool tern_op_writes_view(const tern_op *op, uint32_t i)
{
    return i < op->n_in ? tern_op_writes(op, i) : i + 1 == tern_op_n_views(op);
}

float tern_op_score_scale(const tern_op *op)
{
    return op->scale != 0 ? op->scale : 1.0f / sqrtf((float)op->head_dim);
}

void tern_rope_rows(const float *frequencies, const float *sizes, uint32_t n_pairs, uint32_t first, uint32_t n,
                    float *rows)
{
    for (uint32_t t = 0; t < n; t++)
        for (uint32_t i = 0; i < n_pairs; i++) {
            float angle = (float)(first + t) * frequencies[i], size = sizes ? sizes[i] : 1.0f;
            rows[2 * ((size_t)t * n_pairs + i)] = (float)cos((double)angle) * size;
            rows[2 * ((size_t)t * n_pairs + i) + 1] = (float)sin((double)angle) * size;
        }
}
