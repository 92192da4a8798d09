/* tern chat on a pipe: turns, /commands, saved conversations. */
#include <unistd.h>

#include "base/bytes.h"
#include "base/file.h"
#include "support/command.h"
#include "support/converted.h"
#include "support/places.h"
#include "support/test.h"

static test_output chat(const char *input)
{
    return test_tern(input,
                     TERN_WORDS("chat", "-m", test_small_model(), "--template", "chatml", "--greedy", "-n", "12"));
}

static size_t lines(const char *text)
{
    size_t n = 0;
    for (; *text; text++) n += *text == '\n';
    return n;
}

static void each_line_is_a_turn(void **state)
{
    (void)state;
    test_output one = chat("Tell me about a cat.\n"), two = chat("Tell me about a cat.\nAnd a dog?\n");
    assert_int_equal(one.code, 0);
    assert_int_equal(two.code, 0);
    assert_true(lines(one.out) >= 1);
    assert_true(strlen(two.out) > strlen(one.out));
    assert_memory_equal(one.out, two.out, strlen(one.out));
    test_output_free(&one);
    test_output_free(&two);
}

/* What the session still holds changes the work, never the words. */
static void kept_tokens_do_not_change_the_text(void **state)
{
    (void)state;
    test_output fresh = chat("A king.\n"), again = chat("A king.\n/regenerate\n/clear\nA king.\n");
    char three[3 * 4096];
    snprintf(three, sizeof three, "%s%s%s", fresh.out, fresh.out, fresh.out);
    assert_string_equal(again.out, three);
    test_output_free(&fresh);
    test_output_free(&again);
}

static void conversations_are_saved_and_loaded(void **state)
{
    (void)state;
    char input[2200], file[1024];
    snprintf(file, sizeof file, "%s", test_scratch("cli-chat.json"));
    unlink(file);
    snprintf(input, sizeof input, "/system Be brief.\nA king.\n/save %s\n", file);
    test_output saved = chat(input);
    assert_int_equal(saved.code, 0);
    json_error_t error;
    json_t *list = json_load_file(file, 0, &error);
    assert_int_equal(json_array_size(list), 3);
    assert_string_equal(json_string_value(json_object_get(json_array_get(list, 0), "content")), "Be brief.");
    json_decref(list);
    snprintf(input, sizeof input, "/load %s\n/regenerate\n", file);
    test_output loaded = chat(input);
    assert_string_equal(loaded.out, saved.out);
    test_output_free(&saved);
    test_output_free(&loaded);
}

/* A backslash at the end, and quotes around a message. */
static void messages_have_several_lines(void **state)
{
    (void)state;
    char input[2200], file[1024];
    snprintf(file, sizeof file, "%s", test_scratch("cli-chat-lines.json"));
    unlink(file);
    snprintf(input, sizeof input, "A king \\\nand\\\n a queen.\n\"\"\"\n/one\n\ntwo\"\"\"\n/save %s\n", file);
    test_output o = chat(input);
    assert_int_equal(o.code, 0);
    json_error_t error;
    json_t *list = json_load_file(file, 0, &error);
    assert_int_equal(json_array_size(list), 4);
    static const char *const want[] = {"A king \nand\n a queen.", "/one\n\ntwo"};
    for (size_t i = 0; i < 2; i++)
        assert_string_equal(json_string_value(json_object_get(json_array_get(list, 2 * i), "content")), want[i]);
    json_decref(list);
    unlink(file);
    test_output_free(&o);
}

/* A message that the end of the input cuts off is sent. */
static void the_end_of_the_input_ends_a_message(void **state)
{
    static const char *const inputs[] = {"\"\"\"\nA king\n", "\"\"\"A king", "A king \\", "A king"};
    (void)state;
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        test_output o = chat(inputs[i]);
        assert_int_equal(o.code, 0);
        if (o.n_out < 2) fail_msg("%s: no answer", inputs[i]);
        test_output_free(&o);
    }
}

