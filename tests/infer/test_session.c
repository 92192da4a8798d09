/* Sessions: forgetting, making room, refusals, files, threads, and memory that runs out. */
#include "infer/support.h"

#include <pthread.h>

#include "base/alloc.h"
#include "base/file.h"
#include "support/logits.h"

enum { CTX = 96, N_IDS = 70, MAX_BYTES = 1 << 22 };

static tern_engine *engine;
static tern_session *session, *other;
static int32_t ids[N_IDS];
static size_t logits_bytes;

static int setup(void **state)
{
    (void)state;
    engine = open_trained(1);
    session =
        open_session(engine, (tern_session_params){.n_ctx = CTX, .kv = TERN_KV_F16, .n_batch = 33, .max_outputs = 5});
    other = open_session(engine, (tern_session_params){.n_ctx = CTX, .kv = TERN_KV_F16, .max_outputs = 5});
    logits_bytes = tern_engine_config(engine)->n_vocab * sizeof(float);
    for (int32_t i = 0; i < N_IDS; i++) ids[i] = (i * 577 + 31) % 4000;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tern_session_close(session);
    tern_session_close(other);
    tern_engine_close(engine);
    return 0;
}

static void append(tern_session *s, const int32_t *from, uint32_t n)
{
    tern_error err = {0};
    assert_ok(tern_session_append(s, from, n, &err), err);
}

/* Both hold the same tokens, and the same logits for the last one and for some that follow. */
static void assert_same(tern_session *a, tern_session *b)
{
    assert_int_equal(tern_session_n_tokens(a), tern_session_n_tokens(b));
    assert_memory_equal(tern_session_tokens(a), tern_session_tokens(b), tern_session_n_tokens(a) * sizeof *ids);
    for (uint32_t i = 0; i < 4; i++) {
        assert_memory_equal(test_logits(a, 0), test_logits(b, 0), logits_bytes);
        append(a, &ids[i], 1);
        append(b, &ids[i], 1);
    }
}

static void truncated(void **state)
{
    (void)state;
    tern_session_truncate(session, 0);
    tern_session_truncate(other, 0);
    append(session, ids, N_IDS);
    tern_session_truncate(session, N_IDS + 5);
    assert_int_equal(tern_session_n_tokens(session), N_IDS);
    tern_session_truncate(session, 34);
    append(session, ids + 50, 3);
    append(other, ids, 34);
    append(other, ids + 50, 3);
    assert_same(session, other);
}

static void shifted(void **state)
{
    (void)state;
    tern_error err = {0};
    for (uint32_t n_keep = 0; n_keep <= N_IDS - 2; n_keep += 17) {
        uint32_t n_moved = (N_IDS - n_keep) / 2;
        tern_session_truncate(session, 0);
        tern_session_truncate(other, 0);
        append(session, ids, N_IDS);
        uint64_t count = tern_alloc_count();
        assert_ok(tern_session_shift(session, n_keep, &err), err);
        assert_int_equal(tern_alloc_count(), count);
        if (n_keep) append(other, ids, n_keep);
        append(other, ids + N_IDS - n_moved, n_moved);
        assert_same(session, other);
    }
    tern_session_truncate(session, 0);
    append(session, ids, 10);
    assert_int_equal(tern_session_shift(session, 9, &err), TERN_INVALID_ARGUMENT);
    assert_string_equal(err.message, "context shift: 9 tokens to keep, of 10: two fewer at most expected");
    tern_session_truncate(session, 0);
    assert_int_equal(tern_session_shift(session, 0, &err), TERN_INVALID_ARGUMENT);
}

static void refusals(void **state)
{
    (void)state;
    tern_error err = {0};
    int32_t bad[] = {1, 2, -1, 4096}, many[CTX + 1] = {0};
    tern_session_truncate(session, 0);
    append(session, ids, 3);
    assert_int_equal(tern_session_append(session, bad, 4, &err), TERN_INVALID_ARGUMENT);
    assert_string_equal(err.message, "token 2 is id -1: 0 to 4095 expected");
    bad[2] = 3;
    assert_int_equal(tern_session_append_all(session, bad, 4, &err), TERN_INVALID_ARGUMENT);
    assert_string_equal(err.message, "token 3 is id 4096: 0 to 4095 expected");
    assert_int_equal(tern_session_append(session, many, CTX - 2, &err), TERN_CONTEXT_FULL);
    assert_string_equal(err.message, "context full: 3 tokens and 94 more, of 96");
    assert_int_equal(tern_session_append_all(session, many, 6, &err), TERN_INVALID_ARGUMENT);
    assert_string_equal(err.message, "logits of 6 tokens: 1 to 5 expected");
    assert_int_equal(tern_session_append_all(session, many, 0, &err), TERN_INVALID_ARGUMENT);
    assert_int_equal(tern_session_n_tokens(session), 3);
    append(session, many, CTX - 3);
    assert_int_equal(tern_session_append(session, many, 1, &err), TERN_CONTEXT_FULL);
    tern_session *none;
    assert_int_equal(tern_session_open(&none, engine, &(tern_session_params){.n_ctx = 1025}, &err),
                     TERN_INVALID_ARGUMENT);
    assert_string_equal(err.message, "context of 1025 tokens: the model was trained for at most 1024");
    assert_null(none);
}

