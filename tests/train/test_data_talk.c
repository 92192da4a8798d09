/* Training data of conversations: calls, thoughts, tools and the other members of messages and lines. Lines are written
 * with ' for ". */
#include "train/data_cases.h"

#define USER      "<|start_header_id|>user<|end_header_id|>"
#define ANSWER    "<|start_header_id|>assistant<|end_header_id|>"
#define RESULT    "<|start_header_id|>tool<|end_header_id|>"
#define END       "<|eot_id|>"
#define ASKS      "{'role': 'user', 'content': 'a'}, "
#define ASKS_MORE "{'role': 'user', 'content': 'c'}, "
#define SAYS      "{'role': 'assistant', "
#define CALL      "{'id': 'c1', 'type': 'function', 'function': {'name': 'clock', 'arguments': {'zone': 1}}}"
#define RESULTS   "{'role': 'tool', 'tool_call_id': 'c1', 'content': '12:00'}, "
#define TOOL      "{'name': 'clock', 'parameters': {'type': 'object', 'properties': {}}}"
#define TOOLS     "'tools': [{'type': 'function', 'function': " TOOL "}]"
#define TALK      ASKS SAYS "'content': null, 'tool_calls': [" CALL "]}, " RESULTS SAYS "'content': 'Noon.'}"
#define CALLED    "<call>clock {\"zone\": 1}</call>"

enum { MAX_LINE = 1024 };

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
/* A variable, tools and documents stand in front of all messages. */
static const char with_variables[] =
    "{% if effort %}{{ effort }}{% endif %}{{ tools | tojson if tools }}{% for d in documents or [] %}{{ d.text }}"
    "{% endfor %}{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>{{ m.name }}{{ m.content }}"
    "{{ m.tool_calls | tojson if m.tool_calls }}<|eot_id|>{% endfor %}";

static const char *quoted(const char *line, char out[MAX_LINE])
{
    const size_t n = strlen(line);
    assert_true(n < MAX_LINE);
    for (size_t i = 0; i <= n; i++) out[i] = line[i] == '\'' ? '"' : line[i];
    return out;
}

static void expect(const char *source, const char *line, const char *expected)
{
    char text[MAX_LINE];
    data_expect_rendered(source, quoted(line, text), expected);
}

static void refuse(const char *source, const char *line, const char *expected)
{
    char text[MAX_LINE];
    data_expect_refused(source, quoted(line, text), expected);
}

static tern_chat_template *parsed(const char *source)
{
    tern_chat_template *template;
    tern_error err = {0};
    assert_ok(tern_chat_template_parse(&template, source, strlen(source), &err), err);
    return template;
}

/* As Jinja2 renders the same objects. */
static void calls_and_thoughts_are_learned(void **state)
{
    (void)state;
    expect(with_calls, "{" TOOLS ", 'messages': [" TALK "]}",
           "[" USER "a" END "]" ANSWER CALLED END "[" RESULT "12:00" END "]" ANSWER "Noon." END "[TOOLS");
    expect(with_calls, "{'messages': [" ASKS SAYS "'reasoning_content': 'add them', 'content': '4'}]}",
           "[" USER "a" END "]" ANSWER "add them4" END);
}

/* Arguments as text, a call without more, calls as the text of their JSON, OpenAI's older form. */
static void calls_have_several_forms(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "{'messages': [" ASKS SAYS
        "'tool_calls': [{'function': {'name': 'clock', 'arguments': '{\\\"zone\\\": 1}'}}]}]}",
        "{'messages': [" ASKS SAYS "'content': '', 'tool_calls': [{'name': 'clock', 'arguments': {'zone': 1}}]}]}",
        "{'messages': [" ASKS SAYS
        "'tool_calls': '[{\\\"name\\\": \\\"clock\\\", \\\"arguments\\\": {\\\"zone\\\": 1}}]', "
        "'weight': null}]}",
        "{'messages': [" ASKS SAYS "'content': null, 'function_call': {'name': 'clock', 'arguments': "
        "'{\\\"zone\\\": 1}'}}]}",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        expect(with_calls, lines[i], "[" USER "a" END "]" ANSWER CALLED END);
}

