/* The steps of a chain against plain implementations of their definitions, in f64 and without sorting or searching
 * cleverly: the token of every draw, in any order of the steps. */
#include "infer/sampler_cases.h"

enum { N = 60, MOST_HISTORY = 80, N_TOKENS = 4 };

static const double UNSURE = 2e-5; /* nearer to a boundary than this, rounding may decide */

/* Logits that are left, and how near a decision was. */
typedef struct left {
    double x[N];
    bool in[N];
    double nearest;
    double mu;
} left;

static void note(left *l, double distance)
{
    l->nearest = fmin(l->nearest, fabs(distance));
}

static double probabilities(const left *l, double p[N])
{
    double max = -INFINITY, sum = 0;
    for (int i = 0; i < N; i++)
        if (l->in[i]) max = fmax(max, l->x[i]);
    for (int i = 0; i < N; i++) sum += p[i] = l->in[i] ? exp(l->x[i] - max) : 0;
    for (int i = 0; i < N; i++) p[i] /= sum;
    return max;
}

static void plain_penalties(left *l, const tern_sampler_params *s, const int32_t *h, uint32_t n)
{
    for (int id = 0; id < N; id++) {
        uint32_t count = 0;
        for (uint32_t i = n > s->penalty_last_n ? n - s->penalty_last_n : 0; i < n; i++) count += h[i] == id;
        if (!count) continue;
        l->x[id] = l->x[id] > 0 ? l->x[id] / (double)s->repetition_penalty : l->x[id] * (double)s->repetition_penalty;
        l->x[id] -= (double)s->presence_penalty + count * (double)s->frequency_penalty;
    }
}

/* Every earlier place where the end of the text stands already, and the token after it. */
static void plain_dry(left *l, const tern_sampler_chain *c, const int32_t *h, uint32_t n)
{
    const uint32_t allowed = c->dry_allowed_length ? c->dry_allowed_length : 2;
    const double base = c->dry_base > 0 ? (double)c->dry_base : 1.75;
    uint32_t longest[N] = {0};
    if (c->dry_last_n && n > c->dry_last_n) h += n - c->dry_last_n, n = c->dry_last_n;
    for (uint32_t end = 1; end < n; end++) {
        uint32_t k = 0;
        while (k < end && h[end - 1 - k] == h[n - 1 - k]) k++;
        if (k > longest[h[end]]) longest[h[end]] = k;
    }
    for (int id = 0; id < N && c->dry_multiplier > 0; id++)
        if (longest[id] >= allowed) l->x[id] -= (double)c->dry_multiplier * pow(base, longest[id] - allowed);
}

static void plain_top_n_sigma(left *l, double sigmas)
{
    double n = 0, mean = 0, squares = 0, max = -INFINITY;
    for (int i = 0; i < N; i++)
        if (l->in[i]) n++, mean += l->x[i], max = fmax(max, l->x[i]);
    mean /= n;
    for (int i = 0; i < N; i++)
        if (l->in[i]) squares += (l->x[i] - mean) * (l->x[i] - mean);
    const double least = max - sigmas * sqrt(squares / n);
    for (int i = 0; i < N && sigmas > 0; i++)
        if (l->in[i]) note(l, l->x[i] - least), l->in[i] = l->x[i] >= least;
}

static void plain_temperature(left *l, const tern_sampler_params *s)
{
    const tern_sampler_chain *c = s->chain;
    double t = (double)s->temperature, p[N], entropy = 0, n = 0;
    probabilities(l, p);
    for (int i = 0; i < N; i++)
        if (l->in[i]) n++, entropy -= p[i] > 0 ? p[i] * log(p[i]) : 0;
    if (c->dynatemp_range > 0 && n > 1) {
        const double low = fmax(0, t - (double)c->dynatemp_range), high = t + (double)c->dynatemp_range;
        const double exponent = c->dynatemp_exponent > 0 ? (double)c->dynatemp_exponent : 1;
        t = low + (high - low) * pow(entropy / log(n), exponent);
    }
    for (int i = 0; i < N; i++) l->x[i] /= t;
}

/* Keeps the first ids of an order up to where their sum exceeds `mass`. */
static void plain_mass(left *l, const double *values, const double *p, double mass)
{
    int32_t ids[N];
    double sum = 0;
    sampler_sort_ids(ids, N, values);
    for (int r = 0; r < N; r++) {
        if (!l->in[ids[r]]) continue;
        const bool full = sum > mass;
        if (r) note(l, sum - mass);
        sum += p[ids[r]];
        if (full) l->in[ids[r]] = false;
    }
}

