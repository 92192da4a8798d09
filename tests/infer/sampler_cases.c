/* Sampling by its definitions, in plain C, and logits to sample from. */
#include "infer/sampler_cases.h"

const double *sampler_order_values; /* what `descending` sorts by */

int sampler_descending(const void *a, const void *b)
{
    int32_t i = *(const int32_t *)a, j = *(const int32_t *)b;
    if (sampler_order_values[i] != sampler_order_values[j])
        return sampler_order_values[i] > sampler_order_values[j] ? -1 : 1;
    return i < j ? -1 : 1;
}

void sampler_sort_ids(int32_t *ids, uint32_t n, const double *values)
{
    for (uint32_t i = 0; i < n; i++) ids[i] = (int32_t)i;
    sampler_order_values = values;
    qsort(ids, n, sizeof *ids, sampler_descending);
}

void sampler_normalise(plain *d)
{
    double sum = 0;
    for (uint32_t i = 0; i < d->n; i++) sum += d->p[i];
    for (uint32_t i = 0; i < d->n; i++) d->p[i] /= sum;
}

void sampler_plain_softmax(plain *d, const float *logits, uint32_t n, float temperature)
{
    d->n = n;
    double max = -INFINITY;
    for (uint32_t i = 0; i < n; i++) max = fmax(max, (double)logits[i]);
    for (uint32_t i = 0; i < n; i++) {
        d->x[i] = ((double)logits[i] - max) / (double)temperature;
        d->p[i] = exp(d->x[i]);
    }
    sampler_normalise(d);
}

void sampler_plain_top_k(plain *d, uint32_t k)
{
    int32_t ids[MAX_VOCAB];
    sampler_sort_ids(ids, d->n, d->x);
    for (uint32_t r = k; r < d->n; r++) d->p[ids[r]] = 0;
    sampler_normalise(d);
}

double sampler_keep_mass(plain *d, const int32_t *ids, double mass)
{
    double sum = 0, nearest = INFINITY;
    bool full = false;
    for (uint32_t r = 0; r < d->n; r++) {
        if (full) d->p[ids[r]] = 0;
        sum += d->p[ids[r]];
        if (d->p[ids[r]] > 0) nearest = fmin(nearest, fabs(sum - mass));
        full = full || sum > mass;
    }
    sampler_normalise(d);
    return nearest;
}

double sampler_plain_top_p(plain *d, float p)
{
    int32_t ids[MAX_VOCAB];
    sampler_sort_ids(ids, d->n, d->p);
    return sampler_keep_mass(d, ids, (double)p);
}

double sampler_plain_typical(plain *d, float p)
{
    int32_t ids[MAX_VOCAB];
    double entropy = 0, values[MAX_VOCAB];
    for (uint32_t i = 0; i < d->n; i++) entropy -= d->p[i] > 0 ? d->p[i] * log(d->p[i]) : 0;
    for (uint32_t i = 0; i < d->n; i++) values[i] = d->p[i] > 0 ? -fabs(-log(d->p[i]) - entropy) : -INFINITY;
    sampler_sort_ids(ids, d->n, values);
    return sampler_keep_mass(d, ids, (double)p);
}

void sampler_plain_min_p(plain *d, float p)
{
    double max = 0;
    for (uint32_t i = 0; i < d->n; i++) max = fmax(max, d->p[i]);
    for (uint32_t i = 0; i < d->n; i++)
        if (d->p[i] < (double)p * max) d->p[i] = 0;
    sampler_normalise(d);
}

void sampler_random_logits(tern_rng *rng, float *logits, uint32_t n, float scale, bool coarse)
{
    for (uint32_t i = 0; i < n; i++) {
        float sum = -6;
        for (int k = 0; k < 12; k++) sum += tern_rng_f32(rng);
        logits[i] = coarse ? rintf(sum * scale) : sum * scale;
    }
}

tern_sampler *sampler_open_sampler(uint32_t n_vocab, tern_sampler_params params)
{
    tern_error err = {0};
    tern_sampler *s;
    assert_ok(tern_sampler_open(&s, &(tern_sampler_model){.n_vocab = n_vocab, .n_ctx = MAX_VOCAB}, &params, &err), err);
    return s;
}
