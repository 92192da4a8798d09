/* Choosing tokens on a GPU against the sampler, on the same logits with the same draws. */
#include "support/test.h"

#include <float.h>
#include <math.h>

#include "infer/sampler_parts.h"
#include "support/op_case.h"

enum { MAX_VOCAB = 300000, MAX_STEPS = TERN_SAMPLE_MAX_STEPS };

static tern_rng rng;
static float logits[MAX_VOCAB];

/* Less than a slice, about one, and as many as there can be. */
static const uint32_t vocabularies[] = {1, 2, 7, 100, 255, 256, 257, 1000, 5000, 128256, MAX_VOCAB};

static uint32_t between(uint32_t low, uint32_t high)
{
    return test_between(&rng, low, high);
}

/* What a run left behind. */
typedef struct sampled {
    uint32_t tokens[1 + MAX_STEPS], counts[3], id, position;
    tern_sample_params params;
} sampled;

/* n_steps of sampling from the same logits, at position 5. */
static sampled run(tern_backend *b, uint32_t n_vocab, const tern_sample_params *params, uint32_t n_outputs,
                   uint32_t n_steps)
{
    test_case c;
    test_results r;
    sampled s;
    test_case_open(&c, &rng, &(test_case_shape){.sampler = true});
    tern_view x = test_case_rows(&c, "logits", TERN_ROWS_OUTPUTS, n_vocab, TEST_ORDINARY);
    tern_view tokens = test_case_output(&c, "tokens", TERN_ROWS_OUTPUTS, TERN_DTYPE_U32, 1 + MAX_STEPS);
    memcpy(test_case_floats(&c, x), logits, n_vocab * sizeof *logits);
    memcpy(test_case_param(&c, TERN_PARAM_SAMPLER), params, sizeof *params);
    test_case_param(&c, TERN_PARAM_IDS)[0] = 77;
    test_case_param(&c, TERN_PARAM_POSITIONS)[0] = 5;
    test_case_add(
        &c, (tern_op){.kind = TERN_OP_SAMPLE,
                      .rows = TERN_ROWS_OUTPUTS,
                      .n_in = 5,
                      .out = tokens,
                      .in = {x, test_case_param_view(&c, TERN_PARAM_COUNTS), test_case_param_view(&c, TERN_PARAM_IDS),
                             test_case_param_view(&c, TERN_PARAM_POSITIONS),
                             test_case_param_view(&c, TERN_PARAM_SAMPLER)}});
    c.graph.logits = x.value;
    c.graph.tokens = tokens.value;
    test_case_run(&c, b, 1, n_outputs, n_steps, &r);
    memcpy(s.tokens, r.bytes[tokens.value], sizeof s.tokens);
    memcpy(s.counts, r.bytes[c.graph.params[TERN_PARAM_COUNTS]], sizeof s.counts);
    memcpy(&s.id, r.bytes[c.graph.params[TERN_PARAM_IDS]], sizeof s.id);
    memcpy(&s.position, r.bytes[c.graph.params[TERN_PARAM_POSITIONS]], sizeof s.position);
    memcpy(&s.params, r.bytes[c.graph.params[TERN_PARAM_SAMPLER]], sizeof s.params);
    test_results_free(&r);
    test_case_close(&c);
    return s;
}

static tern_sampler *open_sampler(uint32_t n_vocab, const tern_sampler_params *params)
{
    tern_error err = {0};
    tern_sampler *s;
    assert_true(tern_sampler_fits_gpu(params));
    assert_ok(tern_sampler_open(&s, n_vocab, params, &err), err);
    return s;
}

/* Whether a vocabulary takes so long that one kind of device, at random, must do. */
static bool large(uint32_t n_vocab)
{
    return n_vocab > 10000;
}

