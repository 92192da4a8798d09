/* Layers that recur keep states instead of keys and values: whatever a session does, it gives the logits of a fresh one
 * that has evaluated its tokens. */
#include "base/file.h"
#include "base/rng.h"
#include "infer/batch_cases.h"
#include "infer/session/internal.h"
#include "infer/support.h"
#include "support/golden.h"
#include "support/kernels.h"
#include "support/logits.h"

enum { CTX = 256, BATCH = 24, N_MOVES = 60, MAX_APPEND = 40 };

typedef struct pair {
    tern_engine *engine;
    tern_session *moved;
    uint32_t n_vocab;
} pair;

static tern_error err;

static tern_session *session_of(const pair *p)
{
    tern_session *session = NULL;
    const tern_session_params params = {.size = sizeof params, .n_ctx = CTX, .n_batch = BATCH};
    assert_ok(tern_session_open(&session, p->engine, &params, &err), err);
    return session;
}

static pair open_pair(const char *name)
{
    pair p = {.engine = test_engine(test_fixture(name), NULL)};
    p.n_vocab = tern_engine_config(p.engine)->n_vocab;
    p.moved = session_of(&p);
    return p;
}

static void close_pair(pair *p)
{
    tern_session_close(p->moved);
    tern_engine_close(p->engine);
}

/* The bits of a session that has evaluated the same tokens in one go. */
static void check(const pair *p, const char *what)
{
    const uint32_t n = tern_session_n_tokens(p->moved);
    if (n == 0) return;
    tern_session *fresh = session_of(p);
    assert_ok(tern_session_append(fresh, tern_session_tokens(p->moved), n, &err), err);
    if (memcmp(test_logits(fresh, 0), test_logits(p->moved, 0), p->n_vocab * sizeof(float)) != 0)
        fail_msg("%s: other logits after %u tokens", what, n);
    tern_session_close(fresh);
}

static void append(const pair *p, tern_rng *rng, uint32_t n)
{
    int32_t ids[MAX_APPEND];
    for (uint32_t i = 0; i < n; i++) ids[i] = (int32_t)tern_rng_below(rng, p->n_vocab);
    assert_ok(tern_session_append(p->moved, ids, n, &err), err);
}

static void travel(pair *p)
{
    const char *path = test_scratch("recurrent.session");
    tern_session *other = session_of(p);
    assert_ok(tern_session_save(p->moved, path, &err), err);
    assert_ok(tern_session_restore(other, path, &err), err);
    tern_session_close(p->moved);
    p->moved = other;
    remove(path);
}

static const char *move(pair *p, tern_rng *rng)
{
    const uint32_t n = tern_session_n_tokens(p->moved), what = tern_rng_below(rng, 8);
    uint32_t more = 1 + tern_rng_below(rng, tern_rng_below(rng, 2) ? MAX_APPEND : 3);
    if (what == 0 && n > 2) {
        assert_ok(tern_session_shift(p->moved, tern_rng_below(rng, n - 2), &err), err);
        return "shift";
    }
    if (what == 1 && n) {
        travel(p);
        return "save and restore";
    }
    if (what <= 4 && n) tern_session_truncate(p->moved, what == 2 ? tern_rng_below(rng, n) : n - n % 6);
    if (more > CTX - tern_session_n_tokens(p->moved)) tern_session_truncate(p->moved, 100);
    append(p, rng, more);
    return "append";
}

static void random_moves(void **state)
{
    (void)state;
    static const char *const names[] = {"qwen3_5", "qwen3_next"};
    tern_rng rng;
    test_seed(&rng);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        pair p = open_pair(names[i]);
        append(&p, &rng, 40);
        for (int k = 0; k < (test_quick() ? N_MOVES / 4 : N_MOVES); k++) check(&p, move(&p, &rng));
        close_pair(&p);
    }
}