static void tools_have_several_forms(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "{'tools': [" TOOL "], 'documents': [], 'messages': [" ASKS SAYS "'content': 'b'}]}",
        "{'tools': '[{\\\"name\\\": \\\"clock\\\"}]', 'messages': [" ASKS SAYS "'content': 'b'}]}",
        "{'functions': [{'name': 'clock', 'parameters': null}], 'tools': null, 'messages': [" ASKS SAYS
        "'content': 'b'}]}",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        expect(with_variables, lines[i],
               "[[{\"type\": \"function\", \"function\": {\"name\": \"clock\", \"parameters\": {\"type\": \"object\", "
               "\"properties\": {}}}}]" USER "a" END "]" ANSWER "b" END);
}

/* Whole objects and what stands beside them reach the template; null members are absent. */
static void templates_get_what_lines_have(void **state)
{
    (void)state;
    expect(with_variables,
           "{'chat_template_kwargs': {'effort': 'high'}, 'documents': [{'text': 'Doc'}], 'messages': [{'role': "
           "'developer', 'content': [{'type': 'text', 'text': 'x'}, {'type': 'text', 'text': 'y'}]}, {'role': 'user', "
           "'name': 'Ann', 'content': 'a', 'tool_calls': null}, " SAYS "'content': 'b'}]}",
           "[highDoc<|start_header_id|>system<|end_header_id|>xy" END USER "Anna" END "]" ANSWER "b" END);
    expect(with_variables,
           "{'messages': '[{\\\"role\\\": \\\"user\\\", \\\"content\\\": \\\"a\\\"}, {\\\"role\\\": \\\"assistant\\\", "
           "\\\"content\\\": \\\"b\\\"}]'}",
           "[" USER "a" END "]" ANSWER "b" END);
    expect(plain, "{'messages': [" ASKS SAYS "'content': 'b', 'tool_calls': [], 'reasoning_content': ''}]}",
           "[" USER "a" END ANSWER "]b" END);
    /* the result of a call has its tool's name, which the call knows */
    expect(with_variables, "{'messages': [" TALK "]}",
           "[" USER "a" END "]" ANSWER "[{\"type\": \"function\", \"function\": {\"name\": \"clock\", \"arguments\": "
           "{\"zone\": 1}}, \"id\": \"c1\"}]" END "[" RESULT "clock12:00" END "]" ANSWER "Noon." END);
}

static void other_forms_have_calls(void **state)
{
    (void)state;
    expect(with_calls,
           "{'tools': '[{\\\"name\\\": \\\"clock\\\"}]', 'conversations': [{'from': 'human', 'value': 'a'}, {'from': "
           "'function_call', 'value': '{\\\"name\\\": \\\"clock\\\", \\\"arguments\\\": {\\\"zone\\\": 1}}'}, {'from': "
           "'observation', 'value': '12:00'}, {'from': 'gpt', 'value': 'Noon.'}]}",
           "[" USER "a" END "]" ANSWER CALLED END "[" RESULT "12:00" END "]" ANSWER "Noon." END "[TOOLS");
    /* of prompt and completion, what the assistant says in the completion */
    expect(with_calls,
           "{'prompt': [" ASKS SAYS "'content': 'b'}, {'role': 'user', 'content': 'c'}], 'completion': [" SAYS
           "'tool_calls': [" CALL "]}]}",
           "[" USER "a" END ANSWER "b" END USER "c" END "]" ANSWER CALLED END);
    expect(plain,
           "{'conversations': [{'from': 'human', 'value': 'a'}, {'from': 'gpt', 'value': 'b', 'weight': 0}, {'from': "
           "'human', 'value': 'c'}, {'from': 'gpt', 'value': 'd'}, {'from': 'human', 'value': 'e'}, {'from': 'gpt', "
           "'value': 'f', 'train': false}]}",
           "[" USER "a" END ANSWER "b" END USER "c" END ANSWER "]d" END);
}