/* Values that are out, and ties that rounding may break. */
static void order_of(left *l, const double *value, double *values)
{
    for (int i = 0; i < N; i++) values[i] = l->in[i] ? value[i] : -INFINITY;
    for (int i = 0; i < N; i++)
        for (int k = 0; k < i; k++)
            if (l->in[i] && l->in[k]) note(l, values[i] - values[k]);
}

static void plain_top_k(left *l, uint32_t k)
{
    int32_t ids[N];
    double values[N];
    order_of(l, l->x, values);
    sampler_sort_ids(ids, N, values);
    for (uint32_t r = k; r < N && k; r++) l->in[ids[r]] = false;
}

static void plain_top_p(left *l, double top_p)
{
    double p[N], values[N];
    probabilities(l, p);
    order_of(l, l->x, values);
    if (top_p < 1) plain_mass(l, values, p, top_p);
}

static void plain_typical(left *l, double typical_p)
{
    double p[N], entropy = 0, typical[N], values[N];
    probabilities(l, p);
    for (int i = 0; i < N; i++) entropy -= p[i] > 0 ? p[i] * log(p[i]) : 0;
    for (int i = 0; i < N; i++) typical[i] = p[i] > 0 ? -fabs(-log(p[i]) - entropy) : -INFINITY;
    if (!(typical_p < 1)) return;
    order_of(l, typical, values);
    plain_mass(l, values, p, typical_p);
}

static void plain_min_p(left *l, double min_p)
{
    double p[N], max = 0;
    probabilities(l, p);
    for (int i = 0; i < N; i++) max = fmax(max, p[i]);
    for (int i = 0; i < N; i++)
        if (l->in[i]) note(l, p[i] - min_p * max), l->in[i] = p[i] >= min_p * max;
}

static void plain_xtc(left *l, const tern_sampler_chain *c, double u)
{
    const double threshold = c->xtc_threshold > 0 ? (double)c->xtc_threshold : 0.1;
    double p[N];
    int last = -1;
    note(l, u - (double)c->xtc_probability);
    if (u >= (double)c->xtc_probability || threshold > 0.5) return;
    probabilities(l, p);
    for (int i = 0; i < N; i++)
        if (l->in[i]) note(l, p[i] - threshold);
    for (int i = 0; i < N; i++)
        if (l->in[i] && p[i] >= threshold && (last < 0 || p[i] <= p[last])) last = i;
    for (int i = 0; i < N; i++)
        if (i != last && p[i] >= threshold) l->in[i] = false;
}

static void plain_step(left *l, tern_sampler_step step, const tern_sampler_params *s, const int32_t *h, uint32_t n,
                       double u)
{
    const bool mirostat = s->chain->mirostat_tau > 0;
    if (step == TERN_SAMPLER_PENALTIES) plain_penalties(l, s, h, n);
    if (step == TERN_SAMPLER_DRY) plain_dry(l, s->chain, h, n);
    if (step == TERN_SAMPLER_TEMPERATURE) plain_temperature(l, s);
    if (mirostat) return;
    if (step == TERN_SAMPLER_TOP_N_SIGMA) plain_top_n_sigma(l, (double)s->chain->top_n_sigma);
    if (step == TERN_SAMPLER_TOP_K) plain_top_k(l, s->top_k);
    if (step == TERN_SAMPLER_TYPICAL_P) plain_typical(l, (double)s->typical_p);
    if (step == TERN_SAMPLER_TOP_P) plain_top_p(l, (double)s->top_p);
    if (step == TERN_SAMPLER_MIN_P) plain_min_p(l, (double)s->min_p);
    if (step == TERN_SAMPLER_XTC) plain_xtc(l, s->chain, u);
}

static void plain_mirostat(left *l)
{
    double p[N];
    int best = 0;
    probabilities(l, p);
    for (int i = 1; i < N; i++)
        if (p[i] > p[best]) best = i;
    for (int i = 0; i < N; i++)
        if (l->in[i]) note(l, -log2(p[i]) - l->mu), l->in[i] = i == best || !(-log2(p[i]) > l->mu);
}

