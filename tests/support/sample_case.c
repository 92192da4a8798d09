/* Choosing tokens on a backend against the sampler. */
#include "support/sample_case.h"

#include <math.h>

#include "infer/sample/internal.h"
#include "support/test.h"

test_sampled test_sample_run(const test_sampling *s, tern_backend *b, const tern_sample_params *params,
                             uint32_t n_outputs, uint32_t n_steps)
{
    test_case c;
    test_results r;
    test_sampled got;
    test_case_open(&c, s->rng, &(test_case_shape){.sampler = true});
    tern_view x = test_case_rows(&c, "logits", TERN_ROWS_OUTPUTS, s->n_vocab, TEST_ORDINARY);
    tern_view tokens = test_case_output(&c, "tokens", TERN_ROWS_OUTPUTS, TERN_DTYPE_U32, 1 + TERN_SAMPLE_MAX_STEPS);
    memcpy(test_case_floats(&c, x), s->logits, s->n_vocab * sizeof *s->logits);
    memcpy(test_case_param(&c, TERN_PARAM_SAMPLER), params, sizeof *params);
    test_case_param(&c, TERN_PARAM_IDS)[0] = 77;
    test_case_param(&c, TERN_PARAM_POSITIONS)[0] = 5;
    test_case_add(&c, (tern_op){.kind = TERN_OP_SAMPLE,
                                .rows = TERN_ROWS_OUTPUTS,
                                .n_in = TERN_SAMPLE_INPUTS,
                                .out = tokens,
                                .in = {[TERN_SAMPLE_LOGITS] = x,
                                       [TERN_SAMPLE_COUNTS] = test_case_param_view(&c, TERN_PARAM_COUNTS),
                                       [TERN_SAMPLE_IDS] = test_case_param_view(&c, TERN_PARAM_IDS),
                                       [TERN_SAMPLE_POSITIONS] = test_case_param_view(&c, TERN_PARAM_POSITIONS),
                                       [TERN_SAMPLE_SAMPLER] = test_case_param_view(&c, TERN_PARAM_SAMPLER)}});
    c.graph.logits = x.value;
    c.graph.tokens = tokens.value;
    test_case_run(&c, b, 1, n_outputs, n_steps, &r);
    memcpy(got.tokens, r.bytes[tokens.value], sizeof got.tokens);
    memcpy(got.counts, r.bytes[c.graph.params[TERN_PARAM_COUNTS]], sizeof got.counts);
    memcpy(&got.id, r.bytes[c.graph.params[TERN_PARAM_IDS]], sizeof got.id);
    memcpy(&got.position, r.bytes[c.graph.params[TERN_PARAM_POSITIONS]], sizeof got.position);
    memcpy(&got.params, r.bytes[c.graph.params[TERN_PARAM_SAMPLER]], sizeof got.params);
    test_results_free(&r);
    test_case_close(&c);
    return got;
}

tern_sampler *test_sampler_open(uint32_t n_vocab, const tern_sampler_params *params)
{
    tern_error err = {0};
    tern_sampler *s;
    assert_true(tern_sampler_fits_gpu(params));
    assert_ok(tern_sampler_open(&s, &(tern_sampler_model){.n_vocab = n_vocab}, params, &err), err);
    return s;
}

void test_sample_check_refused(const test_sampling *s, tern_backend *b, const char *what,
                               const tern_sampler_params *params, uint32_t n_steps)
{
    tern_sample_params fill;
    tern_sampler *sampler = test_sampler_open(s->n_vocab, params);
    tern_sampler_fill(sampler, &fill, n_steps);
    tern_sampler_close(sampler);
    const test_sampled got = test_sample_run(s, b, &fill, 1, n_steps);
    if (got.tokens[0] != 1 || got.tokens[1] != TERN_SAMPLE_NOT_FINITE)
        fail_msg("%s: %s, %u tokens: token %u (of %u), %u expected", b->info.name, what, s->n_vocab, got.tokens[1],
                 got.tokens[0], TERN_SAMPLE_NOT_FINITE);
    assert_int_equal(got.counts[0], 0);
    assert_int_equal(got.counts[1], 0);
    assert_int_equal(got.id, 77);
    assert_int_equal(got.position, 5);
}

