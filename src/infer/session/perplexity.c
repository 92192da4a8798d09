/* Scoring a text, a window at a time. */
#include <math.h>

#include "base/sized.h"
#include "infer/sample/internal.h"
#include "infer/session/session.h"

enum { DEFAULT_WINDOW = 512 };

typedef struct score_run {
    tern_session *session;
    const tern_perplexity_params *params;
    tern_perplexity_result *result; /* sums until the end */
    const int32_t *ids;
    size_t n;
    uint32_t n_vocab, window, step;
    size_t n_done;
} score_run;

static uint32_t smaller(size_t a, uint32_t b)
{
    return a < b ? (uint32_t)a : b;
}

static uint32_t n_vocab_of(const tern_session *s)
{
    return tern_engine_config(tern_session_engine(s))->n_vocab;
}

static tern_status check(score_run *s, tern_error *err)
{
    const tern_perplexity_params *p = s->params;
    uint32_t limit = tern_session_n_ctx(s->session);
    s->n_vocab = n_vocab_of(s->session);
    s->step = tern_session_max_outputs(s->session);
    if (p->against) {
        limit = smaller(tern_session_n_ctx(p->against), limit);
        s->step = smaller(tern_session_max_outputs(p->against), s->step);
        if (n_vocab_of(p->against) != s->n_vocab)
            return tern_fail(err, TERN_INVALID_ARGUMENT, "vocabulary of %u tokens to compare with: %u expected",
                             n_vocab_of(p->against), s->n_vocab);
    }
    s->window = p->window ? p->window : smaller(limit, DEFAULT_WINDOW);
    if (s->window < 2 || s->window > limit)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "window of %u tokens: 2 to %u, the context, expected", s->window,
                         limit);
    if (s->n < 2) return tern_fail(err, TERN_INVALID_ARGUMENT, "text of %zu tokens: at least 2 expected", s->n);
    return TERN_OK;
}

/* log of the sum of e^x. */
static double log_sum(const float *x, uint32_t n)
{
    double max = (double)tern_logits__max(x, n), sum = 0;
    for (uint32_t i = 0; i < n; i++) sum += exp((double)x[i] - max);
    return max + log(sum);
}

static double divergence(const float *p, const float *q, uint32_t n)
{
    double log_p = log_sum(p, n), log_q = log_sum(q, n), sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        double a = (double)p[i] - log_p, b = (double)q[i] - log_q, share = exp(a);
        if (share > 0) sum += share * (a - b);
    }
    return sum;
}

static tern_status score_token(score_run *s, uint32_t row, int32_t target, tern_error *err)
{
    tern_perplexity_result *r = s->result;
    float *logits, *other;
    TERN_TRY(tern_session_logits(s->session, row, &logits, err));
    uint32_t best = tern_logits__argmax(logits, s->n_vocab);
    r->nll += log_sum(logits, s->n_vocab) - (double)logits[target];
    r->top1 += best == (uint32_t)target;
    r->n_scored++;
    if (!s->params->against) return TERN_OK;
    TERN_TRY(tern_session_logits(s->params->against, row, &other, err));
    r->kl += divergence(other, logits, s->n_vocab);
    r->same_top1 += best == tern_logits__argmax(other, s->n_vocab);
    return TERN_OK;
}

/* Evaluates ids[0 .. n) and scores what follows each, as far as the window of `n_window` tokens left goes. */
static tern_status run_step(score_run *s, const int32_t *ids, uint32_t n, uint32_t n_window, tern_error *err)
{
    TERN_TRY(tern_session_append_all(s->session, ids, n, err));
    if (s->params->against) TERN_TRY(tern_session_append_all(s->params->against, ids, n, err));
    for (uint32_t row = 0; row < n && row + 1 < n_window; row++) TERN_TRY(score_token(s, row, ids[row + 1], err));
    s->n_done += n;
    if (s->params->progress && !s->params->progress(s->params->context, (double)s->n_done / (double)s->n))
        return tern_fail(err, TERN_CANCELLED, "cancelled after %zu of %zu tokens", s->n_done, s->n);
    return TERN_OK;
}

static tern_status run_window(score_run *s, const int32_t *ids, uint32_t n, tern_error *err)
{
    tern_session_truncate(s->session, 0);
    if (s->params->against) tern_session_truncate(s->params->against, 0);
    for (uint32_t at = 0; at < n; at += s->step) TERN_TRY(run_step(s, ids + at, smaller(n - at, s->step), n - at, err));
    s->result->n_windows++;
    return TERN_OK;
}

static void finish(tern_perplexity_result *r)
{
    double n = (double)r->n_scored;
    r->nll /= n;
    r->top1 /= n;
    r->kl /= n;
    r->same_top1 /= n;
    r->ppl = exp(r->nll);
}

tern_status tern_perplexity(tern_session *session, const int32_t *ids, size_t n, const tern_perplexity_params *params,
                            tern_perplexity_result *result, tern_error *err)
{
    tern_perplexity_params own;
    tern_perplexity_result sums = {0};
    score_run s = {.session = session, .params = &own, .result = &sums, .ids = ids, .n = n};
    TERN_TRY(TERN_SIZED_WRITE(result, &sums, err));
    TERN_NEED(session, err);
    TERN_TRY(TERN_SIZED_READ(&own, params, err));
    if (n) TERN_NEED(ids, err);
    TERN_TRY(tern_engine__needs_waiting(tern_session_engine(session), "perplexity", err));
    TERN_TRY(check(&s, err));
    for (size_t at = 0; at + 1 < n; at += s.window) TERN_TRY(run_window(&s, ids + at, smaller(n - at, s.window), err));
    finish(&sums);
    return TERN_SIZED_WRITE(result, &sums, err);
}
