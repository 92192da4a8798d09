/* Building the graph of a model, and the passes over it: fuse, plan memory, print. */
#ifndef TERN_GRAPH_GRAPH_H
#define TERN_GRAPH_GRAPH_H

#include "base/error.h"
#include "ops/graph.h"

typedef struct tern_backend tern_backend; /* backend/backend.h */
typedef struct tern_buf tern_buf;         /* tern/bytes.h */
typedef struct tern_config tern_config;   /* model/model.h */
typedef struct tern_model tern_model;
typedef struct tern_op tern_op; /* ops/op.h */

/* A low-rank adapter beside a linear layer: out += scale * B A dropout(x), x before the quantiser. */
typedef struct tern_graph_lora {
    const tern_weight *a, *b; /* [rank][cols], [rows][rank], dense */
    float scale, dropout;     /* dropout: training alone */
    uint32_t group;           /* tern_op.group: 0: beside all rows, else beside those, in place */
} tern_graph_lora;

/* The weight at one place of the model. */
typedef struct tern_graph_weight {
    const tern_weight *weight;    /* NULL: the model's own */
    const tern_graph_lora *loras; /* [n_loras], of linear layers */
    uint32_t n_loras;
} tern_graph_weight;

/* The rows that dense layers in blocks multiply, of a model whose layers are dense. */
typedef enum tern_block_rows {
    TERN_BLOCK_ROWS_F32,
    TERN_BLOCK_ROWS_INT8, /* int8 by blocks (ops/ref/blocks.h) */
    TERN_BLOCK_ROWS_AUTO  /* the same, but f32 before encodings that have no such product */
} tern_block_rows;

typedef struct tern_graph_options {
    const tern_graph_weight
        *weights; /* [n_layers][TERN_ROLE_COUNT], those outside the layers at layer 0; NULL: the model as it is */
    uint32_t max_tokens;   /* rows of the largest step; at least 1 */
    uint32_t max_outputs;  /* logits rows of a step; at least 1, at most max_tokens */
    uint32_t n_ctx;        /* positions of a sequence; rounded up to whole pages */
    uint32_t n_sequences;  /* at least 1 */
    uint32_t n_groups;     /* of rows, that adapters are for */
    uint32_t n_pages;      /* physical pages of each cache */
    uint32_t n_states;     /* rows of what layers that recur keep of sequences; at least 1 in models with such layers */
    uint32_t n_ring_pages; /* of a sequence in the caches of layers with a window, which are rings then: at most
                              n_pages, as tern_graph_size_caches finds it for steps of max_tokens; 0: n_pages */
    tern_cache_types kv;   /* of the caches; heads are whole blocks of them */
    bool f32_activations;  /* no activation quantiser before ternary weights (W1.58A32; trained is W1.58A8) */
    tern_block_rows int8_blocks;
    bool int8_table;         /* the output table of a ternary model multiplies int8 by blocks */
    bool halves;             /* dense layers of more than a few rows, and training's attention (tern_op.halves) */
    bool keep_hidden;        /* every layer's output is an output of the graph */
    bool keep_states;        /* tern_graph.states: the last norm of every token is an output */
    bool screened_head;      /* logits that cannot be among the wanted ones may be left out */
    bool sampler;            /* SAMPLE ends the graph; max_tokens is 1 */
    bool sampler_rows;       /* the same with each_row, of any number of tokens */
    const tern_weight *head; /* stands in for the model's output table; NULL: the model's own */
    bool training;           /* whole packed rows instead of a cache, logits max_outputs rows at a time, losses: see
                                graph/training.h */
    uint32_t kernel_rows;    /* tern_graph.kernel_rows; with it a graph of one token is fused as one of several */
    uint32_t usual_tokens;   /* tern_graph.usual_tokens */
    uint32_t no_fusion;      /* passes of fusion to leave out: tern_graph_fusions_parse (graph/fusions.h) */
    bool fake_quantize;      /* training with gradual quantisation: FAKE_QUANTIZE instead of QUANTIZE */
} tern_graph_options;

