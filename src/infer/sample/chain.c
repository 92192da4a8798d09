/* Steps on candidates that change their logits or drop some of them. */
#include "infer/sample/chain.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/choice.h"
#include "base/show.h"
#include "base/sized.h"
#include "infer/sample/infill.h"

static const double LN_2 = 0.69314718055994530942;

/* ---- parameters */

/* Names of steps that llama.cpp has beside those of tern_choice_word. */
static const struct {
    const char *name;
    tern_sampler_step step;
} other_names[] = {{"typ_p", TERN_SAMPLER_TYPICAL_P},
                   {"typ", TERN_SAMPLER_TYPICAL_P},
                   {"typical", TERN_SAMPLER_TYPICAL_P},
                   {"temp", TERN_SAMPLER_TEMPERATURE}};

tern_status tern_sampler_step_parse(const char *name, size_t n, tern_sampler_step *step, tern_error *err)
{
    char word[32];
    uint32_t value;
    TERN_NEED(name, err);
    TERN_NEED(step, err);
    *step = 0;
    n = n < sizeof word ? n : sizeof word - 1;
    for (size_t i = 0; i < n; i++) word[i] = (char)(name[i] == '-' ? '_' : name[i]);
    word[n] = 0;
    for (size_t i = 0; i < sizeof other_names / sizeof *other_names; i++)
        if (strcmp(word, other_names[i].name) == 0) {
            *step = other_names[i].step;
            return TERN_OK;
        }
    TERN_TRY(tern_choice_parse(TERN_CHOICE_SAMPLER_STEP, word, &value, err));
    *step = (tern_sampler_step)value;
    return TERN_OK;
}

static bool is_on(const tern_sampler_chain *c)
{
    return c->n_order || c->top_n_sigma > 0 || c->dynatemp_range > 0 || c->xtc_probability > 0 ||
           c->dry_multiplier > 0 || c->mirostat_tau > 0;
}

/* The caller's struct may be of another version. */
static tern_status read_params(tern_sampler_chain *own, const tern_sampler_params *params, tern_error *err)
{
    const tern_sampler_chain *chain = params->chain;
    return TERN_SIZED_READ(own, chain, err);
}

bool tern_sampler_has_chain(const tern_sampler_params *params)
{
    tern_sampler_chain own;
    return params->chain && read_params(&own, params, NULL) == TERN_OK && is_on(&own);
}

static tern_status check_order(const tern_sampler_chain *c, tern_error *err)
{
    bool seen[TERN_SAMPLER_STEPS] = {false};
    if (c->n_order) TERN_NEED(c->order, err);
    for (uint32_t i = 0; i < c->n_order; i++) {
        TERN_TRY(tern_choice_check(TERN_CHOICE_SAMPLER_STEP, c->order[i], err));
        if (seen[c->order[i]])
            return tern_fail(err, TERN_INVALID_ARGUMENT, "sampler %s: found twice in the order, once expected",
                             tern_choice_word(TERN_CHOICE_SAMPLER_STEP, c->order[i]));
        seen[c->order[i]] = true;
    }
    return TERN_OK;
}

static tern_status check_breakers(const tern_sampler_chain *c, tern_error *err)
{
    if (c->n_dry_breakers > TERN_SAMPLER_MAX_BREAKERS)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%u DRY breakers: at most %d expected", c->n_dry_breakers,
                         TERN_SAMPLER_MAX_BREAKERS);
    if (c->n_dry_breakers) TERN_NEED(c->dry_breakers, err);
    for (uint32_t i = 0; i < c->n_dry_breakers; i++) {
        const size_t n = c->dry_breakers[i] ? strlen(c->dry_breakers[i]) : 0;
        if (n == 0 || n > TERN_SAMPLER_MAX_BREAKER_BYTES)
            return tern_fail(err, TERN_INVALID_ARGUMENT, "DRY breaker %u has %zu bytes: 1 to %d expected", i, n,
                             TERN_SAMPLER_MAX_BREAKER_BYTES);
    }
    return TERN_OK;
}

