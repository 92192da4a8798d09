/* Choosing tokens on a GPU against the sampler, on the same logits with the same draws. */
#include "support/test.h"

#include <float.h>
#include <math.h>

#include "support/sample_case.h"

enum { MAX_VOCAB = 300000 };

static tern_rng rng;
static float logits[MAX_VOCAB];
static test_sampling s = {.rng = &rng, .logits = logits};

enum { N_SMALL = 9, N_VOCABULARIES = 11 };

/* Less than a slice, about one, and as many as there can be. */
static const uint32_t vocabularies[N_VOCABULARIES] = {1, 2, 7, 100, 255, 256, 257, 1000, 5000, 128256, MAX_VOCAB};

static uint32_t between(uint32_t low, uint32_t high)
{
    return test_between(&rng, low, high);
}

/* Whether a vocabulary takes so long that one kind of device, at random, must do. */
static bool large(uint32_t n_vocab)
{
    return n_vocab > 10000;
}

/* Greedy on every kind of device. */
static void check_greedy(const char *what)
{
    const int only = (int)between(0, TEST_GPU_N_KINDS - 1);
    for (int kind = 0; kind < TEST_GPU_N_KINDS; kind++)
        if (!large(s.n_vocab) || kind == only)
            test_sample_check_greedy(&s, test_gpu_backend_of((test_gpu_kind)kind), what);
}

/* n_steps draws on one kind of device. */
static void check_draws(const char *what, int kind, const tern_sampler_params *params, bool even, uint32_t n_steps)
{
    test_sample_check_draws(&s, test_gpu_backend_of((test_gpu_kind)kind), what, params, even, n_steps);
}

/* Quick runs take one of the large ones, another one in each loop and with each offset. */
#define FOR_EACH_VOCABULARY(n)                                                                                         \
    for (uint32_t at_ = 0, from_ = between(0, 1); at_ < N_VOCABULARIES; at_++)                                         \
        if (!large(vocabularies[at_]) || test_takes(from_ + at_, N_VOCABULARIES - N_SMALL, 1))                         \
            for (uint32_t n = s.n_vocab = vocabularies[at_], once_ = 1; once_; once_ = 0)

static void greedy(void **state)
{
    (void)state;
    test_gpu_backend(); /* or skipped, with nothing allocated */
    FOR_EACH_VOCABULARY(n)
    {
        test_floats(&rng, TEST_ORDINARY, logits, n);
        check_greedy("random");
        logits[between(0, n - 1)] = 2;
        check_greedy("one highest");
        for (int i = 0; i < 40; i++) logits[between(0, n - 1)] = 2;
        check_greedy("ties");
        logits[n - 1] = 3;
        check_greedy("the last");
        for (uint32_t i = 0; i < n; i++) logits[i] = -5;
        check_greedy("all the same");
    }
}

static void greedy_at_the_ends(void **state)
{
    (void)state;
    test_gpu_backend();
    FOR_EACH_VOCABULARY(n)
    {
        const uint32_t a = between(0, n - 1), b = between(0, n - 1), c = between(0, n - 1);
        for (uint32_t i = 0; i < n; i++) logits[i] = -FLT_MAX;
        check_greedy("the least");
        logits[b] = -0.0f, logits[c] = 0;
        check_greedy("zeros");
        logits[c] = FLT_TRUE_MIN;
        check_greedy("a subnormal");
        logits[a] = FLT_MAX;
        check_greedy("the largest");
        test_floats(&rng, TEST_MIXED, logits, n);
        check_greedy("every exponent");
        test_floats(&rng, TEST_TINY, logits, n);
        check_greedy("tiny");
    }
}

/* Any one logit that is no number, or all of them, greedily and drawn. */
static void not_finite(void **state)
{
    (void)state;
    test_gpu_backend();
    static const float bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    tern_sampler_params params = TERN_SAMPLER_DEFAULTS;
    FOR_EACH_VOCABULARY(n) for (uint32_t i = 0; i < 8; i++)
    {
        tern_backend *b = test_gpu_backend_of((test_gpu_kind)(i % TEST_GPU_N_KINDS));
        params.temperature = i % 3 ? 0.8f : 0;
        test_sample_fill(&s, false);
        logits[i < 4 ? between(0, n - 1) : i < 6 ? 0 : n - 1] = bad[i % 4];
        test_sample_check_refused(&s, b, "one is not finite", &params, 1 + i % 3);
        for (uint32_t k = 0; k < n; k++) logits[k] = bad[(k + i) % 4];
        test_sample_check_refused(&s, b, "none is finite", &params, 2);
    }
}

static void draws(void **state)
{
    (void)state;
    test_gpu_backend();
    s.n_draws = s.n_unclear = 0;
    FOR_EACH_VOCABULARY(n) for (int round = large(n) ? 6 : 0; round < 9; round++)
    {
        const bool coarse = between(0, 2) == 0;
        const tern_sampler_params params = test_sample_params(&rng);
        test_sample_fill(&s, coarse);
        const bool even = coarse || params.temperature > 1000 || params.min_p == 1;
        check_draws(coarse ? "ties" : "random", round % TEST_GPU_N_KINDS, &params, even, large(n) ? 8 : 12);
    }
    if (s.n_unclear > s.n_draws / 100) fail_msg("%u of %u draws are near a boundary", s.n_unclear, s.n_draws);
}

