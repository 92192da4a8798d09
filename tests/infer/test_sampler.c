/* The sampler against definitions by sorting everything: each cut, the draws, penalties, and odd logits. */
#include "support/kernels.h"
#include "support/test.h"

#include <math.h>

#include "base/alloc.h"
#include "infer/sampler_internal.h"

enum { MAX_VOCAB = 3000 };

/* A distribution written out: p[i] for ids 0 .. n, 0 for those that are out. */
typedef struct plain {
    uint32_t n;
    double x[MAX_VOCAB], p[MAX_VOCAB];
} plain;

static const double *order_values; /* what `descending` sorts by */

static int descending(const void *a, const void *b)
{
    int32_t i = *(const int32_t *)a, j = *(const int32_t *)b;
    if (order_values[i] != order_values[j]) return order_values[i] > order_values[j] ? -1 : 1;
    return i < j ? -1 : 1;
}

static void sort_ids(int32_t *ids, uint32_t n, const double *values)
{
    for (uint32_t i = 0; i < n; i++) ids[i] = (int32_t)i;
    order_values = values;
    qsort(ids, n, sizeof *ids, descending);
}

static void normalise(plain *d)
{
    double sum = 0;
    for (uint32_t i = 0; i < d->n; i++) sum += d->p[i];
    for (uint32_t i = 0; i < d->n; i++) d->p[i] /= sum;
}

static void plain_softmax(plain *d, const float *logits, uint32_t n, float temperature)
{
    d->n = n;
    double max = -INFINITY;
    for (uint32_t i = 0; i < n; i++) max = fmax(max, (double)logits[i]);
    for (uint32_t i = 0; i < n; i++) {
        d->x[i] = ((double)logits[i] - max) / (double)temperature;
        d->p[i] = exp(d->x[i]);
    }
    normalise(d);
}

static void plain_top_k(plain *d, uint32_t k)
{
    int32_t ids[MAX_VOCAB];
    sort_ids(ids, d->n, d->x);
    for (uint32_t r = k; r < d->n; r++) d->p[ids[r]] = 0;
    normalise(d);
}

/* Keeps ids in the given order up to the first at which the sum exceeds mass. The smallest distance between a sum and
 * `mass` is returned: where it is tiny, rounding may decide otherwise. */
static double keep_mass(plain *d, const int32_t *ids, double mass)
{
    double sum = 0, nearest = INFINITY;
    bool full = false;
    for (uint32_t r = 0; r < d->n; r++) {
        if (full) d->p[ids[r]] = 0;
        sum += d->p[ids[r]];
        if (d->p[ids[r]] > 0) nearest = fmin(nearest, fabs(sum - mass));
        full = full || sum > mass;
    }
    normalise(d);
    return nearest;
}

static double plain_top_p(plain *d, float p)
{
    int32_t ids[MAX_VOCAB];
    sort_ids(ids, d->n, d->p);
    return keep_mass(d, ids, (double)p);
}

static double plain_typical(plain *d, float p)
{
    int32_t ids[MAX_VOCAB];
    double entropy = 0, values[MAX_VOCAB];
    for (uint32_t i = 0; i < d->n; i++) entropy -= d->p[i] > 0 ? d->p[i] * log(d->p[i]) : 0;
    for (uint32_t i = 0; i < d->n; i++) values[i] = d->p[i] > 0 ? -fabs(-log(d->p[i]) - entropy) : -INFINITY;
    sort_ids(ids, d->n, values);
    return keep_mass(d, ids, (double)p);
}

static void plain_min_p(plain *d, float p)
{
    double max = 0;
    for (uint32_t i = 0; i < d->n; i++) max = fmax(max, d->p[i]);
    for (uint32_t i = 0; i < d->n; i++)
        if (d->p[i] < (double)p * max) d->p[i] = 0;
    normalise(d);
}

static tern_candidates candidates_open(uint32_t n)
{
    return (tern_candidates){.ids = calloc(n, 4),
                             .x = calloc(n, 4),
                             .weights = calloc(n, 4),
                             .keys = calloc(n, 4),
                             .mass = calloc(TERN_SELECT_BUCKETS, sizeof(double))};
}

static void candidates_close(tern_candidates *c)
{
    free(c->ids);
    free(c->x);
    free(c->weights);
    free(c->keys);
    free(c->mass);
}

