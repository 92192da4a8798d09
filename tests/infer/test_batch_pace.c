/* How many tokens of prompts a step takes, on devices that are made up. */
#include "support/test.h"

#include "infer/batch/pace.h"

enum { N_BATCH = 512, N_DECODING = 4 };

/* Milliseconds of a step of n rows. */
typedef double (*device)(uint32_t n);

/* Time grows with the rows. */
static double straight(uint32_t n)
{
    return 24 + 4 * n;
}

/* From 12 rows on other kernels take twice as long. */
static double cliff(uint32_t n)
{
    return n < 12 ? 22 + 4 * n : 70 + 4.5 * n;
}

/* What a step takes is reading the weights. */
static double flat(uint32_t n)
{
    return 40 + 0.1 * n;
}

/* Already one row more takes too long. */
static double steep(uint32_t n)
{
    return n <= N_DECODING ? 10 : 100 * n;
}

typedef struct outcome {
    double longest; /* times a step that decodes */
    uint32_t n_prompt, last;
} outcome;

/* n steps with prompts, every `every`-th of which (0: none) takes five times as long for other reasons. */
static outcome run(tern_pace *p, device d, uint32_t n, uint32_t every)
{
    outcome o = {0};
    for (uint32_t i = 1; i <= n; i++) {
        const uint32_t chunk = tern_pace_chunk(p, N_DECODING);
        const double ms = d(N_DECODING + chunk), ratio = ms / d(N_DECODING);
        assert_in_range(chunk, 1, N_BATCH - N_DECODING);
        tern_pace_learn(p, N_DECODING, chunk, every && i % every == 0 ? 5 * ms : ms);
        if (ratio > o.longest) o.longest = ratio;
        o.n_prompt += chunk;
        o.last = chunk;
    }
    return o;
}

static outcome from_start(device d, uint32_t n, uint32_t every, double most_ms)
{
    tern_pace p;
    tern_error err = {0};
    assert_ok(tern_pace_init(&p, N_BATCH, most_ms, &err), err);
    for (uint32_t i = 0; i < 3; i++) tern_pace_learn(&p, N_DECODING, 0, d(N_DECODING));
    const outcome o = run(&p, d, n, every);
    tern_pace_deinit(&p);
    return o;
}

static void bounds_time(void **state)
{
    (void)state;
    const outcome a = from_start(straight, 400, 0, 0), b = from_start(cliff, 400, 0, 0), c = from_start(flat, 60, 0, 0);
    assert_true(a.longest <= 2 && a.last >= 6);
    assert_true(b.longest <= 2 && b.last >= 5);
    assert_true(c.longest <= 2 && c.last >= 250);
    const outcome d = from_start(steep, 100, 0, 0);
    assert_true(d.last == 1 && d.n_prompt <= 104);
}

/* A bound in milliseconds counts in place of what decoding takes; below that a token of a prompt comes in all the same.
 */
static void bounds_milliseconds(void **state)
{
    (void)state;
    const outcome wide = from_start(straight, 400, 0, 200), narrow = from_start(straight, 400, 0, 10);
    assert_true(wide.longest <= 200 / straight(N_DECODING) && wide.longest > 160 / straight(N_DECODING));
    assert_int_equal(narrow.last, 1);
}

static void slow_steps_say_little(void **state)
{
    (void)state;
    const outcome still = from_start(straight, 400, 0, 0), noisy = from_start(straight, 400, 7, 0);
    assert_true(noisy.longest <= 2);
    assert_true(noisy.n_prompt * 10 > still.n_prompt * 7);
}

/* Steps of which nothing is known: as many tokens of prompts as there are others. */
static void begins_low(void **state)
{
    (void)state;
    tern_pace p;
    tern_error err = {0};
    assert_ok(tern_pace_init(&p, 16, 0, &err), err);
    assert_int_equal(tern_pace_chunk(&p, 1), 1);
    assert_int_equal(tern_pace_chunk(&p, 4), 4);
    assert_int_equal(tern_pace_chunk(&p, 15), 1);
    tern_pace_learn(&p, 0, 16, 5); /* nobody decodes: nothing is held up */
    tern_pace_learn(&p, 2, 15, 5); /* more than a step takes */
    assert_int_equal(tern_pace_chunk(&p, 4), 4);
    tern_pace_deinit(&p);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(bounds_time),
    cmocka_unit_test(slow_steps_say_little),
    cmocka_unit_test(bounds_milliseconds),
    cmocka_unit_test(begins_low),
};

TEST_GROUP(batch_pace, "", tests);
