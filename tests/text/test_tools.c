/* Tool calls as families write them, in one piece and byte by byte; and grammars that force them. */
#include "base/alloc.h"
#include "base/bytes.h"
#include "support/test.h"
#include "tern/text.h"

typedef struct answer {
    tern_tool_form form;
    const char *text, *content, *reasoning;
    const char *calls; /* name arguments | name arguments */
} answer;

static const answer answers[] = {
    {TERN_TOOLS_NONE, "<tool_call>{}", "<tool_call>{}", "", ""},
    {TERN_TOOLS_HERMES,
     "Let me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 10000000000000001}}\n</tool_call>\n"
     "<tool_call>{\"name\": \"g\", \"arguments\": {}}</tool_call>",
     "Let me see.\n", "", "f {\"x\": 10000000000000001}|g {}|"},
    {TERN_TOOLS_HERMES, "a < b <tool> <tool_call>no</tool_call> c", "a < b <tool> <tool_call>no</tool_call> c", "", ""},
    {TERN_TOOLS_HERMES, "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}", "", "", "f {\"a\": 1}|"},
    {TERN_TOOLS_HERMES, "cut <tool_call>{\"name\": \"f", "cut <tool_call>{\"name\": \"f", "", ""},
    {TERN_TOOLS_LLAMA3, "{\"name\": \"f\", \"parameters\": {\"a\": \"};{\"}}; {\"name\": \"g\", \"parameters\": {}}",
     "", "", "f {\"a\": \"};{\"}|g {}|"},
    {TERN_TOOLS_LLAMA3, "<|python_tag|>{\"type\": \"function\", \"name\": \"f\", \"parameters\": {\"a\": [1]}}", "", "",
     "f {\"a\": [1]}|"},
    {TERN_TOOLS_LLAMA3, "{\"a\": 1} is JSON", "{\"a\": 1} is JSON", "", ""},
    {TERN_TOOLS_LLAMA3, "The set {1} <|p", "The set {1} <|p", "", ""},
    {TERN_TOOLS_MISTRAL,
     "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"a\": 1}, \"id\": \"abc123xyz\"}, {\"name\": "
     "\"g\", \"arguments\": {}}]",
     "", "", "f {\"a\": 1}|g {}|"},
    {TERN_TOOLS_MISTRAL, "So: [TOOL_CALLS]f[CALL_ID]x1[ARGS]{\"a\": {}}[TOOL_CALLS]g[ARGS]{}", "So: ", "",
     "f {\"a\": {}}|g {}|"},
    {TERN_TOOLS_MISTRAL, "[1, 2] [TOOL", "[1, 2] [TOOL", "", ""},
    {TERN_TOOLS_GEMMA, "```json\n{\"name\": \"f\", \"parameters\": {\"a\": 1}}\n```", "", "", "f {\"a\": 1}|"},
    {TERN_TOOLS_GEMMA, "{\"name\": \"f\", \"parameters\": {}}", "", "", "f {}|"},
    {TERN_TOOLS_GEMMA, "```python\nx\n```", "```python\nx\n```", "", ""},
    {TERN_TOOLS_HARMONY,
     "<|channel|>analysis<|message|>I think.<|end|><|start|>assistant<|channel|>commentary "
     "to=functions.f <|constrain|>json<|message|>{\"a\": 1}<|call|>",
     "", "I think.", "f {\"a\": 1}|"},
    {TERN_TOOLS_HARMONY, "<|channel|>final<|message|>Hello <|there<|return|>", "Hello <|there", "", ""},
    {TERN_TOOLS_HARMONY, "<|start|>assistant to=functions.g<|channel|>commentary<|message|>{}", "", "", "g {}|"},
};

/* Of calls that are announced, what is shown of each only grows. */
typedef struct shown {
    size_t n_calls, n;
    char id[32], name[32], arguments[256];
} shown;

static void follow(shown *s, const tern_tool_parser *p)
{
    tern_tool_partial part;
    size_t n;
    const tern_tool_call *calls = tern_tool_parser_calls(p, &n);
    for (; s->n_calls < n; s->n_calls++, s->n = 0) {
        const tern_tool_call *call = &calls[s->n_calls];
        if (!s->n) continue;
        assert_string_equal(call->id, s->id);
        assert_string_equal(call->name, s->name);
        assert_memory_equal(call->arguments, s->arguments, s->n);
    }
    if (!tern_tool_parser_partial(p, &part)) return;
    assert_in_range(part.n_arguments, s->n > 1 ? s->n : 1, sizeof s->arguments);
    assert_memory_equal(part.arguments, s->arguments, s->n);
    memcpy(s->arguments, part.arguments, part.n_arguments);
    s->n = part.n_arguments;
    snprintf(s->id, sizeof s->id, "%s", part.id);
    snprintf(s->name, sizeof s->name, "%s", part.name);
}