/* Going back costs no more than the tokens since the prompt's end. */
static void tokens_taken_back(void **state)
{
    (void)state;
    tern_rng rng;
    test_seed(&rng);
    pair p = open_pair("qwen3_5");
    append(&p, &rng, 20);
    for (int i = 0; i < 10; i++) append(&p, &rng, 1);
    const tern_runner *r = &p.moved->runner;
    assert_int_equal(tern_runner_last_start(r, 30), 30);
    assert_int_equal(tern_runner_last_start(r, 28), 28);
    assert_int_equal(tern_runner_last_start(r, 27), 20);
    assert_int_equal(tern_runner_last_start(r, 19), 0);
    tern_session_truncate(p.moved, 25);
    append(&p, &rng, 1);
    check(&p, "tokens taken back");
    close_pair(&p);
}

/* As many prompts' ends as the caller asks for. */
static void checkpoints(void **state)
{
    (void)state;
    tern_rng rng;
    test_seed(&rng);
    pair p = {.engine = test_engine(test_fixture("qwen3_5"), NULL)};
    p.n_vocab = tern_engine_config(p.engine)->n_vocab;
    for (uint32_t n = 1; n <= 5; n++) {
        const tern_session_params params = {
            .size = sizeof params, .n_ctx = CTX, .n_batch = BATCH, .n_state_checkpoints = n};
        assert_ok(tern_session_open(&p.moved, p.engine, &params, &err), err);
        for (uint32_t i = 0; i < 6; i++) append(&p, &rng, 10);
        append(&p, &rng, 1);
        append(&p, &rng, 1);
        append(&p, &rng, 1);
        for (uint32_t i = 0; i < 5; i++)
            assert_int_equal(tern_runner_last_start(&p.moved->runner, 10 * i + 15), i + n >= 6 ? 10 * i + 10 : 0);
        tern_session_truncate(p.moved, 65 - 10 * n);
        append(&p, &rng, 1);
        check(&p, "tokens taken back to a checkpoint");
        tern_session_close(p.moved);
    }
    const tern_session_params params = {.size = sizeof params, .n_state_checkpoints = TERN_MAX_STATE_CHECKPOINTS + 1};
    assert_int_equal(tern_session_open(&p.moved, p.engine, &params, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "4097 state checkpoints: at most 4096 expected"));
    tern_batch *batch;
    const tern_batch_params too_many = {.size = sizeof too_many, .n_state_checkpoints = TERN_MAX_STATE_CHECKPOINTS + 1};
    assert_int_equal(tern_batch_open(&batch, p.engine, &too_many, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "4097 state checkpoints: at most 4096 expected"));
    tern_engine_close(p.engine);
}

/* A file of another model's states is refused, and one that is cut. */
static void files(void **state)
{
    (void)state;
    tern_rng rng;
    test_seed(&rng);
    pair p = open_pair("qwen3_5"), other = open_pair("qwen3_next");
    const char *path = test_scratch("recurrent.session");
    append(&p, &rng, 5);
    assert_ok(tern_session_save(p.moved, path, &err), err);
    assert_int_equal(tern_session_restore(other.moved, path, &err), TERN_MALFORMED);
    assert_int_equal(tern_session_n_tokens(other.moved), 0);
    tern_buf file = {0};
    assert_ok(tern_file_read(&file, path, 1 << 26, &err), err);
    test_write_file(path, file.data, file.size - 100);
    assert_int_equal(tern_session_restore(p.moved, path, &err), TERN_MALFORMED);
    assert_non_null(strstr(err.message, "bytes of caches, states and checksum"));
    tern_buf_deinit(&file);
    remove(path);
    close_pair(&p);
    close_pair(&other);
}