static void allocations_fail(void **state)
{
    (void)state;
    tern_error err = {0};
    int64_t live = tern_alloc_live();
    for (uint64_t n = 1;; n++) {
        tern_session *s;
        tern_alloc_fail_after(n, false);
        tern_status status = tern_session_open(&s, engine, &(tern_session_params){.n_ctx = 64, .max_outputs = 2}, &err);
        tern_alloc_fail_after(0, false);
        if (status == TERN_OK) {
            assert_true(n > 40);
            tern_session_close(s);
            break;
        }
        assert_int_equal(status, TERN_OUT_OF_MEMORY);
        assert_null(s);
        assert_int_equal(tern_alloc_live(), live);
    }
    assert_int_equal(tern_alloc_live(), live);
}

static void no_allocation(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_session_truncate(session, 0);
    append(session, ids, 2);
    uint64_t count = tern_alloc_count();
    for (int i = 0; i < 10; i++) append(session, ids, 1);
    append(session, ids, 40);
    assert_ok(tern_session_append_all(session, ids, 5, &err), err);
    assert_int_equal(tern_alloc_count(), count);
}

static void saved(void **state)
{
    (void)state;
    tern_error err = {0};
    static const uint32_t lengths[] = {0, 1, 2, 32, 33, 34, N_IDS};
    const char *path = test_scratch("session");
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        tern_session_truncate(session, 0);
        tern_session_truncate(other, 0);
        append(other, ids + 9, 50); /* what a restored session must not see */
        if (lengths[i]) append(session, ids, lengths[i]);
        assert_ok(tern_session_save(session, path, &err), err);
        assert_ok(tern_session_restore(other, path, &err), err);
        if (lengths[i]) assert_same(session, other);
        else assert_int_equal(tern_session_n_tokens(other), 0);
    }
    remove(path);
}

static void assert_refused(const char *path, const char *words)
{
    tern_error err = {0};
    append(session, ids, 1);
    tern_status status = tern_session_restore(session, path, &err);
    assert_true(status == TERN_MALFORMED || status == TERN_UNSUPPORTED || status == TERN_NOT_FOUND);
    if (!strstr(err.message, words)) fail_msg("\"%s\" expected in \"%s\"", words, err.message);
    assert_non_null(strstr(err.message, path));
    assert_int_equal(tern_session_n_tokens(session), 0);
}

/* Each field of a saved file changed in turn. */
static void bad_files(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        uint32_t value;
        const char *words;
    } changes[] = {
        {0, 0, "not a session file"},
        {8, 3, "session file version 3: 1 or 2 expected"},
        {8, 1, "of caches"},
        {12, 1, "the cache is f32: f16 expected"},
        {12, 0xffffffff, "the cache is unknown: f16 expected"},
        {16, 0, "fingerprint"},
        {24, CTX + 1, "97 tokens: at most 96, the session's context, expected"},
        {24, 0xffffffff, "4294967295 tokens"},
        {24, N_IDS + 1, "token 70 is id"},
        {24, N_IDS - 6, "of caches"},
        {24, 0, "of caches"},
        {28, 15, "15 caches with pages of"},
        {28, 0xffffffff, "4294967295 caches"},
        {32, 0, "16 caches with pages of 0 bytes"},
        {36, 0xffffffff, "16 caches with pages of"},
        {40, 4096, "token 0 is id 4096: 0 to 4095 expected"},
        {40 + 4 * (N_IDS - 1), 0xffffffff, "token 69 is id -1: 0 to 4095 expected"},
        {40, 77, "damaged"}, /* another token, and a number of the cache */
        {1024, 77, "damaged"},
    };
    tern_error err = {0};
    const char *path = test_scratch("session-bad");
    tern_buf file = {0};
    tern_session_truncate(session, 0);
    append(session, ids, N_IDS);
    assert_ok(tern_session_save(session, path, &err), err);
    assert_ok(tern_file_read(&file, path, MAX_BYTES, &err), err);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        uint32_t old = tern_load_u32(file.data + changes[i].at);
        tern_store_u32(file.data + changes[i].at, changes[i].value);
        test_write_file(path, file.data, file.size);
        tern_store_u32(file.data + changes[i].at, old);
        assert_refused(path, changes[i].words);
    }
    for (size_t n = 0; n < file.size; n += n < 400 ? 1 : 4099) {
        test_write_file(path, file.data, n);
        assert_refused(path, n < 8 ? "not a session file" : "expected");
    }
    assert_ok(tern_buf_add(&file, "", 1, &err), err);
    test_write_file(path, file.data, file.size);
    assert_refused(path, "of caches");
    remove(path);
    assert_refused(path, "");
    tern_buf_deinit(&file);
}