static void compare(const answer *a, size_t step, bool announces)
{
    shown s = {0};
    tern_tool_parser *p;
    tern_error err = {0};
    tern_buf content = {0}, reasoning = {0}, calls = {0};
    const size_t size = strlen(a->text);
    size_t n;
    assert_int_equal(tern_tool_parser_open(&p, a->form, &err), TERN_OK);
    if (announces) tern_tool_parser_announce(p, "salt");
    for (size_t i = 0; i < size; i += step) {
        assert_int_equal(
            tern_tool_parser_add(p, a->text + i, size - i < step ? size - i : step, &content, &reasoning, &err),
            TERN_OK);
        follow(&s, p);
    }
    assert_int_equal(tern_tool_parser_finish(p, &content, &reasoning, &err), TERN_OK);
    follow(&s, p);
    if (!announces) assert_int_equal(s.n, 0);
    const tern_tool_call *found = tern_tool_parser_calls(p, &n);
    for (size_t i = 0; i < n; i++) {
        assert_true(strlen(found[i].id) > 1);
        assert_int_equal(tern_buf_addf(&calls, &err, "%s %s|", found[i].name, found[i].arguments), TERN_OK);
    }
    assert_string_equal(content.data ? content.data : "", a->content);
    assert_string_equal(reasoning.data ? reasoning.data : "", a->reasoning);
    assert_string_equal(calls.data ? calls.data : "", a->calls);
    tern_tool_parser_close(p);
    tern_buf_deinit(&content);
    tern_buf_deinit(&reasoning);
    tern_buf_deinit(&calls);
}

static void test_answers(void **state)
{
    (void)state;
    const int64_t live = tern_alloc_live();
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++)
        for (size_t step = 1; step < 400; step = step * 2 + 1)
            for (int announces = 0; announces < 2; announces++) compare(&answers[i], step, announces);
    assert_int_equal(tern_alloc_live(), live);
}

/* Calls that were announced stay calls, whatever comes of them. */
static const answer announced[] = {
    {TERN_TOOLS_HERMES, "So <tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"</tool", "So ", "",
     "f {\"a\": \"</tool|"},
    {TERN_TOOLS_HERMES, "<tool_call>{\"name\": \"f\", \"arguments\": {a}}</tool_call>!", "!", "", "f {a}|"},
    {TERN_TOOLS_HERMES, "<tool_call>{\"arguments\": {\"a\": 1}, \"name\": \"f\"",
     "<tool_call>{\"arguments\": {\"a\": 1}, \"name\": \"f\"", "", ""},
    {TERN_TOOLS_LLAMA3, "{\"type\": \"function\", \"name\": \"f\", \"parameters\": {\"a\": [1, 2", "", "",
     "f {\"a\": [1, 2|"},
    {TERN_TOOLS_LLAMA3, "{\"function\": {\"name\": \"f\\u0021\", \"arguments\": {}}} ok", "ok", "", "f! {}|"},
    {TERN_TOOLS_MISTRAL, "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"g\", \"argum", "", "",
     "f {}|"},
    {TERN_TOOLS_MISTRAL, "[TOOL_CALLS]f[ARGS]{\"a\": 1", "", "", "f {\"a\": 1|"},
    {TERN_TOOLS_GEMMA, "```json\n{\"name\": \"f\", \"parameters\": {\"a\": 1", "", "", "f {\"a\": 1|"},
    {TERN_TOOLS_HARMONY, "<|channel|>commentary to=functions.f<|message|> {\"a\": 1<|end|>", "", "", "f {\"a\": 1|"},
};

static void test_announced(void **state)
{
    (void)state;
    const int64_t live = tern_alloc_live();
    for (size_t i = 0; i < sizeof announced / sizeof *announced; i++)
        for (size_t step = 1; step < 400; step = step * 2 + 1) compare(&announced[i], step, true);
    assert_int_equal(tern_alloc_live(), live);
}

static const char tools[] = "[{\"type\": \"function\", \"function\": {\"name\": \"add\", \"parameters\": {\"type\": "
                            "\"object\", \"properties\": "
                            "{\"a\": {\"type\": \"integer\"}}, \"required\": [\"a\"]}}}, {\"name\": \"now\"}, "
                            "{\"name\": \"bare\", \"parameters\": {\"description\": \"none\"}}]";