/* The same tokens (among those not too unlikely for an f32 weight) with the same probabilities. */
static void assert_same(const tern_candidates *c, const plain *d, const char *what)
{
    double sum = 0, got[MAX_VOCAB] = {0};
    for (uint32_t i = 0; i < c->n; i++) sum += (double)c->weights[i];
    for (uint32_t i = 0; i < c->n; i++) {
        if (i && c->ids[i] <= c->ids[i - 1]) fail_msg("%s: id %d after %d", what, c->ids[i], c->ids[i - 1]);
        got[c->ids[i]] = (double)c->weights[i] / sum;
    }
    for (uint32_t i = 0; i < d->n; i++) {
        bool in = d->p[i] > 0, unlikely = fmax(d->p[i], got[i]) < 1e-30;
        if ((got[i] > 0) != in && !unlikely) fail_msg("%s: id %u is %s", what, i, in ? "missing" : "too many");
        if (!(fabs(got[i] - d->p[i]) <= 1e-6 * d->p[i] + 1e-12))
            fail_msg("%s: p of id %u is %g, %g expected", what, i, got[i], d->p[i]);
    }
}

/* Bell-shaped logits, rounded so that there are ties when `coarse`. */
static void random_logits(tern_rng *rng, float *logits, uint32_t n, float scale, bool coarse)
{
    for (uint32_t i = 0; i < n; i++) {
        float sum = -6;
        for (int k = 0; k < 12; k++) sum += tern_rng_f32(rng);
        logits[i] = coarse ? rintf(sum * scale) : sum * scale;
    }
}

static void cuts(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 2, 15, 64, 65, 1000, MAX_VOCAB};
    static const float scales[] = {0.1f, 1, 4}, temperatures[] = {0.3f, 1, 2.5f};
    tern_rng rng;
    test_seed(&rng);
    uint32_t n_near = 0, n_cases = 0;
    tern_candidates c = candidates_open(MAX_VOCAB);
    static plain d;
    float logits[MAX_VOCAB];
    for (int round = 0; round < 400; round++) {
        uint32_t n = sizes[tern_rng_below(&rng, 7)], k = test_between(&rng, 0, n + 3);
        bool coarse = tern_rng_below(&rng, 2);
        float temperature = temperatures[tern_rng_below(&rng, 3)], p = tern_rng_f32(&rng), q = tern_rng_f32(&rng),
              m = tern_rng_f32(&rng) * 0.3f;
        random_logits(&rng, logits, n, scales[tern_rng_below(&rng, 3)], coarse);
        tern_candidates__gather(&c, logits, n, k);
        tern_candidates__weigh(&c, temperature);
        plain_softmax(&d, logits, n, temperature);
        if (k) plain_top_k(&d, k);
        assert_same(&c, &d, "top-k");
        double nearest = INFINITY;
        if (!coarse &&
            tern_rng_below(&rng,
                           2)) { /* in ties, which of two distances that are equal but for rounding is less is open */
            tern_candidates__typical(&c, q);
            nearest = plain_typical(&d, q);
            if (nearest > 1e-6) assert_same(&c, &d, "typical");
        }
        if (nearest > 1e-6) {
            tern_candidates__top_p(&c, p);
            nearest = plain_top_p(&d, p);
        }
        n_cases++;
        n_near += !(nearest > 1e-6);
        if (!(nearest > 1e-6)) continue;
        assert_same(&c, &d, "top-p");
        tern_candidates__min_p(&c, m);
        plain_min_p(&d, m);
        assert_same(&c, &d, "min-p");
    }
    assert_in_range(n_near, 0, n_cases / 10);
    candidates_close(&c);
}

/* Sums that are exact: the rule at the edge, and ties by id. */
static void cut_edges(void **state)
{
    (void)state;
    tern_candidates c = candidates_open(8);
    const float equal[8] = {2, 2, 2, 2, 2, 2, 2, 2}, zeros[8] = {0.0f, -0.0f, -1, 0.0f, -0.0f, -1, -1, -1};
    tern_candidates__gather(&c, zeros, 8, 3);
    assert_int_equal(c.n, 3);
    assert_int_equal(c.ids[2], 3); /* 0 and -0 tie */
    tern_candidates__gather(&c, equal, 8, 0);
    tern_candidates__weigh(&c, 1);
    tern_candidates__top_p(&c, 0.5f); /* four reach a half, the fifth exceeds it */
    assert_int_equal(c.n, 5);
    assert_int_equal(c.ids[4], 4);
    tern_candidates__min_p(&c, 1);
    assert_int_equal(c.n, 5);
    tern_candidates__typical(&c, 0);
    assert_int_equal(c.n, 1);
    assert_int_equal(c.ids[0], 0);
    assert_int_equal(tern_candidates__draw(&c, 0.999), 0);
    candidates_close(&c);
}