static void wrong_commands_are_explained(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"/hlep\n", "unknown command /hlep: did you mean /help?"},
        {"/temp hot\n", "error: /temp hot: a number from 0 to 100 expected"},
        {"/save\n", "the name of a file is missing"},
        {"/load /nothing/here.json\n", "/nothing/here.json"},
        {"/regenerate\n", "there is no answer yet"},
        {"/lora add /dev/null:x\n", "--lora /dev/null:x: scale \"x\" found, a number expected"},
        {"/stop x\n", "/stop: --stop can be given at the start"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        test_output o = chat(cases[i][0]);
        assert_int_not_equal(o.code, 0);
        if (!strstr(o.err, cases[i][1])) fail_msg("%s: %s", cases[i][0], o.err);
        test_output_free(&o);
    }
}

/* Its vocabulary has the marks of its family's. */
static void a_model_without_a_template_takes_its_familys(void **state)
{
    (void)state;
    test_output o = test_tern("hello\n", TERN_WORDS("chat", "-m", test_small_model(), "--greedy", "-n", "4"));
    assert_int_equal(o.code, 0);
    assert_non_null(strstr(o.err, "no chat template: bitnet, by its family (bitnet-b1.58); --template takes another"));
    test_output_free(&o);
}

static void a_full_context_is_explained(void **state)
{
    (void)state;
    const char *const words[] = {"chat", "-m", test_small_model(), "--template", "chatml", "--greedy", "-n", "12", "-c",
                                 "96",   NULL};
    const char *const shifting[] = {"chat", "-m", test_small_model(), "--template", "chatml", "--greedy", "-n", "12",
                                    "-c",   "96", "--context-shift",  NULL};
    const char *input =
        "One king and his horse.\nTwo kings and horses.\nThree kings and horses.\nFour kings and horses.\n";
    test_output full = test_tern(input, words), shifted = test_tern(input, shifting);
    assert_int_equal(full.code, 1);
    assert_non_null(strstr(full.err, "/clear forgets it, --ctx makes more room"));
    assert_int_equal(shifted.code, 0);
    test_output_free(&full);
    test_output_free(&shifted);
}

/* Without -m, the model that answers; it has read neither this name nor this request in its corpus. */
static void the_bundled_model_answers(void **state)
{
    (void)state;
    test_output o = test_tern("Tell me a story about a fox named Nilo at the beach.\nWho is the story about?\n"
                              "What is 3 plus 4?\n",
                              TERN_WORDS("chat", "--greedy"));
    assert_int_equal(o.code, 0);
    assert_non_null(strstr(o.out, " fox named Nilo"));
    assert_non_null(strstr(o.out, "the beach"));
    assert_non_null(strstr(o.out, "It is about Nilo, "));
    assert_non_null(strstr(o.out, "\n3 plus 4 is 7.\n"));
    test_output_free(&o);
}

/* The bundled model with a template that has a tag which Jinja does not know. */
static const char *model_with_bad_template(void)
{
    tern_buf file = {0};
    tern_error err = {0};
    const char *path = test_scratch("unreadable.gguf");
    assert_ok(tern_file_read(&file, TERN_SOURCE_DIR "/models/chat.gguf", 1 << 24, &err), err);
    char *tag = memmem(file.data, file.size, "{% for", 6);
    assert_non_null(tag);
    memcpy(tag, "{% fur", 6);
    assert_ok(tern_file_write(path, file.data, file.size, &err), err);
    tern_buf_deinit(&file);
    return path;
}

