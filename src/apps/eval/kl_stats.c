/* Means, errors and percentiles of a comparison with saved log-probabilities. */
#include "apps/eval/kl_stats.h"

#include <math.h>
#include <stdlib.h>

void tern_kl_compare(const float *logits, const uint8_t *row, uint32_t n_vocab, int32_t id, tern_kl_token *out)
{
    static const float least = -16;
    uint32_t top = 0, base_top = 0;
    double sum = 0, kld = 0;
    for (uint32_t i = 1; i < n_vocab; i++) {
        if (logits[i] > logits[top]) top = i;
        if (tern_kl_decode(row, i) > tern_kl_decode(row, base_top)) base_top = i;
    }
    for (uint32_t i = 0; i < n_vocab; i++) sum += exp((double)logits[i] - (double)logits[top]);
    const double log_sum = (double)logits[top] + log(sum);
    for (uint32_t i = 0; i < n_vocab; i++) {
        const float p = tern_kl_decode(row, i);
        if (p > least) kld += exp((double)p) * ((double)p - ((double)logits[i] - log_sum));
    }
    const double nll = log_sum - (double)logits[id], base_nll = -(double)tern_kl_decode(row, (uint32_t)id);
    *out = (tern_kl_token){.nll = nll,
                           .base_nll = base_nll,
                           .kld = kld,
                           .p_diff = exp(-nll) - exp(-base_nll),
                           .same_top = top == base_top};
}

/* ---- statistics */

typedef struct mean {
    double value, error; /* its standard error; 0 of ten values and fewer, as llama.cpp has it */
} mean;

typedef double (*value_of)(const tern_kl_token *t);

static double nll_of(const tern_kl_token *t)
{
    return t->nll;
}

static double base_nll_of(const tern_kl_token *t)
{
    return t->base_nll;
}

static double kld_of(const tern_kl_token *t)
{
    return t->kld;
}

static double p_diff_of(const tern_kl_token *t)
{
    return t->p_diff;
}

static double square_of(const tern_kl_token *t)
{
    return t->p_diff * t->p_diff;
}

static double same_of(const tern_kl_token *t)
{
    return t->same_top;
}

/* Covariance of two means. */
static double covariance(const tern_kl_token *t, size_t n, value_of a, value_of b)
{
    double sum_a = 0, sum_b = 0, sum = 0;
    if (n <= 10) return 0;
    for (size_t i = 0; i < n; i++) {
        sum_a += a(&t[i]);
        sum_b += b(&t[i]);
        sum += a(&t[i]) * b(&t[i]);
    }
    const double count = (double)n;
    return (sum / count - sum_a / count * (sum_b / count)) / (count - 1);
}

static mean mean_of(const tern_kl_token *t, size_t n, value_of value)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += value(&t[i]);
    return (mean){sum / (double)n, sqrt(fmax(0, covariance(t, n, value, value)))};
}

static int by_kld(const void *a, const void *b)
{
    const double x = kld_of(a), y = kld_of(b);
    return (x > y) - (x < y);
}

static int by_p_diff(const void *a, const void *b)
{
    const double x = p_diff_of(a), y = p_diff_of(b);
    return (x > y) - (x < y);
}

/* Between the two nearest of sorted tokens, 0 <= share <= 1. */
static double percentile(const tern_kl_token *t, size_t n, value_of value, double share)
{
    const double at = share * (double)(n - 1);
    const size_t i = (size_t)at, next = i + 1 < n ? i + 1 : i;
    return value(&t[i]) + (at - (double)i) * (value(&t[next]) - value(&t[i]));
}

/* The statistics that are reported. */
typedef struct summary {
    size_t n;
    mean ppl, base_ppl, log_ratio, ratio, difference, kld, p_diff, rms, same_top;
    double correlation;
} summary;

static summary summarize(const tern_kl_token *t, size_t n)
{
    const mean nll = mean_of(t, n, nll_of), base = mean_of(t, n, base_nll_of), squares = mean_of(t, n, square_of);
    const double shared = covariance(t, n, nll_of, base_nll_of), ppl = exp(nll.value), base_ppl = exp(base.value);
    summary s = {.n = n, .ppl = {ppl, ppl * nll.error}, .base_ppl = {base_ppl, base_ppl * base.error}};
    s.correlation = nll.error > 0 && base.error > 0 ? shared / (nll.error * base.error) : 0;
    s.log_ratio.value = nll.value - base.value;
    s.log_ratio.error = sqrt(fmax(0, nll.error * nll.error + base.error * base.error - 2 * shared));
    s.ratio.value = exp(s.log_ratio.value);
    s.ratio.error = s.ratio.value * s.log_ratio.error;
    s.difference.value = ppl - base_ppl;
    s.difference.error =
        sqrt(fmax(0, s.ppl.error * s.ppl.error + s.base_ppl.error * s.base_ppl.error - 2 * ppl * base_ppl * shared));
    s.kld = mean_of(t, n, kld_of);
    s.p_diff = mean_of(t, n, p_diff_of);
    s.rms.value = sqrt(squares.value);
    s.rms.error = s.rms.value > 0 ? 0.5 / s.rms.value * squares.error : 0;
    s.same_top = mean_of(t, n, same_of);
    return s;
}

