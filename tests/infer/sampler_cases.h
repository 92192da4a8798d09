/* Sampling by its definitions, in plain C, and logits to sample from. */
#ifndef TERN_TESTS_INFER_SAMPLER_CASES_H
#define TERN_TESTS_INFER_SAMPLER_CASES_H

#include "support/kernels.h"
#include "support/test.h"

#include <math.h>

#include "base/alloc.h"
#include "infer/sample/internal.h"

enum { MAX_VOCAB = 3000 };

/* A distribution written out: p[i] for ids 0 .. n, 0 for those that are out. */
typedef struct plain {
    uint32_t n;
    double x[MAX_VOCAB], p[MAX_VOCAB];
} plain;

extern const double *sampler_order_values; /* what `descending` sorts by */

int sampler_descending(const void *a, const void *b);

void sampler_sort_ids(int32_t *ids, uint32_t n, const double *values);

void sampler_normalise(plain *d);

void sampler_plain_softmax(plain *d, const float *logits, uint32_t n, float temperature);

void sampler_plain_top_k(plain *d, uint32_t k);

/* Keeps ids in the given order up to the first at which the sum exceeds mass. The smallest distance between a sum and
 * `mass` is returned: where it is tiny, rounding may decide otherwise. */
double sampler_keep_mass(plain *d, const int32_t *ids, double mass);

double sampler_plain_top_p(plain *d, float p);

double sampler_plain_typical(plain *d, float p);

void sampler_plain_min_p(plain *d, float p);

/* Bell-shaped logits, rounded so that there are ties when `coarse`. */
void sampler_random_logits(tern_rng *rng, float *logits, uint32_t n, float scale, bool coarse);

tern_sampler *sampler_open_sampler(uint32_t n_vocab, tern_sampler_params params);

#endif