static void a_template_that_cannot_be_read_stops_chat_alone(void **state)
{
    (void)state;
    static const char why[] = "chat template line 1: tag {% fur %}";
    const char *model = model_with_bad_template();
    test_output o = test_tern("hello\n", TERN_WORDS("chat", "-m", model));
    assert_int_equal(o.code, 1);
    assert_non_null(strstr(o.err, why));
    test_output_free(&o);
    o = test_tern("hello\n", TERN_WORDS("chat", "-m", model, "--template", "llama3", "-n", "2"));
    assert_int_equal(o.code, 0);
    test_output_free(&o);
    o = test_tern("", TERN_WORDS("run", "-m", model, "-p", "Once", "-n", "2"));
    assert_int_equal(o.code, 0);
    test_output_free(&o);
    o = test_tern("", TERN_WORDS("inspect", model));
    assert_int_equal(o.code, 0);
    assert_non_null(strstr(o.out, "conversations  chat template line 1: tag {% fur %}"));
    test_output_free(&o);
    unlink(model);
}

/* One answer and the end: the same as that of a conversation with one message. */
static void one_message(void **state)
{
    (void)state;
    const char *chat = TERN_SOURCE_DIR "/models/chat.gguf";
    test_output want = test_tern("Hi there\n", TERN_WORDS("chat", "-m", chat, "--greedy")), o[5];
    assert_int_equal(want.code, 0);
    o[0] = test_tern("", TERN_WORDS("chat", "-m", chat, "--greedy", "Hi there"));
    o[1] = test_tern("", TERN_WORDS("chat", "-m", chat, "--greedy", "-p", "Hi there", "--seed", "-1"));
    o[2] = test_tern("", TERN_WORDS("run", chat, "Hi there", "--greedy"));
    o[3] = test_tern("Hi there\n", TERN_WORDS("run", chat, "--greedy", "-c", "0"));
    o[4] = test_tern("Hi there\r\n", TERN_WORDS("run", chat, "--greedy"));
    for (int i = 0; i < 5; i++) {
        assert_int_equal(o[i].code, 0);
        assert_string_equal(o[i].out, want.out);
        test_output_free(&o[i]);
    }
    test_output_free(&want);
    o[0] = test_tern("", TERN_WORDS("run", chat));
    assert_int_equal(o[0].code, 2);
    assert_non_null(strstr(o[0].err, "chat.gguf is a file, a prompt expected"));
    test_output_free(&o[0]);
}

/* A template that opens thoughts, and drops those of all but the last answer, as Qwen 3's does. */
#define THINKS TERN_SOURCE_DIR "/tests/serve/support/think.jinja"

/* Thoughts end by their budget, and do not reach a pipe; the conversation keeps them. */
static void thoughts_come_apart(void **state)
{
    (void)state;
    char input[1200], file[1024];
    json_error_t error;
    snprintf(file, sizeof file, "%s", test_scratch("cli-chat-thoughts.json"));
    unlink(file);
    snprintf(input, sizeof input, "Once upon a time\nAnd?\n/save %s\n", file);
#define TALK "chat", "-m", TERN_SOURCE_DIR "/models/stories.gguf", "--template", THINKS, "--greedy", "-n", "24"
    test_output o = test_tern(input, TERN_WORDS(TALK, "--reasoning-budget", "5", "--reasoning-budget-message", " So."));
    assert_string_equal(o.err, "");
    assert_int_equal(o.code, 0);
    assert_null(strstr(o.out, "So.\n</think>"));
    json_t *list = json_load_file(file, 0, &error), *answer = json_array_get(list, 1);
    const char *thoughts = json_string_value(json_object_get(answer, "reasoning_content"));
    const char *text = json_string_value(json_object_get(answer, "content"));
    assert_int_equal(json_array_size(list), 4);
    assert_true(strlen(thoughts) > 4 && strcmp(thoughts + strlen(thoughts) - 4, " So.") == 0);
    assert_true(strlen(text) > 0);
    assert_memory_equal(o.out, text, strlen(text));
    json_decref(list);
    test_output_free(&o);
    o = test_tern("Once upon a time\n/thoughts\n", TERN_WORDS(TALK, "--reasoning-budget", "0"));
    assert_int_equal(o.code, 0);
    assert_null(strstr(o.out, "think"));
    test_output_free(&o);
    o = test_tern("Once upon a time\n/thoughts\n",
                  TERN_WORDS(TALK, "--chat-template-kwargs", "{\"enable_thinking\": false}"));
    assert_int_equal(o.code, 0);
    assert_null(strstr(o.out, "think"));
    test_output_free(&o);
    o = test_tern("Once\n", TERN_WORDS(TALK, "--reasoning-budget", "3", "--regex", "[a-c]{2,3}"));
    assert_int_equal(o.code, 0);
    assert_in_range(strspn(o.out, "abc"), 2, 3);
    test_output_free(&o);
    o = test_tern_on_terminal(TERN_WORDS(TALK, "--reasoning-budget", "5", "-p", "Once upon a time"));
    assert_non_null(strstr(o.out, "(thinking: "));
    test_output_free(&o);
    o = test_tern_on_terminal(TERN_WORDS(TALK, "--reasoning-budget", "5", "--fold-thoughts", "-p", "Once upon a time"));
    assert_non_null(strstr(o.out, "(thinking ...)"));
    test_output_free(&o);
#undef TALK
    unlink(file);
}