typedef struct forced {
    tern_tool_form form;
    const char *name;
    bool parallel;
    const char *text;
    bool accepted;
} forced;

static const forced forcings[] = {
    {TERN_TOOLS_HERMES, NULL, false, "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 3}}\n</tool_call>", true},
    {TERN_TOOLS_HERMES, NULL, false, "<tool_call>\n{\"name\": \"add\", \"arguments\": {}}\n</tool_call>", false},
    {TERN_TOOLS_HERMES, "now", false, "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 3}}\n</tool_call>",
     false},
    {TERN_TOOLS_HERMES, "bare", false, "<tool_call>\n{\"name\": \"bare\", \"arguments\": {\"b\": 1}}\n</tool_call>",
     true},
    {TERN_TOOLS_HERMES, "bare", false, "<tool_call>\n{\"name\": \"bare\", \"arguments\": true}\n</tool_call>", false},
    {TERN_TOOLS_LLAMA3, NULL, true,
     "{\"name\": \"now\", \"parameters\": {}}; {\"name\": \"add\", \"parameters\": {\"a\": -1}}", true},
    {TERN_TOOLS_LLAMA3, NULL, false,
     "{\"name\": \"now\", \"parameters\": {}}; {\"name\": \"add\", \"parameters\": {\"a\": -1}}", false},
    {TERN_TOOLS_MISTRAL, "now", false, "[TOOL_CALLS][{\"name\": \"now\", \"arguments\": {}}]", true},
    {TERN_TOOLS_GEMMA, NULL, false, "```json\n{\"name\": \"now\", \"parameters\": {}}\n```", true},
    {TERN_TOOLS_HARMONY, "add", false, "<|channel|>commentary to=functions.add <|constrain|>json<|message|>{\"a\": 0}",
     true},
};

static void test_forced(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof forcings / sizeof *forcings; i++) {
        const forced *f = &forcings[i];
        tern_grammar *g;
        tern_grammar_state *s;
        tern_error err = {0};
        if (tern_grammar_open_tools(&g, NULL, f->form, tools, strlen(tools), f->name, f->parallel, &err) != TERN_OK)
            fail_msg("%s", err.message);
        assert_int_equal(tern_grammar_state_open(&s, g, &err), TERN_OK);
        const bool accepted = tern_grammar_state_accept_text(s, f->text, strlen(f->text), &err) == TERN_OK &&
                              tern_grammar_state_may_end(s);
        if (accepted != f->accepted) fail_msg("%s: accepted: %d: %s", f->text, accepted, err.message);
        tern_grammar_state_close(s);
        tern_grammar_close(g);
    }
}

static void refuse(tern_tool_form form, const char *source, const char *name, tern_status status, const char *words)
{
    tern_grammar *g;
    tern_error err = {0};
    assert_int_equal(tern_grammar_open_tools(&g, NULL, form, source, strlen(source), name, false, &err), status);
    assert_null(g);
    if (!strstr(err.message, words)) fail_msg("%s: %s expected", err.message, words);
}

static void test_refused(void **state)
{
    (void)state;
    refuse(TERN_TOOLS_HERMES, "[]", NULL, TERN_MALFORMED, "an array of 1 to 256 tools");
    refuse(TERN_TOOLS_HERMES, "[{}]", NULL, TERN_MALFORMED, "tools: /0: a name");
    refuse(TERN_TOOLS_HERMES, tools, "x", TERN_NOT_FOUND, "no tool is called x");
    refuse(TERN_TOOLS_NONE, tools, NULL, TERN_UNSUPPORTED, "the form none");
    refuse(TERN_TOOLS_HERMES, "[{\"name\": \"f\", \"parameters\": {\"contains\": {}}}]", NULL, TERN_UNSUPPORTED,
           "tool f: schema: /contains");
    refuse(TERN_TOOLS_HERMES, "[{\"name\": \"f\", \"parameters\": {\"type\": \"array\"}}]", NULL, TERN_MALFORMED,
           "tool f: parameters: type \"array\" found, \"object\" expected");
    assert_int_equal(tern_tool_form_of("{% if tools %}<tool_call>"), TERN_TOOLS_HERMES);
    assert_int_equal(tern_tool_form_of("{{ bos }}"), TERN_TOOLS_NONE);
    assert_string_equal(tern_tool_form_name(TERN_TOOLS_HARMONY), "harmony");
}

static const struct CMUnitTest cases[] = {cmocka_unit_test(test_answers), cmocka_unit_test(test_announced),
                                          cmocka_unit_test(test_forced), cmocka_unit_test(test_refused)};
TEST_GROUP(tools, "", cases);
