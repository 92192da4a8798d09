/* Grammars of the commands that generate: those that meet a bound, and a signal while one is compiled. */
#include <signal.h>

#include "apps/app.h"
#include "apps/generation.h"
#include "apps/open.h"
#include "support/command.h"
#include "support/converted.h"
#include "support/test.h"

static void fails_by_name(const char *grammar, const char *words)
{
    test_output o = TERN("run", "-m", test_small_model(), "-p", "Once upon a time", "-n", "200", "--ignore-eos", "-q",
                         "--grammar", grammar);
    assert_int_equal(o.code, 1);
    if (!strstr(o.err, words)) fail_msg("%s: \"%s\" expected", o.err, words);
    test_output_free(&o);
}

static void what_meets_a_bound_is_said(void **state)
{
    (void)state;
    fails_by_name(
        "root ::= (\"a\"{0,9999}){0,9999}",
        "tern run: error: --grammar: rule `root` can read the text in more than 65536 ways: fewer or smaller");
    fails_by_name("root ::= ([a-zA-Z0-9 ,.]{0,200} \"b\"?){0,200}",
                  "tern run: error: rule `root` takes more than 524288 steps for one token: fewer or smaller");
}

/* Of a text that meets a bound in its midst what there is has been saved. */
static void what_was_made_before_a_bound_is_saved(void **state)
{
    (void)state;
    const char *file = test_scratch("bound.session");
    unlink(file);
    test_output o = TERN("run", "-m", test_small_model(), "-p", "Once upon a time", "-n", "200", "--ignore-eos", "-q",
                         "--save", file, "--grammar", "root ::= [^0-9]{20} ([a-zA-Z0-9 ,.]{0,200} \"b\"?){0,200}");
    assert_int_equal(o.code, 1);
    assert_non_null(strstr(o.err, "524288 steps"));
    test_output on = TERN("run", "-m", test_small_model(), "-n", "3", "--greedy", "--restore", file);
    if (on.code != 0) fail_msg("%s", on.err);
    assert_true(strlen(o.out) > 10);
    test_output_free(&o);
    test_output_free(&on);
}

/* The signal came while it was compiled: nothing is generated. */
static void a_signal_stops_after_compiling(void **state)
{
    (void)state;
    tern_engine *engine;
    tern_error err = {0};
    const tern_options o = {.model = test_small_model(), .grammar = "root ::= [a-z]*"};
    for (int number = SIGINT;; number = SIGTERM) {
        tern_app_generation g = {0};
        assert_ok(tern_app_open_engine(&engine, &o, true, &err), err);
        tern_app_catch_interrupts();
        raise(number);
        assert_int_equal(tern_app_generation_constrain(&g, &o, engine, &err), TERN_CANCELLED);
        assert_null(g.params.filter);
        assert_true(tern_app_take_interrupt());
        tern_app_generation_deinit(&g);
        tern_engine_close(engine);
        if (number == SIGTERM) break;
    }
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(what_meets_a_bound_is_said),
                                          cmocka_unit_test(what_was_made_before_a_bound_is_saved),
                                          cmocka_unit_test(a_signal_stops_after_compiling)};

TEST_GROUP(grammar_commands, "", tests);