/* Greedy: the same token as the sampler chooses. */
static void check_greedy(uint32_t n_vocab, const char *what)
{
    tern_sampler_params params = TERN_SAMPLER_DEFAULTS;
    tern_sample_params fill;
    params.temperature = 0;
    tern_sampler *s = open_sampler(n_vocab, &params);
    tern_sampler_fill(s, &fill, 2);
    float *copy = malloc(n_vocab * sizeof *copy);
    memcpy(copy, logits, n_vocab * sizeof *copy);
    const int32_t want = tern_sampler_next(s, copy, NULL, 0);
    const int only = (int)between(0, TEST_GPU_N_KINDS - 1);
    for (int kind = 0; kind < TEST_GPU_N_KINDS; kind++) {
        if (large(n_vocab) && kind != only) continue;
        const sampled got = run(test_gpu_backend_of((test_gpu_kind)kind), n_vocab, &fill, 1, 1);
        if (got.tokens[0] != 1 || (int32_t)got.tokens[1] != want)
            fail_msg("%s, %u tokens, device %d: token %u (of %u), %d expected", what, n_vocab, kind, got.tokens[1],
                     got.tokens[0], want);
    }
    free(copy);
    tern_sampler_close(s);
}

#define FOR_EACH_VOCABULARY(n)                                                                                         \
    for (size_t at_ = 0; at_ < sizeof vocabularies / sizeof *vocabularies; at_++)                                      \
        for (uint32_t n = vocabularies[at_], once_ = 1; once_; once_ = 0)

static void greedy(void **state)
{
    (void)state;
    FOR_EACH_VOCABULARY(n)
    {
        test_floats(&rng, TEST_ORDINARY, logits, n);
        check_greedy(n, "random");
        logits[between(0, n - 1)] = 2;
        check_greedy(n, "one highest");
        for (int i = 0; i < 40; i++) logits[between(0, n - 1)] = 2;
        check_greedy(n, "ties");
        logits[n - 1] = 3;
        check_greedy(n, "the last");
        for (uint32_t i = 0; i < n; i++) logits[i] = -5;
        check_greedy(n, "all the same");
    }
}

static void greedy_at_the_ends(void **state)
{
    (void)state;
    FOR_EACH_VOCABULARY(n)
    {
        const uint32_t a = between(0, n - 1), b = between(0, n - 1), c = between(0, n - 1);
        for (uint32_t i = 0; i < n; i++) logits[i] = i % 2 ? NAN : -INFINITY;
        check_greedy(n, "none");
        logits[a] = -FLT_MAX;
        check_greedy(n, "the least");
        logits[b] = -0.0f, logits[c] = 0;
        check_greedy(n, "zeros");
        logits[c] = FLT_TRUE_MIN;
        check_greedy(n, "a subnormal");
        logits[a] = FLT_MAX, logits[b] = INFINITY;
        check_greedy(n, "an infinity and the largest");
        logits[c] = -NAN;
        check_greedy(n, "NaN");
        test_floats(&rng, TEST_NONFINITE, logits, n);
        check_greedy(n, "not finite");
        test_floats(&rng, TEST_MIXED, logits, n);
        check_greedy(n, "every exponent");
        test_floats(&rng, TEST_TINY, logits, n);
        check_greedy(n, "tiny");
    }
}

static int32_t choose(tern_candidates *c, uint32_t n_vocab, const tern_sampler_params *p, double u, double off_p,
                      double off_m, double off_u)
{
    tern_candidates__gather(c, logits, n_vocab, p->top_k);
    if (c->n == 0) return 0;
    tern_candidates__weigh(c, p->temperature);
    tern_candidates__top_p(c, p->top_p < 1 ? (float)fmin((double)p->top_p * (1 + off_p), 1) : 1);
    tern_candidates__min_p(c, (float)fmin((double)p->min_p * (1 + off_m), 1));
    return tern_candidates__draw(c, fmin(u * (1 + off_u), 1));
}

/* Whether `token` is what the sampler chooses at this draw, or would with cuts and draw moved by what f32 sums may be
 * off. */