static tern_sampler *open_sampler(uint32_t n_vocab, tern_sampler_params params)
{
    tern_error err = {0};
    tern_sampler *s;
    assert_ok(tern_sampler_open(&s, n_vocab, &params, &err), err);
    return s;
}

static int32_t next(tern_sampler *s, const float *logits, uint32_t n)
{
    float copy[MAX_VOCAB];
    memcpy(copy, logits, n * sizeof *copy);
    return tern_sampler_next(s, copy, NULL, 0);
}

/* chi^2 of 100,000 draws against all the cuts by the book, in the order of the contract. */
static void distribution(void **state)
{
    (void)state;
    enum { N = 200, DRAWS = 100000 };
    float logits[N];
    static plain d;
    uint32_t counts[N] = {0};
    tern_rng rng = {.state = 7};
    random_logits(&rng, logits, N, 1.5f, false);
    tern_sampler_params params = {.temperature = 0.9f,
                                  .top_k = 60,
                                  .top_p = 0.9f,
                                  .min_p = 0.04f,
                                  .typical_p = 0.95f,
                                  .repetition_penalty = 1,
                                  .seed = 11};
    tern_sampler *s = open_sampler(N, params);
    for (int i = 0; i < DRAWS; i++) counts[next(s, logits, N)]++;
    plain_softmax(&d, logits, N, params.temperature);
    plain_top_k(&d, params.top_k);
    plain_typical(&d, params.typical_p);
    plain_top_p(&d, params.top_p);
    plain_min_p(&d, params.min_p);
    double chi2 = 0, freedom = -1;
    for (int i = 0; i < N; i++) {
        if (!(d.p[i] > 0)) {
            assert_int_equal(counts[i], 0);
            continue;
        }
        double expected = d.p[i] * DRAWS, off = counts[i] - expected;
        chi2 += off * off / expected;
        freedom++;
    }
    assert_true(freedom >= 10 && freedom < 60);
    /* Wilson and Hilferty: the cube root is nearly normal; 3.3 sigmas either way */
    double z = (cbrt(chi2 / freedom) - (1 - 2 / (9 * freedom))) / sqrt(2 / (9 * freedom));
    if (!(fabs(z) < 3.3)) fail_msg("chi^2 %g with %g degrees of freedom", chi2, freedom);
    tern_sampler_close(s);
}

static void seeds(void **state)
{
    (void)state;
    enum { N = 500, DRAWS = 50 };
    float logits[N];
    int32_t first[DRAWS];
    tern_rng rng = {.state = 3};
    random_logits(&rng, logits, N, 1, false);
    tern_sampler_params params = TERN_SAMPLER_DEFAULTS;
    tern_sampler *s = open_sampler(N, params), *same = open_sampler(N, params);
    params.seed = 1;
    tern_sampler *other = open_sampler(N, params);
    uint32_t n_different = 0;
    for (int i = 0; i < DRAWS; i++) {
        first[i] = next(s, logits, N);
        assert_int_equal(next(same, logits, N), first[i]);
        n_different += next(other, logits, N) != first[i];
    }
    assert_true(n_different > DRAWS / 2);
    tern_sampler_reset(s);
    for (int i = 0; i < DRAWS; i++) assert_int_equal(next(s, logits, N), first[i]);
    tern_sampler_close(s);
    tern_sampler_close(same);
    tern_sampler_close(other);
}

/* The ids of these seeds on every machine, as a script computed them from the definitions. */
static void pinned(void **state)
{
    (void)state;
    static const int32_t want[2][8] = {{262, 131, 19, 292, 30, 98, 57, 232}, {218, 49, 79, 95, 16, 259, 60, 237}};
    float logits[300];
    for (int i = 0; i < 300; i++) logits[i] = (float)((i * 37) % 101) * 0.0625f;
    for (int cut = 0; cut < 2; cut++) {
        tern_sampler_params params = TERN_SAMPLER_DEFAULTS;
        if (cut) params.top_k = 0, params.typical_p = 0.7f, params.min_p = 0, params.seed = 42;
        tern_sampler *s = open_sampler(300, params);
        for (int i = 0; i < 8; i++) assert_int_equal(next(s, logits, 300), want[cut][i]);
        tern_sampler_close(s);
    }
}

