/* How many guessed tokens a step takes along. Source of the expectation: Leviathan, Kalman and Matias, "Fast inference
 * from transformers via speculative decoding", 2023, section 3.5; here shares differ from guess to guess. */
#include "infer/draft/speculation.h"

#include "base/alloc.h"

enum {
    FORGOTTEN = 256, /* steps after which a number of tokens may be tried again */
    MEMORY = 24      /* guesses of one source that count */
};

static const double least_gain = 1.02;    /* times the tokens per time without guesses */
static const double recovery = 1.0 / 512; /* of the way back to 1 for each step without guesses of the model */
static const double initial_rate = 0.5;   /* the share before anything is known */

tern_status tern_step_costs_init(tern_step_costs *costs, uint32_t n_rows, const double *given, tern_error *err)
{
    *costs = (tern_step_costs){.n_rows = n_rows, .given = given};
    costs->ms = tern_calloc(2 * (size_t)n_rows, sizeof *costs->ms);
    costs->learnt = tern_calloc(n_rows, sizeof *costs->learnt);
    if (costs->ms && costs->learnt) return TERN_OK;
    tern_step_costs_deinit(costs);
    return tern_fail_alloc(err, 2 * (uint64_t)n_rows * sizeof *costs->ms);
}

void tern_step_costs_deinit(tern_step_costs *costs)
{
    tern_free(costs->ms);
    tern_free(costs->learnt);
    *costs = (tern_step_costs){0};
}

void tern_step_costs_learn(tern_step_costs *costs, uint32_t n, double ms)
{
    if (costs->given || n == 0 || n > costs->n_rows || !(ms > 0)) return;
    double *times = costs->ms + 2 * ((size_t)n - 1);
    costs->n_steps++;
    times[1] = times[0];
    times[0] = ms;
    costs->learnt[n - 1] = costs->n_steps;
}

/* The time of exactly so many tokens; 0: not known, or too long ago. One token alone is never forgotten. */
static double known_cost(const tern_step_costs *c, uint32_t n)
{
    const double *times = c->ms + 2 * ((size_t)n - 1);
    if (c->given) return c->given[n - 1];
    if (n > 1 && c->n_steps - c->learnt[n - 1] >= FORGOTTEN) return 0;
    return times[1] > 0 && times[1] < times[0] ? times[1] : times[0];
}

/* The next fewer that is known; 0: none. */
static uint32_t known_below(const tern_step_costs *c, uint32_t n)
{
    while (n > 0 && !(known_cost(c, n) > 0)) n--;
    return n;
}

/* Between two numbers that are known, on the line; beyond the last one, on that through the last two, which does not
 * fall. 0: nothing is known of fewer. */
static double cost_of(const tern_step_costs *c, uint32_t n)
{
    uint32_t below = known_below(c, n), above = n;
    while (above <= c->n_rows && !(known_cost(c, above) > 0)) above++;
    if (below == 0) return 0;
    if (below == n) return known_cost(c, n);
    const bool beyond = above > c->n_rows;
    if (beyond) above = known_below(c, below - 1);
    if (above == 0) return known_cost(c, below);
    const double here = known_cost(c, below);
    const double slope = (known_cost(c, above) - here) / ((double)above - (double)below);
    return beyond && !(slope > 0) ? here : here + slope * (n - below);
}

/* The most tokens that a step may try. */
static uint32_t max_tokens(const tern_step_costs *c)
{
    const uint32_t n = known_below(c, c->n_rows);
    return 2 * n < c->n_rows ? 2 * n : c->n_rows;
}

void tern_accept_rates_init(tern_accept_rates *rates)
{
    *rates = (tern_accept_rates){0};
    for (uint32_t i = 0; i < TERN_DRAFT_SOURCES; i++) rates->rate[i] = initial_rate;
}

static uint32_t source_of(uint32_t match)
{
    return match < 4 ? match : match < TERN_DRAFT_LONGEST_MATCH ? 4 : 5;
}

void tern_accept_rates_learn(tern_accept_rates *rates, uint32_t match, bool right)
{
    const uint32_t i = source_of(match);
    if (rates->n[i] < MEMORY) rates->n[i]++;
    rates->rate[i] += ((right ? 1.0 : 0.0) - rates->rate[i]) / (1 + rates->n[i]);
}

/* The chance of the guess after i right ones: each of them is one more token that matches. */
static double rate_of(const tern_accept_rates *rates, uint32_t match, uint32_t i)
{
    return rates->rate[match == TERN_DRAFT_BY_MODEL ? 0 : source_of(match + i)];
}

double tern_accept_rates_expect(const tern_accept_rates *rates, uint32_t match, uint32_t n)
{
    double all_right = 1, sum = 0;
    for (uint32_t i = 0; i < n; i++) sum += all_right *= rate_of(rates, match, i);
    return sum;
}

uint32_t tern_speculate(const tern_step_costs *costs, tern_accept_rates *rates, const tern_step_plan *plan,
                        uint32_t match, uint32_t most)
{
    const double alone = plan->n_rows <= costs->n_rows ? cost_of(costs, plan->n_rows) : 0;
    const double draft_token_ms = match == TERN_DRAFT_BY_MODEL ? rates->model_ms : 0;
    const uint32_t limit = max_tokens(costs);
    double all_right = 1, n_tokens = plan->n_tokens, best = alone > 0 ? least_gain * n_tokens / alone : 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < most && alone > 0 && plan->n_rows + i < limit; i++) {
        n_tokens += all_right *= rate_of(rates, match, i);
        const double rate = n_tokens / (cost_of(costs, plan->n_rows + i + 1) + (i + 1) * draft_token_ms);
        if (!(rate > best)) continue;
        best = rate;
        n = i + 1;
    }
    if (n == 0 && match == TERN_DRAFT_BY_MODEL) rates->rate[0] += recovery * (1 - rates->rate[0]);
    return n;
}