static int32_t plain_draw(left *l, const tern_sampler_chain *c, double u)
{
    double p[N], sum = 0;
    int32_t id = -1;
    probabilities(l, p);
    for (int i = 0; i < N && id < 0; i++) {
        sum += p[i];
        if (sum > u) id = i;
        if (p[i] > 0) note(l, sum - u);
    }
    if (id >= 0 && c->mirostat_tau > 0)
        l->mu -= (c->mirostat_eta > 0 ? (double)c->mirostat_eta : 0.1) * (-log2(p[id]) - (double)c->mirostat_tau);
    return id;
}

static int32_t plain_next(left *l, const float *logits, const tern_sampler_params *s, const int32_t *h, uint32_t n,
                          tern_rng *rng)
{
    const tern_sampler_chain *c = s->chain;
    const double u = (double)(tern_rng_u64(rng) >> 11) * 0x1p-53;
    const double u2 = c->xtc_probability > 0 ? (double)(tern_rng_u64(rng) >> 11) * 0x1p-53 : 1;
    l->nearest = INFINITY;
    for (int i = 0; i < N; i++) l->x[i] = (double)logits[i], l->in[i] = true;
    for (uint32_t i = 0; i < (c->n_order ? c->n_order : TERN_SAMPLER_STEPS); i++)
        plain_step(l, c->n_order ? c->order[i] : (tern_sampler_step)i, s, h, n, u2);
    if (c->mirostat_tau > 0) plain_mirostat(l);
    return plain_draw(l, c, u);
}

static float some(tern_rng *rng, float off, float low, float high)
{
    return tern_rng_below(rng, 2) ? off : low + (high - low) * tern_rng_f32(rng);
}

/* Some of the steps, in a random order; none: the usual order. */
static void some_order(tern_rng *rng, tern_sampler_chain *c, tern_sampler_step order[TERN_SAMPLER_STEPS])
{
    for (uint32_t i = 0; i < TERN_SAMPLER_STEPS; i++) order[i] = (tern_sampler_step)i;
    for (uint32_t i = TERN_SAMPLER_STEPS; i > 1; i--) {
        const uint32_t k = tern_rng_below(rng, i);
        const tern_sampler_step other = order[k];
        order[k] = order[i - 1];
        order[i - 1] = other;
    }
    c->order = order;
    c->n_order = tern_rng_below(rng, 3) ? 1 + tern_rng_below(rng, TERN_SAMPLER_STEPS) : 0;
}

static tern_sampler_chain some_chain(tern_rng *rng, tern_sampler_step order[TERN_SAMPLER_STEPS])
{
    tern_sampler_chain c = {.size = sizeof c,
                            .top_n_sigma = some(rng, 0, 0.5f, 3),
                            .dynatemp_range = some(rng, 0, 0.1f, 1.5f),
                            .dynatemp_exponent = some(rng, 0, 0.3f, 3),
                            .xtc_probability = some(rng, 0, 0, 1),
                            .xtc_threshold = some(rng, 0, 0.01f, 0.6f),
                            .dry_multiplier = some(rng, 0, 0.1f, 2),
                            .dry_base = some(rng, 0, 1, 2),
                            .dry_allowed_length = tern_rng_below(rng, 4),
                            .dry_last_n = tern_rng_below(rng, 2) ? 0 : 1 + tern_rng_below(rng, MOST_HISTORY),
                            .mirostat_tau = tern_rng_below(rng, 3) ? 0 : 0.5f + 5 * tern_rng_f32(rng),
                            .mirostat_eta = some(rng, 0, 0.05f, 0.5f)};
    some_order(rng, &c, order);
    return c;
}

static tern_sampler_params some_params(tern_rng *rng, const tern_sampler_chain *chain)
{
    return (tern_sampler_params){.temperature = 0.3f + 1.5f * tern_rng_f32(rng),
                                 .top_k = tern_rng_below(rng, N),
                                 .top_p = some(rng, 1, 0.3f, 1),
                                 .min_p = some(rng, 0, 0, 0.2f),
                                 .typical_p = some(rng, 1, 0.3f, 1),
                                 .repetition_penalty = some(rng, 1, 0.8f, 1.5f),
                                 .presence_penalty = some(rng, 0, -1, 1),
                                 .frequency_penalty = some(rng, 0, -0.3f, 0.3f),
                                 .penalty_last_n = tern_rng_below(rng, MOST_HISTORY),
                                 .seed = tern_rng_u64(rng),
                                 .chain = chain};
}