static void odd_logits(void **state)
{
    (void)state;
    enum { N = 100 };
    float logits[N];
    for (int hot = 0; hot < 3; hot++) {
        tern_sampler_params params = TERN_SAMPLER_DEFAULTS;
        params.temperature = hot == 0 ? 0 : hot == 1 ? 1 : 1e6f;
        if (hot == 2) params.top_k = 0;
        tern_sampler *s = open_sampler(N, params);
        for (int i = 0; i < N; i++) logits[i] = i % 2 ? NAN : -INFINITY;
        assert_int_equal(next(s, logits, N), 0);
        logits[41] = -3e38f;
        assert_int_equal(next(s, logits, N), 41);
        logits[77] = INFINITY;
        assert_int_equal(next(s, logits, N), 77);
        logits[0] = NAN;
        for (int i = 0; i < 20; i++) assert_int_equal(next(s, logits, N), 77);
        tern_sampler_close(s);
    }
    tern_sampler_params greedy = TERN_SAMPLER_DEFAULTS;
    greedy.temperature = 0;
    tern_sampler *s = open_sampler(N, greedy);
    for (int i = 0; i < N; i++) logits[i] = i == 30 || i == 90 ? 5 : 1;
    assert_int_equal(next(s, logits, N), 30);
    tern_sampler_close(s);
}

static void penalties(void **state)
{
    (void)state;
    const int32_t history[] = {0, 4, 1,  1,
                               2, 1, 99, -5}; /* the first is out of the window, the last two out of the vocabulary */
    const tern_logit_bias biases[] = {{3, 1.5f}, {3, 0.25f}, {4, -INFINITY}};
    float logits[] = {9, 2, -2, 0.5f, 8, 1};
    const float want[] = {9, 2 / 1.25f - 3 * 0.5f - 0.125f, -2 * 1.25f - 0.5f - 0.125f, 2.25f, -INFINITY, 1};
    tern_sampler_params params = {.repetition_penalty = 1.25f,
                                  .presence_penalty = 0.125f,
                                  .frequency_penalty = 0.5f,
                                  .penalty_last_n = 7,
                                  .top_p = 1,
                                  .typical_p = 1,
                                  .biases = biases,
                                  .n_biases = 3};
    tern_sampler *s = open_sampler(6, params);
    for (int again = 0; again < 2; again++) {
        float copy[6];
        memcpy(copy, logits, sizeof copy);
        assert_int_equal(tern_sampler_next(s, copy, history, 8), 0);
        for (int i = 0; i < 6; i++)
            if (!(copy[i] == want[i])) fail_msg("logit %d is %g, %g expected", i, (double)copy[i], (double)want[i]);
    }
    tern_sampler_close(s);
}

static void refusals(void **state)
{
    (void)state;
    const tern_logit_bias outside = {10, 1}, none = {1, NAN};
    static const struct {
        tern_sampler_params p;
        const char *message;
    } cases[] = {
        {{.temperature = -1, .repetition_penalty = 1}, "temperature is -1: 0 to 1e+06 expected"},
        {{.temperature = NAN, .repetition_penalty = 1}, "temperature is nan: 0 to 1e+06 expected"},
        {{.top_p = 1.5f, .repetition_penalty = 1}, "top-p is 1.5: 0 to 1 expected"},
        {{.min_p = -0.5f, .repetition_penalty = 1}, "min-p is -0.5: 0 to 1 expected"},
        {{.typical_p = 2, .repetition_penalty = 1}, "typical-p is 2: 0 to 1 expected"},
        {{.repetition_penalty = 0}, "repetition penalty is 0: 0.001 to 1000 expected"},
        {{.repetition_penalty = 1, .presence_penalty = INFINITY}, "presence penalty is inf: -1000 to 1000 expected"},
    };
    tern_error err = {0};
    tern_sampler *s;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(tern_sampler_open(&s, 10, &cases[i].p, &err), TERN_INVALID_ARGUMENT);
        assert_string_equal(err.message, cases[i].message);
        assert_null(s);
    }
    tern_sampler_params p = TERN_SAMPLER_DEFAULTS;
    p.n_biases = 1;
    p.biases = &outside;
    assert_int_equal(tern_sampler_open(&s, 10, &p, &err), TERN_INVALID_ARGUMENT);
    assert_string_equal(err.message, "logit bias 0 is for id 10: 0 to 9 expected");
    p.biases = &none;
    assert_int_equal(tern_sampler_open(&s, 10, &p, &err), TERN_INVALID_ARGUMENT);
    assert_string_equal(err.message, "logit bias 0 (id 1) is not a number");
    p.n_biases = 0;
    assert_int_equal(tern_sampler_open(&s, 0, &p, &err), TERN_INVALID_ARGUMENT);
    tern_sampler_close(NULL);
}

