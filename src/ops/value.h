/* The values that ops work on: buffers by number, and what each holds. */
#ifndef TERN_OPS_VALUE_H
#define TERN_OPS_VALUE_H

#include <stdbool.h>
#include <stdint.h>

#include "ops/dtype.h"

typedef struct tern_weight tern_weight; /* quant/weight.h */

/* Which rows a value or an op has: one for each token of the step; one for each token whose logits are wanted; or
 * n_routes of the graph for each token, where row t * n_routes + j belongs to token t and its j-th expert. */
typedef enum tern_rows { TERN_ROWS_TOKENS, TERN_ROWS_OUTPUTS, TERN_ROWS_ROUTED } tern_rows;

static inline uint32_t tern_rows_of(tern_rows rows, uint32_t n_tokens, uint32_t n_outputs, uint32_t n_routes)
{
    return rows == TERN_ROWS_TOKENS ? n_tokens : rows == TERN_ROWS_OUTPUTS ? n_outputs : n_tokens * n_routes;
}

typedef enum tern_value_kind {
    TERN_VALUE_WEIGHT,    /* a tensor of the model */
    TERN_VALUE_PARAM,     /* written by the host before each run */
    TERN_VALUE_CACHE,     /* K or V of one layer: [pages][kv heads][32] rows of head_dim numbers, of one of the types of
                           * caches (ops/dtype.h); lives as long as the session */
    TERN_VALUE_RECURRENT, /* what layers that recur keep of sequences: [n_states][cols] f32, a row for each state that
                           * PARAM_STATES names; lives as long as the session */
    TERN_VALUE_CONSTANT,  /* written once by the host (RoPE table) */
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

typedef struct tern_value {
    tern_value_kind kind;
    tern_dtype dtype;
    tern_rows rows;            /* activations and outputs */
    uint32_t cols;             /* elements of a row */
    const tern_weight *weight; /* weights; states: whose */
    const float *frequencies;  /* constants: of a rope table, [max_pages * 32][cols / 2] pairs (cos, sin) f32, the
                                * inverse frequencies [cols / 2], in the graph's arena */
    const float *sizes;        /* the same: what the pairs are multiplied with; NULL: nothing */
    const float *numbers;      /* constants without frequencies: [cols], owned by the model; NULL: */
    float fill;                /* what each of their numbers is */
    tern_state state;          /* states */
    uint32_t n_rows;           /* states */
    uint64_t bytes;  /* caches, states, parameters and constants; activations and outputs at the largest batch */
    uint64_t offset; /* activations and brief gradients: place in their memory, set by the planner; parameters: in their
                      * buffer */
    uint32_t stage;  /* of graphs that are cut into stages: the one that makes it, the last that does */
    char name[80];   /* "ffn_norm-3": llama.cpp's names, as people know them */
} tern_value;

/* Keys, values and states: what a session keeps from step to step. */
static inline bool tern_value_is_kept(const tern_value *value)
{
    return value->kind == TERN_VALUE_CACHE || value->kind == TERN_VALUE_RECURRENT;
}

/* The output of ROUTE: (expert, f32 bits of its weight) in a row. */
static inline bool tern_value_is_routes(const tern_value *value)
{
    return value->dtype == TERN_DTYPE_U32 && value->rows == TERN_ROWS_ROUTED;
}

/* Rows first .. first + n - 1 of a rope table, [n][2 * n_pairs]: cos and sin of each angle. An angle is the f32 product
 * of position and inverse frequency, times its size (NULL: 1), as transformers computes it (modeling_rope_utils). */
void tern_rope_rows(const float *frequencies, const float *sizes, uint32_t n_pairs, uint32_t first, uint32_t n,
                    float *rows);

#endif
