/* From logits to a token: penalties, temperature and the usual cuts, reproducible from a seed. */
#ifndef TERN_INFER_SAMPLE_SAMPLER_H
#define TERN_INFER_SAMPLE_SAMPLER_H

#include "base/error.h"
#include "ops/params.h"
#include "tern/infer.h"

typedef struct tern_sampler tern_sampler;
typedef struct tern_tokenizer tern_tokenizer; /* text/tokenizer/tokenizer.h */

/* The model that a sampler chooses tokens of. */
typedef struct tern_sampler_model {
    uint32_t n_vocab;
    uint32_t n_ctx;                  /* tokens that a history may have */
    const tern_tokenizer *tokenizer; /* borrowed; NULL: it has none */
} tern_sampler_model;

/* Errors: INVALID_ARGUMENT (the parameter, its value and its range). */
tern_status tern_sampler_check(const tern_sampler_model *model, const tern_sampler_params *params, tern_error *err);
/* Allocates all it will need. Errors: those of tern_sampler_check, OUT_OF_MEMORY. */
tern_status tern_sampler_open(tern_sampler **sampler, const tern_sampler_model *model,
                              const tern_sampler_params *params, tern_error *err);
void tern_sampler_close(tern_sampler *sampler);
/* Back to the seed. */
void tern_sampler_reset(tern_sampler *sampler);

/* Chooses a token. `logits` [n_vocab] is changed in place. `history` are the tokens so far (the last penalty_last_n
 * count). Order: bias, penalties, then greedy (lowest index of the maximum), or temperature, top-k, typical, top-p,
 * min-p, softmax and a draw; with a chain the order that it says, and `logits` get biases alone. NaN logits never win,
 * +INFINITY counts as the largest finite value, and where all are NaN or -INFINITY id 0 wins. Same seed and logits give
 * the same token on every machine. No allocation. */
int32_t tern_sampler_next(tern_sampler *sampler, float *logits, const int32_t *history, uint32_t n_history);

enum { TERN_SAMPLER_UNDECIDED = -1 };

/* As above, from logits of which some are left out (-INFINITY): those that tern_logits_needed_by of the same parameters
 * does not need, with its `tail`. Gives the token that tern_sampler_next would choose from all logits. UNDECIDED: the
 * choice depends on those left out. Then nothing is drawn, and tern_sampler_next needs all logits. */
int32_t tern_sampler_try(tern_sampler *sampler, float *logits, const int32_t *history, uint32_t n_history, float tail);

/* Whether logits of earlier tokens are changed. */
bool tern_sampler_has_penalties(const tern_sampler_params *params);
/* Whether there is a chain with a step that does anything. */
bool tern_sampler_has_chain(const tern_sampler_params *params);

/* Choosing on a device (TERN_OP_SAMPLE): the same tokens from the same seed, except for a draw within float noise of a
 * boundary. */

/* Whether SAMPLE can choose as these parameters say: no biases, no penalties, no chain, not typical; greedy, or the top
 * 1 to TERN_SAMPLE_MAX_TOP_K. */
bool tern_sampler_fits_gpu(const tern_sampler_params *params);
/* Writes what SAMPLE needs to choose n tokens (at most TERN_SAMPLE_MAX_STEPS): the draws of the next n calls of
 * tern_sampler_next. No end ids. */
void tern_sampler_fill(const tern_sampler *sampler, tern_sample_params *out, uint32_t n);
/* As if tern_sampler_next had been called n times. */
void tern_sampler_consume(tern_sampler *sampler, uint32_t n);

#endif
