/* One op of a graph, tried on made-up inputs on two backends: the device's result against the CPU's. Real weights, real
 * shapes. */
#ifndef TERN_GRAPH_TRIAL_TRIAL_INTERNAL_H
#define TERN_GRAPH_TRIAL_TRIAL_INTERNAL_H

#include "base/rng.h"
#include "graph/trial/trial.h"
#include "ops/graph.h"
#include "ops/op.h"
#include "quant/weight.h"

typedef struct tern_trial {
    const tern_graph *from;
    tern_op op;         /* with rows from the first on, and fewer of large states */
    tern_graph graph;   /* of that op alone */
    tern_value *values; /* from's, each in a buffer of its own, and two more: what lies between the two ops of a fused
                         * one, or what is seen of a weight that the op has made; and what that is multiplied by */
    uint8_t **contents; /* [n_values + 2] of what the op reads; NULL: zeros, or a weight */
    uint32_t made;      /* the weight that it writes, or TERN_NO_VALUE */
    tern_weight weight; /* which is then this one: some of its rows, copied */
    uint8_t *weight_data;
    float *weight_scales;
    tern_weight fetched[TERN_OP_MAX_INPUTS]; /* weights that only the device had */
    size_t n_fetched;
    uint8_t *params;
    uint32_t n_tokens, n_outputs;
    bool few; /* the graph had more rows than are tried */
    tern_rng rng;
} tern_trial;

/* One of the two backends. The CPU takes fused ops apart. */
typedef struct tern_trial_side {
    tern_backend *backend;
    const tern_binding *weights; /* where the weights lie already; NULL: they are made */
    bool apart;
    tern_op ops[3];
    tern_graph graph;
    tern_bound_graph bound;
    uint8_t **results; /* [n_values + 2] of the values that the op writes */
} tern_trial_side;

/* op.c: the trial of `op` of `graph`; few: with few rows, where the graph has many. */
tern_status tern_trial__open(tern_trial *t, const tern_graph *graph, const tern_op *op, bool few, tern_error *err);
void tern_trial__close(tern_trial *t);
/* Runs it on both and compares. *what is empty, or says where the device is wrong. The sides are the caller's to close,
 * also after a failure. Errors: OUT_OF_MEMORY and those of the backends; UNSUPPORTED: the CPU cannot tell. */
tern_status tern_trial__run(tern_trial *t, tern_trial_side *device, tern_trial_side *host, char *what, size_t n_what,
                            tern_error *err);
void tern_trial__close_side(const tern_trial *t, tern_trial_side *s);

/* shrink.c: gives the trial an op of few rows, with a weight of its own where the op writes one. */
tern_status tern_trial__shrink(tern_trial *t, const tern_op *op, bool few, tern_error *err);
/* The weight of its own as the op's is, for the next side: the CPU works in place. */
void tern_trial__restore(const tern_trial *t);
/* inputs.c: fills contents and params. */
tern_status tern_trial__inputs(tern_trial *t, tern_error *err);
/* training.c: those of training. */
void tern_trial__state(tern_trial *t, const tern_value *v, uint8_t *to);
void tern_trial__training(tern_trial *t);
uint32_t *tern_trial__param(tern_trial *t, tern_param which); /* NULL: the graph has none */
float tern_trial__number(tern_trial *t);                      /* in -1 .. 1 */
/* Bytes of a value that a trial touches. */
uint64_t tern_trial__bytes(const tern_trial *t, const tern_value *v);
/* compare.c */
/* By ops/difference.h. *what is empty where all is within the tolerance of the op. Errors: OUT_OF_MEMORY. */
tern_status tern_trial__compare(const tern_trial *t, uint8_t *const *got, uint8_t *const *want, char *what,
                                size_t n_what, tern_error *err);
/* Whether the op writes value i, so that it is to be compared. */
bool tern_trial__writes(const tern_trial *t, uint32_t i);
uint32_t tern_trial__rows(const tern_trial *t, const tern_value *v);

#endif
