/* Steps of computation as plain data: operations on values (buffers by number), and the straight list of them that a
 * backend runs.
 *
 * A graph is built for one (model, largest batch). What changes from step to step (ids, positions, page table, counts)
 * is read from parameter values when the graph runs, so a prepared graph is replayed without any rebuilding. */
#ifndef TERN_OPS_OP_H
#define TERN_OPS_OP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "ops/activation.h"
#include "ops/dtype.h"
#include "ops/operands.h"
#include "ops/routing.h"
#include "quant/weight.h"
#include "tern/ranks.h"

/* Which rows a value or an op has: one for each token of the step; one for each token whose logits are wanted; or
 * n_routes of the graph for each token, where row t * n_routes + j belongs to token t and its j-th expert. */
typedef enum tern_rows { TERN_ROWS_TOKENS, TERN_ROWS_OUTPUTS, TERN_ROWS_ROUTED } tern_rows;

static inline uint32_t tern_rows_of(tern_rows rows, uint32_t n_tokens, uint32_t n_outputs, uint32_t n_routes)
{
    return rows == TERN_ROWS_TOKENS ? n_tokens : rows == TERN_ROWS_OUTPUTS ? n_outputs : n_tokens * n_routes;
}

typedef enum tern_value_kind {
    TERN_VALUE_WEIGHT,   /* a tensor of the model */
    TERN_VALUE_PARAM,    /* written by the host before each run */
    TERN_VALUE_CACHE,    /* K or V of one layer: [pages][kv heads][32] rows of head_dim numbers, of one of the types of
                          * caches (ops/dtype.h); lives as long as the session */
    TERN_VALUE_CONSTANT, /* written once by the host (RoPE table) */
    TERN_VALUE_ACTIVATION, /* rows made by one op and read by later ones; memory is planned */
    TERN_VALUE_OUTPUT,     /* rows that the host reads after a run */
    TERN_VALUE_STATE       /* what training keeps from step to step for one weight: [n_rows][cols], contiguous */
} tern_value_kind;

/* Which state of a weight. A dense weight that is trained is its own master: F32 or BF16, contiguous. */
typedef enum tern_state {
    TERN_STATE_MASTER,   /* the shadow of a ternary weight: F32 or BF16 */
    TERN_STATE_GRADIENT, /* F32; UPDATE leaves zeros */
    TERN_STATE_M,        /* first moment, or the momentum of SGD: F32, BF16 or M8 */
    TERN_STATE_V,        /* second moment: F32, BF16 or V8 */
    TERN_STATE_COUNT
} tern_state;

#define TERN_NO_VALUE UINT32_MAX

enum { TERN_PAGE_SIZE = 32 }; /* positions of a KV page */

typedef struct tern_value {
    tern_value_kind kind;
    tern_dtype dtype;
    tern_rows rows;            /* activations and outputs */
    uint32_t cols;             /* elements of a row */
    const tern_weight *weight; /* weights; states: whose */
    const float *frequencies;  /* constants: of a rope table, [max_pages * 32][cols / 2] pairs (cos, sin) f32, the
                                * inverse frequencies [cols / 2], in the graph's arena */
    const float *sizes;        /* the same: what the pairs are multiplied with; NULL: nothing */
    tern_state state;          /* states */
    uint32_t n_rows;           /* states */
    uint64_t bytes;            /* caches, parameters and constants; activations and outputs at the largest batch */
    uint64_t offset; /* activations and brief gradients: place in their memory, set by the planner; parameters: in their
                      * buffer */
    uint32_t stage;  /* of graphs that are cut into stages: the one that makes it, the last that does */
    char name[80];   /* "ffn_norm-3": llama.cpp's names, as people know them */
} tern_value;

/* What ROUTE makes: (expert, f32 bits of its weight) in a row. */
static inline bool tern_value_is_routes(const tern_value *value)
{
    return value->dtype == TERN_DTYPE_U32 && value->rows == TERN_ROWS_ROUTED;
}

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
    X(ROUTE, "route")                                                                                                  \
    X(COMBINE, "combine")                                                                                              \
    X(SCALE, "scale")                                                                                                  \
    X(DROPOUT, "dropout")                                                                                              \
    X(FAKE_QUANTIZE, "fake_quantize")                                                                                  \
    X(VARLEN_ATTENTION, "varlen_attention")                                                                            \
    X(CROSS_ENTROPY, "cross_entropy")                                                                                  \
    X(LINEAR_DX, "linear_dx")                                                                                          \
    X(LINEAR_DW, "linear_dw")                                                                                          \
    X(BIAS_BACKWARD, "bias_backward")                                                                                  \
    X(RMS_NORM_BACKWARD, "rms_norm_backward")                                                                          \
    X(ROPE_BACKWARD, "rope_backward")                                                                                  \
    X(VARLEN_ATTENTION_BACKWARD, "varlen_attention_backward")                                                          \
    X(SOFTCAP_BACKWARD, "softcap_backward")                                                                            \
    X(GATE_BACKWARD, "gate_backward")                                                                                  \
    X(ROUTE_BACKWARD, "route_backward")                                                                                \
    X(COMBINE_BACKWARD, "combine_backward")                                                                            \
    X(EMBED_BACKWARD, "embed_backward")                                                                                \
    X(SUM_SQUARES, "sum_squares")                                                                                      \
    X(UPDATE, "update")                                                                                                \
    X(REQUANTIZE, "requantize")