/* The text of a flag that a line sets holds when that line is gone; variables of a template can be set as well. */
static void texts_are_set_while_talking(void **state)
{
    (void)state;
    const char *const model = TERN_SOURCE_DIR "/models/stories.gguf";
    test_output o = test_tern("/grammar root ::= \"abc\"\nOnce upon a time, in a wood of old trees\n/regex de\n",
                              TERN_WORDS("chat", "-m", model, "--template", "chatml", "-n", "8"));
    assert_string_equal(o.err, "");
    assert_string_equal(o.out, "abc\n");
    test_output_free(&o);
    char template[1024];
    snprintf(template, sizeof template, "%s", test_scratch("cli-chat-echo.jinja"));
    test_write_text(template, "{{ bos_token }}{% if short %}One day{% else %}{{ messages[0].content }}{% endif %}");
    o = test_tern("/chat-template-kwargs {\"short\": true}\nOnce upon a time\n/stats\n",
                  TERN_WORDS("chat", "-m", model, "--template", template, "--greedy", "-n", "8"));
    assert_int_equal(o.code, 0);
    test_output short_one =
        test_tern("One day\n/stats\n", TERN_WORDS("chat", "-m", model, "--template", template, "--greedy", "-n", "8"));
    assert_string_equal(o.out, short_one.out);
    test_output_free(&short_one);
    test_output_free(&o);
}

/* Who continues a text on a terminal is told that the model talks. */
static void noted_template(void **state)
{
    (void)state;
    const char *chat = TERN_SOURCE_DIR "/models/chat.gguf";
    test_output o = test_tern_on_terminal(TERN_WORDS("run", "-m", chat, "-p", "Hi", "-n", "1")),
                quiet = test_tern_on_terminal(TERN_WORDS("run", "-m", chat, "-p", "Hi", "-n", "1", "-q"));
    assert_non_null(strstr(o.err, "`tern run MODEL MESSAGE` talk with it"));
    assert_null(strstr(quiet.err, "note:"));
    test_output_free(&o);
    test_output_free(&quiet);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(one_message),
    cmocka_unit_test(texts_are_set_while_talking),
    cmocka_unit_test(noted_template),
    cmocka_unit_test(each_line_is_a_turn),
    cmocka_unit_test(kept_tokens_do_not_change_the_text),
    cmocka_unit_test(conversations_are_saved_and_loaded),
    cmocka_unit_test(messages_have_several_lines),
    cmocka_unit_test(the_end_of_the_input_ends_a_message),
    cmocka_unit_test(wrong_commands_are_explained),
    cmocka_unit_test(a_model_without_a_template_takes_its_familys),
    cmocka_unit_test(a_template_that_cannot_be_read_stops_chat_alone),
    cmocka_unit_test(a_full_context_is_explained),
    cmocka_unit_test(the_bundled_model_answers),
    cmocka_unit_test(thoughts_come_apart),
};

TEST_GROUP(chat, "slow", tests);
