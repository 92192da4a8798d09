/* The sampler against definitions by sorting everything: the draws, penalties, and odd logits. */
#include "infer/sampler_cases.h"

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
    sampler_random_logits(&rng, logits, N, 1.5f, false);
    tern_sampler_params params = {.temperature = 0.9f,
                                  .top_k = 60,
                                  .top_p = 0.9f,
                                  .min_p = 0.04f,
                                  .typical_p = 0.95f,
                                  .repetition_penalty = 1,
                                  .seed = 11};
    tern_sampler *s = sampler_open_sampler(N, params);
    for (int i = 0; i < DRAWS; i++) counts[next(s, logits, N)]++;
    sampler_plain_softmax(&d, logits, N, params.temperature);
    sampler_plain_top_k(&d, params.top_k);
    sampler_plain_typical(&d, params.typical_p);
    sampler_plain_top_p(&d, params.top_p);
    sampler_plain_min_p(&d, params.min_p);
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
    sampler_random_logits(&rng, logits, N, 1, false);
    tern_sampler_params params = TERN_SAMPLER_DEFAULTS;
    tern_sampler *s = sampler_open_sampler(N, params), *same = sampler_open_sampler(N, params);
    params.seed = 1;
    tern_sampler *other = sampler_open_sampler(N, params);
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
        tern_sampler *s = sampler_open_sampler(300, params);
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
        tern_sampler *s = sampler_open_sampler(N, params);
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
    tern_sampler *s = sampler_open_sampler(N, greedy);
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
    tern_sampler *s = sampler_open_sampler(6, params);
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
        assert_int_equal(tern_sampler_open(&s, &(tern_sampler_model){.n_vocab = 10}, &cases[i].p, &err),
                         TERN_INVALID_ARGUMENT);
        assert_string_equal(err.message, cases[i].message);
        assert_null(s);
    }
    tern_sampler_params p = TERN_SAMPLER_DEFAULTS;
    p.n_biases = 1;
    p.biases = &outside;
    assert_int_equal(tern_sampler_open(&s, &(tern_sampler_model){.n_vocab = 10}, &p, &err), TERN_INVALID_ARGUMENT);
    assert_string_equal(err.message, "logit bias 0 is for id 10: 0 to 9 expected");
    p.biases = &none;
    assert_int_equal(tern_sampler_open(&s, &(tern_sampler_model){.n_vocab = 10}, &p, &err), TERN_INVALID_ARGUMENT);
    assert_string_equal(err.message, "logit bias 0 (id 1) is not a number");
    p.n_biases = 0;
    assert_int_equal(tern_sampler_open(&s, &(tern_sampler_model){.n_vocab = 0}, &p, &err), TERN_INVALID_ARGUMENT);
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
        status = tern_sampler_open(&s, &(tern_sampler_model){.n_vocab = MAX_VOCAB}, &p, &err);
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

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(distribution), cmocka_unit_test(seeds),     cmocka_unit_test(pinned),
    cmocka_unit_test(odd_logits),   cmocka_unit_test(penalties), cmocka_unit_test(refusals),
    cmocka_unit_test(allocations),
};

TEST_GROUP(sampler, "web", tests);
