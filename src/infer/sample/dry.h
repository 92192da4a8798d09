/* DRY: lowers the logits of tokens that would go on with a repetition. */
#ifndef TERN_INFER_SAMPLE_DRY_H
#define TERN_INFER_SAMPLE_DRY_H

#include "infer/sample/sampler.h"

typedef struct tern_candidates tern_candidates; /* infer/sample/internal.h */

typedef struct tern_dry {
    float multiplier, base;
    uint32_t allowed_length;
    uint32_t window; /* tokens back that are looked at */
    const tern_tokenizer *tokenizer;
    const char *const *breakers; /* [n_breakers] */
    uint32_t n_breakers;
    uint32_t *matches;      /* [window] */
    uint32_t *lengths;      /* [n_vocab] of the longest repetition that a token goes on with; all zero between calls */
    uint32_t *breaks;       /* [n_vocab] bits: tokens with a whole breaker in them */
    bool has_long_breakers; /* of several bytes: they may lie across tokens */
} tern_dry;

/* Takes memory for a context of model->n_ctx tokens. Errors: OUT_OF_MEMORY. */
tern_status tern_dry_init(tern_dry *dry, const tern_sampler_model *model, const tern_sampler_chain *chain,
                          tern_error *err);
void tern_dry_deinit(tern_dry *dry);
/* Subtracts from the candidates' x what tern_sampler_chain.dry_multiplier says. Linear in the window. */
void tern_dry_apply(tern_dry *dry, tern_candidates *c, const int32_t *history, uint32_t n_history);

#endif
