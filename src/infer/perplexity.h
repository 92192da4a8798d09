/* How well a model predicts a text, alone and compared with another. */
#ifndef TERN_INFER_PERPLEXITY_H
#define TERN_INFER_PERPLEXITY_H

#include "infer/session.h"

typedef struct tern_perplexity_params {
    uint32_t window;       /* tokens; 0: 512, or the context where that is smaller */
    tern_session *against; /* another session, of the model to compare with, of the same vocabulary; may be NULL */
    bool (*progress)(void *context, double done); /* 0 .. 1, after each step; false cancels; may be NULL */
    void *context;
} tern_perplexity_params;

typedef struct tern_perplexity_result {
    uint64_t n_scored;
    uint32_t n_windows;
    double nll;       /* mean of -log p(token), natural logarithm */
    double ppl;       /* e^nll */
    double top1;      /* share of tokens that had the highest logit */
    double kl;        /* mean of sum p log(p / q), p: against, q: the session; 0 without `against` */
    double same_top1; /* share of tokens for which both have the same highest logit; 0 without `against` */
} tern_perplexity_result;

/* Cuts the ids into windows; each starts from an empty session and its first token is not scored. A last window may be
 * shorter; of one token it is left out. Steps are of max_outputs tokens of the session: more is faster. Sums in f64,
 * log-softmax around the highest logit. Errors: INVALID_ARGUMENT (fewer than 2 ids, a window that is too large,
 * vocabularies that differ), CANCELLED, and those of append. */
tern_status tern_perplexity(tern_session *session, const int32_t *ids, size_t n, const tern_perplexity_params *params,
                            tern_perplexity_result *result, tern_error *err);

#endif