/* Requests of all kinds together: what each gives alone, with states in chunks, shared, of guesses, and given up. */
static void batches(void **state)
{
    (void)state;
    enum { N_CASES = 24, N_CTX = 256 };
    tern_engine *engine = test_engine(test_fixture("qwen3_5"), NULL);
    batch_case *cases = calloc(N_CASES, sizeof *cases);
    const tern_kv_types kv = {TERN_KV_F32, TERN_KV_F32};
    tern_session *session = open_session(engine, TERN_SIZED(tern_session_params, .n_ctx = N_CTX, .kv = kv));
    const uint32_t n = test_quick() ? N_CASES / 2 : N_CASES;
    batch_fill(cases, n, tern_engine_config(engine)->n_vocab, 7);
    batch_run_alone(session, cases, n);
    tern_session_close(session);
    const tern_batch_params all[] = {
        TERN_SIZED(tern_batch_params, .n_parallel = 6, .n_ctx = N_CTX, .kv = kv),
        TERN_SIZED(tern_batch_params, .n_parallel = 4, .n_ctx = N_CTX, .kv = kv, .n_batch = 40, .n_chunk = 7,
                   .n_state_checkpoints = 1),
        TERN_SIZED(tern_batch_params, .n_parallel = 3, .n_ctx = N_CTX, .kv = kv, .no_prefix_reuse = true),
        TERN_SIZED(tern_batch_params, .n_parallel = 5, .n_ctx = N_CTX, .kv = kv, .n_state_checkpoints = 40,
                   .cache_bytes = 4ull * 2 * 2 * 2 * 32 * N_CTX)};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char what[16];
        snprintf(what, sizeof what, "case %zu", i);
        tern_batch *batch = batch_open(engine, all[i]);
        batch_run_together(batch, cases, n, i % 2);
        batch_check(cases, n, what);
        tern_batch_close(batch);
    }
    free(cases);
    tern_engine_close(engine);
}

/* A second prompt that begins with the first and its answer is evaluated from there on, one that leaves the answer out
 * from the last page's end in the prompt. */
static void prefixes(void **state)
{
    (void)state;
    enum { FIRST = 75, MORE = 9, ANSWER = 6 };
    static batch_case c[1];
    tern_engine *engine = test_engine(test_fixture("qwen3_5"), NULL);
    tern_batch *batch = batch_open(engine, TERN_SIZED(tern_batch_params, .n_parallel = 2, .n_ctx = CTX));
    tern_rng rng = {0};
    for (uint32_t i = 0; i < FIRST; i++) c->prompt[i] = (int32_t)tern_rng_below(&rng, 380);
    c->params = TERN_SIZED(tern_request_params, .prompt = c->prompt, .n_prompt = FIRST, .max_tokens = ANSWER,
                           .sampler = {.temperature = 0, .top_p = 1, .typical_p = 1, .repetition_penalty = 1});
    batch_run_together(batch, c, 1, 0);
    assert_int_equal(c->together[0].result.n_cached, 0);
    assert_int_equal(c->together[0].n_ids, ANSWER);
    memcpy(c->prompt + FIRST, c->together[0].ids, ANSWER * sizeof *c->prompt);
    c->params.n_prompt = FIRST + ANSWER + MORE;
    tern_request_free(c->request);
    batch_run_together(batch, c, 1, 0);
    assert_int_equal(c->together[0].result.n_cached, FIRST + ANSWER - 1); /* the last token was never evaluated */
    c->params.n_prompt = FIRST + MORE;
    for (uint32_t i = FIRST; i < FIRST + MORE; i++) c->prompt[i] = 7;
    tern_request_free(c->request);
    batch_run_together(batch, c, 1, 0);
    assert_int_equal(c->together[0].result.n_cached, FIRST / TERN_PAGE_SIZE * TERN_PAGE_SIZE);
    tern_request_free(c->request);
    tern_batch_close(batch);
    tern_engine_close(engine);
}

static tern_batch *small_batch(tern_engine *engine, uint32_t n_checkpoints)
{
    return batch_open(
        engine, TERN_SIZED(tern_batch_params, .n_parallel = 2, .n_ctx = CTX, .n_state_checkpoints = n_checkpoints));
}

/* Runs the request; the tokens of its prompt that were kept. */
static uint32_t run_case(tern_batch *batch, batch_case *c)
{
    batch_run_together(batch, c, 1, 0);
    tern_request_free(c->request);
    c->request = NULL;
    return c->together[0].result.n_cached;
}

/* Saved pages have their states: a batch that read them goes on from where the first one did, with the same tokens; one
 * with room for fewer states gives the same tokens too. */
