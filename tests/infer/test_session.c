/* Sessions: forgetting, making room, refusals, files, threads, and memory that runs out. */
#include "infer/session_cases.h"

static void truncated(void **state)
{
    (void)state;
    tern_session_truncate(session_session, 0);
    tern_session_truncate(session_other, 0);
    session_append(session_session, session_ids, N_IDS);
    tern_session_truncate(session_session, N_IDS + 5);
    assert_int_equal(tern_session_n_tokens(session_session), N_IDS);
    tern_session_truncate(session_session, 34);
    session_append(session_session, session_ids + 50, 3);
    session_append(session_other, session_ids, 34);
    session_append(session_other, session_ids + 50, 3);
    session_assert_same(session_session, session_other);
}

static void shifted(void **state)
{
    (void)state;
    tern_error err = {0};
    for (uint32_t n_keep = 0; n_keep <= N_IDS - 2; n_keep += 17) {
        uint32_t n_moved = (N_IDS - n_keep) / 2;
        tern_session_truncate(session_session, 0);
        tern_session_truncate(session_other, 0);
        session_append(session_session, session_ids, N_IDS);
        uint64_t count = tern_alloc_count();
        assert_ok(tern_session_shift(session_session, n_keep, &err), err);
        assert_int_equal(tern_alloc_count(), count);
        if (n_keep) session_append(session_other, session_ids, n_keep);
        session_append(session_other, session_ids + N_IDS - n_moved, n_moved);
        session_assert_same(session_session, session_other);
    }
    tern_session_truncate(session_session, 0);
    session_append(session_session, session_ids, 10);
    assert_int_equal(tern_session_shift(session_session, 9, &err), TERN_INVALID_ARGUMENT);
    assert_string_equal(err.message, "context shift: 9 tokens to keep, of 10: two fewer at most expected");
    tern_session_truncate(session_session, 0);
    assert_int_equal(tern_session_shift(session_session, 0, &err), TERN_INVALID_ARGUMENT);
}

static void refusals(void **state)
{
    (void)state;
    tern_error err = {0};
    int32_t bad[] = {1, 2, -1, 2048}, many[CTX + 1] = {0};
    tern_session_truncate(session_session, 0);
    session_append(session_session, session_ids, 3);
    assert_int_equal(tern_session_append(session_session, bad, 4, &err), TERN_INVALID_ARGUMENT);
    assert_string_equal(err.message, "token 2 is id -1: 0 to 2047 expected");
    bad[2] = 3;
    assert_int_equal(tern_session_append_all(session_session, bad, 4, &err), TERN_INVALID_ARGUMENT);
    assert_string_equal(err.message, "token 3 is id 2048: 0 to 2047 expected");
    assert_int_equal(tern_session_append(session_session, many, CTX - 2, &err), TERN_CONTEXT_FULL);
    assert_string_equal(err.message, "context full: 3 tokens and 94 more, of 96");
    assert_int_equal(tern_session_append_all(session_session, many, 6, &err), TERN_INVALID_ARGUMENT);
    assert_string_equal(err.message, "logits of 6 tokens: 1 to 5 expected");
    assert_int_equal(tern_session_append_all(session_session, many, 0, &err), TERN_INVALID_ARGUMENT);
    assert_int_equal(tern_session_n_tokens(session_session), 3);
    session_append(session_session, many, CTX - 3);
    assert_int_equal(tern_session_append(session_session, many, 1, &err), TERN_CONTEXT_FULL);
    tern_session *none;
    assert_int_equal(tern_session_open(&none, session_engine, &TERN_SIZED(tern_session_params, .n_ctx = 1025), &err),
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
        tern_status status = tern_session_open(&s, session_engine,
                                               &TERN_SIZED(tern_session_params, .n_ctx = 64, .max_outputs = 2), &err);
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
    tern_session_truncate(session_session, 0);
    session_append(session_session, session_ids, 2);
    uint64_t count = tern_alloc_count();
    for (int i = 0; i < 10; i++) session_append(session_session, session_ids, 1);
    session_append(session_session, session_ids, 40);
    assert_ok(tern_session_append_all(session_session, session_ids, 5, &err), err);
    assert_int_equal(tern_alloc_count(), count);
}

typedef struct speaker {
    uint64_t seed;
    seen heard;
} speaker;

static void *speak(void *argument)
{
    speaker *me = argument;
    tern_session *s = open_session(session_engine, TERN_SIZED(tern_session_params, .n_ctx = CTX,
                                                              .kv = {TERN_KV_F16, TERN_KV_F16}, .max_outputs = 4));
    tern_generate_params params = {.size = sizeof params,
                                   .sampler = TERN_SAMPLER_DEFAULTS,
                                   .max_tokens = 40,
                                   .draft_tokens = 3,
                                   .on_piece = see,
                                   .context = &me->heard};
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
        tern_session *a = open_session(
            cut, TERN_SIZED(tern_session_params, .n_ctx = CTX, .kv = {TERN_KV_F16, TERN_KV_F16}, .n_batch = 33));
        tern_session_truncate(session_session, 0);
        session_append(a, session_ids, N_IDS);
        session_append(session_session, session_ids, N_IDS);
        uint64_t count = tern_alloc_count();
        session_append(a, session_ids, 1);
        session_append(session_session, session_ids, 1);
        assert_int_equal(tern_alloc_count(), count);
        assert_ok(tern_session_save(a, path, &err), err);
        assert_ok(tern_session_restore(session_other, path, &err), err);
        session_assert_same(a, session_session);
        assert_ok(tern_session_restore(a, path, &err), err);
        session_assert_same(a, session_other);
        tern_session_close(a);
        tern_engine_close(cut);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(truncated),     cmocka_unit_test(shifted),
    cmocka_unit_test(refusals),      cmocka_unit_test(allocations_fail),
    cmocka_unit_test(no_allocation), cmocka_unit_test(threads),
    cmocka_unit_test(split),
};

TEST_GROUP(session, "threads web", tests, .setup = session_setup, .teardown = session_teardown);
