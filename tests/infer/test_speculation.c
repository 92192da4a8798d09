/* How many guesses a step takes along, on texts and devices that are made up: the time that they take is summed. */
#include "support/kernels.h"
#include "support/test.h"

#include "base/alloc.h"
#include "infer/draft/draft.h"
#include "infer/draft/speculation.h"

enum { N = 2000, MOST = 8, ROWS = MOST + 1 };

/* Milliseconds of a step of n tokens. */
typedef double (*device)(uint32_t n);

/* What a step takes is reading the weights. */
static double flat(uint32_t n)
{
    return 40 + 0.2 * n;
}

/* What it takes is arithmetic: each token as much as the one before. */
static double straight(uint32_t n)
{
    return 40.0 * n;
}

/* Both. */
static double growing(uint32_t n)
{
    return 36 + 4.0 * n;
}

/* Kernels of four tokens at a time. */
static double steps_of_four(uint32_t n)
{
    return 30 + 12.0 * ((n + 3) / 4);
}

/* Token i of a text. */
typedef int32_t (*text)(const int32_t *tokens, uint32_t i, tern_rng *rng);

static int32_t random_text(const int32_t *tokens, uint32_t i, tern_rng *rng)
{
    (void)tokens, (void)i;
    return (int32_t)tern_rng_below(rng, 50);
}

/* What came 100 tokens before, but for one token in 40. */
static int32_t edited_text(const int32_t *tokens, uint32_t i, tern_rng *rng)
{
    return i < 100 || tern_rng_below(rng, 40) == 0 ? (int32_t)(1000 + i) : tokens[i - 100];
}

/* Random, then edited. */
static int32_t turning_text(const int32_t *tokens, uint32_t i, tern_rng *rng)
{
    return i < N / 2 ? random_text(tokens, i, rng) : edited_text(tokens, i, rng);
}

typedef struct outcome {
    double ms, plain_ms; /* of all steps, and of one for each token */
    uint32_t n_steps, n_drafted, n_accepted;
} outcome;

/* Look-up over a text that is known already, as a generation of exactly this text does it. slow: every so many steps
 * one takes five times as long for other reasons; 0: none. */
static outcome run(text t, device d, uint32_t slow, const double *given)
{
    tern_error err = {0};
    tern_draft draft;
    tern_step_costs costs;
    tern_accept_rates rates;
    tern_rng rng = {.state = 19};
    static int32_t tokens[N];
    outcome o = {0};
    for (uint32_t i = 0; i < N; i++) tokens[i] = t(tokens, i, &rng);
    assert_ok(tern_draft_init(&draft, N, &err), err);
    assert_ok(tern_step_costs_init(&costs, ROWS, given, &err), err);
    tern_accept_rates_init(&rates);
    tern_draft_reset(&draft, tokens, 1);
    for (uint32_t at = 1; at < N; o.n_steps++) {
        int32_t guesses[MOST], next;
        const tern_step_plan plan = {1, 1};
        const uint32_t match = tern_draft_match(&draft, 1, &next), left = N - at - 1;
        uint32_t n = match ? tern_speculate(&costs, &rates, &plan, match, left < MOST ? left : MOST) : 0, n_right = 0;
        tern_draft_propose(&draft, 1, guesses, n);
        while (n_right < n && guesses[n_right] == tokens[at + n_right]) n_right++;
        for (uint32_t end = at + n_right + 1; at < end; at++) {
            const uint32_t found = tern_draft_match(&draft, 1, &next);
            if (found) tern_accept_rates_learn(&rates, found, next == tokens[at]);
            tern_draft_add(&draft, tokens[at]);
        }
        o.n_drafted += n;
        o.n_accepted += n_right;
        o.ms += d(1 + n);
        tern_step_costs_learn(&costs, 1 + n, slow && o.n_steps % slow == 0 ? 5 * d(1 + n) : d(1 + n));
    }
    o.plain_ms = (N - 1) * d(1);
    assert_int_equal(o.n_steps + o.n_accepted, N - 1);
    tern_step_costs_deinit(&costs);
    tern_draft_deinit(&draft);
    return o;
}

/* Where nothing repeats, nothing is lost to speak of. */
static void off_where_nothing_repeats(void **state)
{
    static const device devices[] = {straight, growing, steps_of_four};
    (void)state;
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        const outcome o = run(random_text, devices[i], 0, NULL);
        if (devices[i] != steps_of_four) assert_in_range(o.n_drafted, 0, N / 50); /* where three more cost nothing */
        assert_true(o.ms <= 1.02 * o.plain_ms);
    }
}

/* Where a step takes as long as its tokens, no guess pays, however right. */
static void off_where_steps_cost_their_tokens(void **state)
{
    (void)state;
    const outcome o = run(edited_text, straight, 0, NULL);
    assert_in_range(o.n_drafted, 0, N / 50);
    assert_true(o.ms <= 1.02 * o.plain_ms);
}

static void on_where_text_repeats(void **state)
{
    (void)state;
    const outcome o = run(edited_text, flat, 0, NULL), four = run(edited_text, steps_of_four, 0, NULL);
    printf("edits: %.1f and %.1f times as fast\n", o.plain_ms / o.ms, four.plain_ms / four.ms);
    assert_true(o.plain_ms > 4 * o.ms);
    assert_true(four.plain_ms > 2 * four.ms);
}

