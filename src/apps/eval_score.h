/* Scores of a model's answers. */
#ifndef TERN_APPS_EVAL_SCORE_H
#define TERN_APPS_EVAL_SCORE_H

#include "apps/eval_item.h"

/* Sums over questions; zero-initialised is none. */
typedef struct tern_eval_score {
    uint64_t n_choices, n_exact; /* questions of each kind */
    uint64_t right;              /* the choice of highest log-probability is the answer */
    uint64_t right_norm;         /* the same, each divided by its characters */
    uint64_t exact;              /* what the model wrote is the answer */
} tern_eval_score;

/* Lets the session's model choose. The question's context is evaluated once; what the session holds is forgotten as far
 * as it differs. Errors: CONTEXT_FULL, those of append. */
tern_status tern_eval_choose(tern_engine *engine, tern_session *session, const tern_eval_item *item,
                             tern_eval_score *score, tern_error *err);

/* Standard error of the mean of n answers of which `right` are 1 and the others 0; 0 below two. */
double tern_eval_stderr(uint64_t right, uint64_t n);

#endif