static tern_status check_numbers(const tern_sampler_chain *c, tern_error *err)
{
    const struct {
        const char *name;
        float value, low, high;
    } numbers[] = {{"top-n-sigma", c->top_n_sigma, 0, 1e6f},
                   {"dynatemp range", c->dynatemp_range, 0, 1e6f},
                   {"dynatemp exponent", c->dynatemp_exponent, 0, 1e3f},
                   {"XTC probability", c->xtc_probability, 0, 1},
                   {"XTC threshold", c->xtc_threshold, 0, 1},
                   {"DRY multiplier", c->dry_multiplier, 0, 1e6f},
                   {"Mirostat tau", c->mirostat_tau, 0, 1e3f},
                   {"Mirostat eta", c->mirostat_eta, 0, 1e3f}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        TERN_TRY(tern_sampler__check_range(numbers[i].name, numbers[i].value, numbers[i].low, numbers[i].high, err));
    if (c->dry_base == 0) return TERN_OK;
    return tern_sampler__check_range("DRY base", c->dry_base, 1, 1e6f, err);
}

tern_status tern_chain_check(const tern_sampler_params *params, tern_error *err)
{
    tern_sampler_chain own;
    if (!params->chain) return TERN_OK;
    TERN_TRY(read_params(&own, params, err));
    TERN_TRY(check_order(&own, err));
    TERN_TRY(check_breakers(&own, err));
    return check_numbers(&own, err);
}

static float or_usual(float value, float usual)
{
    return value > 0 ? value : usual;
}

tern_status tern_chain_init(tern_chain *chain, const tern_sampler_model *model, const tern_sampler_params *params,
                            tern_error *err)
{
    tern_sampler_chain *p = &chain->params;
    *chain = (tern_chain){0};
    if (!tern_sampler_has_chain(params)) return TERN_OK;
    TERN_TRY(read_params(p, params, err));
    chain->on = true;
    p->dynatemp_exponent = or_usual(p->dynatemp_exponent, 1);
    p->xtc_threshold = or_usual(p->xtc_threshold, 0.1f);
    p->dry_base = or_usual(p->dry_base, 1.75f);
    if (!p->dry_allowed_length) p->dry_allowed_length = 2;
    p->mirostat_eta = or_usual(p->mirostat_eta, 0.1f);
    chain->tokenizer = model->tokenizer;
    chain->n_order = p->n_order ? p->n_order : TERN_SAMPLER_INFILL; /* which comes last */
    for (uint32_t i = 0; i < chain->n_order; i++) chain->order[i] = p->n_order ? p->order[i] : (tern_sampler_step)i;
    tern_chain_reset(chain);
    return p->dry_multiplier > 0 ? tern_dry_init(&chain->dry, model, p, err) : TERN_OK;
}

void tern_chain_deinit(tern_chain *chain)
{
    tern_dry_deinit(&chain->dry);
}

void tern_chain_reset(tern_chain *chain)
{
    chain->mu = 2 * chain->params.mirostat_tau;
}

/* ---- what the steps share */

/* By sums and products alone, so with the same bits on every machine; relative accuracy 1e-15. x > 0. */
static double logarithm(double x)
{
    int exponent;
    double m = frexp(x, &exponent);
    if (m < 0.70710678118654752440) {
        m *= 2;
        exponent--;
    }
    const double s = (m - 1) / (m + 1), s2 = s * s;
    double sum = 0;
    for (int k = 23; k > 0; k -= 2) sum = sum * s2 + 1.0 / k; /* ln m = 2 (s + s^3 / 3 + s^5 / 5 + ...) */
    return 2 * s * sum + exponent * LN_2;
}

/* A step's view of the candidates as a distribution. */
typedef struct distribution {
    double sum;     /* of their weights; the highest is 1 */
    double highest; /* x */
} distribution;

static distribution weigh(tern_candidates *c)
{
    distribution d = {0, (double)tern_logits__max(c->x, c->n)};
    for (uint32_t i = 0; i < c->n; i++) {
        c->weights[i] = tern_weight__of((float)((double)c->x[i] - d.highest));
        d.sum += (double)c->weights[i];
    }
    return d;
}

static uint32_t find_highest(const tern_candidates *c)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < c->n; i++)
        if (c->x[i] > c->x[best]) best = i;
    return best;
}

