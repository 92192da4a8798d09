/* Which logits a sampler needs, for heads that can leave the others out (tern_wanted in ops/params.h). */
#ifndef TERN_INFER_SAMPLE_WANTED_H
#define TERN_INFER_SAMPLE_WANTED_H

#include "ops/params.h"
#include "tern/infer.h"

/* Zero-initialised: all of them. */
typedef struct tern_logits_needed {
    uint32_t n_top;                /* the highest, beside what can be moved; 0: all */
    float reach, sharpness, tail;  /* as in tern_wanted */
    const tern_logit_bias *biases; /* [n_biases] tokens that are moved, borrowed */
    uint32_t n_biases;
    uint32_t n_recent; /* so many tokens before an output are moved too */
} tern_logits_needed;

/* The logits that this sampler reads. The logits of biased and of recent tokens are always there, so that penalties and
 * biases may move them either way. With a `tail` the choice can turn on what was left out (tern_sampler_try). */
tern_logits_needed tern_logits_needed_by(const tern_sampler_params *params);

/* Begins a step's list with nothing in it: n_top is 1. */
void tern_wanted_begin(tern_wanted *wanted, uint32_t *n_top);
/* Adds what is needed after each of the last n_outputs of n tokens, for outputs that share the step. *n_top becomes 0
 * where all are needed, or more tokens are moved than the list takes. */
void tern_wanted_add(tern_wanted *wanted, uint32_t *n_top, const tern_logits_needed *needed, const int32_t *tokens,
                     uint32_t n, uint32_t n_outputs);

#endif