/* A member that would be lost, and what is no text, ends the line by its name. */
static void what_cannot_be_used_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *line, *message;
    } cases[] = {
        {"{'messages': [" ASKS SAYS "'content': '', 'tool_calls': [" CALL "]}]}",
         "line: message 1: tool_calls: the chat template does not render it"},
        {"{'messages': [" ASKS SAYS "'content': 'b', 'reasoning_content': 'c'}]}", "message 1: reasoning_content: the"},
        {"{'messages': [" ASKS SAYS "'content': 'b', 'thinking': 'c'}]}", "message 1: thinking: the chat template"},
        {"{" TOOLS ", 'messages': [" ASKS SAYS "'content': 'b'}]}",
         "line: tools: the chat template does not render it"},
        {"{'messages': [" ASKS SAYS "'content': [{'type': 'image_url', 'image_url': {}}]}]}",
         "message 1: content: a part of the type \"image_url\" found"},
        {"{'messages': [{'role': 'user', 'content': 'a', 'images': ['x.png']}]}", "message 0: images: array found"},
        {"{'messages': [" ASKS SAYS "'refusal': 'no', 'content': ''}]}", "message 1: refusal: string found"},
        {"{'messages': [" ASKS SAYS "'content': null}]}", "message 1: content: missing"},
        {"{'messages': [" ASKS "{'role': 'Assistant', 'content': 'a'}]}",
         "message 1: role: \"Assistant\" found, \"assistant\" expected"},
        {"{'messages': [" ASKS "{'role': 'model', 'content': 'a'}]}",
         "message 1: role: \"model\" found, \"assistant\" expected"},
        {"{'messages': [" ASKS SAYS "'tool_calls': [{'function': {}}]}]}", "message 1: tool_calls: call 0: no name"},
        {"{'messages': [" ASKS SAYS "'tool_calls': [{'function': {'name': 'f', 'arguments': '{'}}]}]}",
         "message 1: tool_calls: call 0: the arguments of f: string found, an object or its JSON expected"},
        {"{'messages': [" ASKS SAYS "'content': 'b', 'train': 1}]}", "message 1: train: number found"},
        {"{'tools': [{'type': 'browser', 'function': {}}], 'messages': []}", "tools[0]: type: \"browser\" found"},
        {"{'tools': [], 'functions': [], 'messages': []}", "both functions and tools: one of them expected"},
        {"{'tools': [{}], 'messages': []}", "tools[0]: name: nothing found"},
        {"{'tools': 'none', 'messages': []}", "tools: a string that is not JSON found, an array or its JSON expected"},
        {"{'chat_template_kwargs': {'tools': []}, 'messages': []}", "chat_template_kwargs: tools cannot be set here"},
        {"{'prompt': 'a', 'completion': []}", "prompt: string, completion: array found: both strings"},
        {"{'prompt': 'a', 'chosen': 'b', 'rejected': 'c'}", "chosen and rejected: preference data"},
        {"{'prompt': 'a', 'completion': 'b', 'label': false}", "label: preference data"},
        {"{'conversations': [{'from': 'human', 'value': 'a'}, {'from': 'function_call', 'value': 'b'}]}",
         "turn 1: value: text that is not JSON found"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) refuse(plain, cases[i].line, cases[i].message);
    refuse("{% for m in messages %}{{ m.role }}:{{ m.content.split('</think>')[-1] }}<|eot_id|>{% endfor %}",
           "{'messages': [" ASKS SAYS "'content': '<think>b</think>c'}]}",
           "message 1: content before </think>: the chat template does not render it");
}

/* Answers without text, calls and thoughts teach nothing. */
static void empty_answers_are_left_out(void **state)
{
    (void)state;
    char line[MAX_LINE];
    const tern_train_maker m = data_maker();
    tern_train_document d = {0};
    tern_error err = {0};
    quoted("{'messages': [" ASKS SAYS "'content': ''}]}", line);
    assert_ok(tern_train_document_json(&m, line, strlen(line), "line", &d, &err), err);
    assert_int_equal(d.skip, TERN_TRAIN_NO_LABELS);
    tern_train_document_deinit(&d);
    data_expect_document(
        quoted("{'messages': [" ASKS SAYS "'content': ' \\n'}, " ASKS_MORE SAYS "'content': 'd'}]}", line),
        "[" BOS "User: a" END "Assistant: " END "User: c" END "Assistant:] d" END);
}

