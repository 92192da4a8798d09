/* Sessions in files: the same afterwards, and files that are refused. */
#include "infer/session_cases.h"

#include "base/bytes.h"

static void saved(void **state)
{
    (void)state;
    tern_error err = {0};
    static const uint32_t lengths[] = {0, 1, 2, 32, 33, 34, N_IDS};
    const char *path = test_scratch("session");
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        tern_session_truncate(session_session, 0);
        tern_session_truncate(session_other, 0);
        session_append(session_other, session_ids + 9, 50); /* what a restored session must not see */
        if (lengths[i]) session_append(session_session, session_ids, lengths[i]);
        assert_ok(tern_session_save(session_session, path, &err), err);
        assert_ok(tern_session_restore(session_other, path, &err), err);
        if (lengths[i]) session_assert_same(session_session, session_other);
        else assert_int_equal(tern_session_n_tokens(session_other), 0);
    }
    remove(path);
}

static void assert_refused(const char *path, const char *words)
{
    tern_error err = {0};
    session_append(session_session, session_ids, 1);
    tern_status status = tern_session_restore(session_session, path, &err);
    assert_true(status == TERN_MALFORMED || status == TERN_UNSUPPORTED || status == TERN_NOT_FOUND);
    if (!strstr(err.message, words)) fail_msg("\"%s\" expected in \"%s\"", words, err.message);
    assert_non_null(strstr(err.message, path));
    assert_int_equal(tern_session_n_tokens(session_session), 0);
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
        {8, 5, "session file version 5: 1 to 4 expected"},
        {8, 4, "states of"},
        {8, 3, "31 caches of layers with a window: 0 expected"},
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
        {40, 2048, "token 0 is id 2048: 0 to 2047 expected"},
        {40 + 4 * (N_IDS - 1), 0xffffffff, "token 69 is id -1: 0 to 2047 expected"},
        {40, 77, "damaged"}, /* another token, and a number of the cache */
        {1024, 77, "damaged"},
    };
    tern_error err = {0};
    const char *path = test_scratch("session-bad");
    tern_buf file = {0};
    tern_session_truncate(session_session, 0);
    session_append(session_session, session_ids, N_IDS);
    assert_ok(tern_session_save(session_session, path, &err), err);
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
    tern_session_truncate(session_session, 0);
    session_append(session_session, session_ids, N_IDS);
    assert_ok(tern_session_save(session_session, path, &err), err);
    assert_ok(tern_file_read(&file, path, MAX_BYTES, &err), err);
    tern_store_u32(file.data + 8, 1);
    test_write_file(path, file.data, file.size - 8);
    assert_ok(tern_session_restore(session_other, path, &err), err);
    session_assert_same(session_session, session_other);
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
    tern_session *s =
        open_session(llama, TERN_SIZED(tern_session_params, .n_ctx = 32, .kv = {TERN_KV_F16, TERN_KV_F16}));
    session_append(s, (const int32_t[]){1, 2, 3}, 3);
    assert_ok(tern_session_save(s, path, &err), err);
    assert_refused(path, "another model wrote it");
    assert_int_equal(tern_session_save(s, "/nowhere/session", &err), TERN_NOT_FOUND);
    tern_session_close(s);
    tern_engine_close(llama);
    remove(path);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(saved),
    cmocka_unit_test(bad_files),
    cmocka_unit_test(files_without_checksum),
    cmocka_unit_test(other_model),
};

TEST_GROUP(session_files, "threads web", tests, .setup = session_setup, .teardown = session_teardown);
