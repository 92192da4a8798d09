/* The steps of tern_sampler_chain, from logits to a draw, in any order. */
#ifndef TERN_INFER_SAMPLE_CHAIN_H
#define TERN_INFER_SAMPLE_CHAIN_H

#include "infer/sample/dry.h"
#include "infer/sample/internal.h"

typedef struct tern_chain {
    tern_sampler_chain params; /* with the defaults in place of zeros */
    tern_sampler_step order[TERN_SAMPLER_STEPS];
    uint32_t n_order;
    bool on; /* any of its steps is, or an order was given */
    tern_dry dry;
    const tern_tokenizer *tokenizer; /* NULL: none */
    float mu;                        /* of Mirostat */
} tern_chain;

/* Errors: INVALID_ARGUMENT (the parameter, its value and its range). */
tern_status tern_chain_check(const tern_sampler_params *params, tern_error *err);
/* The parameters were checked. Errors: OUT_OF_MEMORY. */
tern_status tern_chain_init(tern_chain *chain, const tern_sampler_model *model, const tern_sampler_params *params,
                            tern_error *err);
void tern_chain_deinit(tern_chain *chain);
void tern_chain_reset(tern_chain *chain);

/* One call's tokens and draws. */
typedef struct tern_chain_call {
    const tern_sampler_params *params;
    const int32_t *history; /* [n_history] */
    uint32_t n_history;
    uint32_t *counts; /* [n_vocab] all zero, before and after; NULL: no penalties */
    double draw, xtc; /* uniform in [0, 1) */
} tern_chain_call;

/* Chooses among the candidates, which are gathered and have logits. */
int32_t tern_chain_choose(tern_chain *chain, tern_candidates *c, const tern_chain_call *call);

#endif
