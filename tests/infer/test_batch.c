/* Batches: every request gives the bits that it gives alone, whatever else runs and however it is scheduled. */
#include <math.h>

#include "infer/batch_cases.h"

#include "base/bytes.h"
#include "base/file.h"
#include "support/golden.h"

enum { MOST_CASES = 64, QUICK_CASES = 24, N_CTX = 256 };

/* The trained model, and requests with what each gives alone. */
typedef struct batch_fixture {
    tern_engine *engine;
    batch_case cases[MOST_CASES];
} batch_fixture;

static batch_fixture *here;

static uint32_t n_cases(void)
{
    return test_quick() ? QUICK_CASES : MOST_CASES;
}

static int setup(void **state)
{
    (void)state;
    here = calloc(1, sizeof *here);
    here->engine = open_trained(2);
    tern_session *session =
        open_session(here->engine, TERN_SIZED(tern_session_params, .n_ctx = N_CTX, .kv = {TERN_KV_F32, TERN_KV_F32}));
    batch_fill(here->cases, n_cases(), 2000, 19);
    batch_run_alone(session, here->cases, n_cases());
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
    return (tern_batch_params){.size = sizeof(tern_batch_params),
                               .n_parallel = n_parallel,
                               .n_ctx = N_CTX,
                               .n_batch = n_batch,
                               .n_chunk = n_chunk,
                               .kv = {TERN_KV_F32, TERN_KV_F32}};
}

