/* Training data of conversations: calls, thoughts, tools and the other members of messages and lines. */
#include "train/data_cases.h"

#define HEAD(role) "<|start_header_id|>" role "<|end_header_id|>"
#define END        "<|eot_id|>"
#define USER(text) "{\"role\": \"user\", \"content\": \"" text "\"}"
#define SAYS(more) "{\"role\": \"assistant\", " more "}"
#define LINE(more) "{\"messages\": [" more "]}"
#define CALL                                                                                                           \
    "{\"id\": \"c1\", \"type\": \"function\", \"function\": {\"name\": \"clock\", \"arguments\": {\"zone\": 1}}}"
#define CALL_TEXT "{\"id\": \"c1\", \"function\": {\"name\": \"clock\", \"arguments\": \"{\\\"zone\\\": 1}\"}}"
#define TOOL      "{\"name\": \"clock\", \"parameters\": {\"type\": \"object\", \"properties\": {}}}"
#define TOOLS     "\"tools\": [{\"type\": \"function\", \"function\": " TOOL "}]"
#define TALK                                                                                                           \
    USER("Time?")                                                                                                      \
    ", " SAYS("\"content\": null, \"tool_calls\": [" CALL "]") ", {\"role\": \"tool\", \
                    \"tool_call_id\": \"c1\", \"content\": \"12:00\"}, " SAYS("\"content\": \"Noon.\"")

/* Thoughts, text, calls; tools are told of behind all messages; nothing opens an answer. */
static const char with_calls[] =
    "{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>{{ m.reasoning_content or '' }}"
    "{{ m.content }}{% for c in m.tool_calls or [] %}<call>{{ c.function.name }} {{ c.function.arguments | tojson }}"
    "</call>{% endfor %}<|eot_id|>{% endfor %}{% if tools %}TOOLS{% endif %}";
/* The last answer alone has thoughts. */
static const char mark_on_last[] = "{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>{% if "
                                   "loop.last and m.role == 'assistant' %}"
                                   "[think][/think]{% endif %}{{ m.content }}<|eot_id|>{% endfor %}";
static const char plain[] = "{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>{{ m.content }}"
                            "<|eot_id|>{% endfor %}{% if add_generation_prompt %}<|start_header_id|>assistant"
                            "<|end_header_id|>{% endif %}";
/* What a variable and the tools are, in front of all messages. */
static const char with_variables[] =
    "{% if effort %}{{ effort }}{% endif %}{{ tools | tojson if tools }}{% for d in documents or [] %}{{ d.text }}"
    "{% endfor %}{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>{{ m.name }}{{ m.content }}"
    "{{ m.tool_calls | tojson if m.tool_calls }}<|eot_id|>{% endfor %}";

/* As Jinja2 renders the same objects. */
static void calls_and_thoughts_are_learned(void **state)
{
    (void)state;
    static const char expected[] =
        "[" HEAD("user") "Time?" END "]" HEAD("assistant") "<call>clock {\"zone\": 1}</call>" END
                                                           "[" HEAD("tool") "12:00" END
                                                                            "]" HEAD("assistant") "Noon." END "[TOOLS";
    data_expect_rendered(with_calls, "{" TOOLS ", \"messages\": [" TALK "]}", expected);
    data_expect_rendered(with_calls,
                         LINE(USER("2+2?") ", " SAYS("\"reasoning_content\": \"add them\", \"content\": \"4\"")),
                         "[" HEAD("user") "2+2?" END "]" HEAD("assistant") "add them4" END);
    /* arguments as text, a call without more, calls and tools as the text of their JSON, OpenAI's older forms */
    static const char *const calls[] = {
        "\"tool_calls\": [" CALL_TEXT "]",
        "\"content\": \"\", \"tool_calls\": [{\"name\": \"clock\", \"arguments\": {\"zone\": 1}}]",
        "\"tool_calls\": \"[{\\\"name\\\": \\\"clock\\\", \\\"arguments\\\": {\\\"zone\\\": 1}}]\", \"weight\": null",
        "\"content\": null, \"function_call\": {\"name\": \"clock\", \"arguments\": \"{\\\"zone\\\": 1}\"}",
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        char line[400];
        snprintf(line, sizeof line, LINE(USER("Time?") ", " SAYS("%s")), calls[i]);
        data_expect_rendered(with_calls, line,
                             "[" HEAD("user") "Time?" END "]" HEAD("assistant") "<call>clock {\"zone\": 1}</call>" END);
    }
}

