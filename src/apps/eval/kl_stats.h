/* How far a model's probabilities are from those that were saved of another one (apps/eval/kl_base.h), as llama.cpp's
 * perplexity --kl-divergence says it. */
#ifndef TERN_APPS_EVAL_KL_STATS_H
#define TERN_APPS_EVAL_KL_STATS_H

#include "apps/app.h"
#include "apps/eval/kl_base.h"

/* One token of the text: p is the base's probability, q the model's. */
typedef struct tern_kl_token {
    double nll, base_nll; /* -log q, -log p of the token that is there */
    double kld;           /* sum of p log(p / q) over the tokens of p above e^-16 */
    double p_diff;        /* q - p of the token that is there */
    bool same_top;
} tern_kl_token;

/* logits[n_vocab] of the model, row of the base. */
void tern_kl_compare(const float *logits, const uint8_t *row, uint32_t n_vocab, int32_t id, tern_kl_token *out);

/* The statistics of n >= 1 tokens, which are sorted by some value on the way, in llama.cpp's words, behind
 * what the model's layers multiply; or as one object of JSON. Errors: OUT_OF_MEMORY, those of the output. */
tern_status tern_kl_print(tern_kl_token *tokens, size_t n, const char *activations, bool json, tern_error *err);

#endif
