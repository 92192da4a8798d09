/* Batches in which the model's own block drafts tokens: its guesses, and texts that are those without it. */
#include "infer/batch/batch_internal.h"
#include "infer/batch_cases.h"
#include "support/golden.h"

enum { GUESSES = 4, CTX = 256, N_CASES = 24, N_COSTS = 64 };

static const tern_kv_types kv = {TERN_KV_F32, TERN_KV_F32};
static tern_error err;

static tern_engine *open_with_block(const char *name)
{
    tern_model *model;
    tern_engine *engine;
    const tern_engine_params params = {.backend.n_threads = 1};
    const tern_model_options how = {.no_tokenizer = true, .mtp = true};
    assert_ok(tern_model_open(&model, test_fixture(name), &how, &err), err);
    assert_ok(tern_engine_open(&engine, model, &params, &err), err);
    return engine;
}

static const int32_t *golden_ids(const tern_safetensors *st, const char *name, uint32_t *n)
{
    const tern_st_tensor *t = tern_safetensors_find(st, name);
    *n = (uint32_t)t->dims[t->n_dims - 1];
    return (const int32_t *)(const void *)t->data;
}

/* Steps as long as the request has no guesses. */
static const tern_sequence *first_guesses(tern_batch *batch)
{
    for (uint32_t i = 0; i < CTX; i++) {
        bool busy;
        assert_ok(tern_batch_step(batch, &busy, &err), err);
        if (batch->n_running && batch->running[0]->n_drafted) return batch->running[0];
    }
    return NULL;
}

/* Those of a block in plain Python, however the prompt is cut into steps. */
static void golden_guesses(void **state)
{
    (void)state;
    tern_safetensors *model, *block;
    assert_ok(tern_safetensors_open(&model, test_fixture("qwen3_5/golden.safetensors"), &err), err);
    assert_ok(tern_safetensors_open(&block, test_fixture("qwen3_5_mtp/golden_mtp.safetensors"), &err), err);
    uint32_t n, n_guesses, one;
    const int32_t *ids = golden_ids(model, "0.input_ids", &n), *guesses = golden_ids(block, "guesses", &n_guesses);
    static batch_case c;
    tern_engine *engine = open_with_block("qwen3_5_mtp");
    assert_int_equal(n_guesses, GUESSES);
    memcpy(c.prompt, ids, n * sizeof *ids);
    c.params = TERN_SIZED(tern_request_params, .prompt = c.prompt, .n_prompt = n, .max_tokens = 9, .draft_tokens = 4,
                          .sampler = TERN_SAMPLER_DEFAULTS);
    c.params.sampler.temperature = 0;
    for (uint32_t n_batch = 1; n_batch <= n + 1; n_batch++) {
        tern_batch *batch = batch_open(engine, TERN_SIZED(tern_batch_params, .n_parallel = 1, .n_ctx = CTX, .kv = kv,
                                                          .n_batch = n_batch < 5 ? 5 : n_batch, .n_chunk = n_batch,
                                                          .mtp = true, .draft_costs = equal_costs));
        batch_submit(batch, &c);
        const tern_sequence *s = first_guesses(batch);
        assert_non_null(s);
        assert_int_equal(c.together[0].ids[0], *golden_ids(block, "next", &one));
        assert_int_equal(s->n_model_drafted, GUESSES);
        assert_memory_equal(s->draft_ids, guesses, GUESSES * sizeof *guesses);
        batch_finish(batch);
        tern_request_free(c.request);
        tern_batch_close(batch);
    }
    tern_engine_close(engine);
    tern_safetensors_close(model);
    tern_safetensors_close(block);
}