/* Each answer is learned as it is rendered when it is the last message. */
static void answers_that_change_later_are_joined(void **state)
{
    (void)state;
    expect(mark_on_last, "{'messages': [" ASKS SAYS "'content': 'b'}, " ASKS_MORE SAYS "'content': 'd'}]}",
           "[" USER "a" END "]" ANSWER "[think][/think]b" END "[" USER "c" END "]" ANSWER "[think][/think]d" END);
    /* users who say what the assistant said */
    expect(mark_on_last, "{'messages': [" ASKS SAYS "'content': 'a'}, " ASKS SAYS "'content': 'a'}]}",
           "[" USER "a" END "]" ANSWER "[think][/think]a" END "[" USER "a" END "]" ANSWER "[think][/think]a" END);
    /* what opens an answer stands behind each conversation */
    expect("{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>{{ m.content }}<|eot_id|>"
           "{% endfor %}<|start_header_id|>assistant<|end_header_id|>",
           "{'messages': [" ASKS SAYS "'content': 'b'}, " ASKS_MORE SAYS "'content': 'd'}]}",
           "[" USER "a" END ANSWER "]b" END "[" USER "c" END ANSWER "]d" END "[" ANSWER);
}

static void joints_lie_behind_answers(void **state)
{
    (void)state;
    /* two answers in a row */
    expect("{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>{% if loop.last and not "
           "add_generation_prompt %}[t]{% endif %}{{ m.content }}<|eot_id|>{% endfor %}"
           "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>{% endif %}",
           "{'messages': [" ASKS SAYS "'content': 'b'}, " SAYS "'content': 'c'}]}",
           "[" USER "a" END ANSWER "][t]b" END "[" ANSWER "][t]c" END);
    /* line ends at the borders of answers */
    expect("{% for m in messages %}<|start_header_id|>{{ m.role + '\\n' }}{% if loop.last and not "
           "add_generation_prompt %}{{ '\\n' }}{% endif %}{{ m.content }}<|eot_id|>{% endfor %}"
           "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant\\n' }}{% endif %}",
           "{'messages': [{'role': 'user', 'content': '\\na\\n'}, " SAYS "'content': '\\nb\\n'}, {'role': 'user', "
           "'content': '\\n'}, " SAYS "'content': '\\n\\nd'}]}",
           "[<|start_header_id|>user\n\na\n" END "<|start_header_id|>assistant\n]\n\nb\n" END
           "[<|start_header_id|>user\n\n" END "<|start_header_id|>assistant\n]\n\n\nd" END);
    /* a message that the template leaves out does not take others with it */
    expect("{% for m in messages %}{% if m.role != 'tool' %}<|start_header_id|>{{ m.role }}<|end_header_id|>"
           "{% if loop.last and m.role == 'assistant' %}[t]{% endif %}{{ m.content }}<|eot_id|>{% endif %}{% endfor %}",
           "{'messages': [" ASKS SAYS "'content': 'b'}, " RESULTS ASKS_MORE SAYS "'content': 'd'}]}",
           "[" USER "a" END "]" ANSWER "[t]b" END "[" USER "c" END "]" ANSWER "[t]d" END);
}

/* Where no token ends an answer, those that render alike are learned, and the others are counted. */
static void answers_that_cannot_be_joined_are_counted(void **state)
{
    (void)state;
    char line[MAX_LINE];
    tern_chat_template *template = parsed("{% for m in messages %}{{ m.role }}: {% if loop.last and m.role == "
                                          "'assistant' %}(t) {% endif %}{{ m.content }}\n{% endfor %}");
    tern_train_maker m = data_maker();
    tern_train_document d = {0};
    tern_error err = {0};
    m.template = template;
    quoted("{'messages': [" ASKS SAYS "'content': 'b'}, " ASKS_MORE SAYS "'content': 'd'}]}", line);
    assert_ok(tern_train_document_json(&m, line, strlen(line), "line", &d, &err), err);
    char *found = data_shown(&d);
    assert_string_equal(found, "[user: a\nassistant: b\nuser: c\n]assistant: (t) d\n");
    assert_int_equal(d.n_unlike, 1);
    assert_false(d.joined);
    tern_free(found);
    tern_train_document_deinit(&d);
    tern_chat_template_close(template);
}

