/* How far a merged model is from its base with the adapters beside it, in numbers and in words. */
#ifndef TERN_APPS_MERGE_VERDICT_H
#define TERN_APPS_MERGE_VERDICT_H

#include "apps/app.h"
#include "infer/engine/engine.h"
#include "model/adapter/merge.h"

/* KL divergences, in nats a token, from the base with the adapters, over texts that it writes itself. */
typedef struct tern_merge_verdict {
    double merged;     /* to the merged model */
    double base;       /* to the base alone: all that the adapters do */
    double same_top;   /* share of tokens for which the merged model has the same highest logit */
    uint32_t n_tokens; /* looked at */
} tern_merge_verdict;

typedef enum tern_merge_word {
    TERN_MERGE_SAME,   /* what the adapters do, at most a twentieth aside */
    TERN_MERGE_WORSE,  /* at least three quarters of it */
    TERN_MERGE_RUINED, /* less: the adapters beside the model are to be preferred */
    TERN_MERGE_NOTHING /* the adapters do nothing that could be lost */
} tern_merge_word;

tern_merge_word tern_merge_judge(const tern_merge_verdict *verdict);
/* "the same", "worse", "ruined", "no change". */
const char *tern_merge_word_name(tern_merge_word word);
/* A sentence for people, with the numbers. */
void tern_merge_say(const tern_merge_verdict *verdict, FILE *out);

/* Runs base, base with the merge's adapters, and merged on the CPU: four texts of 32 tokens, sampled with fixed seeds.
 * Errors: those of engines and sessions; CANCELLED. */
tern_status tern_merge_measure(const tern_merge *merge, const tern_model *merged, tern_merge_verdict *verdict,
                               tern_error *err);

#endif
