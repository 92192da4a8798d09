/* Steps of computation as plain data: operations on values, which they name by number. */
#ifndef TERN_OPS_OP_H
#define TERN_OPS_OP_H

#include <stdbool.h>
#include <stdint.h>

#include "ops/activation.h"
#include "ops/halves.h"
#include "ops/op_kind.h"
#include "ops/operands.h"
#include "ops/params.h"
#include "ops/routing.h"
#include "ops/value.h"
#include "tern/ranks.h"

/* Fusions that only some backends want. */
typedef enum tern_fusion {
    /* graphs of one token: NORM_QUANT, or RMS_NORM before dense weights, into the linear op that reads it, a LINEAR
     * with a norm_weight */
    TERN_FUSION_LINEAR_NORM = 1,
    TERN_FUSION_ROPE_ATTENTION = 2, /* graphs of one token: ROPE_KV and ATTENTION in one */
    TERN_FUSION_IN_PLACE = 4        /* a sum takes its addend's place in memory (WebGPU refuses a buffer bound twice) */
} tern_fusion;

enum {
    TERN_OP_MAX_INPUTS = 16,
    TERN_LINEAR_MAX_PARTS = 3,
    TERN_OP_MAX_VIEWS = TERN_OP_MAX_INPUTS + 7 + TERN_LINEAR_MAX_PARTS
};

/* A run of columns of a value: q, k and v are views of one row after the fusion of the three. In training graphs also
 * a run of rows: the head works on max_outputs rows of f32 (or labels) at a time, so that no [tokens][vocab] is ever
 * there. Row t of the op is then row first_row + t of the value. */
typedef struct tern_view {
    uint32_t value; /* index in the graph, or TERN_NO_VALUE */
    uint32_t first_col, cols;
    uint32_t first_row; /* a multiple of TERN_ROW_ALIGNMENT */
} tern_view;

enum { TERN_ROW_ALIGNMENT = 64 }; /* 256 bytes, what devices want of a binding, at one f32 a row */

