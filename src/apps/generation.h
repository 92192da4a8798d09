/* From flags to the parameters of a generation, and the numbers of a generation for people and machines. */
#ifndef TERN_APPS_GENERATION_H
#define TERN_APPS_GENERATION_H

#include "apps/app.h"

typedef struct tern_app_generation {
    tern_generate_params params; /* on_piece and context are the caller's */
    tern_logit_bias *biases;
    tern_sampler_chain chain; /* params.sampler points to it */
    tern_sampler_step order[TERN_SAMPLER_STEPS];
    /* The grammar of --grammar and its like; NULL without one. */
    tern_grammar_vocab *vocab;
    tern_grammar *grammar;
    tern_grammar_state *state;
    tern_token_filter filter;
} tern_app_generation;

/* Defaults of the flags of sampling and generation. */
void tern_app_generation_defaults(tern_options *options);
/* Errors: INVALID_ARGUMENT (a logit bias that is not ID=B, an unknown step of --samplers). The options must
 * outlive it, and it must not move. */
tern_status tern_app_generation_init(tern_app_generation *generation, const tern_options *options, tern_error *err);
/* Makes the generation write only what --grammar, --json-schema, --regex and their like allow, where one is given. It
 * must go before the engine. Errors: INVALID_ARGUMENT (more than one of them), UNSUPPORTED (a model without a
 * tokenizer), those of the file and of tern_grammar_open. */
tern_status tern_app_generation_constrain(tern_app_generation *generation, const tern_options *options,
                                          tern_engine *engine, tern_error *err);
/* How many tokens the flags let a step guess; 0: none. */
uint32_t tern_app_draft_tokens(const tern_options *options);

/* The small model of --draft-model; empty without one. */
typedef struct tern_app_draft {
    tern_engine *engine;
    tern_session *session;
} tern_app_draft;

/* For a session of n_ctx positions, by the flags of the device that the model itself has. To be closed also after a
 * failure. */
tern_status tern_app_draft_open(tern_app_draft *draft, const tern_options *options, uint32_t n_ctx, tern_error *err);
void tern_app_draft_close(tern_app_draft *draft);

void tern_app_generation_deinit(tern_app_generation *generation);

/* The cost of a generation. */
typedef struct tern_app_cost {
    tern_generate_result result;
    uint64_t seed;
    double read_bandwidth; /* bytes/s that the same threads, or the same GPU, can read; 0: not measured */
    bool in_cache;         /* the weights are smaller than the last-level cache of a CPU may be */
    bool gpu;
    const char *activations;      /* tern_engine_info.activations */
    tern_engine_counters counted; /* of the engine so far */
} tern_app_cost;

/* The engine's counters so far; and how fast its weights can be read, which takes a moment. */
void tern_app_count_cost(tern_app_cost *cost, const tern_engine *engine);
void tern_app_measure_cost(tern_app_cost *cost, tern_engine *engine);
/* Says on standard error when --gpu-steps was given and the host chose the tokens all the same. */
void tern_app_note_steps(const tern_generate_result *result, const tern_options *options);
/* One or two lines on standard error. */
void tern_app_print_cost(const tern_app_cost *cost);
json_t *tern_app_cost_json(const tern_app_cost *cost);

#endif
