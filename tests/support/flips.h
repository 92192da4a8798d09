/* Rounding ties of the int8 quantiser, tried the other way.
 *
 * An element that lies within float noise of a rounding boundary may go either way after a sum in another order, and
 * one such flip moves the logits of every later token by about 1 % in models this small. So where a run differs from
 * what it is compared with, each such element is tried the other way on the CPU, one at a time, and a flip that brings
 * the run nearer is kept: a few of them, out of the many thousands of elements that were quantised. */
#ifndef TERN_TESTS_SUPPORT_FLIPS_H
#define TERN_TESTS_SUPPORT_FLIPS_H

#include "infer/session/session.h"

/* Tokens to evaluate from an empty session on, with all their logits, and what those are compared with. */
typedef struct test_run {
    tern_session *session; /* of an engine on the CPU with one thread */
    const int32_t *ids;
    uint32_t n;
    const float *want; /* [n][n_vocab] */
} test_run;

/* Evaluates the run with at most max_flips flips, until the relative rms error is at most max_rms or no flip helps. The
 * session keeps the nearest logits and hidden states found. Returns how many were flipped; *error (or NULL) gets the
 * error that is left. */
uint32_t test_flips_nearest(const test_run *run, double max_rms, uint32_t max_flips, double *error);

#endif