static tern_batch_counters run(tern_batch_params params, uint32_t between, const char *what)
{
    tern_batch *batch = batch_open(here->engine, params);
    tern_batch_counters counts = {.size = sizeof counts};
    batch_run_together(batch, here->cases, n_cases(), between);
    batch_check(here->cases, n_cases(), what);
    tern_batch_count(batch, &counts, NULL);
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
        c[i].params = (tern_request_params){.size = sizeof(tern_request_params),
                                            .prompt = c[i].prompt,
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

/* A completion whose fourth and fifth token are given, and whose grammar counts from the sixth on. */
typedef struct steered {
    tern_request *request;
    int32_t ids[64];
    uint32_t n;
    tern_buf text; /* from the sixth on */
    tern_stop_reason reason;
} steered;

static const int32_t given[] = {7, 8};

static bool steer(void *context, const tern_request_piece *piece)
{
    steered *s = context;
    if (s->n >= 5) assert_int_equal(tern_buf_add(&s->text, piece->text ? piece->text : "", piece->n_text, NULL), 0);
    if (piece->id < 0) return true;
    s->ids[s->n++] = piece->id;
    if (s->n == 3) assert_int_equal(tern_request_force(s->request, piece->index, given, 2, NULL), TERN_OK);
    if (s->n == 3) assert_int_equal(tern_request_force(s->request, 1, given, 2, NULL), TERN_INVALID_ARGUMENT);
    if (s->n == 4)
        tern_request_constrain(s->request, piece->index); /* the token that is still to come is not its own */
    return true;
}

static void take_reason(void *context, const tern_request_result *result)
{
    steered *s = context;
    assert_null(result->error);
    s->reason = result->reason;
}

static void forced_tokens(void **state)
{
    (void)state;
    static const char source[] = "[a-c]{3,9}";
    tern_error err = {0};
    tern_grammar_vocab *vocab;
    tern_grammar *grammar;
    const tern_tokenizer *t = tern_model_tokenizer(tern_engine_model(here->engine));
    assert_ok(tern_grammar_vocab_open(&vocab, t, &err), err);
    assert_ok(tern_grammar_open(&grammar, vocab, TERN_GRAMMAR_REGEX, source, sizeof source - 1, &err), err);
    for (uint32_t drafts = 0; drafts <= 4; drafts += 4) {
        tern_batch *batch = batch_open(here->engine, with(4, 0, 8));
        steered s = {0};
        const tern_request_params params = {.size = sizeof params,
                                            .prompt = here->cases[0].prompt,
                                            .n_prompt = 70,
                                            .sampler = TERN_SAMPLER_DEFAULTS,
                                            .max_tokens = 60,
                                            .grammar = grammar,
                                            .grammar_waits = true,
                                            .draft_tokens = drafts,
                                            .on_piece = steer,
                                            .on_end = take_reason,
                                            .context = &s};
        assert_ok(tern_batch_submit(batch, &params, &s.request, &err), err);
        batch_finish(batch);
        assert_true(s.n > 5);
        assert_memory_equal(s.ids + 3, given, sizeof given);
        assert_in_range(s.text.size, 3, 9);
        for (size_t i = 0; i < s.text.size; i++) assert_in_range(s.text.data[i], 'a', 'c');
        assert_int_equal(s.reason, TERN_STOP_END_TOKEN);
        tern_request_free(s.request);
        tern_batch_close(batch);
        tern_buf_deinit(&s.text);
    }
    tern_grammar_close(grammar);
    tern_grammar_vocab_close(vocab);
}

/* The log-probabilities of a prompt's tokens, and how many of them the pool had. */
typedef struct scored {
    float logprobs[70];
    uint32_t first, n, n_cached;
} scored;

static bool take_score(void *context, const tern_request_piece *piece)
{
    scored *s = context;
    assert_true(piece->prompt);
    s->logprobs[s->n++] = piece->logprob;
    return s->n < 70;
}

static void take_cached(void *context, const tern_request_result *result)
{
    scored *s = context;
    assert_null(result->error);
    s->n_cached = result->n_cached;
}

static tern_request *submit_scored(tern_batch *batch, const int32_t *prompt, scored *s)
{
    tern_error err = {0};
    tern_request *request;
    const tern_request_params params = {.size = sizeof params,
                                        .prompt = prompt,
                                        .n_prompt = 70,
                                        .sampler = TERN_SAMPLER_DEFAULTS,
                                        .echo = true,
                                        .echo_from = s->first,
                                        .logprobs = true,
                                        .on_piece = take_score,
                                        .on_end = take_cached,
                                        .context = s};
    s->n = s->first;
    assert_ok(tern_batch_submit(batch, &params, &request, &err), err);
    return request;
}

/* From any token on they are those of the whole prompt, bit for bit; what lies before comes from the pool. */
static void scored_from_any_token(void **state)
{
    (void)state;
    static const uint32_t firsts[] = {1, 2, 31, 32, 33, 40, 64, 69};
    enum { N = sizeof firsts / sizeof *firsts };
    const int32_t *prompt = here->cases[0].prompt;
    scored all = {.first = 0}, parts[N] = {{{0}, 0, 0, 0}};
    tern_request *requests[N];
    for (uint32_t outputs = 4; outputs <= 64; outputs *= 4) {
        tern_batch_params params = with(4, 16, 5);
        params.max_outputs = outputs;
        tern_batch *batch = batch_open(here->engine, params);
        tern_request_free(submit_scored(batch, prompt, &all));
        tern_batch_close(batch);
        batch = batch_open(here->engine, params);
        requests[0] = submit_scored(batch, prompt, &all);
        batch_finish(batch);
        tern_request_free(requests[0]);
        assert_int_equal(all.n, 70);
        assert_true(isnan(all.logprobs[0]) && all.logprobs[1] < 0);
        for (uint32_t i = 0; i < N; i++) {
            parts[i].first = firsts[i];
            requests[i] = submit_scored(batch, prompt, &parts[i]);
        }
        batch_finish(batch);
        for (uint32_t i = 0; i < N; i++) {
            tern_request_free(requests[i]);
            assert_int_equal(parts[i].n, 70);
            assert_true(parts[i].n_cached < firsts[i]);
            if (firsts[i] > 32) assert_true(parts[i].n_cached >= 32);
            assert_memory_equal(parts[i].logprobs + firsts[i], all.logprobs + firsts[i],
                                (70 - firsts[i]) * sizeof(float));
        }
        tern_batch_close(batch);
    }
}

static uint32_t restore(tern_batch *batch, const char *path, const char *words)
{
    tern_error err = {0};
    uint32_t n = 0;
    const tern_status status = tern_batch_restore(batch, path, &n, &err);
    if (!words) assert_ok(status, err);
    else if (status == TERN_OK || !strstr(err.message, words)) fail_msg("%s: %s expected", err.message, words);
    return n;
}

/* Saves the pages of a batch that has run n cases, the last `running` of which still run. */
static uint32_t save_after(const char *path, uint32_t cases, uint32_t running)
{
    tern_error err = {0};
    uint32_t n;
    bool busy;
    tern_batch *batch = batch_open(here->engine, with(64, 0, 0));
    batch_run_together(batch, here->cases, cases - running, 0);
    for (uint32_t i = cases - running; i < cases; i++) batch_submit(batch, &here->cases[i]);
    for (uint32_t i = 0; i < running; i++) assert_ok(tern_batch_step(batch, &busy, &err), err);
    assert_ok(tern_batch_save(batch, path, &n, &err), err);
    batch_finish(batch);
    batch_check(here->cases, cases, "saved beside");
    tern_batch_close(batch);
    return n;
}

/* Guesses of a model, its own or another one's, change nothing but the number of steps. */
static void drafted(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_engine *other;
    uint32_t before[MOST_CASES];
    for (uint32_t i = 0; i < n_cases(); i++) {
        before[i] = here->cases[i].params.draft_tokens;
        here->cases[i].params.draft_tokens = 1 + i % 5;
    }
    const tern_engine_params f32 = {.backend = {.n_threads = 2}, .f32_activations = true};
    tern_model *model;
    assert_ok(tern_model_open(&model, test_model("tiny-stories-bitnet"), &(tern_model_options){0}, &err), err);
    assert_ok(tern_engine_open(&other, model, &f32, &err), err);
    tern_batch_params params = with(8, 0, 0);
    params.draft_costs = equal_costs;
    params.draft = here->engine;
    const tern_batch_counters own = run(params, 0, "guessed by the model itself");
    params.draft = other;
    const tern_batch_counters others = run(params, 1, "guessed by another");
    assert_true(own.drafted_tokens > (test_quick() ? 2 : n_cases() / 4)); /* the later requests draft most */
    assert_true(own.accepted_tokens * 10 > own.drafted_tokens * 8);
    assert_true(own.accepted_tokens <= own.drafted_tokens);
    assert_true(others.accepted_tokens > 0 && others.accepted_tokens <= others.drafted_tokens);
    params.cache_bytes = bytes_of_pages(N_CTX / TERN_PAGE_SIZE);
    assert_true(run(params, 0, "guessed, in a pool for one").preemptions > 0);
    for (uint32_t i = 0; i < n_cases(); i++) here->cases[i].params.draft_tokens = before[i];
    tern_engine_close(other);
    tern_batch *none;
    tern_engine *foreign = test_engine(test_fixture("bitnet"), NULL);
    params.draft = foreign;
    assert_int_equal(tern_batch_open(&none, here->engine, &params, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "draft model with a vocabulary of"));
    tern_engine_close(foreign);
}

/* Restored pages are found, in a large pool and in a small one, and texts stay as they are. */
static void saved_pages(void **state)
{
    (void)state;
    const char *path = test_scratch("pages");
    for (uint32_t small = 0; small < 2; small++) {
        const uint32_t cases = small ? n_cases() / 4 : n_cases();
        const uint32_t n = save_after(path, cases, 6 * small);
        tern_batch_params params = with(small ? 8 : 64, 0, 0);
        if (small) params.cache_bytes = bytes_of_pages(N_CTX / TERN_PAGE_SIZE);
        tern_batch *batch = batch_open(here->engine, params);
        tern_batch_counters before = {.size = sizeof before};
        assert_int_equal(restore(batch, path, NULL), small ? N_CTX / TERN_PAGE_SIZE : n);
        tern_batch_count(batch, &before, NULL);
        assert_int_equal(before.pages_cached, small ? N_CTX / TERN_PAGE_SIZE : n);
        uint32_t forgotten;
        assert_int_equal(restore(batch, path, NULL), before.pages_cached); /* none of them twice */
        assert_int_equal(tern_batch_forget(batch, &forgotten, NULL), TERN_OK);
        assert_int_equal(forgotten, before.pages_cached);
        tern_batch_count(batch, &before, NULL);
        assert_int_equal(before.pages_cached, 0);
        batch_run_together(batch, here->cases, cases / 4, 0);
        batch_check(here->cases, cases / 4, "forgotten");
        assert_true(restore(batch, path, NULL) > 0); /* beside what others have left */
        batch_run_together(batch, here->cases, cases, 0);
        batch_check(here->cases, cases, "restored");
        for (uint32_t i = 0; i < n_cases() && !small; i++) { /* all pages of a prompt, but its last token's */
            const tern_request_result *r = &here->cases[i].together[0].result;
            assert_in_range(r->n_cached, (r->n_prompt - 1) / TERN_PAGE_SIZE * TERN_PAGE_SIZE, r->n_prompt - 1);
        }
        tern_batch_close(batch);
    }
    remove(path);
}

/* What is damaged or of others is refused by name, the pool stays empty, and other people's files stay as they are. */
static void refused_pages(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_buf file = {0};
    const char *path = test_scratch("pages-bad");
    save_after(path, n_cases() / 4, 0);
    assert_ok(tern_file_read(&file, path, (size_t)1 << 28, &err), err);
    tern_batch *batch = batch_open(here->engine, with(8, 0, 0));
    static const struct {
        size_t at;
        const char *words;
    } changes[] = {{0, "not a file of saved pages"},
                   {8, "version"},
                   {12, "the cache is"},
                   {16, "another model"},
                   {24, "bytes behind"},
                   {28, "caches with pages"},
                   {32, "caches with pages"},
                   {40, "damaged"},
                   {60, "damaged"},
                   {200, "damaged"},
                   {50000, "damaged"}};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        file.data[changes[i].at] ^= 4;
        test_write_file(path, file.data, file.size);
        assert_int_equal(restore(batch, path, changes[i].words), 0);
        file.data[changes[i].at] ^= 4;
    }
    static const size_t cuts[] = {0, 7, 39, 40, 1000};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        test_write_file(path, file.data, cuts[i]);
        assert_int_equal(restore(batch, path, path), 0);
    }
    test_write_file(path, file.data, file.size);
    tern_batch_params f16 = with(8, 0, 0);
    f16.kv = (tern_kv_types){TERN_KV_F16, TERN_KV_F16};
    tern_batch *other = batch_open(here->engine, f16);
    restore(other, path, "the cache is f32: f16 expected");
    tern_batch_close(other);
    assert_true(restore(batch, path, NULL) > 0); /* nothing before has left pages behind */
    test_write_file(path, "precious", 8);
    uint32_t n;
    assert_int_equal(tern_batch_save(batch, path, &n, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "it was not changed"));
    tern_batch_close(batch);
    tern_buf_deinit(&file);
    remove(path);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(any_company),   cmocka_unit_test(any_chunks),    cmocka_unit_test(without_reuse),
    cmocka_unit_test(small_pool),    cmocka_unit_test(wishes),        cmocka_unit_test(scored_from_any_token),
    cmocka_unit_test(saved_pages),   cmocka_unit_test(refused_pages), cmocka_unit_test(drafted),
    cmocka_unit_test(forced_tokens),
};

TEST_GROUP(batch, "threads", tests, .setup = setup, .teardown = teardown);
