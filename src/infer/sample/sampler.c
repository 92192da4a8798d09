/* A sampler: its parameters, its memory and its random numbers. */
#include "infer/sample/sampler.h"

#include <float.h>
#include <math.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "base/sized.h"
#include "infer/sample/chain.h"

struct tern_sampler {
    tern_sampler_params params;
    uint32_t n_vocab;
    tern_rng rng;
    tern_candidates candidates;
    uint32_t *counts; /* [n_vocab], all zero between calls; NULL: no penalties */
    tern_chain chain;
};

bool tern_sampler_has_penalties(const tern_sampler_params *params)
{
    bool on = params->repetition_penalty != 1 || params->presence_penalty != 0 || params->frequency_penalty != 0;
    return on && params->penalty_last_n > 0;
}

static void add_biases(float *logits, const tern_sampler_params *params)
{
    for (uint32_t i = 0; i < params->n_biases; i++) logits[params->biases[i].id] += params->biases[i].bias;
}

float tern_sampler__penalised(float logit, const tern_sampler_params *p, uint32_t count)
{
    logit = logit > 0 ? logit / p->repetition_penalty : logit * p->repetition_penalty;
    return logit - p->frequency_penalty * (float)count - p->presence_penalty;
}

/* Where the part of the history begins that counts. */
static uint32_t first_of(const tern_sampler_params *params, uint32_t n)
{
    return n > params->penalty_last_n ? n - params->penalty_last_n : 0;
}

void tern_sampler__count(uint32_t *counts, uint32_t n_vocab, const tern_sampler_params *params, const int32_t *history,
                         uint32_t n)
{
    for (uint32_t i = first_of(params, n); i < n; i++)
        if (history[i] >= 0 && (uint32_t)history[i] < n_vocab) counts[history[i]]++;
}

void tern_sampler__forget(uint32_t *counts, uint32_t n_vocab, const tern_sampler_params *params, const int32_t *history,
                          uint32_t n)
{
    for (uint32_t i = first_of(params, n); i < n; i++)
        if (history[i] >= 0 && (uint32_t)history[i] < n_vocab) counts[history[i]] = 0;
}

/* Lowers the logits of the tokens in history[0 .. n). counts [n_vocab] is zero before and after. */
static void penalise(float *logits, uint32_t n_vocab, const tern_sampler_params *params, const int32_t *history,
                     uint32_t n, uint32_t *counts)
{
    tern_sampler__count(counts, n_vocab, params, history, n);
    for (uint32_t i = first_of(params, n); i < n; i++) {
        int32_t id = history[i];
        if (id < 0 || (uint32_t)id >= n_vocab || counts[id] == 0) continue;
        logits[id] = tern_sampler__penalised(logits[id], params, counts[id]);
        counts[id] = 0;
    }
}

tern_status tern_sampler__check_range(const char *name, float value, float low, float high, tern_error *err)
{
    if (value >= low && value <= high) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "%s is %g: %g to %g expected", name, (double)value, (double)low,
                     (double)high);
}

static tern_status check_biases(const tern_sampler_params *p, uint32_t n_vocab, tern_error *err)
{
    for (uint32_t i = 0; i < p->n_biases; i++) {
        tern_logit_bias b = p->biases[i];
        if (b.id < 0 || (uint32_t)b.id >= n_vocab)
            return tern_fail(err, TERN_INVALID_ARGUMENT, "logit bias %u is for id %d: 0 to %u expected", i, b.id,
                             n_vocab - 1);
        if (isnan(b.bias))
            return tern_fail(err, TERN_INVALID_ARGUMENT, "logit bias %u (id %d) is not a number", i, b.id);
    }
    return TERN_OK;
}

tern_status tern_sampler_check(const tern_sampler_model *model, const tern_sampler_params *p, tern_error *err)
{
    TERN_TRY(tern_sized_reserved(p->reserved, sizeof p->reserved, "sampler", err));
    if (model->n_vocab == 0)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "vocabulary of 0 tokens: at least 1 expected");
    TERN_TRY(tern_sampler__check_range("temperature", p->temperature, 0, 1e6f, err));
    TERN_TRY(tern_sampler__check_range("top-p", p->top_p, 0, 1, err));
    TERN_TRY(tern_sampler__check_range("min-p", p->min_p, 0, 1, err));
    TERN_TRY(tern_sampler__check_range("typical-p", p->typical_p, 0, 1, err));
    TERN_TRY(tern_sampler__check_range("repetition penalty", p->repetition_penalty, 1e-3f, 1e3f, err));
    TERN_TRY(tern_sampler__check_range("presence penalty", p->presence_penalty, -1e3f, 1e3f, err));
    TERN_TRY(tern_sampler__check_range("frequency penalty", p->frequency_penalty, -1e3f, 1e3f, err));
    TERN_TRY(tern_chain_check(p, err));
    return check_biases(p, model->n_vocab, err);
}

static bool allocate(tern_sampler *s)
{
    size_t n = s->n_vocab;
    tern_candidates *c = &s->candidates;
    if (tern_sampler_has_penalties(&s->params) && !(s->counts = tern_calloc(n, sizeof *s->counts))) return false;
    if (s->params.temperature == 0 && !s->chain.on) return true;
    c->ids = tern_calloc(n, sizeof *c->ids);
    c->x = tern_calloc(n, sizeof *c->x);
    c->weights = tern_calloc(n, sizeof *c->weights);
    c->keys = tern_calloc(n, sizeof *c->keys);
    c->mass = tern_calloc(TERN_SELECT_BUCKETS, sizeof *c->mass);
    return c->ids && c->x && c->weights && c->keys && c->mass;
}

