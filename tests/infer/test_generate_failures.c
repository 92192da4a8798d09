/* Generation in steps on the CPU, made to choose tokens as a device does: runs that fail. */
#include "infer/steps.h"
#include "support/logits.h"
#include "support/stepping.h"

/* A run that fails ends the generation with its message; the session keeps what was shown, and can go on. */
static void failures(void **state)
{
    steps_fixture *f = *state;
    tern_session *session = steps_session(f, 128, 8);
    for (uint32_t after = 1; after <= 4; after++) {
        seen s = {0}, whole = {0};
        tern_error err = {0};
        tern_tokens ids = ids_of(f->engine, steps_story);
        tern_generate_params params = greedy_params(&s, 30);
        tern_generate_result result = {.size = sizeof result};
        tern_session_truncate(session, 0);
        test_stepping_fail_after(after);
        assert_int_equal(tern_generate(session, ids.ids, (uint32_t)ids.n, &params, &result, &err), TERN_INTERNAL);
        test_stepping_fail_after(0);
        assert_string_equal(err.message, "this run was to fail");
        assert_int_equal(s.n_ids, after < 2 ? 0 : 8 * (after - 2));
        assert_int_equal(tern_session_n_tokens(session), after < 2 ? 0 : ids.n + s.n_ids);
        params.context = &whole;
        generate(session, steps_story, &params);
        assert_memory_equal(s.ids, whole.ids, s.n_ids * sizeof *s.ids);
        tern_tokens_deinit(&ids);
        forget(&s);
        forget(&whole);
    }
    tern_session_close(session);
}

/* Logits that cannot be computed are an error, not old ones. */
static void no_logits(void **state)
{
    steps_fixture *f = *state;
    seen s = {0};
    tern_generate_params params = greedy_params(&s, 8);
    tern_session *session = steps_session(f, 128, 8);
    generate(session, steps_story, &params);
    test_stepping_fail_after(1);
    tern_error err = {0};
    float *logits = (float *)&err;
    assert_int_not_equal(tern_session_logits(session, 0, &logits, &err), TERN_OK);
    assert_null(logits);
    assert_true(err.message[0]);
    test_stepping_fail_after(0);
    assert_non_null(test_logits(session, 0));
    logits = (float *)&err;
    assert_int_equal(tern_session_logits(session, 1, &logits, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "row 1 of the logits: 0 to 0 expected"));
    assert_null(logits);
    forget(&s);
    tern_session_close(session);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(failures),
    cmocka_unit_test(no_logits),
};

TEST_GROUP(generate_failures, "slow", tests, .setup = steps_open, .teardown = steps_close);