/* What only some backends want. */
typedef enum tern_fusion {
    /* graphs of one token: NORM_QUANT, or RMS_NORM before dense weights, into the linear op that reads it, a LINEAR
     * with a norm_weight */
    TERN_FUSION_LINEAR_NORM = 1,
    TERN_FUSION_ROPE_ATTENTION = 2, /* graphs of one token: ROPE_KV and ATTENTION in one */
    TERN_FUSION_IN_PLACE = 4        /* a sum takes its addend's place in memory (WebGPU refuses a buffer bound twice) */
} tern_fusion;

typedef enum tern_op_kind {
#define TERN_OP_ENUM(name, word) TERN_OP_##name,
    TERN_OP_LIST(TERN_OP_ENUM)
#undef TERN_OP_ENUM
        TERN_OP_COUNT
} tern_op_kind;

enum {
    TERN_OP_MAX_INPUTS = 10,
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

typedef enum tern_optimizer { TERN_OPTIMIZER_SGD, TERN_OPTIMIZER_ADAMW } tern_optimizer;

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
    bool int8_blocks; /* x, f32, is rounded to int8 by blocks first; the weights are dense and have blocks */
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
    uint32_t n_heads, n_kv_heads, head_dim;
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

/* Every view of an op: its inputs, then what is optional, last the result. What is not there has value TERN_NO_VALUE;
 * of the optional ones (the residual, the norm weight, sinks, biases, the route) it is there when it has columns. */
uint32_t tern_op_n_views(const tern_op *op);
tern_view tern_op_view(const tern_op *op, uint32_t i);
tern_view *tern_op_view_at(tern_op *op, uint32_t i);
/* Whether the op writes that view. */
bool tern_op_writes_view(const tern_op *op, uint32_t i);
/* Whether it is one that an op may have besides its inputs and its result. */
bool tern_op_is_optional(const tern_op *op, uint32_t i);

/* What the scores of an attention op are multiplied with. */
float tern_op_score_scale(const tern_op *op);
/* The first position that a token at this one sees. */
static inline uint32_t tern_op_first_seen(const tern_op *op, uint32_t position)
{
    return op->window && position >= op->window ? position + 1 - op->window : 0;
}

/* The parameter values that every graph has, filled before each run (u32 each unless said):
 *   COUNTS     [3]  tokens in this step, outputs in this step, how many of the highest logits are needed (0: all)
 *   IDS        [batch] i32 token ids
 *   POSITIONS  [batch] position of each token in its sequence
 *   SEQUENCES  [batch] which row of PAGES the token's sequence uses
 *   OUTPUTS    [batch] rows whose logits are wanted
 *   PAGES      [sequences][max_pages] physical page of each 32 positions
 *   SAMPLER    tern_sample_params, or tern_sample_row [outputs]; only graphs that sample have it
 *   SEQ_STARTS [batch] the first row of each row's document, never decreasing; positions[t] = t - seq_starts[t]. This
 *              and the next two: training
 *   LABELS     [batch] i32 the token that follows, or below 0: not in the loss
 *   TRAINING   tern_train_params
 *   RING_PAGES [sequences][max_pages] as PAGES, of layers whose caches are rings: entry i is a page of i modulo
 *              n_ring_pages, so that new positions take the place of those that no window reaches
 *   GROUPS     tern_row_group [groups]: the rows of ops that are for some of a step's sequences alone
 *   WANTED     tern_wanted: which logits are needed beside the highest of COUNTS; only graphs with a screened head
 * They lie in one buffer, each at its value's offset (a multiple of TERN_PARAM_ALIGNMENT). */
typedef enum tern_param {
    TERN_PARAM_COUNTS,
    TERN_PARAM_IDS,
    TERN_PARAM_POSITIONS,
    TERN_PARAM_SEQUENCES,
    TERN_PARAM_OUTPUTS,
    TERN_PARAM_PAGES,
    TERN_PARAM_SAMPLER,
    TERN_PARAM_SEQ_STARTS,
    TERN_PARAM_LABELS,
    TERN_PARAM_TRAINING,
    TERN_PARAM_RING_PAGES,
    TERN_PARAM_GROUPS,
    TERN_PARAM_WANTED,
    TERN_PARAM_COUNT
} tern_param;

enum { TERN_PARAM_ALIGNMENT = 256, TERN_SAMPLE_MAX_STEPS = 128, TERN_SAMPLE_MAX_ENDS = 16, TERN_SAMPLE_MAX_TOP_K = 64 };

enum { TERN_WANTED_MAX_PINNED = 1020 };

/* Which logits a screened LINEAR gives when COUNTS asks for the n_top highest: those of `pinned`, and of the others
 * the n_top highest, all that are at most `reach` below the highest m of them, and, with a tail above 0, so many that
 * the sum of e^((logit - m) * sharpness) over all that are left out is at most `tail`. All zero: the n_top highest. */
typedef struct tern_wanted {
    uint32_t n_pinned;
    float reach, sharpness, tail;            /* >= 0 */
    uint32_t pinned[TERN_WANTED_MAX_PINNED]; /* rows, in any order, also twice */
} tern_wanted;

/* Rows of a step that follow each other; of a group of none no op is run. */
typedef struct tern_row_group {
    uint32_t first_token, n_tokens, first_output, n_outputs;
} tern_row_group;

/* What SAMPLE gives for a token where a logit is NaN or infinite: the run's last. */
#define TERN_SAMPLE_NOT_FINITE UINT32_MAX

/* What SAMPLE reads, written by the host before each run, and what it leaves for the next step of the same run.
 * It draws from the top_k highest logits (1: greedy, the lowest index of the maximum) as tern_sampler_next does:
 * temperature, top-k, top-p, min-p, softmax, draws[n_done]. Then tokens[1 + n_done] = the token; n_done and tokens[0]
 * count it; ids[0] = the token and positions[0] grows by one. After one of end_ids, or n_tokens tokens, counts[0] and
 * counts[1] become 0: further steps do nothing. So do they after TERN_SAMPLE_NOT_FINITE, which leaves ids[0] as it was.
 */
typedef struct tern_sample_params {
    uint32_t n_done, n_tokens;
    uint32_t top_k; /* 1 .. TERN_SAMPLE_MAX_TOP_K */
    float temperature, top_p, min_p;
    uint32_t n_ends, reserved;
    uint32_t end_ids[TERN_SAMPLE_MAX_ENDS];
    float draws[TERN_SAMPLE_MAX_STEPS]; /* uniform in [0, 1) */
} tern_sample_params;

/* What SAMPLE with each_row reads for a row of logits: it chooses tokens[row] as one step does from tern_sample_params,
 * and writes nothing else. Its words are those that tern_sample_params begins with. */
typedef struct tern_sample_row {
    uint32_t zeros[2];
    uint32_t top_k; /* 0: no token of this row */
    float temperature, top_p, min_p;
    uint32_t zero;
    float draw;
} tern_sample_row;

/* What the ops of training read. Factors as in ops/ref/update.h, made in f64 by the host. */
typedef struct tern_train_params {
    float loss_weight; /* 1 / the labels of all rows of the step, so that gradients are those of the mean */
    float blend;       /* how much of the quantisers is in effect, 0 .. 1 */
    uint32_t seed;     /* of this run's UPDATE: stream s draws tern_ref_random_bits(seed + s * 0x9e3779b9, i) */
    float clip;        /* gradients count times this */
    float keep, blend1, beta2, blend2, root, eps, pace; /* tern_adamw_factors; keep counts for ops that decay */
    float lr, momentum, decay;                          /* tern_sgd; decay for ops that decay */
    uint32_t dropout_seed;                              /* of this run's DROPOUT, as `seed` */
    float next_blend;                                   /* of REQUANTIZE, whose weights the next run reads */
} tern_train_params;

typedef struct tern_graph {
    tern_arena arena;
    tern_op *ops;
    size_t n_ops, cap_ops;
    tern_value *values;
    size_t n_values, cap_values;
    uint32_t max_tokens;   /* the largest step */
    uint32_t max_outputs;  /* the most logits rows of a step */
    uint32_t kernel_rows;  /* kernels are chosen as for steps of so many tokens and outputs, whatever the step, so that
                            * the  bits of a row do not depend on it (tern_backend_info.batch_invariant); 0: as for
                            * max_tokens and max_outputs */
    uint32_t usual_tokens; /* and outputs of most steps, for choosing kernels that take any number; 0: as many as there
                            * may be */
    uint32_t n_routes;     /* experts of a token; 0: the model has none */
    uint32_t max_pages;    /* row length of PAGES and RING_PAGES */
    uint32_t n_sequences;  /* rows of PAGES and RING_PAGES */
    uint32_t n_ring_pages; /* pages of a sequence in caches of layers with a window; 0: as many as in others */
    uint32_t n_groups;     /* of rows, in GROUPS; 0: no op is for some rows alone */
    uint32_t params[TERN_PARAM_COUNT];
    uint32_t logits;      /* output */
    uint32_t tokens;      /* output of SAMPLE, u32 [1 + TERN_SAMPLE_MAX_STEPS], or TERN_NO_VALUE */
    uint32_t states;      /* output of the last norm, f32 [max_tokens][n_embd], or TERN_NO_VALUE */
    uint32_t row_tokens;  /* output of SAMPLE with each_row, u32 [max_outputs], or TERN_NO_VALUE */
    uint32_t losses;      /* training: output of CROSS_ENTROPY, f32 [max_tokens], or TERN_NO_VALUE */
    uint32_t norms;       /* updates: output of SUM_SQUARES, f32 [1][weights], or TERN_NO_VALUE */
    bool brief_gradients; /* they live from their first op to their last, which leaves zeros, and share memory */
    uint64_t param_bytes; /* of all parameter values together */

    uint64_t activation_bytes; /* set by the planner */
    uint64_t gradient_bytes;   /* the same: of brief gradients, zeros between runs */
    uint64_t activation_block; /* 0, or what the planner keeps to: no activation crosses a multiple of it */
    uint32_t n_layers;
    uint32_t stage, n_stages; /* which run of layers its ops are (graph/stages.h); n_stages 0: all of them */
    uint32_t no_fusion;       /* passes of fusion that leave it as it is (graph/fusions.h) */
} tern_graph;

/* The most rows that a step has. */
static inline uint32_t tern_graph_max_rows(const tern_graph *graph, tern_rows rows)
{
    return tern_rows_of(rows, graph->max_tokens, graph->max_outputs, graph->n_routes);
}

/* The rows of most steps. */
static inline uint32_t tern_graph_usual_rows(const tern_graph *graph, tern_rows rows)
{
    const uint32_t n = graph->usual_tokens;
    return n ? tern_rows_of(rows, n, n, graph->n_routes) : tern_graph_max_rows(graph, rows);
}

/* The rows that kernels are chosen for. */
static inline uint32_t tern_graph_kernel_rows(const tern_graph *graph, tern_rows rows)
{
    const uint32_t n = graph->kernel_rows;
    return n ? tern_rows_of(rows, n, n, graph->n_routes) : tern_graph_max_rows(graph, rows);
}

/* Bytes of n rows of a value, and of the parts of a Q8 value: int8 rows of stride bytes, then n f32 inverse scales,
 * then n i32 sums, each part aligned to 64 bytes. */
static inline uint64_t tern_q8_stride(uint32_t cols)
{
    return ((uint64_t)cols + 127) / 128 * 128; /* whole i2_s groups */
}

static inline uint64_t tern_q8_scales_offset(uint32_t cols, uint64_t n)
{
    return tern_q8_stride(cols) * n;
}

static inline uint64_t tern_q8_sums_offset(uint32_t cols, uint64_t n)
{
    return tern_q8_scales_offset(cols, n) + (n * 4 + 63) / 64 * 64;
}

static inline uint64_t tern_row_bytes(tern_dtype dtype, uint32_t cols, uint64_t n)
{
    switch (dtype) {
    case TERN_DTYPE_Q8: return tern_q8_sums_offset(cols, n) + (n * 4 + 63) / 64 * 64;
    case TERN_DTYPE_F16:
    case TERN_DTYPE_BF16: return n * cols * 2;
    case TERN_DTYPE_M8:
    case TERN_DTYPE_V8: return (n * cols + 255) / 256 * (256 + 4);
    case TERN_DTYPE_Q8_0:
    case TERN_DTYPE_Q4_0: return n * tern_cache_bytes(dtype, cols);
    default: return n * cols * 4;
    }
}

const char *tern_op_name(tern_op_kind kind);

/* Rows first .. first + n - 1 of a rope table, [n][2 * n_pairs]: cos and sin of each angle, the f32 product of position
 * and inverse frequency, times its size (NULL: 1), as transformers computes it (modeling_rope_utils). */
void tern_rope_rows(const float *frequencies, const float *sizes, uint32_t n_pairs, uint32_t first, uint32_t n,
                    float *rows);

#endif
