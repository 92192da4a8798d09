/* Numbers that are not finite: finding them in logits, and the op that they come from. */
#ifndef TERN_INFER_SESSION_NONFINITE_H
#define TERN_INFER_SESSION_NONFINITE_H

#include "infer/session/runner.h"

/* Whether all of x[0 .. n) are finite. screened: some may be -INFINITY, as rows are that a screened LINEAR leaves out,
 * but not all. true for n = 0. */
bool tern_all_finite(const float *x, size_t n, bool screened);

/* Searches for the first op that gives a number that is not finite. A sequence is evaluated again in memory of its own,
 * in which every value stays, and everything that its ops wrote is read. The search goes in steps, so nothing waits. */
typedef struct tern_nonfinite tern_nonfinite;

/* `step` had such logits; ids: the tokens of the sequence up to its last one, borrowed. Adapters, cache and batches are
 * as `runner` has them. On failure *search is NULL. Errors: OUT_OF_MEMORY, those of the backend. */
tern_status tern_nonfinite_open(tern_nonfinite **search, const tern_runner *runner, const int32_t *ids,
                                const tern_runner_step *step, tern_error *err);
/* PENDING: call again. Else NOT_FINITE, with the op, what it makes, its layer, and the token; or the error that ended
 * the search. */
tern_status tern_nonfinite_advance(tern_nonfinite *search, tern_error *err);
/* NULL is fine. */
void tern_nonfinite_close(tern_nonfinite *search);

#endif