tern_status tern_sampler_open(tern_sampler **sampler, const tern_sampler_model *model,
                              const tern_sampler_params *params, tern_error *err)
{
    tern_status status;
    *sampler = NULL;
    TERN_TRY(tern_sampler_check(model, params, err));
    tern_sampler *s = tern_calloc(1, sizeof *s);
    if (!s) return tern_fail_alloc(err, sizeof *s);
    s->params = *params;
    s->n_vocab = model->n_vocab;
    TERN_GOTO(tern_chain_init(&s->chain, model, params, err));
    tern_sampler_reset(s);
    if (!allocate(s)) TERN_GOTO(tern_fail_alloc(err, (uint64_t)s->n_vocab * 20));
    *sampler = s;
    return TERN_OK;
fail:
    tern_sampler_close(s);
    return status;
}

void tern_sampler_close(tern_sampler *sampler)
{
    if (!sampler) return;
    tern_free(sampler->candidates.ids);
    tern_free(sampler->candidates.x);
    tern_free(sampler->candidates.weights);
    tern_free(sampler->candidates.keys);
    tern_free(sampler->candidates.mass);
    tern_free(sampler->counts);
    tern_chain_deinit(&sampler->chain);
    tern_free(sampler);
}

void tern_sampler_reset(tern_sampler *sampler)
{
    sampler->rng.state = sampler->params.seed;
    tern_chain_reset(&sampler->chain);
}

static double uniform(tern_rng *rng)
{
    return (double)(tern_rng_u64(rng) >> 11) * 0x1p-53;
}

/* From all candidates, or with a tail from those that are there. */
static int32_t sample_candidates(tern_candidates *c, const tern_sampler_params *p, double u, float tail)
{
    if (tail > 0) return tern_candidates__decide(c, p, u, (double)tail);
    tern_candidates__typical(c, p->typical_p);
    tern_candidates__top_p(c, p->top_p);
    tern_candidates__min_p(c, p->min_p);
    return tern_candidates__draw(c, u);
}

/* By the chain. A token takes one draw, and with XTC a second one. */
static int32_t choose_by_chain(tern_sampler *s, float *logits, const int32_t *history, uint32_t n_history)
{
    tern_chain_call call = {.params = &s->params, .history = history, .n_history = n_history, .counts = s->counts};
    add_biases(logits, &s->params);
    call.draw = uniform(&s->rng);
    if (s->chain.params.xtc_probability > 0) call.xtc = uniform(&s->rng);
    tern_candidates__gather(&s->candidates, logits, s->n_vocab, 0);
    return s->candidates.n ? tern_chain_choose(&s->chain, &s->candidates, &call) : 0;
}

int32_t tern_sampler_try(tern_sampler *sampler, float *logits, const int32_t *history, uint32_t n_history, float tail)
{
    const tern_sampler_params *p = &sampler->params;
    tern_candidates *c = &sampler->candidates;
    if (sampler->chain.on) return choose_by_chain(sampler, logits, history, n_history);
    add_biases(logits, p);
    if (sampler->counts) penalise(logits, sampler->n_vocab, p, history, n_history, sampler->counts);
    if (p->temperature == 0) return (int32_t)tern_logits__argmax(logits, sampler->n_vocab);
    const tern_rng before = sampler->rng;
    double u = uniform(&sampler->rng);
    tern_candidates__gather(c, logits, sampler->n_vocab, p->top_k);
    if (c->n == 0) return 0;
    const bool whole = c->n == sampler->n_vocab;
    tern_candidates__weigh(c, p->temperature);
    const int32_t id = sample_candidates(c, p, u, whole ? 0 : tail);
    if (id == TERN_SAMPLER_UNDECIDED) sampler->rng = before;
    return id;
}

int32_t tern_sampler_next(tern_sampler *sampler, float *logits, const int32_t *history, uint32_t n_history)
{
    return tern_sampler_try(sampler, logits, history, n_history, 0);
}

bool tern_sampler_fits_gpu(const tern_sampler_params *p)
{
    if (p->n_biases || tern_sampler_has_penalties(p) || tern_sampler_has_chain(p)) return false;
    return p->temperature == 0 || (p->typical_p >= 1 && p->top_k >= 1 && p->top_k <= TERN_SAMPLE_MAX_TOP_K);
}

/* As f32 below 1: the nearest one may be 1 itself. */
static float draw_of(tern_rng *rng)
{
    return fminf((float)uniform(rng), 1 - FLT_EPSILON / 2);
}

void tern_sampler_fill(const tern_sampler *sampler, tern_sample_params *out, uint32_t n)
{
    const tern_sampler_params *p = &sampler->params;
    bool greedy = p->temperature == 0;
    tern_rng rng = sampler->rng;
    *out = (tern_sample_params){.n_tokens = n,
                                .top_k = greedy ? 1 : p->top_k,
                                .temperature = p->temperature,
                                .top_p = p->top_p,
                                .min_p = p->min_p};
    for (uint32_t i = 0; i < n && !greedy; i++) out->draws[i] = draw_of(&rng);
}

void tern_sampler_consume(tern_sampler *sampler, uint32_t n)
{
    for (uint32_t i = 0; i < n && sampler->params.temperature != 0; i++) tern_rng_u64(&sampler->rng);
}