static bool possible(tern_candidates *c, uint32_t n_vocab, const tern_sampler_params *p, double u, uint32_t token,
                     bool *clear)
{
    const double noise = 1e-5;
    const int32_t want = choose(c, n_vocab, p, u, 0, 0, 0);
    bool found = (uint32_t)want == token;
    *clear = true;
    for (int i = 0; i < 27; i++) {
        const int32_t other =
            choose(c, n_vocab, p, u, (i % 3 - 1) * noise, (i / 3 % 3 - 1) * noise, (i / 9 - 1) * noise);
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

static uint32_t n_draws, n_unclear;

/* n_steps draws on one kind of device; even: many candidates may be equally likely. */
static void check_draws(const char *what, int kind, uint32_t n_vocab, const tern_sampler_params *params, bool even,
                        uint32_t n_steps)
{
    tern_candidates c = candidates_open(n_vocab);
    tern_sample_params fill;
    tern_sampler *s = open_sampler(n_vocab, params);
    tern_sampler_fill(s, &fill, n_steps);
    const sampled got = run(test_gpu_backend_of((test_gpu_kind)kind), n_vocab, &fill, 1, n_steps);
    assert_int_equal(got.tokens[0], n_steps);
    for (uint32_t i = 0; i < n_steps; i++) {
        bool clear;
        if (!possible(&c, n_vocab, params, (double)fill.draws[i], got.tokens[1 + i], &clear))
            fail_msg("%s, %u tokens, device %d, top-k %u, top-p %g, min-p %g, temperature %g, draw %u (%g): token %u, "
                     "%d expected",
                     what, n_vocab, kind, params->top_k, (double)params->top_p, (double)params->min_p,
                     (double)params->temperature, i, (double)fill.draws[i], got.tokens[1 + i],
                     choose(&c, n_vocab, params, (double)fill.draws[i], 0, 0, 0));
        if (even) continue; /* in ties, boundaries lie where cuts are */
        n_draws++;
        n_unclear += !clear;
    }
    tern_sampler_close(s);
    candidates_close(&c);
}

static tern_sampler_params any_params(void)
{
    static const uint32_t top_k[] = {1, 2, 5, 40, 63, 64};
    static const float temperature[] = {0.1f, 0.8f, 1.5f, 1e6f}, top_p[] = {1, 0.95f, 0.5f, 0},
                       min_p[] = {0, 0.05f, 0.3f, 1};
    tern_sampler_params params = TERN_SAMPLER_DEFAULTS;
    params.top_k = top_k[between(0, 5)];
    params.temperature = temperature[between(0, 3)];
    params.top_p = top_p[between(0, 3)];
    params.min_p = min_p[between(0, 3)];
    params.seed = tern_rng_u64(&rng);
    return params;
}

/* Logits as models have them: most are low. */
static void fill_peaked(uint32_t n, bool coarse)
{
    for (uint32_t i = 0; i < n; i++) {
        const float x = tern_rng_f32(&rng), y = tern_rng_f32(&rng);
        logits[i] = 12 * x * x * y;
        if (coarse) logits[i] = roundf(logits[i]);
    }
}

static void draws(void **state)
{
    (void)state;
    n_draws = n_unclear = 0;
    FOR_EACH_VOCABULARY(n) for (int round = large(n) ? 6 : 0; round < 9; round++)
    {
        const bool coarse = between(0, 2) == 0;
        const tern_sampler_params params = any_params();
        fill_peaked(n, coarse);
        const bool even = coarse || params.temperature > 1000 || params.min_p == 1;
        check_draws(coarse ? "ties" : "random", round % TEST_GPU_N_KINDS, n, &params, even, large(n) ? 8 : 12);
    }
    if (n_unclear > n_draws / 100) fail_msg("%u of %u draws are near a boundary", n_unclear, n_draws);
}

/* The highest ones together in one slice, whose list is too short for them; all the same; few that are numbers. */
static void draws_at_the_ends(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {20, 3000, 128256};
    for (int i = 0; i < 3; i++)
        for (int kind = 0; kind < TEST_GPU_N_KINDS; kind++) {
            if (large(sizes[i]) && kind > 0) continue;
            const uint32_t n = sizes[i], n_slices = (n + 255) / 256, slice = between(0, n_slices - 1);
            tern_sampler_params params = any_params();
            params.top_k = between(30, 64);
            fill_peaked(n, false);
            for (uint32_t id = slice * 8; id < n; id += n_slices * 8)
                logits[id + between(0, n - id < 8 ? n - id - 1 : 7)] += 13;
            check_draws("one slice", kind, n, &params, true, 4);
            for (uint32_t k = 0; k < n; k++) logits[k] = 1;
            check_draws("all the same", kind, n, &params, true, 4);
            for (uint32_t k = 0; k < n; k++) logits[k] = k % 2 ? NAN : -INFINITY;
            check_draws("none", kind, n, &params, true, 3);
            logits[n / 2] = -FLT_MAX;
            check_draws("one", kind, n, &params, true, 3);
            logits[n / 3] = INFINITY, logits[n / 4] = FLT_MAX;
            check_draws("infinities", kind, n, &params, true, 4);
        }
}

/* What fill takes from the generator, consume skips: host and device can take turns. */
static void turns(void **state)
{
    (void)state;
    enum { N = 5000, TURN = 10 };
    tern_sampler_params params = TERN_SAMPLER_DEFAULTS;
    params.seed = 5;
    tern_sampler *host = open_sampler(N, &params), *both = open_sampler(N, &params);
    fill_peaked(N, false);
    for (int turn = 0; turn < 4; turn++) {
        sampled got = {0};
        tern_sample_params fill;
        if (turn % 2 == 0) {
            tern_sampler_fill(both, &fill, TURN);
            got = run(test_gpu_backend(), N, &fill, 1, TURN);
            tern_sampler_consume(both, TURN);
        }
        for (int i = 0; i < TURN; i++) {
            const int32_t want = tern_sampler_next(host, logits, NULL, 0);
            const int32_t have = turn % 2 ? tern_sampler_next(both, logits, NULL, 0) : (int32_t)got.tokens[1 + i];
            if (have != want) fail_msg("turn %d, token %d: %d, %d expected", turn, i, have, want);
        }
    }
    tern_sampler_close(host);
    tern_sampler_close(both);
}

/* What is left for the next step, and when steps stop. */
static void steps(void **state)
{
    (void)state;
    enum { N = 600 };
    tern_backend *b = test_gpu_backend();
    tern_sample_params params = {.n_wanted = 5, .top_k = 1};
    fill_peaked(N, false);
    logits[321] = 20;
    sampled s = run(b, N, &params, 1, 3);
    assert_int_equal(s.tokens[0], 3);
    for (int i = 1; i <= 3; i++) assert_int_equal(s.tokens[i], 321);
    assert_int_equal(s.tokens[4], 0x7fc0dead); /* not written */
    assert_int_equal(s.params.n_done, 3);
    assert_int_equal(s.id, 321);
    assert_int_equal(s.position, 8);
    assert_int_equal(s.counts[0], 1);
    assert_int_equal(s.counts[1], 1);
    s = run(b, N, &params, 1, 9); /* five are wanted */
    assert_int_equal(s.tokens[0], 5);
    assert_int_equal(s.tokens[6], 0x7fc0dead);
    assert_int_equal(s.position, 10);
    assert_int_equal(s.counts[0], 0);
    assert_int_equal(s.counts[1], 0);
    params.n_ends = 2;
    params.end_ids[0] = 3, params.end_ids[1] = 321, params.end_ids[2] = 4;
    s = run(b, N, &params, 1, 4); /* the first ends it */
    assert_int_equal(s.tokens[0], 1);
    assert_int_equal(s.tokens[1], 321);
    assert_int_equal(s.tokens[2], 0x7fc0dead);
    assert_int_equal(s.position, 6);
    assert_int_equal(s.counts[0], 0);
    params.n_ends = 1;
    params.n_done = 2;
    s = run(b, N, &params, 1, 1); /* goes on after two */
    assert_int_equal(s.tokens[0], 3);
    assert_int_equal(s.tokens[1], 0x7fc0dead);
    assert_int_equal(s.tokens[3], 321);
    assert_int_equal(s.counts[0], 1);
    s = run(b, N, &params, 0, 2); /* no logits: nothing to do */
    assert_int_equal(s.tokens[0], 0x7fc0dead);
    assert_int_equal(s.params.n_done, 2);
    assert_int_equal(s.id, 77);
    assert_int_equal(s.position, 5);
    assert_int_equal(s.counts[0], 1);
}

int main(void)
{
    test_seed(&rng);
    const struct CMUnitTest tests[] = {cmocka_unit_test(greedy), cmocka_unit_test(greedy_at_the_ends),
                                       cmocka_unit_test(draws),  cmocka_unit_test(draws_at_the_ends),
                                       cmocka_unit_test(turns),  cmocka_unit_test(steps)};
    return cmocka_run_group_tests(tests, NULL, test_backends_close);
}
