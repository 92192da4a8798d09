/* Choosing tokens on a backend against the sampler, on the same logits with the same draws. */
#ifndef TERN_TESTS_SUPPORT_SAMPLE_CASE_H
#define TERN_TESTS_SUPPORT_SAMPLE_CASE_H

#include "infer/sample/sampler.h"
#include "support/op_case.h"

/* Logits to choose from, and how many draws were compared so far: of them some that fall within the noise of f32 sums
 * of a boundary, so that two tokens are right. */
typedef struct test_sampling {
    tern_rng *rng;
    float *logits;
    uint32_t n_vocab;
    uint32_t n_draws, n_unclear;
} test_sampling;

/* What a run left behind. */
typedef struct test_sampled {
    uint32_t tokens[1 + TERN_SAMPLE_MAX_STEPS], counts[3], id, position;
    tern_sample_params params;
} test_sampled;

/* n_steps of sampling from the same logits, id 77 at position 5. */
test_sampled test_sample_run(const test_sampling *s, tern_backend *b, const tern_sample_params *params,
                             uint32_t n_outputs, uint32_t n_steps);
/* Logits as models have them: most are low. coarse: whole numbers, many of them equal. */
void test_sample_fill(test_sampling *s, bool coarse);
/* Parameters that fit a GPU, at random. */
tern_sampler_params test_sample_params(tern_rng *rng);
tern_sampler *test_sampler_open(uint32_t n_vocab, const tern_sampler_params *params);

/* Where a logit is not finite a run says so and ends, whatever is left to choose: n_steps of it. */
void test_sample_check_refused(const test_sampling *s, tern_backend *b, const char *what,
                               const tern_sampler_params *params, uint32_t n_steps);
/* The greedy token is the sampler's (all logits finite), or the test fails. */
void test_sample_check_greedy(const test_sampling *s, tern_backend *b, const char *what);
/* n_steps draws are the sampler's. even: many candidates may be equally likely; these draws are not counted. */
void test_sample_check_draws(test_sampling *s, tern_backend *b, const char *what, const tern_sampler_params *params,
                             bool even, uint32_t n_steps);

#endif