/* Reports count what is not learned, and what is joined. A byte order mark and empty lines are nothing. */
static void reports_count_answers(void **state)
{
    (void)state;
    char lines[MAX_LINE];
    tern_chat_template *template = parsed(mark_on_last);
    tern_train_data_params params = {.maker = data_maker()};
    tern_train_data_report report;
    tern_buf out = {0};
    tern_error err = {0};
    params.maker.template = template;
    quoted("\xEF\xBB\xBF{'messages': [" ASKS SAYS "'content': 'b'}, " ASKS_MORE SAYS "'content': 'd'}]}\n\n"
           "{'messages': [" ASKS SAYS "'content': ''}, " ASKS_MORE SAYS "'content': 'd'}]}\r\n"
           "{'messages': [" ASKS SAYS "'content': ''}]}\n",
           lines);
    assert_ok(tern_train_data_make_memory(&params, "lines", lines, strlen(lines), &out, &report, &err), err);
    assert_int_equal(report.conversations, 2);
    assert_int_equal(report.joined, 1);
    assert_int_equal(report.empty_answers, 1);
    assert_int_equal(report.skipped[TERN_TRAIN_NO_LABELS], 1);
    assert_int_equal(report.unlike_answers, 0);
    tern_buf_deinit(&out);
    tern_chat_template_close(template);
}

/* Makes a document with each allocation failing in turn. */
static void fail_allocations(const tern_train_maker *m, const char *line)
{
    tern_status status = TERN_INTERNAL;
    for (uint64_t n = 1; status != TERN_OK; n++) {
        if (!test_takes(n, 7, 1)) continue;
        tern_train_document d = {0};
        tern_error err = {0};
        const int64_t live = tern_alloc_live();
        tern_alloc_fail_after(n, true);
        status = tern_train_document_json(m, line, strlen(line), "line", &d, &err);
        tern_alloc_fail_after(0, false);
        if (status != TERN_OK && status != TERN_OUT_OF_MEMORY) fail_msg("allocation %d: %s", (int)n, err.message);
        tern_train_document_deinit(&d);
        assert_int_equal(tern_alloc_live(), live);
    }
}

static void out_of_memory_is_an_error(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "{" TOOLS ", 'documents': [], 'chat_template_kwargs': {'a': 1}, 'messages': [" TALK "]}",
        "{'tools': '[{\\\"name\\\": \\\"clock\\\"}]', 'conversations': [{'from': 'human', 'value': 'a'}, {'from': "
        "'function_call', 'value': '{\\\"name\\\": \\\"clock\\\", \\\"arguments\\\": {}}'}]}"};
    char line[MAX_LINE];
    tern_chat_template *template = parsed(with_calls);
    tern_train_maker m = data_maker();
    m.template = template;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) fail_allocations(&m, quoted(lines[i], line));
    tern_chat_template_close(template);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(calls_and_thoughts_are_learned), cmocka_unit_test(calls_have_several_forms),
    cmocka_unit_test(tools_have_several_forms),       cmocka_unit_test(templates_get_what_lines_have),
    cmocka_unit_test(other_forms_have_calls),         cmocka_unit_test(what_cannot_be_used_is_refused),
    cmocka_unit_test(empty_answers_are_left_out),     cmocka_unit_test(answers_that_change_later_are_joined),
    cmocka_unit_test(joints_lie_behind_answers),      cmocka_unit_test(answers_that_cannot_be_joined_are_counted),
    cmocka_unit_test(reports_count_answers),          cmocka_unit_test(out_of_memory_is_an_error),
};

TEST_GROUP(data_talk, "", tests, .setup = data_open_tokenizer, .teardown = data_close_tokenizer);