static void move(tern_candidates *c, uint32_t to, uint32_t from)
{
    c->ids[to] = c->ids[from];
    c->x[to] = c->x[from];
    c->weights[to] = c->weights[from];
}

static void keep_highest(tern_candidates *c)
{
    move(c, 0, find_highest(c));
    c->n = 1;
}

/* ---- the steps */

static void penalise(tern_chain *chain, tern_candidates *c, const tern_chain_call *call)
{
    (void)chain;
    if (!call->counts) return;
    tern_sampler__count(call->counts, c->n_vocab, call->params, call->history, call->n_history);
    for (uint32_t i = 0; i < c->n; i++)
        if (call->counts[c->ids[i]]) c->x[i] = tern_sampler__penalised(c->x[i], call->params, call->counts[c->ids[i]]);
    tern_sampler__forget(call->counts, c->n_vocab, call->params, call->history, call->n_history);
}

static void dry(tern_chain *chain, tern_candidates *c, const tern_chain_call *call)
{
    if (chain->params.dry_multiplier > 0) tern_dry_apply(&chain->dry, c, call->history, call->n_history);
}

static void top_n_sigma(tern_chain *chain, tern_candidates *c, const tern_chain_call *call)
{
    double mean = 0, variance = 0;
    uint32_t kept = 0;
    (void)call;
    if (!(chain->params.top_n_sigma > 0)) return;
    for (uint32_t i = 0; i < c->n; i++) mean += (double)c->x[i];
    mean /= c->n;
    for (uint32_t i = 0; i < c->n; i++) variance += ((double)c->x[i] - mean) * ((double)c->x[i] - mean);
    const double least =
        (double)tern_logits__max(c->x, c->n) - (double)chain->params.top_n_sigma * sqrt(variance / c->n);
    for (uint32_t i = 0; i < c->n; i++)
        if ((double)c->x[i] >= least) move(c, kept++, i);
    c->n = kept;
}

/* The entropy is log(sum) less the mean of x - highest. */
static double dynamic_temperature(const tern_sampler_chain *p, double temperature, tern_candidates *c)
{
    const distribution d = weigh(c);
    double mean = 0;
    if (c->n < 2) return temperature;
    for (uint32_t i = 0; i < c->n; i++) mean += (double)c->weights[i] * ((double)c->x[i] - d.highest);
    double share = (logarithm(d.sum) - mean / d.sum) / logarithm(c->n);
    share = share < 0 ? 0 : share > 1 ? 1 : share;
    if (p->dynatemp_exponent != 1)
        share = share > 0 ? (double)tern_weight__of((float)((double)p->dynatemp_exponent * logarithm(share))) : 0;
    const double low = fmax(0, temperature - (double)p->dynatemp_range);
    return low + (temperature + (double)p->dynatemp_range - low) * share;
}

static void temperature(tern_chain *chain, tern_candidates *c, const tern_chain_call *call)
{
    double t = (double)call->params->temperature;
    if (t > 0 && chain->params.dynatemp_range > 0) t = dynamic_temperature(&chain->params, t, c);
    if (!(t > 0)) {
        keep_highest(c);
        return;
    }
    for (uint32_t i = 0; i < c->n; i++) c->x[i] = (float)fmax(fmin((double)c->x[i] / t, FLT_MAX), -FLT_MAX);
}

static void top_k(tern_chain *chain, tern_candidates *c, const tern_chain_call *call)
{
    (void)chain;
    tern_candidates__top_k(c, call->params->top_k);
}

static void typical_p(tern_chain *chain, tern_candidates *c, const tern_chain_call *call)
{
    (void)chain;
    if (call->params->typical_p >= 1) return;
    weigh(c);
    tern_candidates__typical(c, call->params->typical_p);
}

static void top_p(tern_chain *chain, tern_candidates *c, const tern_chain_call *call)
{
    (void)chain;
    if (call->params->top_p >= 1) return;
    weigh(c);
    tern_candidates__top_p(c, call->params->top_p);
}