/* A few tokens of one sampler each; behind one that is near a boundary the two may part. */
static void definitions(void **state)
{
    (void)state;
    tern_rng rng;
    uint32_t n_compared = 0, n_unsure = 0;
    test_seed(&rng);
    for (int round = 0; round < 3000; round++) {
        tern_sampler_step order[TERN_SAMPLER_STEPS];
        const tern_sampler_chain chain = some_chain(&rng, order);
        const tern_sampler_params params = some_params(&rng, &chain);
        int32_t h[MOST_HISTORY + N_TOKENS];
        uint32_t n = tern_rng_below(&rng, MOST_HISTORY), alphabet = 2 + tern_rng_below(&rng, 8);
        for (uint32_t i = 0; i < n; i++) h[i] = (int32_t)tern_rng_below(&rng, alphabet);
        tern_sampler *s = sampler_open_sampler(N, params);
        tern_rng draws = {.state = params.seed};
        left l = {.mu = 2 * (double)chain.mirostat_tau};
        for (int t = 0; t < N_TOKENS; t++) {
            float logits[N];
            sampler_random_logits(&rng, logits, N, 2, false);
            const int32_t want = plain_next(&l, logits, &params, h, n, &draws);
            const int32_t got = tern_sampler_next(s, logits, h, n);
            n_unsure += l.nearest < UNSURE;
            if (l.nearest < UNSURE) break;
            if (got != want) fail_msg("round %d, token %d: %d, %d expected (%g)", round, t, got, want, l.nearest);
            n_compared++;
            h[n++] = got;
        }
        tern_sampler_close(s);
    }
    assert_true(n_compared > 6000);
    assert_in_range(n_unsure, 0, 1500);
}

static void odd_logits(void **state)
{
    (void)state;
    const tern_sampler_chain chain = {
        .size = sizeof chain, .top_n_sigma = 1, .dynatemp_range = 0.5f, .xtc_probability = 1, .dry_multiplier = 1};
    tern_sampler_params params = TERN_SAMPLER_DEFAULTS;
    params.chain = &chain;
    tern_sampler *s = sampler_open_sampler(N, params);
    float logits[N];
    for (int i = 0; i < N; i++) logits[i] = i % 2 ? NAN : -INFINITY;
    assert_int_equal(tern_sampler_next(s, logits, NULL, 0), 0);
    logits[41] = -3e38f;
    assert_int_equal(tern_sampler_next(s, logits, NULL, 0), 41);
    logits[33] = INFINITY;
    for (int i = 0; i < 20; i++) assert_int_equal(tern_sampler_next(s, logits, NULL, 0), 33);
    tern_sampler_close(s);
}

/* Nothing on: the same draws as without, and a device may choose. */
static void nothing_on(void **state)
{
    (void)state;
    const tern_sampler_chain off = {.size = sizeof off, .xtc_threshold = 0.2f, .dry_base = 1.5f, .mirostat_eta = 0.3f};
    tern_sampler_chain on = {.size = sizeof on, .mirostat_tau = 5};
    tern_sampler_params params = TERN_SAMPLER_DEFAULTS;
    params.chain = &off;
    assert_false(tern_sampler_has_chain(&params));
    assert_true(tern_sampler_fits_gpu(&params));
    params.chain = &on;
    assert_true(tern_sampler_has_chain(&params));
    assert_false(tern_sampler_fits_gpu(&params));
    on.size = offsetof(tern_sampler_chain, mirostat_tau); /* a program of a version that had it not */
    assert_false(tern_sampler_has_chain(&params));
}

