/* Generation within a grammar: the text is what it allows, ends where it ends, and is the same with drafts. */
#include "infer/generate_cases.h"
#include "text/tokenizer/tokenizer.h"

typedef struct within {
    tern_grammar_vocab *vocab;
    tern_grammar *grammar;
    tern_grammar_state *state;
    tern_token_filter filter;
} within;

static within open_within(const fixture *f, const char *regex)
{
    within w = {0};
    tern_error err = {0};
    const tern_tokenizer *t = tern_model_tokenizer(tern_engine_model(tern_session_engine(f->session)));
    assert_ok(tern_grammar_vocab_open(&w.vocab, t, &err), err);
    assert_ok(tern_grammar_open(&w.grammar, w.vocab, TERN_GRAMMAR_REGEX, regex, strlen(regex), &err), err);
    assert_ok(tern_grammar_state_open(&w.state, w.grammar, &err), err);
    w.filter = tern_grammar_state_filter(w.state);
    return w;
}

static void close_within(within *w)
{
    tern_grammar_state_close(w->state);
    tern_grammar_close(w->grammar);
    tern_grammar_vocab_close(w->vocab);
}

static tern_generate_result write_within(fixture *f, const char *regex, bool ignore_eos, uint32_t draft, seen *s)
{
    within w = open_within(f, regex);
    tern_generate_params params = greedy_params(s, 60);
    params.filter = &w.filter;
    params.ignore_eos = ignore_eos;
    params.draft_tokens = draft;
    const tern_generate_result result = generate(f->session, generate_story, &params);
    assert_true(result.reason == TERN_STOP_LENGTH || tern_grammar_state_may_end(w.state));
    close_within(&w);
    return result;
}

static void ends_with_the_grammar(void **state)
{
    fixture *f = *state;
    for (int ignore = 0; ignore < 2; ignore++) {
        seen s = {0};
        const tern_generate_result result = write_within(f, "\\[(?:one|two){4}\\]", ignore, 0, &s);
        assert_int_equal(result.reason, TERN_STOP_END_TOKEN);
        assert_int_equal(s.text.size, 14);
        assert_int_equal(s.text.data[0], '[');
        assert_int_equal(s.text.data[13], ']');
        forget(&s);
    }
}

static void same_with_drafts(void **state)
{
    fixture *f = *state;
    seen plain = {0}, drafted = {0};
    write_within(f, "(?: [a-z]{2,3}){80}", false, 0, &plain);
    const uint32_t most = tern_session_max_outputs(f->session) - 1;
    write_within(f, "(?: [a-z]{2,3}){80}", false, most < 4 ? most : 4, &drafted);
    assert_true(plain.text.size > 60);
    assert_int_equal(plain.text.size, drafted.text.size);
    assert_memory_equal(plain.text.data, drafted.text.data, plain.text.size);
    for (size_t i = 0; i < plain.text.size; i++)
        assert_true(plain.text.data[i] == ' ' || (plain.text.data[i] >= 'a' && plain.text.data[i] <= 'z'));
    forget(&plain);
    forget(&drafted);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(ends_with_the_grammar), cmocka_unit_test(same_with_drafts)};
TEST_GROUP(generate_filter, "slow", tests, .setup = generate_setup, .teardown = generate_teardown);
