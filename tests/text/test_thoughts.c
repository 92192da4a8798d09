/* Thoughts before an answer, in one piece and byte by byte; templates that continue the last message. Expected texts:
 * what the forms' documentation shows, and Jinja2 with transformers' continue_final_message. */
#include "base/alloc.h"
#include "base/bytes.h"
#include "support/test.h"
#include "text/chat/template.h"

typedef struct answer {
    const char *template; /* text that its marks follow from */
    tern_tool_form form;
    bool opened;
    const char *text, *content, *reasoning;
    bool thinks; /* at the end */
    size_t n_calls;
} answer;

static const char think[] = "{{ '<think>' }}{% if '</think>' in content %}", gemma[] = "<|channel>thought<channel|>",
                  harmony[] = "<|channel|>analysis";

static const answer answers[] = {
    {think, TERN_TOOLS_NONE, false, "<think>\na b\n\nc\n</think>\n\nHi <think>", "Hi <think>", "a b\n\nc", false, 0},
    {think, TERN_TOOLS_NONE, true, "\na </thin b\n</think>\n\nHi", "Hi", "a </thin b", false, 0},
    {think, TERN_TOOLS_NONE, true, "<think>\nagain</think>Hi", "Hi", "again", false, 0},
    {think, TERN_TOOLS_NONE, false, "<think>\n\n</think>\n\nHi", "Hi", "", false, 0},
    {think, TERN_TOOLS_NONE, false, "\n <thing> is no thought", "\n <thing> is no thought", "", false, 0},
    {think, TERN_TOOLS_NONE, false, "<thi", "<thi", "", false, 0},
    {think, TERN_TOOLS_NONE, false, " <think>cut \n", "", "cut", true, 0},
    {think, TERN_TOOLS_NONE, true, "cut </thin", "", "cut </thin", true, 0},
    {think, TERN_TOOLS_NONE, false, "<think>a</think><think>b</think>\nc", "c", "ab", false, 0},
    {think, TERN_TOOLS_HERMES, false,
     "<think>\nI call.\n</think>\n\n<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>", "", "I call.", false,
     1},
    {gemma, TERN_TOOLS_NONE, false, "<|channel>thought\nWater?\n<channel|>H2O", "H2O", "Water?", false, 0},
    {harmony, TERN_TOOLS_HARMONY, false, "<|channel|>analysis<|message|>Hm", "", "Hm", true, 0},
    {harmony, TERN_TOOLS_HARMONY, false,
     "<|channel|>analysis<|message|>Hm<|end|><|start|>assistant<|channel|>final<|message|>Hi", "Hi", "Hm", false, 0},
    {"{{ messages }}", TERN_TOOLS_NONE, false, "<think>a</think>b", "<think>a</think>b", "", false, 0},
};

static void compare(const answer *a, size_t step)
{
    tern_tool_parser *p;
    tern_error err = {0};
    tern_buf content = {0}, reasoning = {0};
    const size_t size = strlen(a->text);
    size_t n;
    assert_int_equal(tern_tool_parser_open(&p, a->form, &err), TERN_OK);
    tern_tool_parser_think(p, tern_thought_marks_of(a->template, NULL), a->opened);
    for (size_t i = 0; i < size; i += step)
        assert_int_equal(
            tern_tool_parser_add(p, a->text + i, size - i < step ? size - i : step, &content, &reasoning, &err),
            TERN_OK);
    assert_int_equal(tern_tool_parser_is_thinking(p), a->thinks);
    assert_int_equal(tern_tool_parser_finish(p, &content, &reasoning, &err), TERN_OK);
    (void)tern_tool_parser_calls(p, &n);
    assert_int_equal(n, a->n_calls);
    assert_string_equal(content.data ? content.data : "", a->content);
    assert_string_equal(reasoning.data ? reasoning.data : "", a->reasoning);
    tern_tool_parser_close(p);
    tern_buf_deinit(&content);
    tern_buf_deinit(&reasoning);
}

static void test_answers(void **state)
{
    (void)state;
    const int64_t live = tern_alloc_live();
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++)
        for (size_t step = 1; step < 200; step = step * 2 + 1) compare(&answers[i], step);
    assert_int_equal(tern_alloc_live(), live);
}

static void test_marks(void **state)
{
    (void)state;
    static const char opened[] = "<|im_start|>assistant\n<think>\n", closed[] = "<think>\n\n</think>\n\n";
    const tern_thought_marks *marks = tern_thought_marks_of(think, NULL);
    assert_string_equal(marks->open, "<think>");
    assert_true(tern_thought_marks_opened(marks, opened, strlen(opened)));
    assert_false(tern_thought_marks_opened(marks, closed, strlen(closed)));
    assert_false(tern_thought_marks_opened(marks, "", 0));
    assert_string_equal(tern_thought_marks_of(gemma, NULL)->close, "<channel|>");
    assert_string_equal(tern_thought_marks_of(harmony, NULL)->close, "<|end|>");
    assert_null(tern_thought_marks_of("<|im_start|>", NULL));
    assert_null(tern_thought_marks_of(NULL, NULL));
}

/* Renders, by a template, the text of a conversation whose last message is to be continued. NULL: it is refused. */
static const struct {
    const char *template, *messages, *text;
} continued[] = {
    {"{% for m in messages %}[{{ m.role }}]{{ m.content }}[end]{% endfor %}{% if add_generation_prompt %}[a]{% endif "
     "%}",
     "[{\"role\": \"user\", \"content\": \"Hi\"}, {\"role\": \"assistant\", \"content\": \"Well, \"}]",
     "[user]Hi[end][assistant]Well, "},
    {"{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}</>{% endfor %}",
     "[{\"role\": \"assistant\", \"content\": \" a\\u0000b \"}]", "<assistant>a"},
    {"{% for m in messages %}{{ m.role }}<think>\n\n</think>\n\n{{ m.content.split('</think>')[-1] }}|{% endfor %}",
     "[{\"role\": \"assistant\", \"content\": \"\"}]", "assistant<think>\n\n</think>\n\n"},
    {"{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% endif %}{% endfor %}",
     "[{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"a\"}]", NULL},
    {"{{ messages }}", "[{\"role\": \"assistant\"}]", NULL},
};

static void test_continued(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof continued / sizeof *continued; i++) {
        tern_chat_template *t;
        tern_error err = {0};
        tern_buf text = {0};
        json_t *all = json_pack("{s:o, s:b, s:b}", "messages", json_loads(continued[i].messages, JSON_ALLOW_NUL, NULL),
                                "add_generation_prompt", 1, "continue_final_message", 1);
        const char *source = continued[i].template;
        assert_int_equal(tern_chat_template_parse(&t, source, strlen(source), &err), TERN_OK);
        const tern_status status = tern_chat_template_json(t, "", "", all, &text, &err);
        if (!continued[i].text) assert_int_equal(status, TERN_INVALID_ARGUMENT);
        else assert_memory_equal(text.data, continued[i].text, strlen(continued[i].text));
        if (!continued[i].text) assert_non_null(strstr(err.message, "continue_final_message"));
        else if (i != 1) assert_int_equal(text.size, strlen(continued[i].text));
        tern_buf_deinit(&text);
        tern_chat_template_close(t);
        json_decref(all);
    }
}

static const struct CMUnitTest cases[] = {cmocka_unit_test(test_answers), cmocka_unit_test(test_marks),
                                          cmocka_unit_test(test_continued)};
TEST_GROUP(thoughts, "", cases);