/* Whether a model's layers are ternary or quantise their inputs as ternary ones do: it has no dense layers then, whose
 * rows tern_graph_options.int8_blocks decides. */
bool tern_graph_is_ternary(const tern_model *model);

/* States of one sequence unless the caller says how many: two that steps write in turns, two at ends of prompts. */
enum { TERN_GRAPH_STATES = 4 };

/* Sets n_pages, n_ring_pages and, if it is 0, n_states for one sequence of n_ctx positions. Each step of at most
 * `reach` tokens finds all that its windows see. Up to `reach` of the positions written last can be given up and
 * written again. A ring is left out where it would be as large as the whole context. */
void tern_graph_size_caches(tern_graph_options *options, const tern_config *config, uint32_t reach);

/* The decoder of `model`, one op for each step of the definition, unfused. The model must outlive the graph.
 * Errors: INVALID_ARGUMENT, OUT_OF_MEMORY, LIMIT. */
tern_status tern_graph_build(tern_graph *graph, const tern_model *model, const tern_graph_options *options,
                             tern_error *err);
void tern_graph_deinit(tern_graph *graph);

/* The passes; each leaves a graph that computes the same bits. */
/* With a backend, which must have the ops that every backend has: also what it wants besides
 * (tern_backend_info.fusions, in graphs of one token) and what only some run, each op where its `supports` says so.
 * NULL: nothing of that. */
tern_status tern_graph_fuse(tern_graph *graph, tern_backend *backend, tern_error *err);
/* Every activation becomes an output of the graph: before planning, for looking at all of them. */
void tern_graph_keep_all(tern_graph *graph);
/* Gives every activation its offset: values whose lives overlap never share memory, except for a sum that takes its
 * addend's place (TERN_FUSION_IN_PLACE in `fusions`). With graph->activation_block, a multiple of 256, none crosses a
 * multiple of it, so that the memory can be buffers of so many bytes. With graph->brief_gradients each gradient gets
 * one in the same way, in memory of their own. Errors: LIMIT (one that is larger, by name). */
tern_status tern_graph_plan(tern_graph *graph, uint32_t fusions, tern_error *err);

/* The value ids of the layers + 1 hidden states (keep_hidden graphs), by name: 0 is the embedding's output.
 * TERN_NO_VALUE when absent. */
uint32_t tern_graph_hidden(const tern_graph *graph, uint32_t index);

/* Text for people: one line for each op with shapes; the memory plan with offsets and sizes. */
tern_status tern_graph_print(const tern_graph *graph, tern_buf *out, tern_error *err);
tern_status tern_graph_print_memory(const tern_graph *graph, tern_buf *out, tern_error *err);
/* Prints the bytes of all weights, the bytes of keys and values that a token adds, and the operations of linear layers
 * and the head for each byte of weights in the largest step. Below the operations that a device can do for each byte
 * that it reads, memory bounds them (decode); above, arithmetic does (prefill). */
tern_status tern_graph_print_bounds(const tern_graph *graph, tern_buf *out, tern_error *err);

/* Shared by the passes. */
tern_status tern_graph__add_value(tern_graph *graph, tern_value value, uint32_t *id, tern_error *err);
/* Optional operands of the op (its residual and the like) are there where they have columns. */
tern_status tern_graph__add_op(tern_graph *graph, const tern_op *op, tern_error *err);
/* How many ops read each value (what an op writes in place it reads too); counts[n_values]. */
void tern_graph__count_uses(const tern_graph *graph, uint32_t *counts);
/* The op that makes a value, which is the first one that writes it; or NULL. */
tern_op *tern_graph__maker(const tern_graph *graph, uint32_t value);
/* Removes the ops whose kind is TERN_OP_COUNT. */
void tern_graph__compact(tern_graph *graph);

/* true when op reads `value` in any of its views. */
bool tern_graph__reads(const tern_op *op, uint32_t value);

#endif
