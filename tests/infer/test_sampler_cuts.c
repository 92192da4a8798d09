/* Top-k, top-p, min-p and the like: what they leave of the candidates, at their edges too. */
#include "infer/sampler_cases.h"

#include <math.h>

#include "infer/sample/wanted.h"

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
        sampler_random_logits(&rng, logits, n, scales[tern_rng_below(&rng, 3)], coarse);
        tern_candidates__gather(&c, logits, n, k);
        tern_candidates__weigh(&c, temperature);
        sampler_plain_softmax(&d, logits, n, temperature);
        if (k) sampler_plain_top_k(&d, k);
        assert_same(&c, &d, "top-k");
        double nearest = INFINITY;
        if (!coarse &&
            tern_rng_below(&rng,
                           2)) { /* in ties, which of two distances that are equal but for rounding is less is open */
            tern_candidates__typical(&c, q);
            nearest = sampler_plain_typical(&d, q);
            if (nearest > 1e-6) assert_same(&c, &d, "typical");
        }
        if (nearest > 1e-6) {
            tern_candidates__top_p(&c, p);
            nearest = sampler_plain_top_p(&d, p);
        }
        n_cases++;
        n_near += !(nearest > 1e-6);
        if (!(nearest > 1e-6)) continue;
        assert_same(&c, &d, "top-p");
        tern_candidates__min_p(&c, m);
        sampler_plain_min_p(&d, m);
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

/* ---- logits that may be left out */

enum { N = 400, HISTORY = 20 };

static tern_sampler_params some_params(tern_rng *rng, int round, const tern_logit_bias *biases)
{
    static const float top_p[] = {1, 0.95f, 0.5f, 1}, min_p[] = {0, 0, 0.02f, 0.1f};
    const int cut = round / 2 % 4;
    const bool moved = tern_rng_below(rng, 2);
    return (tern_sampler_params){.temperature = (float)(round % 5) * 0.4f,
                                 .top_k = round % 2 ? test_between(rng, 1, 30) : 0,
                                 .top_p = top_p[cut],
                                 .min_p = min_p[cut],
                                 .typical_p = 1,
                                 .repetition_penalty = moved ? 0.5f + tern_rng_f32(rng) : 1,
                                 .frequency_penalty = moved ? tern_rng_f32(rng) - 0.5f : 0,
                                 .presence_penalty = moved ? tern_rng_f32(rng) - 0.5f : 0,
                                 .penalty_last_n = tern_rng_below(rng, HISTORY),
                                 .biases = biases,
                                 .n_biases = moved ? 3 : 0,
                                 .seed = (uint64_t)round};
}

static int by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

/* Leaves out all that may be: what is pinned stays, of the others the highest, those near them, and what makes up more
 * than the tail. Returns how many are left out. */
static uint32_t leave_out(float *logits, const tern_wanted *wanted, uint32_t n_top)
{
    float others[N];
    bool pinned[N] = {false};
    uint32_t n = 0, n_out = 0;
    for (uint32_t i = 0; i < wanted->n_pinned; i++) pinned[wanted->pinned[i]] = true;
    for (uint32_t i = 0; i < N; i++)
        if (!pinned[i]) others[n++] = logits[i];
    qsort(others, n, sizeof *others, by_value);
    uint32_t kept = n_top < n ? n_top : n;
    while (kept < n && others[kept] >= others[0] - wanted->reach && wanted->reach > 0) kept++;
    double tail = 0;
    uint32_t first = n;
    for (; first > kept && wanted->tail > 0; first--) {
        tail += exp(((double)others[first - 1] - (double)others[0]) * (double)wanted->sharpness);
        if (tail > (double)wanted->tail) break;
    }
    if (wanted->tail > 0) kept = first;
    if (n_top == 0) kept = n;
    for (uint32_t i = 0; i < N; i++)
        if (!pinned[i] && kept < n && logits[i] < others[kept - 1]) logits[i] = -INFINITY, n_out++;
    return n_out;
}

/* Only the wanted logits, the others -INFINITY: the same choice, or none where the tail could change it. */
static void wanted(void **state)
{
    (void)state;
    tern_rng rng;
    uint32_t n_undecided = 0, n_with_tail = 0, n_out = 0;
    test_seed(&rng);
    for (int round = 0; round < 4000; round++) {
        float logits[N], screened[N];
        int32_t history[HISTORY];
        sampler_random_logits(&rng, logits, N, 4, tern_rng_below(&rng, 2));
        tern_logit_bias biases[3] = {{(int32_t)tern_rng_below(&rng, N), -3},
                                     {(int32_t)tern_rng_below(&rng, N), 9},
                                     {(int32_t)tern_rng_below(&rng, N), -INFINITY}};
        for (int i = 0; i < HISTORY; i++) history[i] = (int32_t)tern_rng_below(&rng, N);
        history[HISTORY - 1] = biases[0].id = (int32_t)tern_logits__argmax(logits, N);
        const tern_sampler_params params = some_params(&rng, round, biases);
        const tern_logits_needed needed = tern_logits_needed_by(&params);
        tern_wanted list;
        uint32_t n_top;
        tern_wanted_begin(&list, &n_top);
        tern_wanted_add(&list, &n_top, &needed, history, HISTORY, 1);
        memcpy(screened, logits, sizeof logits);
        n_out += leave_out(screened, &list, n_top);
        tern_sampler *s = sampler_open_sampler(N, params);
        const int32_t id = tern_sampler_next(s, logits, history, HISTORY);
        tern_sampler_reset(s);
        const int32_t tried = tern_sampler_try(s, screened, history, HISTORY, needed.tail);
        n_with_tail += needed.tail > 0;
        n_undecided += tried == TERN_SAMPLER_UNDECIDED;
        if (tried == TERN_SAMPLER_UNDECIDED) assert_true(needed.tail > 0);
        else assert_int_equal(tried, id);
        tern_sampler_close(s);
    }
    assert_true(n_out > 4000u * N / 3);
    assert_in_range(n_undecided, 1, n_with_tail / 4);
}

/* Where all are wanted, and how much the lists hold. */
static void needed(void **state)
{
    (void)state;
    tern_sampler_params params = TERN_SAMPLER_DEFAULTS;
    const tern_logit_bias up = {3, 0.5f};
    int32_t ids[2000] = {0};
    tern_wanted list;
    uint32_t n_top;
    assert_int_equal(tern_logits_needed_by(&params).n_top, 40);
    params.biases = &up;
    params.n_biases = 1;
    params.repetition_penalty = 0.9f;
    tern_logits_needed n = tern_logits_needed_by(&params);
    tern_wanted_begin(&list, &n_top);
    tern_wanted_add(&list, &n_top, &n, ids, 100, 2);
    assert_int_equal(n_top, 40);
    assert_int_equal(list.n_pinned, 1 + 64 + 2);
    assert_int_equal(list.pinned[0], 3);
    params.penalty_last_n = 1500;
    n = tern_logits_needed_by(&params);
    tern_wanted_add(&list, &n_top, &n, ids, 2000, 1);
    assert_int_equal(n_top, 0); /* more than the list holds */
    params.top_k = 0;
    params.typical_p = 0.5f;
    assert_int_equal(tern_logits_needed_by(&params).n_top, 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(cuts),
    cmocka_unit_test(cut_edges),
    cmocka_unit_test(wanted),
    cmocka_unit_test(needed),
};

TEST_GROUP(sampler_cuts, "web", tests);