static void refusals(void **state)
{
    (void)state;
    static const tern_sampler_step twice[] = {TERN_SAMPLER_XTC, TERN_SAMPLER_XTC}, unknown[] = {(tern_sampler_step)10};
    static const char *const empty[] = {""}, *const longer[] = {"0123456789012345678901234567890123456789x"};
    static const struct {
        tern_sampler_chain c;
        const char *message;
    } cases[] = {
        {{.top_n_sigma = -1}, "top-n-sigma is -1: 0 to 1e+06 expected"},
        {{.dynatemp_range = NAN}, "dynatemp range is nan: 0 to 1e+06 expected"},
        {{.xtc_probability = 1.5f}, "XTC probability is 1.5: 0 to 1 expected"},
        {{.xtc_threshold = -0.5f}, "XTC threshold is -0.5: 0 to 1 expected"},
        {{.dry_multiplier = INFINITY}, "DRY multiplier is inf: 0 to 1e+06 expected"},
        {{.dry_base = 0.5f}, "DRY base is 0.5: 1 to 1e+06 expected"},
        {{.mirostat_tau = -5}, "Mirostat tau is -5: 0 to 1000 expected"},
        {{.order = twice, .n_order = 2}, "sampler xtc: found twice in the order, once expected"},
        {{.order = unknown, .n_order = 1}, "option sampler is 10: 0 to 9 expected"},
        {{.dry_breakers = empty, .n_dry_breakers = 1}, "DRY breaker 0 has 0 bytes: 1 to 40 expected"},
        {{.dry_breakers = longer, .n_dry_breakers = 1}, "DRY breaker 0 has 41 bytes: 1 to 40 expected"},
        {{.n_dry_breakers = 33}, "33 DRY breakers: at most 32 expected"},
    };
    tern_error err = {0};
    tern_sampler *s;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tern_sampler_chain c = cases[i].c;
        tern_sampler_params p = TERN_SAMPLER_DEFAULTS;
        c.size = sizeof c;
        p.chain = &c;
        assert_int_equal(tern_sampler_open(&s, &(tern_sampler_model){.n_vocab = 10}, &p, &err), TERN_INVALID_ARGUMENT);
        assert_string_equal(err.message, cases[i].message);
        assert_null(s);
    }
}

static void names(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        tern_sampler_step step;
    } known[] = {{"penalties", TERN_SAMPLER_PENALTIES},
                 {"dry", TERN_SAMPLER_DRY},
                 {"top_n_sigma", TERN_SAMPLER_TOP_N_SIGMA},
                 {"temperature", TERN_SAMPLER_TEMPERATURE},
                 {"temp", TERN_SAMPLER_TEMPERATURE},
                 {"top_k", TERN_SAMPLER_TOP_K},
                 {"top-k", TERN_SAMPLER_TOP_K},
                 {"typ_p", TERN_SAMPLER_TYPICAL_P},
                 {"typical_p", TERN_SAMPLER_TYPICAL_P},
                 {"top_p", TERN_SAMPLER_TOP_P},
                 {"min_p", TERN_SAMPLER_MIN_P},
                 {"xtc", TERN_SAMPLER_XTC},
                 {"infill", TERN_SAMPLER_INFILL}};
    tern_error err = {0};
    tern_sampler_step step;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        assert_ok(tern_sampler_step_parse(known[i].name, strlen(known[i].name), &step, &err), err);
        assert_int_equal(step, known[i].step);
    }
    assert_int_equal(tern_sampler_step_parse("quick", 5, &step, &err), TERN_INVALID_ARGUMENT);
    assert_string_equal(err.message, "sampler \"quick\": \"penalties\", \"dry\", \"top_n_sigma\", \"temperature\", "
                                     "\"top_k\", \"typical_p\", \"top_p\", \"min_p\", \"xtc\" or \"infill\" expected");
}

static void allocations(void **state)
{
    (void)state;
    const tern_sampler_chain chain = {.size = sizeof chain, .dry_multiplier = 1, .xtc_probability = 0.5f};
    const int32_t history[] = {1, 2, 3, 1, 2};
    tern_sampler_params p = TERN_SAMPLER_DEFAULTS;
    tern_error err = {0};
    p.repetition_penalty = 1.1f;
    p.chain = &chain;
    const int64_t live = tern_alloc_live();
    tern_status status = TERN_OUT_OF_MEMORY;
    tern_sampler *s;
    for (uint64_t n = 1; status != TERN_OK; n++) {
        tern_alloc_fail_after(n, false);
        status = tern_sampler_open(&s, &(tern_sampler_model){.n_vocab = N, .n_ctx = 64}, &p, &err);
        tern_alloc_fail_after(0, false);
        if (status == TERN_OK) break;
        assert_int_equal(status, TERN_OUT_OF_MEMORY);
        assert_int_equal(tern_alloc_live(), live);
    }
    float logits[N] = {0};
    const uint64_t count = tern_alloc_count();
    for (int i = 0; i < 5; i++) tern_sampler_next(s, logits, history, 5);
    assert_int_equal(tern_alloc_count(), count);
    tern_sampler_close(s);
    assert_int_equal(tern_alloc_live(), live);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(definitions), cmocka_unit_test(odd_logits), cmocka_unit_test(nothing_on),
    cmocka_unit_test(refusals),    cmocka_unit_test(names),      cmocka_unit_test(allocations),
};

TEST_GROUP(sampler_chain, "web", tests);