/* Runs the requests together in such a batch: each has the text that it has alone. */
static tern_batch_counters run(tern_engine *engine, batch_case *cases, uint32_t n, tern_batch_params params,
                               const char *what)
{
    tern_batch_counters counts = {.size = sizeof counts};
    params.n_ctx = CTX;
    params.kv = kv;
    params.mtp = true;
    tern_batch *batch = batch_open(engine, params);
    for (uint32_t turn = 0; turn < 2; turn++) { /* the second one finds pages of the first */
        batch_run_together(batch, cases, n, turn);
        batch_check(cases, n, what);
    }
    assert_ok(tern_batch_count(batch, &counts, &err), err);
    assert_int_equal(counts.running + counts.waiting, 0);
    print_message("%s: %llu drafted, %llu accepted, %llu preempted\n", what, (unsigned long long)counts.drafted_tokens,
                  (unsigned long long)counts.accepted_tokens, (unsigned long long)counts.preemptions);
    tern_batch_close(batch);
    return counts;
}

/* Requests of all kinds: greedy and drawn, several completions, prompts that begin alike; with few and many states, a
 * pool that is too small for all, and steps of a few tokens. */
static void same_texts(void **state)
{
    (void)state;
    double free_guesses[N_COSTS];
    for (uint32_t i = 0; i < N_COSTS; i++) free_guesses[i] = 1;
    tern_engine *engine = open_with_block("qwen3_5_mtp");
    batch_case *cases = calloc(N_CASES, sizeof *cases);
    const uint32_t n = test_quick() ? N_CASES / 2 : N_CASES;
    batch_fill(cases, n, tern_engine_config(engine)->n_vocab, 11);
    for (uint32_t i = 0; i < n; i++) cases[i].params.draft_tokens = i % 5;
    tern_session *session = open_session(engine, TERN_SIZED(tern_session_params, .n_ctx = CTX, .kv = kv));
    batch_run_alone(session, cases, n);
    tern_session_close(session);
    const tern_batch_params all[] = {
        TERN_SIZED(tern_batch_params, .n_parallel = 6, .max_outputs = 40, .draft_costs = free_guesses),
        TERN_SIZED(tern_batch_params, .n_parallel = 4, .n_batch = 40, .n_chunk = 7, .n_state_checkpoints = 1,
                   .draft_costs = free_guesses),
        TERN_SIZED(tern_batch_params, .n_parallel = 5, .n_state_checkpoints = 40, .draft_costs = free_guesses,
                   .cache_bytes = 4ull * 2 * 2 * 2 * 32 * CTX),
        TERN_SIZED(tern_batch_params, .n_parallel = 3, .no_prefix_reuse = true, .draft_costs = free_guesses),
        TERN_SIZED(tern_batch_params, .n_parallel = 3)};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char what[16];
        snprintf(what, sizeof what, "case %zu", i);
        const tern_batch_counters counts = run(engine, cases, n, all[i], what);
        assert_true(counts.accepted_tokens <= counts.drafted_tokens);
        if (!all[i].draft_costs) continue;
        assert_true(counts.accepted_tokens > 20 && counts.accepted_tokens < counts.drafted_tokens);
    }
    free(cases);
    tern_engine_close(engine);
}

static void refused(void **state)
{
    (void)state;
    static const char *const names[] = {"qwen3_5", "llama"};
    tern_batch *batch;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        tern_engine *engine = open_with_block(names[i]);
        const tern_batch_params params = {.size = sizeof params, .n_ctx = 32, .mtp = true};
        assert_int_equal(tern_batch_open(&batch, engine, &params, &err), TERN_UNSUPPORTED);
        assert_null(batch);
        assert_non_null(strstr(err.message, "drafting by the model's own block: none was read"));
        const tern_batch_params both = {.size = sizeof both, .n_ctx = 32, .mtp = true, .draft = engine};
        assert_int_equal(tern_batch_open(&batch, engine, &both, &err), TERN_INVALID_ARGUMENT);
        assert_non_null(strstr(err.message, "a draft model and the model's own block: one of them expected"));
        tern_engine_close(engine);
    }
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(golden_guesses), cmocka_unit_test(same_texts),
                                          cmocka_unit_test(refused)};
TEST_GROUP(batch_mtp, "threads", tests);