/* Files of version 1 have no checksum. */
static void files_without_checksum(void **state)
{
    (void)state;
    tern_error err = {0};
    const char *path = test_scratch("session-1");
    tern_buf file = {0};
    tern_session_truncate(session, 0);
    append(session, ids, N_IDS);
    assert_ok(tern_session_save(session, path, &err), err);
    assert_ok(tern_file_read(&file, path, MAX_BYTES, &err), err);
    tern_store_u32(file.data + 8, 1);
    test_write_file(path, file.data, file.size - 8);
    assert_ok(tern_session_restore(other, path, &err), err);
    assert_same(session, other);
    remove(path);
    tern_buf_deinit(&file);
}

static void other_model(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_model *model;
    tern_engine *llama;
    const char *path = test_scratch("session-other");
    assert_ok(tern_model_open(&model, test_fixture("llama"), &(tern_model_options){.no_tokenizer = true}, &err), err);
    assert_ok(tern_engine_open(&llama, model, &(tern_engine_params){.backend = {.n_threads = 1}}, &err), err);
    tern_session *s = open_session(llama, (tern_session_params){.n_ctx = 32, .kv = TERN_KV_F16});
    append(s, (const int32_t[]){1, 2, 3}, 3);
    assert_ok(tern_session_save(s, path, &err), err);
    assert_refused(path, "another model wrote it");
    assert_int_equal(tern_session_save(s, "/nowhere/session", &err), TERN_NOT_FOUND);
    tern_session_close(s);
    tern_engine_close(llama);
    remove(path);
}

typedef struct speaker {
    uint64_t seed;
    seen heard;
} speaker;

static void *speak(void *argument)
{
    speaker *me = argument;
    tern_session *s = open_session(engine, (tern_session_params){.n_ctx = CTX, .kv = TERN_KV_F16, .max_outputs = 4});
    tern_generate_params params = {
        .sampler = TERN_SAMPLER_DEFAULTS, .max_tokens = 40, .draft_tokens = 3, .on_piece = see, .context = &me->heard};
    params.sampler.seed = me->seed;
    generate(s, me->seed ? "ROMEO:" : "Once upon a time", &params);
    tern_session_close(s);
    return NULL;
}

/* Two sessions of one engine, each in its thread, say what they say alone. */
static void threads(void **state)
{
    (void)state;
    speaker alone[2] = {{.seed = 0}, {.seed = 1}}, together[2] = {{.seed = 0}, {.seed = 1}};
    pthread_t thread[2];
    for (int i = 0; i < 2; i++) speak(&alone[i]);
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&thread[i], NULL, speak, &together[i]), 0);
    for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < 2; i++) {
        assert_true(alone[i].heard.n_ids > 10);
        assert_int_equal(together[i].heard.n_ids, alone[i].heard.n_ids);
        assert_memory_equal(together[i].heard.ids, alone[i].heard.ids, alone[i].heard.n_ids * sizeof(int32_t));
        assert_string_equal(together[i].heard.text.data, alone[i].heard.text.data);
        forget(&alone[i].heard);
        forget(&together[i].heard);
    }
}

/* The layers on two backends (both the CPU here), cut anywhere: the same bits, files that travel, no allocation for a
 * token. */
static void split(void **state)
{
    (void)state;
    enum { N_LAYERS = 8 };
    tern_error err = {0};
    const char *path = test_scratch("split.session");
    for (uint32_t n = 0; n <= N_LAYERS + 1; n += 3) {
        tern_model *model;
        tern_engine *cut;
        tern_engine_params params = {.backend = {.n_threads = 1, .split = true, .gpu_layers = n}};
        assert_ok(tern_model_open(&model, test_model("tiny-stories-bitnet"), &(tern_model_options){0}, &err), err);
        assert_ok(tern_engine_open(&cut, model, &params, &err), err);
        assert_string_equal(tern_engine_backend(cut)->info.name, n > N_LAYERS ? "cpu" : "cpu+cpu");
        tern_session *a = open_session(cut, (tern_session_params){.n_ctx = CTX, .kv = TERN_KV_F16, .n_batch = 33});
        tern_session_truncate(session, 0);
        append(a, ids, N_IDS);
        append(session, ids, N_IDS);
        uint64_t count = tern_alloc_count();
        append(a, ids, 1);
        append(session, ids, 1);
        assert_int_equal(tern_alloc_count(), count);
        assert_ok(tern_session_save(a, path, &err), err);
        assert_ok(tern_session_restore(other, path, &err), err);
        assert_same(a, session);
        assert_ok(tern_session_restore(a, path, &err), err);
        assert_same(a, other);
        tern_session_close(a);
        tern_engine_close(cut);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(truncated),     cmocka_unit_test(shifted),
    cmocka_unit_test(refusals),      cmocka_unit_test(allocations_fail),
    cmocka_unit_test(no_allocation), cmocka_unit_test(saved),
    cmocka_unit_test(bad_files),     cmocka_unit_test(files_without_checksum),
    cmocka_unit_test(other_model),   cmocka_unit_test(threads),
    cmocka_unit_test(split),
};

TEST_GROUP(session, "threads web", tests, .setup = setup, .teardown = teardown);