/* It is seen that text begins to repeat although nothing was drafted for long. */
static void on_again(void **state)
{
    (void)state;
    const outcome random = run(random_text, steps_of_four, 0, NULL), o = run(turning_text, steps_of_four, 0, NULL);
    assert_true(o.n_accepted > random.n_accepted + N / 4);
    assert_true(o.plain_ms > 1.3 * o.ms);
}

/* Steps that were held up by something else change little. */
static void slow_steps(void **state)
{
    (void)state;
    for (uint32_t slow = 2; slow < 9; slow++) {
        const outcome o = run(edited_text, steps_of_four, slow, NULL);
        assert_true(o.plain_ms > 1.7 * o.ms);
    }
}

/* Given costs decide, whatever steps take. */
static void costs_are_given(void **state)
{
    double same[ROWS], dear[ROWS];
    (void)state;
    for (uint32_t i = 0; i < ROWS; i++) {
        same[i] = 1;
        dear[i] = i + 1;
    }
    assert_int_equal(run(random_text, flat, 0, dear).n_drafted, 0);
    assert_int_equal(run(edited_text, flat, 0, dear).n_drafted, 0);
    assert_true(run(edited_text, straight, 0, same).n_accepted > N / 2);
}

/* A model's guesses: they cost time of their own; after bad ones it is asked again, seldom. */
static void guesses_of_a_model(void **state)
{
    (void)state;
    const double same[ROWS] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    const tern_step_plan plan = {1, 1};
    tern_error err = {0};
    tern_step_costs costs;
    tern_accept_rates rates;
    uint32_t n_asked = 0;
    assert_ok(tern_step_costs_init(&costs, ROWS, same, &err), err);
    tern_accept_rates_init(&rates);
    for (uint32_t i = 0; i < 20; i++) tern_accept_rates_learn(&rates, TERN_DRAFT_BY_MODEL, true);
    assert_int_equal(tern_speculate(&costs, &rates, &plan, TERN_DRAFT_BY_MODEL, MOST), MOST);
    rates.model_ms = 0.2;
    assert_in_range(tern_speculate(&costs, &rates, &plan, TERN_DRAFT_BY_MODEL, MOST), 2, MOST);
    rates.model_ms = 1.1;
    assert_int_equal(tern_speculate(&costs, &rates, &plan, TERN_DRAFT_BY_MODEL, MOST), 0);
    rates.model_ms = 0.2;
    for (uint32_t i = 0; i < 200; i++) {
        const uint32_t n = tern_speculate(&costs, &rates, &plan, TERN_DRAFT_BY_MODEL, MOST);
        n_asked += n > 0;
        if (n) tern_accept_rates_learn(&rates, TERN_DRAFT_BY_MODEL, false);
    }
    assert_in_range(n_asked, 2, 60);
    tern_step_costs_deinit(&costs);
}

/* Beside other sequences of a step that takes as long as its tokens nothing pays; where it does not, all of it. */
static void beside_others(void **state)
{
    (void)state;
    double same[3 * ROWS], dear[3 * ROWS];
    const tern_step_plan plan = {2 * ROWS, 2 * ROWS};
    tern_error err = {0};
    tern_step_costs costs;
    tern_accept_rates rates;
    for (uint32_t i = 0; i < 3 * ROWS; i++) {
        same[i] = 1;
        dear[i] = i < 2 * ROWS ? 1 : i;
    }
    tern_accept_rates_init(&rates);
    for (uint32_t i = 0; i < 20; i++) tern_accept_rates_learn(&rates, TERN_DRAFT_LONGEST_MATCH, true);
    assert_ok(tern_step_costs_init(&costs, 3 * ROWS, same, &err), err);
    assert_int_equal(tern_speculate(&costs, &rates, &plan, TERN_DRAFT_LONGEST_MATCH, MOST), MOST);
    assert_true(tern_accept_rates_expect(&rates, TERN_DRAFT_LONGEST_MATCH, MOST) > MOST / 2.0);
    costs.given = dear;
    assert_int_equal(tern_speculate(&costs, &rates, &plan, TERN_DRAFT_LONGEST_MATCH, MOST), 0);
    tern_step_costs_deinit(&costs);
}

static void out_of_memory(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_step_costs costs;
    const int64_t live = tern_alloc_live();
    for (uint64_t n = 1; n <= 2; n++) {
        tern_alloc_fail_after(n, false);
        assert_int_equal(tern_step_costs_init(&costs, ROWS, NULL, &err), TERN_OUT_OF_MEMORY);
        tern_alloc_fail_after(0, false);
        assert_int_equal(tern_alloc_live(), live);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(off_where_nothing_repeats),
    cmocka_unit_test(off_where_steps_cost_their_tokens),
    cmocka_unit_test(on_where_text_repeats),
    cmocka_unit_test(on_again),
    cmocka_unit_test(slow_steps),
    cmocka_unit_test(costs_are_given),
    cmocka_unit_test(guesses_of_a_model),
    cmocka_unit_test(beside_others),
    cmocka_unit_test(out_of_memory),
};

TEST_GROUP(speculation, "web", tests);