typedef struct tern_op {
    tern_op_kind kind;
    tern_rows rows;
    uint32_t group; /* 0: all of these rows; else those of entry group - 1 of GROUPS (tern_backend_info.groups_rows) */
    uint32_t layer; /* for messages and profiles; UINT32_MAX outside the layers */
    uint32_t n_in;
    tern_view in[TERN_OP_MAX_INPUTS];
    tern_view out;
    /* LINEAR */
    uint32_t n_parts; /* in[1 .. n_parts] are the weights */
    bool screened;    /* rows of the output that are not wanted may be -inf instead (COUNTS, WANTED) */
    bool each_row; /* SAMPLE: a token of each row of logits, out [max_outputs]; SAMPLER holds tern_sample_row [rows] */
    bool gated;    /* out = activation(part 0) * part 1 */
    bool sparse;   /* LINEAR: gated by a squared ReLU, or its x comes from one: most of it may be 0 */
    bool int8_blocks;   /* x, f32, is rounded to int8 by blocks first; the weights are dense and have blocks */
    tern_halves halves; /* both factors are rounded to 16 bits. LINEAR: by tern_op_halves_of of all its weights, without
                         * group, norm_weight, screen; LINEAR_DX, LINEAR_DW and VARLEN_ATTENTION: BF16. No route */
    /* LINEAR, RMS_NORM and the ops of training that make a gradient: added to the result */
    tern_view residual;
    tern_view norm_weight;                 /* the input is normed with it first, then quantised */
    bool norm_f32;                         /* and not quantised: the weights are dense */
    tern_view bias[TERN_LINEAR_MAX_PARTS]; /* [1][rows] f32 of each part; added before the gate and the residual */
    tern_activation activation;            /* GATE, its backward and gated LINEAR */
    float limit;                           /* of activations that have one, above 0 */
    /* LINEAR and its gradients: the experts of its rows, as ROUTE makes them. Rows are ROUTED then, and the weights and
     * biases are those of all experts, one after the other */
    tern_view route;
    uint32_t n_experts;         /* ROUTE, LINEAR with a route, and their backward */
    tern_route_rule route_rule; /* ROUTE and its backward */
    /* RMS_NORM, NORM_QUANT, LINEAR with a norm_weight, ROPE_KV with head_norms */
    float eps;
    /* ROPE, ROPE_KV, KV_WRITE, ATTENTION, ROPE_ATTENTION */
    uint32_t n_heads, n_kv_heads, head_dim; /* also of SPLIT, GATED_DELTA and their backward (ops/operands.h) */
    uint32_t block;                         /* HADAMARD: columns, a power of two that divides them all */
    bool inverse;
    /* GATED_DELTA: head h has head h % n_kv_heads of q and k (llama.cpp's order) instead of h / (n_heads / n_kv_heads)
     */
    bool tiled_heads;
    bool log_decay; /* VARLEN_GATED_DELTA and its backward: the weight of the decay is A_log, decay = -e^A_log */
    /* ATTENTION: its heads are one of so many groups of the layer's; kernels are chosen, and positions split, as for
     * all of them, so that the sums are the same. 0: all */
    uint32_t head_groups;
    bool rope_adjacent;
    /* ROPE, ROPE_BACKWARD, ROPE_KV, ROPE_ATTENTION: the first so many dimensions of a head are turned, split halves of
     * them; a multiple of 4; the table's pairs beyond are (1, 0). 0: all. */
    uint32_t rope_dim;
    tern_view head_norms[2]; /* ROPE_KV: [1][head_dim], each head of q and of k is normed with its one first */
    /* ATTENTION, ROPE_ATTENTION, VARLEN_ATTENTION and its backward (tern_op_score_scale) */
    float softcap;   /* 0: none; scores become softcap * tanh(score / softcap); also of SCALE and SOFTCAP_BACKWARD */
    uint32_t window; /* 0: none; a token sees the last `window` positions, its own included */
    tern_view sinks; /* [1][n_heads] f32: one more score for each head, with no value (tern_ref_sink) */
    /* SCALE, SOFTCAP_BACKWARD: the factor; DROPOUT: p, 0 <= p < 1; attention: of the scores, 0: 1 / sqrt(head_dim) */
    float scale;
    /* DROPOUT, UPDATE: which stream of random bits; no two of a kind alike but a DROPOUT and its backward */
    uint32_t stream;
    bool clears; /* SUM_SQUARES: the gradient becomes 0 */
    /* UPDATE */
    tern_optimizer optimizer; /* SGD has momentum when m is there */
    bool decays;              /* matrices do, norms do not */
    /* ALL_GATHER: the columns that each rank has, in order; their sum is out's, and this rank's are x's */
    uint32_t n_ranks, rank_cols[TERN_MAX_RANKS];
    uint32_t peer; /* SEND, RECEIVE: the other stage */
    /* REQUANTIZE */
    float threshold; /* 0: absmean, round(w / scale); else code = +-1 where |w| > threshold * scale */
    float clamp;     /* not 0: the master is first cut to +- clamp * the scale that the weight still has */
} tern_op;

/* Whether the op writes its input i. */
bool tern_op_writes(const tern_op *op, uint32_t i);

/* Every view of an op: its inputs, then what is optional, last the result. A missing operand has value TERN_NO_VALUE;
 * of the optional ones (the residual, the norm weight, sinks, biases, the route) it is there when it has columns. */
uint32_t tern_op_n_views(const tern_op *op);
tern_view tern_op_view(const tern_op *op, uint32_t i);
tern_view *tern_op_view_at(tern_op *op, uint32_t i);
/* Whether the op writes that view. */
bool tern_op_writes_view(const tern_op *op, uint32_t i);
/* Whether it is one that an op may have besides its inputs and its result. */
bool tern_op_is_optional(const tern_op *op, uint32_t i);

/* The factor of the scores of an attention op. */
float tern_op_score_scale(const tern_op *op);
/* The first position that a token at this one sees. */
static inline uint32_t tern_op_first_seen(const tern_op *op, uint32_t position)
{
    return op->window && position >= op->window ? position + 1 - op->window : 0;
}

#endif