static void saved_pages(void **state)
{
    (void)state;
    enum { FIRST = 75, ANSWER = 6 };
    static batch_case c[1];
    const char *path = test_scratch("recurrent.pages");
    tern_engine *engine = test_engine(test_fixture("qwen3_5"), NULL), *other = test_engine(test_fixture("llama"), NULL);
    tern_rng rng = {5};
    uint32_t n_saved, n;
    for (uint32_t i = 0; i < BATCH_MAX_PROMPT; i++) c->prompt[i] = (int32_t)tern_rng_below(&rng, 380);
    c->params = TERN_SIZED(tern_request_params, .prompt = c->prompt, .n_prompt = FIRST, .max_tokens = ANSWER,
                           .sampler = {.temperature = 0, .top_p = 1, .typical_p = 1, .repetition_penalty = 1});
    tern_batch *first = small_batch(engine, 8);
    assert_int_equal(run_case(first, c), 0);
    memcpy(c->prompt + FIRST, c->together[0].ids, ANSWER * sizeof *c->prompt);
    assert_ok(tern_batch_save(first, path, &n_saved, &err), err);
    c->params.n_prompt = FIRST + ANSWER + 9;
    assert_int_equal(run_case(first, c), FIRST + ANSWER - 1);
    batch_text want = c->together[0];
    for (uint32_t n_checkpoints = 1; n_checkpoints <= 8; n_checkpoints += 7) {
        tern_batch *second = small_batch(engine, n_checkpoints);
        assert_ok(tern_batch_restore(second, path, &n, &err), err);
        assert_int_equal(n, n_saved);
        const uint32_t n_cached = run_case(second, c);
        if (n_checkpoints == 8) assert_int_equal(n_cached, FIRST + ANSWER - 1);
        assert_int_equal(c->together[0].n_ids, want.n_ids);
        assert_memory_equal(c->together[0].ids, want.ids, want.n_ids * sizeof *want.ids);
        c->params.n_prompt = FIRST - 2; /* ends before the answer: from the last page's end */
        if (n_checkpoints == 8) assert_int_equal(run_case(second, c), FIRST / TERN_PAGE_SIZE * TERN_PAGE_SIZE);
        c->params.n_prompt = FIRST + ANSWER + 9;
        tern_batch_close(second);
    }
    tern_batch_close(first);
    first = batch_open(other, TERN_SIZED(tern_batch_params, .n_parallel = 2, .n_ctx = 64));
    assert_int_equal(tern_batch_restore(first, path, &n, &err), TERN_UNSUPPORTED);
    assert_non_null(strstr(err.message, "version 2 of saved pages: 1 expected"));
    tern_batch_close(first);
    tern_engine_close(engine);
    tern_engine_close(other);
}

/* Every byte of a file counts: its states and their number too. */
static void damaged_pages(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        const char *says;
    } changes[] = {{40, "states of "}, {48, "states of "}, {200, "damaged"}, {SIZE_MAX, "damaged"}};
    static batch_case c[1];
    const char *path = test_scratch("damaged.pages");
    tern_engine *engine = test_engine(test_fixture("qwen3_5"), NULL);
    uint32_t n;
    c->params = TERN_SIZED(tern_request_params, .prompt = c->prompt, .n_prompt = 70, .max_tokens = 2,
                           .sampler = {.temperature = 0, .top_p = 1, .typical_p = 1, .repetition_penalty = 1});
    tern_batch *batch = small_batch(engine, 8);
    run_case(batch, c);
    assert_ok(tern_batch_save(batch, path, &n, &err), err);
    tern_buf file = {0};
    assert_ok(tern_file_read(&file, path, 1 << 26, &err), err);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        uint8_t *byte = (uint8_t *)file.data + (changes[i].at == SIZE_MAX ? file.size - 100 : changes[i].at);
        *byte ^= 1;
        test_write_file(path, file.data, file.size);
        assert_int_equal(tern_batch_restore(batch, path, &n, &err), TERN_MALFORMED);
        if (!strstr(err.message, changes[i].says)) fail_msg("%s: %s expected", err.message, changes[i].says);
        *byte ^= 1;
    }
    tern_buf_deinit(&file);
    tern_batch_close(batch);
    tern_engine_close(engine);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(random_moves), cmocka_unit_test(tokens_taken_back),
                                          cmocka_unit_test(checkpoints),  cmocka_unit_test(files),
                                          cmocka_unit_test(batches),      cmocka_unit_test(prefixes),
                                          cmocka_unit_test(saved_pages),  cmocka_unit_test(damaged_pages)};

TEST_GROUP(recurrent, "", tests);
