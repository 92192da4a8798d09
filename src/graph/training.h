/* Graphs that learn: the decoder with its losses, differentiated op by op, and the optimiser's steps.
 *
 *     tern_graph_build(training)   ids -> losses, rows of whole sequences
 *     tern_graph_differentiate     the same, then the gradient of every weight that is `trained`
 *     tern_graph_update_in_backward  the optimiser's steps in the same graph, each as soon as it can be; or
 *     tern_graph_build_updates     one graph more: norms, or the optimiser's steps
 *     tern_graph_plan              memory
 *
 * A training graph works on max_tokens rows each time: several sequences packed behind each other (SEQ_STARTS). The
 * head takes max_outputs rows at a time, which must divide max_tokens and, if it is less, be a multiple of
 * TERN_ROW_ALIGNMENT; COUNTS are {max_tokens, max_outputs, 0}. Rows to spare get labels below 0 and start at
 * themselves. Weights are those of tern_graph_options.weights; the trained ones (tern_weight.trained) get a value
 * STATE / GRADIENT each, once however often the weight is used (a tied table). */
#ifndef TERN_GRAPH_TRAINING_H
#define TERN_GRAPH_TRAINING_H

#include "graph/graph.h"

typedef struct tern_graph_backward_options {
    bool checkpoint; /* activations of a layer are computed again from its input (arXiv:1604.06174) instead of kept */
    bool bf16;       /* gradients of linear layers round both factors to bf16 (tern_op.halves) */
} tern_graph_backward_options;

/* Appends the backward of every op, last first, down to the lowest trained weight; what leads to no trained weight is
 * left out. The graph must be unfused and unplanned. Straight through both quantisers. Errors: UNSUPPORTED (an op
 * without a backward, by name), INVALID_ARGUMENT (nothing is trained), OUT_OF_MEMORY. */
tern_status tern_graph_differentiate(tern_graph *graph, const tern_graph_backward_options *options, tern_error *err);

/* One trained weight and how it is updated. */
typedef struct tern_graph_update {
    const tern_weight *weight; /* dense: its own master */
    tern_dtype master;         /* F32 or BF16: of the weight's master; of a dense weight, what its encoding says */
    tern_optimizer optimizer;
    bool momentum;   /* SGD with m */
    tern_dtype m, v; /* of the states */
    bool decays;
    float threshold, clamp; /* as in tern_op */
    bool has_master;        /* the weight is made from a master: ternary, or dense while it is blended */
    bool elsewhere;         /* no norm and no step of it here: another rank's. It keeps its number */
} tern_graph_update;

typedef enum tern_graph_phase {
    TERN_GRAPH_NORMS,     /* SUM_SQUARES of every gradient, into `norms` */
    TERN_GRAPH_CLEAR,     /* the same, and they become zeros; also of those elsewhere */
    TERN_GRAPH_UPDATE,    /* UPDATE of every weight, then REQUANTIZE where there is a master */
    TERN_GRAPH_REQUANTIZE /* the second half alone: after loading, or every N steps */
} tern_graph_phase;

/* The graph of one phase over the updates, which must outlive it. States are values with `weight` and `state` set, for
 * the caller to bind. `sync`: in UPDATE, whether REQUANTIZE follows. Errors: OUT_OF_MEMORY, INVALID_ARGUMENT (none). */
tern_status tern_graph_build_updates(tern_graph *graph, const tern_config *config, const tern_graph_update *updates,
                                     size_t n_updates, tern_graph_phase phase, bool sync, tern_error *err);

/* The treatment of each weight in the backward itself, as soon as no op that follows needs it or its gradient. */
typedef struct tern_graph_in_backward {
    const tern_graph_update *updates; /* [n], of every trained weight; must outlive the graph */
    size_t n;
    bool norms; /* SUM_SQUARES of its gradient, into `norms` */
    bool steps; /* UPDATE, and with `sync` REQUANTIZE where there is a master; without steps the gradient becomes 0 */
    bool sync;
    /* The gradient is added to a sum, without steps: a MASTER in F32, to which SGD at a rate of -1 adds it (TRAINING
     * has lr -1 and clip 1). With `norms` that of this gradient, as UPDATE takes NaN for one. */
    bool sums;
} tern_graph_in_backward;

/* Puts these ops into a graph that was differentiated and is unplanned. Gradients are brief then
 * (tern_graph.brief_gradients): each lives from its first op to here, and they share memory that is zero before and
 * after each run. At least one of norms, steps and sums. The bits are those of tern_graph_build_updates on whole
 * gradients: streams and norms have the same numbers. Errors: OUT_OF_MEMORY, INVALID_ARGUMENT. */
tern_status tern_graph_update_in_backward(tern_graph *graph, const tern_graph_in_backward *what, tern_error *err);

#endif
