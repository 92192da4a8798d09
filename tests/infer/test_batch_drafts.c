/* How many tokens a batch guesses: as many as pay. */
#include "infer/batch_cases.h"

enum { N_CASES = 4, N_COSTS = 24 /* rows of logits that 8 sequences have by default */, REPEATS = 8, WORDS = 5 };

static const tern_kv_types f32 = {TERN_KV_F32, TERN_KV_F32};
static tern_engine *engine;

static int setup(void **state)
{
    (void)state;
    engine = open_trained(2);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tern_engine_close(engine);
    return 0;
}

/* Requests whose prompts say the same words again and again. */
static void fill(batch_case cases[N_CASES], uint32_t draft_tokens)
{
    for (uint32_t i = 0; i < N_CASES; i++) {
        batch_case *c = &cases[i];
        c->params.draft_tokens = draft_tokens;
        c->params.sampler = (tern_sampler_params)TERN_SAMPLER_DEFAULTS;
        c->params.sampler.temperature = 0;
        c->params.max_tokens = 60;
        c->params.ignore_eos = true;
        c->params.prompt = c->prompt;
        c->params.n_prompt = WORDS * REPEATS;
        for (uint32_t k = 0; k < WORDS * REPEATS; k++) c->prompt[k] = (int32_t)(100 + 10 * i + k % WORDS);
    }
}

/* Runs them together; their text is what each gives alone. */
static tern_batch_counters run(batch_case cases[N_CASES], const double *costs, uint32_t draft_tokens, const char *what)
{
    tern_batch_counters counts = {.size = sizeof counts};
    fill(cases, draft_tokens);
    tern_batch *batch = batch_open(
        engine, TERN_SIZED(tern_batch_params, .n_parallel = 8, .n_ctx = 256, .kv = f32, .draft_costs = costs));
    batch_run_together(batch, cases, N_CASES, 0);
    batch_check(cases, N_CASES, what);
    tern_batch_count(batch, &counts, NULL);
    tern_batch_close(batch);
    return counts;
}

/* Where a guess costs as much as a token, none; where it costs nothing, so many that steps are saved; where those above
 * six rows are dear, none beyond them. */
static void as_many_as_pay(void **state)
{
    (void)state;
    static batch_case cases[N_CASES];
    double dear[N_COSTS], cliff[N_COSTS];
    for (uint32_t i = 0; i < N_COSTS; i++) dear[i] = i + 1;
    for (uint32_t i = 0; i < N_COSTS; i++) cliff[i] = i < 6 ? 1 : 100;
    fill(cases, 0);
    tern_session *session = open_session(engine, TERN_SIZED(tern_session_params, .n_ctx = 256, .kv = f32));
    batch_run_alone(session, cases, N_CASES);
    tern_session_close(session);
    const tern_batch_counters without = run(cases, NULL, 0, "without guesses"), none = run(cases, dear, 6, "dear"),
                              many = run(cases, equal_costs, 6, "free"), few = run(cases, cliff, 6, "a cliff");
    assert_int_equal(without.drafted_tokens, 0);
    assert_int_equal(none.drafted_tokens, 0);
    assert_int_equal(none.steps, without.steps);
    assert_true(many.accepted_tokens > 20 && many.accepted_tokens <= many.drafted_tokens);
    assert_true(many.steps < without.steps);
    assert_true(few.drafted_tokens > 0);
    assert_true(few.drafted_tokens + few.generated_tokens - few.accepted_tokens <= 6 * few.steps + N_CASES);
}

/* By times that are measured: whatever they are, the text stays. */
static void measured(void **state)
{
    (void)state;
    static batch_case cases[N_CASES];
    fill(cases, 0);
    tern_session *session = open_session(engine, TERN_SIZED(tern_session_params, .n_ctx = 256, .kv = f32));
    batch_run_alone(session, cases, N_CASES);
    tern_session_close(session);
    const tern_batch_counters counts = run(cases, NULL, 6, "measured");
    assert_true(counts.accepted_tokens <= counts.drafted_tokens);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(as_many_as_pay), cmocka_unit_test(measured)};

TEST_GROUP(batch_drafts, "threads", tests, .setup = setup, .teardown = teardown);