/* ---- output */

static const struct {
    const char *name, *key;
    double share;
} percentiles[] = {
    {"Maximum", "max", 1},   {"99.9%  ", "p99.9", 0.999}, {"99.0%  ", "p99", 0.99},   {"95.0%  ", "p95", 0.95},
    {"90.0%  ", "p90", 0.9}, {"75.0%  ", "p75", 0.75},    {"Median ", "median", 0.5}, {"25.0%  ", "p25", 0.25},
    {"10.0%  ", "p10", 0.1}, {" 5.0%  ", "p5", 0.05},     {" 1.0%  ", "p1", 0.01},    {" 0.1%  ", "p0.1", 0.001},
    {"Minimum", "min", 0},
};
enum { N_PERCENTILES = sizeof percentiles / sizeof *percentiles };

static void print_mean(const char *name, mean m)
{
    printf("%s: %10.6f ± %10.6f\n", name, m.value, m.error);
}

static void print_perplexity(const summary *s)
{
    printf("====== Perplexity statistics ======\n");
    print_mean("Mean PPL(Q)                   ", s->ppl);
    print_mean("Mean PPL(base)                ", s->base_ppl);
    printf("Cor(ln(PPL(Q)), ln(PPL(base))): %6.2f%%\n", 100 * s->correlation);
    print_mean("Mean ln(PPL(Q)/PPL(base))     ", s->log_ratio);
    print_mean("Mean PPL(Q)/PPL(base)         ", s->ratio);
    print_mean("Mean PPL(Q)-PPL(base)         ", s->difference);
}

static void print_kld(const summary *s, tern_kl_token *t)
{
    qsort(t, s->n, sizeof *t, by_kld);
    printf("\n====== KL divergence statistics ======\n");
    print_mean("Mean    KLD", s->kld);
    for (size_t i = 0; i < N_PERCENTILES; i++)
        if (percentiles[i].share != 0.75 && percentiles[i].share != 0.25) /* llama.cpp says them of Δp alone */
            printf("%s KLD: %10.6f\n", percentiles[i].name, percentile(t, s->n, kld_of, percentiles[i].share));
}

static void print_p_diff(const summary *s, tern_kl_token *t)
{
    qsort(t, s->n, sizeof *t, by_p_diff);
    printf("\n====== Token probability statistics ======\n");
    printf("Mean    Δp: %6.3f ± %5.3f %%\n", 100 * s->p_diff.value, 100 * s->p_diff.error);
    for (size_t i = 0; i < N_PERCENTILES; i++)
        printf("%s Δp: %6.3f%%\n", percentiles[i].name, 100 * percentile(t, s->n, p_diff_of, percentiles[i].share));
    printf("RMS Δp    : %6.3f ± %5.3f %%\n", 100 * s->rms.value, 100 * s->rms.error);
    printf("Same top p: %6.3f ± %5.3f %%\n", 100 * s->same_top.value, 100 * s->same_top.error);
}

static json_t *mean_json(mean m)
{
    return json_pack("{s:o, s:o}", "mean", tern_app_json_number(m.value), "stderr", tern_app_json_number(m.error));
}

/* The spread of a value over sorted tokens. */
static json_t *spread_json(const tern_kl_token *t, size_t n, value_of value, mean m)
{
    json_t *out = mean_json(m);
    for (size_t i = 0; i < N_PERCENTILES; i++)
        json_object_set_new(out, percentiles[i].key,
                            tern_app_json_number(percentile(t, n, value, percentiles[i].share)));
    return out;
}

static json_t *as_json(const summary *s, tern_kl_token *t, const char *activations)
{
    json_t *out = json_pack("{s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:s}", "tokens_scored", (json_int_t)s->n, "ppl",
                            mean_json(s->ppl), "base_ppl", mean_json(s->base_ppl), "log_ppl_ratio",
                            mean_json(s->log_ratio), "correlation", tern_app_json_number(s->correlation), "p_diff_rms",
                            mean_json(s->rms), "same_top1", mean_json(s->same_top), "activations", activations);
    qsort(t, s->n, sizeof *t, by_kld);
    json_object_set_new(out, "kld", spread_json(t, s->n, kld_of, s->kld));
    qsort(t, s->n, sizeof *t, by_p_diff);
    json_object_set_new(out, "p_diff", spread_json(t, s->n, p_diff_of, s->p_diff));
    return out;
}

tern_status tern_kl_print(tern_kl_token *tokens, size_t n, const char *activations, bool json, tern_error *err)
{
    const summary s = summarize(tokens, n);
    if (json) return tern_app_print_json(as_json(&s, tokens, activations), err);
    printf("activations: %s\n", activations);
    print_perplexity(&s);
    print_kld(&s, tokens);
    print_p_diff(&s, tokens);
    return TERN_OK;
}