/* Whole objects and what stands beside them reach the template; null members are absent. */
static void templates_get_what_lines_have(void **state)
{
    (void)state;
    static const char shown[] =
        "{\"type\": \"function\", \"function\": {\"name\": \"clock\", \"parameters\": {\"type\": "
        "\"object\", \"properties\": {}}}}";
    static const char *const tools[] = {
        "\"tools\": [" TOOL "], \"documents\": []",
        "\"tools\": \"[{\\\"name\\\": \\\"clock\\\", \\\"parameters\\\": {\\\"type\\\": \\\"object\\\", "
        "\\\"properties\\\": {}}}]\"",
        "\"functions\": [{\"name\": \"clock\", \"parameters\": null}], \"tools\": null",
    };
    char line[600], expected[600];
    for (size_t i = 0; i < sizeof tools / sizeof *tools; i++) {
        snprintf(line, sizeof line, "{%s, \"messages\": [" USER("a") ", " SAYS("\"content\": \"b\"") "]}", tools[i]);
        snprintf(expected, sizeof expected, "[[%s]" HEAD("user") "a" END "]" HEAD("assistant") "b" END, shown);
        data_expect_rendered(with_variables, line, expected);
    }
    data_expect_rendered(
        with_variables,
        "{\"chat_template_kwargs\": {\"effort\": \"high\"}, \"documents\": [{\"text\": "
        "\"Doc\"}], \"messages\": [{\"role\": \"developer\", \"content\": [{\"type\": \"text\", "
        "\"text\": \"x\"}, {\"type\": \"text\", \"text\": \"y\"}]}, {\"role\": \"user\", \"name\": \"Ann\", "
        "\"content\": \"a\", \"tool_calls\": null}, " SAYS("\"content\": \"b\"") "]}",
        "[highDoc" HEAD("system") "xy" END HEAD("user") "Anna" END "]" HEAD("assistant") "b" END);
    data_expect_rendered(with_variables,
                         "{\"messages\": \"["
                         "{\\\"role\\\": \\\"user\\\", \\\"content\\\": \\\"a\\\"}, "
                         "{\\\"role\\\": \\\"assistant\\\", \\\"content\\\": \\\"b\\\"}]\"}",
                         "[" HEAD("user") "a" END "]" HEAD("assistant") "b" END);
    /* the result of a call has its tool's name, which the call knows */
    data_expect_rendered(with_variables, LINE(TALK),
                         "[" HEAD("user") "Time?" END "]" HEAD(
                             "assistant") "[{\"type\": \"function\", \"function\": {"
                                          "\"name\": \"clock\", \"arguments\": {\"zone\": 1}}, \"id\": \"c1\"}]" END
                                          "[" HEAD("tool") "clock12:00" END "]" HEAD("assistant") "Noon." END);
}

static void other_forms_have_calls(void **state)
{
    (void)state;
    static const char expected[] =
        "[" HEAD("user") "Time?" END "]" HEAD("assistant") "<call>clock {\"zone\": 1}</call>" END
                                                           "[" HEAD("tool") "12:00" END
                                                                            "]" HEAD("assistant") "Noon." END "[TOOLS";
    data_expect_rendered(
        with_calls,
        "{\"tools\": \"["
        "{\\\"name\\\": \\\"clock\\\"}]\", \"conversations\": [{\"from\": "
        "\"human\", \"value\": \"Time?\"}, {\"from\": \"function_call\", \"value\": \"{\\\"name\\\": "
        "\\\"clock\\\", \\\"arguments\\\": {\\\"zone\\\": 1}}\"}, {\"from\": \"observation\", \"value\": "
        "\"12:00\"}, {\"from\": \"gpt\", \"value\": \"Noon.\"}]}",
        expected);
    /* of prompt and completion, what the assistant says in the completion */
    data_expect_rendered(with_calls,
                         "{\"prompt\": [" USER("a") ", " SAYS("\"content\": \"b\"") ", " USER(
                             "Time?") "], \"completion\": [" SAYS("\"tool_calls\": [" CALL "]") "]}",
                         "[" HEAD("user") "a" END HEAD("assistant") "b" END HEAD("user") "Time?" END "]" HEAD(
                             "assistant") "<call>clock {\"zone\": 1}</call>" END);
    data_expect_rendered(
        plain,
        "{\"conversations\": [{\"from\": \"human\", \"value\": \"a\"}, {\"from\": \"gpt\", \"value\": "
        "\"b\", \"weight\": 0}, {\"from\": \"human\", \"value\": \"c\"}, {\"from\": \"gpt\", \"value\": "
        "\"d\"}, {\"from\": \"human\", \"value\": \"e\"}, {\"from\": \"gpt\", \"value\": \"f\", \"train\": "
        "false}]}",
        "[" HEAD("user") "a" END HEAD("assistant") "b" END HEAD("user") "c" END HEAD("assistant") "]d" END);
}