/* The highest ones together in one slice, whose list is too short for them; all the same; the ends of f32. */
static void draws_at_the_ends(void **state)
{
    (void)state;
    test_gpu_backend();
    static const uint32_t sizes[] = {20, 3000, 128256};
    for (int i = 0; i < 3; i++)
        for (int kind = 0; kind < TEST_GPU_N_KINDS; kind++) {
            if (large(sizes[i]) && kind > 0) continue;
            const uint32_t n = s.n_vocab = sizes[i], n_slices = (n + 255) / 256, slice = between(0, n_slices - 1);
            tern_sampler_params params = test_sample_params(&rng);
            params.top_k = between(30, 64);
            test_sample_fill(&s, false);
            for (uint32_t id = slice * 8; id < n; id += n_slices * 8)
                logits[id + between(0, n - id < 8 ? n - id - 1 : 7)] += 13;
            check_draws("one slice", kind, &params, true, 4);
            for (uint32_t k = 0; k < n; k++) logits[k] = 1;
            check_draws("all the same", kind, &params, true, 4);
            for (uint32_t k = 0; k < n; k++) logits[k] = -FLT_MAX;
            logits[n / 2] = 0;
            check_draws("one", kind, &params, true, 3);
            logits[n / 3] = FLT_MAX;
            check_draws("the largest", kind, &params, true, 4);
            params.temperature = FLT_TRUE_MIN;
            check_draws("cold", kind, &params, true, 4);
        }
}

/* What fill takes from the generator, consume skips: host and device can take turns. */
static void turns(void **state)
{
    (void)state;
    test_gpu_backend();
    enum { N = 5000, TURN = 10 };
    tern_sampler_params params = TERN_SAMPLER_DEFAULTS;
    params.seed = 5;
    tern_sampler *host = test_sampler_open(N, &params), *both = test_sampler_open(N, &params);
    s.n_vocab = N;
    test_sample_fill(&s, false);
    for (int turn = 0; turn < 4; turn++) {
        test_sampled got = {0};
        tern_sample_params fill;
        if (turn % 2 == 0) {
            tern_sampler_fill(both, &fill, TURN);
            got = test_sample_run(&s, test_gpu_backend(), &fill, 1, TURN);
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
    test_gpu_backend();
    enum { N = 600 };
    tern_backend *b = test_gpu_backend();
    tern_sample_params params = {.n_tokens = 5, .top_k = 1};
    s.n_vocab = N;
    test_sample_fill(&s, false);
    logits[321] = 20;
    test_sampled r = test_sample_run(&s, b, &params, 1, 3);
    assert_int_equal(r.tokens[0], 3);
    for (int i = 1; i <= 3; i++) assert_int_equal(r.tokens[i], 321);
    assert_int_equal(r.tokens[4], 0x7fc0dead); /* not written */
    assert_int_equal(r.params.n_done, 3);
    assert_int_equal(r.id, 321);
    assert_int_equal(r.position, 8);
    assert_int_equal(r.counts[0], 1);
    assert_int_equal(r.counts[1], 1);
    r = test_sample_run(&s, b, &params, 1, 9); /* five are wanted */
    assert_int_equal(r.tokens[0], 5);
    assert_int_equal(r.tokens[6], 0x7fc0dead);
    assert_int_equal(r.position, 10);
    assert_int_equal(r.counts[0], 0);
    assert_int_equal(r.counts[1], 0);
    params.n_ends = 2;
    params.end_ids[0] = 3, params.end_ids[1] = 321, params.end_ids[2] = 4;
    r = test_sample_run(&s, b, &params, 1, 4); /* the first ends it */
    assert_int_equal(r.tokens[0], 1);
    assert_int_equal(r.tokens[1], 321);
    assert_int_equal(r.tokens[2], 0x7fc0dead);
    assert_int_equal(r.position, 6);
    assert_int_equal(r.counts[0], 0);
    params.n_ends = 1;
    params.n_done = 2;
    r = test_sample_run(&s, b, &params, 1, 1); /* goes on after two */
    assert_int_equal(r.tokens[0], 3);
    assert_int_equal(r.tokens[1], 0x7fc0dead);
    assert_int_equal(r.tokens[3], 321);
    assert_int_equal(r.counts[0], 1);
    r = test_sample_run(&s, b, &params, 0, 2); /* no logits: nothing to do */
    assert_int_equal(r.tokens[0], 0x7fc0dead);
    assert_int_equal(r.params.n_done, 2);
    assert_int_equal(r.id, 77);
    assert_int_equal(r.position, 5);
    assert_int_equal(r.counts[0], 1);
}

static int seed(void **state)
{
    (void)state;
    test_seed(&rng);
    return 0;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(greedy), cmocka_unit_test(greedy_at_the_ends), cmocka_unit_test(not_finite),
    cmocka_unit_test(draws),  cmocka_unit_test(draws_at_the_ends),  cmocka_unit_test(turns),
    cmocka_unit_test(steps)};

TEST_GROUP(sample, "gpu web", tests, .setup = seed, .teardown = test_backends_close);