static void min_p(tern_chain *chain, tern_candidates *c, const tern_chain_call *call)
{
    (void)chain;
    if (!(call->params->min_p > 0)) return;
    weigh(c);
    tern_candidates__min_p(c, call->params->min_p);
}

/* Ties by the lower id: it counts as the likelier one. */
static void xtc(tern_chain *chain, tern_candidates *c, const tern_chain_call *call)
{
    const tern_sampler_chain *p = &chain->params;
    if (!(call->xtc < (double)p->xtc_probability) || p->xtc_threshold > 0.5f) return;
    const double least = (double)p->xtc_threshold * weigh(c).sum;
    uint32_t last = c->n, kept = 0;
    for (uint32_t i = 0; i < c->n; i++)
        if ((double)c->weights[i] >= least && (last == c->n || c->x[i] <= c->x[last])) last = i;
    for (uint32_t i = 0; i < c->n; i++)
        if (i == last || (double)c->weights[i] < least) move(c, kept++, i);
    c->n = kept;
}

static void infill(tern_chain *chain, tern_candidates *c, const tern_chain_call *call)
{
    (void)call;
    if (!chain->tokenizer) return;
    tern_candidates__top_k(c, TERN_INFILL_CANDIDATES);
    weigh(c);
    tern_infill_apply(c, chain->tokenizer);
}

typedef void (*step_fn)(tern_chain *chain, tern_candidates *c, const tern_chain_call *call);

static const struct {
    step_fn apply;
    bool with_mirostat;
} steps[TERN_SAMPLER_STEPS] = {
    [TERN_SAMPLER_PENALTIES] = {penalise, true},
    [TERN_SAMPLER_DRY] = {dry, true},
    [TERN_SAMPLER_TOP_N_SIGMA] = {top_n_sigma},
    [TERN_SAMPLER_TEMPERATURE] = {temperature, true},
    [TERN_SAMPLER_TOP_K] = {top_k},
    [TERN_SAMPLER_TYPICAL_P] = {typical_p},
    [TERN_SAMPLER_TOP_P] = {top_p},
    [TERN_SAMPLER_MIN_P] = {min_p},
    [TERN_SAMPLER_XTC] = {xtc},
    [TERN_SAMPLER_INFILL] = {infill},
};

/* ---- the draw */

/* Bits of the i-th candidate's surprise. */
static double surprise(const tern_candidates *c, uint32_t i, distribution d)
{
    return (logarithm(d.sum) - ((double)c->x[i] - d.highest)) / LN_2;
}

static void drop_surprising(const tern_chain *chain, tern_candidates *c)
{
    const distribution d = weigh(c);
    const double least = logarithm(d.sum) - (double)chain->mu * LN_2; /* of x - highest */
    uint32_t kept = 0;
    if (!(0 >= least)) {
        keep_highest(c);
        return;
    }
    for (uint32_t i = 0; i < c->n; i++)
        if ((double)c->x[i] - d.highest >= least) move(c, kept++, i);
    c->n = kept;
}

static uint32_t draw(const tern_candidates *c, double sum, double u)
{
    double before = 0;
    uint32_t last = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        if (!(c->weights[i] > 0)) continue;
        before += (double)c->weights[i];
        last = i;
        if (before > u * sum) break;
    }
    return last;
}

int32_t tern_chain_choose(tern_chain *chain, tern_candidates *c, const tern_chain_call *call)
{
    const bool mirostat = chain->params.mirostat_tau > 0;
    for (uint32_t i = 0; i < chain->n_order; i++)
        if (!mirostat || steps[chain->order[i]].with_mirostat) steps[chain->order[i]].apply(chain, c, call);
    if (mirostat) drop_surprising(chain, c);
    const distribution d = weigh(c);
    const uint32_t at = draw(c, d.sum, call->draw);
    if (mirostat) chain->mu -= chain->params.mirostat_eta * ((float)surprise(c, at, d) - chain->params.mirostat_tau);
    return c->ids[at];
}