/* A member that would be lost, and what is no text, ends the line by its name. */
static void what_cannot_be_used_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *line, *message;
    } cases[] = {
        {LINE(USER("a") ", " SAYS("\"content\": \"\", \"tool_calls\": [" CALL "]")),
         "line: message 1: tool_calls: the chat template does not render it"},
        {LINE(USER("a") ", " SAYS("\"content\": \"b\", \"reasoning_content\": \"c\"")),
         "message 1: reasoning_content: the"},
        {LINE(USER("a") ", " SAYS("\"content\": \"b\", \"thinking\": \"c\"")), "message 1: thinking: the chat"},
        {"{" TOOLS ", \"messages\": [" USER("a") ", " SAYS("\"content\": \"b\"") "]}",
         "line: tools: the chat template"},
        {LINE(USER("a") ", " SAYS("\"content\": [{\"type\": \"image_url\", \"image_url\": {}}]")),
         "message 1: content: a part of the type \"image_url\" found"},
        {LINE("{\"role\": \"user\", \"content\": \"a\", \"images\": [\"x.png\"]}"), "message 0: images: array found"},
        {LINE(USER("a") ", " SAYS("\"refusal\": \"no\", \"content\": \"\"")), "message 1: refusal: string found"},
        {LINE(USER("a") ", " SAYS("\"content\": null")), "message 1: content: missing"},
        {LINE(USER("a") ", " SAYS("\"tool_calls\": [{\"function\": {}}]")), "message 1: tool_calls: call 0: no name"},
        {LINE(USER("a") ", " SAYS("\"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": \"{\"}}]")),
         "message 1: tool_calls: call 0: the arguments of f: string found, an object or its JSON expected"},
        {LINE(USER("a") ", " SAYS("\"content\": \"b\", \"train\": 1")), "message 1: train: number found"},
        {"{\"tools\": [{\"type\": \"browser\", \"function\": {}}], \"messages\": []}",
         "tools[0]: type: \"browser\" found"},
        {"{\"tools\": [{}], \"messages\": []}", "tools[0]: name: nothing found"},
        {"{\"tools\": \"none\", \"messages\": []}",
         "tools: a string that is no JSON found, an array or its JSON expected"},
        {"{\"chat_template_kwargs\": {\"tools\": []}, \"messages\": []}", "chat_template_kwargs: tools is no variable"},
        {"{\"prompt\": \"a\", \"completion\": [" USER("a") "]}",
         "prompt: string, completion: array found: both strings"},
        {"{\"prompt\": \"a\", \"chosen\": \"b\", \"rejected\": \"c\"}", "chosen and rejected: data of preferences"},
        {"{\"prompt\": \"a\", \"completion\": \"b\", \"label\": false}", "label: data of preferences"},
        {"{\"conversations\": [{\"from\": \"human\", \"value\": \"a\"}, {\"from\": \"function_call\", \"value\": "
         "\"b\"}]}",
         "turn 1: value: text that is no JSON found"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        data_expect_refused(plain, cases[i].line, cases[i].message);
    data_expect_refused(
        "{% for m in messages %}{{ m.role }}:{{ m.content.split('</think>')[-1] }}<|eot_id|>{% endfor %}",
        LINE(USER("a") ", " SAYS("\"content\": \"<think>b</think>c\"")),
        "message 1: content before </think>: the chat template does not render it");
}

/* Answers without text, calls and thoughts teach nothing. */
static void empty_answers_are_left_out(void **state)
{
    (void)state;
    const tern_train_maker m = data_maker();
    static const char line[] = LINE(USER("Hi") ", " SAYS("\"content\": \"\"")),
                      more[] = LINE(
                          USER("Hi") ", " SAYS("\"content\": \" \\n\"") ", " USER("b") ", " SAYS("\"content\": \"c\""));
    tern_train_document d = {0};
    tern_error err = {0};
    assert_ok(tern_train_document_json(&m, line, strlen(line), "line", &d, &err), err);
    assert_int_equal(d.skip, TERN_TRAIN_NO_LABELS);
    assert_ok(tern_train_document_json(&m, more, strlen(more), "line", &d, &err), err);
    assert_int_equal(d.skip, TERN_TRAIN_KEPT);
    assert_int_equal(d.n_empty, 1);
    tern_train_document_deinit(&d);
    data_expect_document(more, "[" BOS "User: Hi" END "Assistant: " END "User: b" END "Assistant:] c" END);
}

/* Each answer is learned as it is rendered when it is the last message. */
static void answers_that_change_later_are_joined(void **state)
{
    (void)state;
    static const char talk[] =
        LINE(USER("Hi") ", " SAYS("\"content\": \"Hello.\"") ", " USER("And you?") ", " SAYS("\"content\": \"Fine.\""));
    data_expect_rendered(mark_on_last, talk,
                         "[" HEAD("user") "Hi" END "]" HEAD("assistant") "[think][/think]Hello." END "[" HEAD(
                             "user") "And you?" END "]" HEAD("assistant") "[think][/think]Fine." END);
    /* what opens an answer stands behind each conversation */
    data_expect_rendered(
        "{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>{{ m.content }}<|eot_id|>"
        "{% endfor %}<|start_header_id|>assistant<|end_header_id|>",
        talk,
        "[" HEAD("user") "Hi" END HEAD("assistant") "]Hello." END "[" HEAD("user") "And you?" END HEAD(
            "assistant") "]Fine." END "[" HEAD("assistant"));
    /* users who say what the assistant said; two answers in a row */
    data_expect_rendered(
        mark_on_last,
        LINE(USER("Yes") ", " SAYS("\"content\": \"Yes\"") ", " USER("Yes") ", " SAYS("\"content\": \"Yes\"")),
        "[" HEAD("user") "Yes" END "]" HEAD("assistant") "[think][/think]Yes" END "[" HEAD("user") "Yes" END "]" HEAD(
            "assistant") "[think][/think]Yes" END);
    data_expect_rendered(
        "{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>{% if loop.last and not "
        "add_generation_prompt %}[t]{% endif %}{{ m.content }}<|eot_id|>{% endfor %}"
        "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>{% endif %}",
        LINE(USER("a") ", " SAYS("\"content\": \"b\"") ", " SAYS("\"content\": \"c\"")),
        "[" HEAD("user") "a" END HEAD("assistant") "][t]b" END "[" HEAD("assistant") "][t]c" END);
}

/* Where no token ends an answer, those that render alike are learned, and the others are counted. */
static void answers_that_cannot_be_joined_are_counted(void **state)
{
    (void)state;
    static const char source[] = "{% for m in messages %}{{ m.role }}: {% if loop.last and m.role == 'assistant' %}(t) "
                                 "{% endif %}{{ m.content }}\n{% endfor %}",
                      line[] = LINE(USER("Hi") ", " SAYS("\"content\": \"Hello.\"") ", " USER("And you?") ", " SAYS(
                          "\"content\": \"Fine.\""));
    tern_train_maker m = data_maker();
    tern_chat_template *template;
    tern_train_document d = {0};
    tern_error err = {0};
    assert_ok(tern_chat_template_parse(&template, source, strlen(source), &err), err);
    m.template = template;
    assert_ok(tern_train_document_json(&m, line, strlen(line), "line", &d, &err), err);
    char *found = data_shown(&d);
    assert_string_equal(found, "[user: Hi\nassistant: Hello.\nuser: And you?\n]assistant: (t) Fine.\n");
    assert_int_equal(d.n_unlike, 1);
    assert_false(d.joined);
    tern_free(found);
    tern_train_document_deinit(&d);
    tern_chat_template_close(template);
}

/* Every allocation that fails ends in OUT_OF_MEMORY and leaves nothing behind. */
static void out_of_memory_is_an_error(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "{" TOOLS ", \"documents\": [], \"chat_template_kwargs\": {\"a\": 1}, \"messages\": [" TALK "]}",
        "{\"tools\": \"[{\\\"name\\\": \\\"clock\\\"}]\", \"conversations\": [{\"from\": \"human\", \"value\": \"a\"}, "
        "{\"from\": \"function_call\", \"value\": \"{\\\"name\\\": \\\"clock\\\", \\\"arguments\\\": \\\"{}\\\"}\"}]}"};
    tern_train_maker m = data_maker();
    tern_chat_template *template;
    tern_error parsed = {0};
    assert_ok(tern_chat_template_parse(&template, with_calls, strlen(with_calls), &parsed), parsed);
    m.template = template;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        tern_status status = TERN_INTERNAL;
        for (uint64_t n = 1; status != TERN_OK; n++) {
            if (!test_takes(n, 7, 1)) continue;
            tern_train_document d = {0};
            tern_error err = {0};
            const int64_t live = tern_alloc_live();
            tern_alloc_fail_after(n, true);
            status = tern_train_document_json(&m, lines[i], strlen(lines[i]), "line", &d, &err);
            tern_alloc_fail_after(0, false);
            if (status != TERN_OK && status != TERN_OUT_OF_MEMORY) fail_msg("allocation %d: %s", (int)n, err.message);
            tern_train_document_deinit(&d);
            assert_int_equal(tern_alloc_live(), live);
        }
    }
    tern_chat_template_close(template);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(calls_and_thoughts_are_learned),
    cmocka_unit_test(templates_get_what_lines_have),
    cmocka_unit_test(other_forms_have_calls),
    cmocka_unit_test(what_cannot_be_used_is_refused),
    cmocka_unit_test(empty_answers_are_left_out),
    cmocka_unit_test(answers_that_change_later_are_joined),
    cmocka_unit_test(answers_that_cannot_be_joined_are_counted),
    cmocka_unit_test(out_of_memory_is_an_error),
};

TEST_GROUP(data_talk, "", tests, .setup = data_open_tokenizer, .teardown = data_close_tokenizer);
