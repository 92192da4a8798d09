/* A graph as backends read it: a straight list of ops, and the values they work on.
 *
 * A graph is built for one (model, largest batch). Values that change from step to step (ids, positions, page table,
 * counts) are read from parameter values when the graph runs, so a prepared graph is replayed without any
 * rebuilding. */
#ifndef TERN_OPS_GRAPH_H
#define TERN_OPS_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "ops/params.h"
#include "ops/value.h"

typedef struct tern_op tern_op; /* ops/op.h */

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

#endif