static void allocations(void **state)
{
    (void)state;
    tern_error err = {0};
    const int32_t history[] = {1, 2, 3};
    tern_sampler_params p = TERN_SAMPLER_DEFAULTS;
    p.repetition_penalty = 1.1f;
    p.typical_p = 0.9f;
    int64_t live = tern_alloc_live();
    tern_status status = TERN_OUT_OF_MEMORY;
    uint64_t n = 1;
    tern_sampler *s;
    for (; status != TERN_OK; n++) {
        tern_alloc_fail_after(n, false);
        status = tern_sampler_open(&s, MAX_VOCAB, &p, &err);
        tern_alloc_fail_after(0, false);
        if (status == TERN_OK) break;
        assert_int_equal(status, TERN_OUT_OF_MEMORY);
        assert_int_equal(tern_alloc_live(), live);
    }
    assert_true(n > 5);
    float logits[MAX_VOCAB] = {0};
    uint64_t count = tern_alloc_count();
    for (int i = 0; i < 5; i++) tern_sampler_next(s, logits, history, 3);
    assert_int_equal(tern_alloc_count(), count);
    tern_sampler_close(s);
    assert_int_equal(tern_alloc_live(), live);
}

/* Only the wanted logits, the others -INFINITY: the same choice. */
static void wanted(void **state)
{
    (void)state;
    enum { N = 400, HISTORY = 20 };
    tern_rng rng;
    test_seed(&rng);
    for (int round = 0; round < 300; round++) {
        float logits[N], screened[N], sorted[N];
        int32_t history[HISTORY];
        random_logits(&rng, logits, N, 2, tern_rng_below(&rng, 2));
        tern_logit_bias biases[2] = {{(int32_t)tern_rng_below(&rng, N), -3},
                                     {(int32_t)tern_rng_below(&rng, N), -INFINITY}};
        for (int i = 0; i < HISTORY; i++) history[i] = (int32_t)tern_rng_below(&rng, N);
        tern_sampler_params params = {.temperature = (float)(round % 3),
                                      .top_k = test_between(&rng, 1, 30),
                                      .top_p = 0.95f,
                                      .typical_p = 1,
                                      .repetition_penalty = 1.5f,
                                      .frequency_penalty = 1,
                                      .penalty_last_n = tern_rng_below(&rng, HISTORY),
                                      .biases = biases,
                                      .n_biases = 2,
                                      .seed = (uint64_t)round};
        biases[0].id = (int32_t)tern_logits__argmax(logits, N);
        history[HISTORY - 1] = biases[0].id;
        uint32_t n = tern_sampler_n_top(&params);
        assert_in_range(n, 1, N / 4);
        memcpy(sorted, logits, sizeof sorted);
        for (uint32_t i = 0; i < n; i++) /* the n highest to the front */
            for (uint32_t k = i + 1; k < N; k++)
                if (sorted[k] > sorted[i]) {
                    float t = sorted[i];
                    sorted[i] = sorted[k];
                    sorted[k] = t;
                }
        for (int i = 0; i < N; i++) screened[i] = logits[i] < sorted[n - 1] ? -INFINITY : logits[i];
        tern_sampler *s = open_sampler(N, params);
        int32_t id = tern_sampler_next(s, logits, history, HISTORY);
        tern_sampler_reset(s);
        assert_int_equal(tern_sampler_next(s, screened, history, HISTORY), id);
        tern_sampler_close(s);
    }
    tern_sampler_params params = TERN_SAMPLER_DEFAULTS;
    const tern_logit_bias up = {3, 0.5f};
    assert_int_equal(tern_sampler_n_top(&params), 40);
    params.repetition_penalty = 0.9f;
    assert_int_equal(tern_sampler_n_top(&params), 0);
    params.repetition_penalty = 1;
    params.temperature = 0;
    assert_int_equal(tern_sampler_n_top(&params), 1);
    params.biases = &up;
    params.n_biases = 1;
    assert_int_equal(tern_sampler_n_top(&params), 0);
    params.n_biases = 0;
    params.temperature = 1;
    params.top_k = 0;
    assert_int_equal(tern_sampler_n_top(&params), 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(cuts),      cmocka_unit_test(cut_edges), cmocka_unit_test(distribution),
    cmocka_unit_test(seeds),     cmocka_unit_test(pinned),    cmocka_unit_test(odd_logits),
    cmocka_unit_test(penalties), cmocka_unit_test(refusals),  cmocka_unit_test(allocations),
    cmocka_unit_test(wanted),
};

TEST_GROUP(sampler, "web", tests);
