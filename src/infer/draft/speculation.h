/* How many guessed tokens a step takes along: as many as give most tokens for its time, by what guesses came to lately
 * and what steps took. */
#ifndef TERN_INFER_DRAFT_SPECULATION_H
#define TERN_INFER_DRAFT_SPECULATION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum {
    TERN_DRAFT_LONGEST_MATCH = 8, /* matching tokens beyond which more say nothing more */
    TERN_DRAFT_BY_MODEL = 0,      /* instead of a number of matching tokens */
    TERN_DRAFT_SOURCES = 6        /* a model; 1, 2, 3, 4 to 7, 8 and more tokens that match */
};

/* The times of steps of so many tokens, each with its logits: the lower of the last two, as one slow step says
 * little. */
typedef struct tern_step_costs {
    uint32_t n_rows;
    const double *given; /* [n_rows] of 1, 2, ... tokens, in any unit; NULL: they are measured */
    double *ms;          /* [n_rows][2]; 0: not known */
    uint64_t *learnt;    /* [n_rows] the step */
    uint64_t n_steps;
} tern_step_costs;

/* given: borrowed; may be NULL. Errors: OUT_OF_MEMORY. */
tern_status tern_step_costs_init(tern_step_costs *costs, uint32_t n_rows, const double *given, tern_error *err);
void tern_step_costs_deinit(tern_step_costs *costs);
/* A step of so many tokens took `ms`. Nothing where costs are given, or with more than n_rows. */
void tern_step_costs_learn(tern_step_costs *costs, uint32_t n, double ms);

/* The share of guesses that were right lately, by where they come from. */
typedef struct tern_accept_rates {
    double rate[TERN_DRAFT_SOURCES];
    uint32_t n[TERN_DRAFT_SOURCES];
    double model_ms; /* that one guess of the model takes */
} tern_accept_rates;

void tern_accept_rates_init(tern_accept_rates *rates);
/* A guess made with `match` matching tokens, or BY_MODEL, was right or not, provided that all before it were. */
void tern_accept_rates_learn(tern_accept_rates *rates, uint32_t match, bool right);
/* Tokens that n guesses in a row are expected to give, the first one made with `match`. */
double tern_accept_rates_expect(const tern_accept_rates *rates, uint32_t match, uint32_t n);

/* A step without these guesses: tokens that it evaluates, and that it is expected to give. */
typedef struct tern_step_plan {
    uint32_t n_rows;
    double n_tokens;
} tern_step_plan;

/* The number of guesses, at most `most`, that makes the most tokens per time; 0: none pays. Numbers of tokens that
 * nothing is known of are approached from below, at most twice as many as are known, with times on the line of those
 * known. The estimate of a model that is not used slowly rises again. */
uint32_t tern_speculate(const tern_step_costs *costs, tern_accept_rates *rates, const tern_step_plan *plan,
                        uint32_t match, uint32_t most);

#endif
