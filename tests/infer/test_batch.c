/* Batches: every request gives the bits that it gives alone, whatever else runs and however it is scheduled. */
#include "infer/batch_cases.h"

enum { N_CASES = 64, N_CTX = 256 };

/* The trained model, and requests with what each gives alone. */
typedef struct batch_fixture {
    tern_engine *engine;
    batch_case cases[N_CASES];
} batch_fixture;

static batch_fixture *here;

static int setup(void **state)
{
    (void)state;
    here = calloc(1, sizeof *here);
    here->engine = open_trained(2);
    tern_session *session = open_session(here->engine, (tern_session_params){.n_ctx = N_CTX, .kv = TERN_KV_F32});
    batch_fill(here->cases, N_CASES, 4000, 17);
    batch_run_alone(session, here->cases, N_CASES);
    tern_session_close(session);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tern_engine_close(here->engine);
    free(here);
    return 0;
}

static tern_batch_params with(uint32_t n_parallel, uint32_t n_batch, uint32_t n_chunk)
{
    return (tern_batch_params){
        .n_parallel = n_parallel, .n_ctx = N_CTX, .n_batch = n_batch, .n_chunk = n_chunk, .kv = TERN_KV_F32};
}

static tern_batch_counters run(tern_batch_params params, uint32_t between, const char *what)
{
    tern_batch *batch = batch_open(here->engine, params);
    tern_batch_counters counts;
    batch_run_together(batch, here->cases, N_CASES, between);
    batch_check(here->cases, N_CASES, what);
    tern_batch_count(batch, &counts);
    assert_int_equal(counts.running + counts.waiting + counts.pages_used, 0);
    tern_batch_close(batch);
    return counts;
}

static void any_company(void **state)
{
    (void)state;
    run(with(8, 0, 0), 0, "8 at once");
    run(with(1, 0, 0), 0, "one after the other");
    run(with(64, 0, 0), 1, "arriving step by step");
}

static void any_chunks(void **state)
{
    (void)state;
    run(with(5, 0, 1), 2, "chunks of 1");
    run(with(8, 16, 7), 2, "chunks of 7");
    run(with(16, 512, 512), 1, "chunks of 512");
}

static void without_reuse(void **state)
{
    (void)state;
    tern_batch_params params = with(8, 0, 16);
    params.no_prefix_reuse = true;
    const tern_batch_counters counts = run(params, 1, "no reuse");
    assert_int_equal(counts.pages_cached, 0);
}

/* Bytes of so many pages of the trained model. */
static uint64_t bytes_of_pages(uint32_t n)
{
    const tern_config *c = tern_engine_config(here->engine);
    return (uint64_t)n * 2 * c->n_layers * c->n_kv_heads * c->head_dim * TERN_PAGE_SIZE * sizeof(float);
}

static void small_pool(void **state)
{
    (void)state;
    tern_batch_params params = with(16, 0, 32);
    params.cache_bytes = bytes_of_pages(N_CTX / TERN_PAGE_SIZE);
    assert_true(run(params, 0, "a pool for one").preemptions > 0);
    params.no_prefix_reuse = true;
    assert_true(run(params, 0, "a pool for one, no reuse").preemptions > 0);
}

/* Two completions of each kind of wish beside others: a grammar, the prompt's log-probabilities, and a cancelled one.
 */
static void wishes(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_grammar_vocab *vocab;
    tern_grammar *grammar;
    const char source[] = "[a-c]{3,9}";
    const tern_tokenizer *t = tern_model_tokenizer(tern_engine_model(here->engine));
    assert_ok(tern_grammar_vocab_open(&vocab, t, &err), err);
    assert_ok(tern_grammar_open(&grammar, vocab, TERN_GRAMMAR_REGEX, source, sizeof source - 1, &err), err);
    tern_batch *batch = batch_open(here->engine, with(4, 0, 8));
    batch_case *c = calloc(4, sizeof *c);
    for (uint32_t i = 0; i < 4; i++) {
        c[i].params = (tern_request_params){.prompt = c[i].prompt,
                                            .n_prompt = 70,
                                            .n = 2,
                                            .sampler = TERN_SAMPLER_DEFAULTS,
                                            .max_tokens = 40,
                                            .ignore_eos = true,
                                            .echo = i == 1,
                                            .logprobs = i == 1,
                                            .n_top_logprobs = 3,
                                            .grammar = i == 0 ? grammar : NULL};
        memcpy(c[i].prompt, here->cases[0].prompt, sizeof c[i].prompt);
        batch_submit(batch, &c[i]);
    }
    tern_request_cancel(c[2].request);
    tern_request_free(c[3].request);
    batch_finish(batch);
    for (uint32_t k = 0; k < 2; k++) {
        const batch_text *constrained = &c[0].together[k], *echoed = &c[1].together[k];
        assert_string_equal(constrained->error, "");
        assert_in_range(constrained->n_text, 3, 9);
        assert_int_equal(strspn(constrained->text, "abc"), constrained->n_text);
        assert_int_equal(constrained->reason, TERN_STOP_END_TOKEN);
        assert_int_equal(echoed->n_echoed, 70);
        assert_true(echoed->result.logprob < 0);
        assert_int_equal(c[2].together[k].reason, TERN_STOP_CALLER);
        assert_int_equal(c[2].together[k].n_ends + c[3].together[k].n_ends, 2);
    }
    for (uint32_t i = 0; i < 3; i++) tern_request_free(c[i].request);
    tern_batch_close(batch);
    tern_grammar_close(grammar);
    tern_grammar_vocab_close(vocab);
    free(c);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(any_company), cmocka_unit_test(any_chunks), cmocka_unit_test(without_reuse),
    cmocka_unit_test(small_pool),  cmocka_unit_test(wishes),
};

TEST_GROUP(batch, "threads", tests, .setup = setup, .teardown = teardown);
