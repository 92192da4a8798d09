/* One model on two backends, op by op: what differs first, and by how much.
 *
 * Two passes. In the first, each op of the tested graph runs alone on the inputs that the reference has computed, and
 * its results are compared. So an error is found where it arises, and the rounding of one int8 element does not move
 * all that follows. In the second, the graphs run as they always do. */
#ifndef TERN_INFER_COMPARE_COMPARE_H
#define TERN_INFER_COMPARE_COMPARE_H

#include "infer/engine/engine.h"
#include "ops/op_kind.h"

typedef struct tern_compare_params {
    const int32_t
        *ids; /* [n_ids], at least 2: all but the last are evaluated as a prompt, the last as a decoded token */
    uint32_t n_ids;
    tern_kv_types kv;
    double tolerance; /* of an op, a share as tern_difference.worst; 0: tern_op_tolerance, by the kind of op */
    bool unfused;     /* the graphs as they were built, one op for each step of the definition */
    const tern_lora_use *reference_loras, *tested_loras; /* [n_loras] the same adapters on each engine */
    uint32_t n_loras;
    bool (*progress)(void *context, double done); /* may be NULL; false cancels */
    void *context;
} tern_compare_params;

/* One op, given the reference's inputs. */
typedef struct tern_compare_op {
    char name[80]; /* of what it makes: "ffn_inp-3" */
    tern_op_kind kind;
    uint32_t layer; /* UINT32_MAX outside the layers */
    bool decode;    /* in the graph of one token; else in the prompt's */
    bool ok;
    double error, tolerance; /* tern_difference.worst (ops/difference.h), and how large it may be */
    uint64_t n_flips;        /* int8 elements that differ by one, which rounding explains; more than one is an error */
    double run_error;        /* of the same value when the whole graph has run; -1: it has no counterpart */
} tern_compare_op;

/* How well two rows of logits agree. */
typedef struct tern_compare_logits {
    double error, cosine;
    bool same_top; /* the same token has the highest logit */
    bool tied_top; /* or not, but the reference has the two within 4 rms errors of each other, which may swap them */
} tern_compare_logits;

typedef struct tern_compare_result {
    tern_compare_op *ops; /* in the order of running: the prompt's, then the decoded token's */
    size_t n_ops, cap_ops;
    size_t first_bad;           /* index of the first op that is not ok; n_ops: none */
    bool identical;             /* all bits, in both passes */
    tern_compare_logits run;    /* of the decoded token, whole graphs: tested against reference */
    tern_compare_logits cached; /* tested: tokens one by one against all at once */
    bool ok;                    /* no bad op, both cosines above 0.999 and the same top tokens, or tied ones */
} tern_compare_result;

/* Works on sessions of its own. The result is the caller's to deinit, also after a failure. Errors: INVALID_ARGUMENT
 * (too few ids, an id outside the vocabulary, more than the context), CANCELLED, and those of the backends. A
 * difference is none: it is in the result. */
tern_status tern_compare(tern_engine *reference, tern_engine *tested, const tern_compare_params *params,
                         tern_compare_result *result, tern_error *err);
void tern_compare_result_deinit(tern_compare_result *result);

/* Shared by compare*.c. */

tern_compare_logits tern_compare__logits(const float *want, const float *got, uint32_t n);

#endif