void test_sample_check_greedy(const test_sampling *s, tern_backend *b, const char *what)
{
    tern_sampler_params params = TERN_SAMPLER_DEFAULTS;
    tern_sample_params fill;
    params.temperature = 0;
    tern_sampler *sampler = test_sampler_open(s->n_vocab, &params);
    tern_sampler_fill(sampler, &fill, 2);
    const int32_t want = tern_sampler_next(sampler, s->logits, NULL, 0); /* changes them for penalties alone */
    const test_sampled got = test_sample_run(s, b, &fill, 1, 1);
    if (got.tokens[0] != 1 || (int32_t)got.tokens[1] != want)
        fail_msg("%s: %s, %u tokens: token %u (of %u), %d expected", b->info.name, what, s->n_vocab, got.tokens[1],
                 got.tokens[0], want);
    tern_sampler_close(sampler);
}

static int32_t choose(tern_candidates *c, const test_sampling *s, const tern_sampler_params *p, double u, double off_p,
                      double off_m, double off_u)
{
    tern_candidates__gather(c, s->logits, s->n_vocab, p->top_k);
    if (c->n == 0) return 0;
    tern_candidates__weigh(c, p->temperature);
    tern_candidates__top_p(c, p->top_p < 1 ? (float)fmin((double)p->top_p * (1 + off_p), 1) : 1);
    tern_candidates__min_p(c, (float)fmin((double)p->min_p * (1 + off_m), 1));
    return tern_candidates__draw(c, fmin(u * (1 + off_u), 1));
}

/* Whether `token` is what the sampler chooses at this draw, or would with cuts and draw moved by what f32 sums may be
 * off. */
static bool possible(tern_candidates *c, const test_sampling *s, const tern_sampler_params *p, double u, uint32_t token,
                     bool *clear)
{
    const double noise = 1e-5;
    const int32_t want = choose(c, s, p, u, 0, 0, 0);
    bool found = (uint32_t)want == token;
    *clear = true;
    for (int i = 0; i < 27; i++) {
        const int32_t other = choose(c, s, p, u, (i % 3 - 1) * noise, (i / 3 % 3 - 1) * noise, (i / 9 - 1) * noise);
        found = found || (uint32_t)other == token;
        *clear = *clear && other == want;
    }
    return found;
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

/* The sampler's candidates, for every draw anew. */
void test_sample_check_draws(test_sampling *s, tern_backend *b, const char *what, const tern_sampler_params *params,
                             bool even, uint32_t n_steps)
{
    tern_candidates c = candidates_open(s->n_vocab);
    tern_sample_params fill;
    tern_sampler *sampler = test_sampler_open(s->n_vocab, params);
    tern_sampler_fill(sampler, &fill, n_steps);
    tern_sampler_close(sampler);
    const test_sampled got = test_sample_run(s, b, &fill, 1, n_steps);
    assert_int_equal(got.tokens[0], n_steps);
    for (uint32_t i = 0; i < n_steps; i++) {
        bool clear;
        const double u = (double)fill.draws[i];
        if (!possible(&c, s, params, u, got.tokens[1 + i], &clear))
            fail_msg(
                "%s: %s, %u tokens, top-k %u, top-p %g, min-p %g, temperature %g, draw %u (%g): token %u, %d expected",
                b->info.name, what, s->n_vocab, params->top_k, (double)params->top_p, (double)params->min_p,
                (double)params->temperature, i, u, got.tokens[1 + i], choose(&c, s, params, u, 0, 0, 0));
        if (even) continue; /* in ties, boundaries lie where cuts are */
        s->n_draws++;
        s->n_unclear += !clear;
    }
    candidates_close(&c);
}

tern_sampler_params test_sample_params(tern_rng *rng)
{
    static const uint32_t top_k[] = {1, 2, 5, 40, 63, 64};
    static const float temperature[] = {0.1f, 0.8f, 1.5f, 1e6f}, top_p[] = {1, 0.95f, 0.5f, 0},
                       min_p[] = {0, 0.05f, 0.3f, 1};
    tern_sampler_params params = TERN_SAMPLER_DEFAULTS;
    params.top_k = top_k[test_between(rng, 0, 5)];
    params.temperature = temperature[test_between(rng, 0, 3)];
    params.top_p = top_p[test_between(rng, 0, 3)];
    params.min_p = min_p[test_between(rng, 0, 3)];
    params.seed = tern_rng_u64(rng);
    return params;
}

void test_sample_fill(test_sampling *s, bool coarse)
{
    for (uint32_t i = 0; i < s->n_vocab; i++) {
        const float x = tern_rng_f32(s->rng), y = tern_rng_f32(s->rng);
        s->logits[i] = 12 * x * x * y;
        if (coarse) s->logits[i] = roundf(s->logits[i]);
    }
}
