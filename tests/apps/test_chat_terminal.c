/* tern chat on a terminal: speakers, colours, pasted lines, Alt-Enter; the template of a family. */
#include <stdlib.h>
#include <unistd.h>

#include "apps/chat/style.h"
#include "support/command.h"
#include "support/test.h"

static const char *file_of(const char *name)
{
    const char *path = test_scratch(name);
    unlink(path);
    return path;
}

static void expect_message(const char *path, size_t at, const char *expected)
{
    json_error_t error;
    json_t *list = json_load_file(path, 0, &error);
    assert_non_null(list);
    assert_string_equal(json_string_value(json_object_get(json_array_get(list, at), "content")), expected);
    json_decref(list);
}

/* A terminal's prompt is written before libedit reads: what is typed later waits for nothing. */
static void pasted_lines_are_one_message(void **state)
{
    (void)state;
    char save[1100];
    const char *path = file_of("cli-chat-paste.json");
    snprintf(save, sizeof save, "/save %s\r", path);
    setenv("TERM", "dumb", 1);
    const test_step steps[] = {{"leaves.\r\n> ", "One fox.\rTwo \"foxes\".\r"},
                               {"... ", NULL},
                               {"\r\n< ", NULL},
                               {"\r\n> ", "A bird\033\r"},
                               {"\\\r\n... ", "and a cat.\r"},
                               {"\r\n< ", NULL},
                               {"\r\n> ", save},
                               {"(4 messages are in", NULL},
                               {"\r\n> ", "/temp x\r"},
                               {"error: /temp x: a number", NULL},
                               {"\r\n> ", "/bye\r"}};
    test_output o =
        test_tern_talk(TERN_WORDS("chat", "--greedy", "-n", "4", "--history", ""), steps, sizeof steps / sizeof *steps);
    assert_int_equal(o.code, 0);
    assert_null(strstr(o.out, "\033[1;3"));
    expect_message(path, 0, "One fox.\nTwo \"foxes\".");
    expect_message(path, 2, "A bird\nand a cat.");
    unlink(path);
    test_output_free(&o);
}

#define PROMPT "\033[?2004h"

/* What the terminal says is pasted is text, line breaks and tabs too, however slowly it comes; Enter sends it. */
static void marked_pastes_are_one_message(void **state)
{
    (void)state;
    char save[1100];
    const char *path = file_of("cli-chat-marked.json");
    snprintf(save, sizeof save, "/save %s\r", path);
    setenv("TERM", "xterm", 1);
    setenv("NO_COLOR", "1", 1);
    const test_step steps[] = {{PROMPT, "\033[200~One fox.\r"},
                               {"... ", "Two\tfo"},
                               {"Two", "xes.\033[201~ ~\r"},
                               {"< ", NULL},
                               {PROMPT, save},
                               {"(2 messages are in", NULL},
                               {PROMPT, "/bye\r"}};
    test_output o =
        test_tern_talk(TERN_WORDS("chat", "--greedy", "-n", "4", "--history", ""), steps, sizeof steps / sizeof *steps);
    assert_int_equal(o.code, 0);
    expect_message(path, 0, "One fox.\nTwo\tfoxes. ~");
    unlink(path);
    unsetenv("NO_COLOR");
    test_output_free(&o);
}

/* A container has no locale: text is UTF-8 all the same. */
static void text_is_utf8_in_any_locale(void **state)
{
    (void)state;
    static const char text[] = "h\303\251 \360\237\246\212 \346\227\245 end";
    static const char *const locales[] = {"C", "POSIX", "de_DE.ISO-8859-1", "no such locale"};
    char save[1100], line[64];
    const char *path = file_of("cli-chat-locale.json");
    snprintf(save, sizeof save, "/save %s\r", path);
    snprintf(line, sizeof line, "%s\r", text);
    setenv("TERM", "dumb", 1);
    for (size_t i = 0; i < sizeof locales / sizeof *locales; i++) {
        setenv("LC_ALL", locales[i], 1);
        const test_step steps[] = {
            {"> ", line}, {"\r\n< ", NULL}, {"\r\n> ", save}, {"(2 messages are in", NULL}, {"\r\n> ", "/bye\r"}};
        test_output o = test_tern_talk(TERN_WORDS("chat", "--greedy", "-n", "4", "--history", ""), steps,
                                       sizeof steps / sizeof *steps);
        assert_int_equal(o.code, 0);
        expect_message(path, 0, text);
        unlink(path);
        test_output_free(&o);
    }
    unsetenv("LC_ALL");
}

/* Ctrl-C at a line that was begun: a new one, and Up has the old one. At an empty line a hint, then the end. */
static void ctrl_c_keeps_what_was_typed(void **state)
{
    (void)state;
    setenv("TERM", "xterm", 1);
    const test_step steps[] = {{PROMPT, "half of it"}, {"half of it", "\003"}, {PROMPT, "\033[A"},
                               {"half of it", "\003"}, {PROMPT, "\003"},       {"(Ctrl-C again", NULL},
                               {PROMPT, "\003"}};
    test_output o =
        test_tern_talk(TERN_WORDS("chat", "--greedy", "-n", "4", "--history", ""), steps, sizeof steps / sizeof *steps);
    assert_int_equal(o.code, 0);
    test_output_free(&o);
}

/* Talks with these steps, the history in a file. */
static void talk_with(const char *history, const test_step *steps, uint32_t n)
{
    setenv("TERM", "xterm", 1);
    setenv("NO_COLOR", "1", 1);
    test_output o = test_tern_talk(TERN_WORDS("chat", "--greedy", "-n", "4", "--history", history), steps, n);
    unsetenv("NO_COLOR");
    if (o.code != 0) fail_msg("%s", o.out);
    test_output_free(&o);
}

/* Of several lines, however they came: one entry, which Up has in this run and in the next, and Enter sends. */
static void messages_of_lines_are_remembered_whole(void **state)
{
    (void)state;
    char save[1100], history[1024];
    snprintf(history, sizeof history, "%s", file_of("cli-chat-history"));
    const char *path = file_of("cli-chat-again.json");
    snprintf(save, sizeof save, "/save %s\r", path);
    const test_step first[] = {
        {PROMPT, "\"\"\"\r"},     {"... ", "/help\r"},      {"... ", "me\"\"\"\r"}, {"< ", NULL},
        {PROMPT, "A bird\033\r"}, {"... ", "and a cat.\r"}, {"< ", NULL},           {PROMPT, "half\\\r"},
        {"... ", "of it\003"},    {PROMPT, "\033[A\033[A"}, {"and a cat.", "\r"},   {"< ", NULL},
        {PROMPT, "/bye\r"}};
    const test_step second[] = {{PROMPT, "\033[A\033[A\033[A"},
                                {"of it", "!\r"},
                                {"< ", NULL},
                                {PROMPT, "\033[A\033[A\033[A\033[A\033[A\033[A"},
                                {"me\"\"\"", "\r"},
                                {"< ", NULL},
                                {PROMPT, save},
                                {"(4 messages are in", NULL},
                                {PROMPT, "/bye\r"}};
    talk_with(history, first, sizeof first / sizeof *first);
    talk_with(history, second, sizeof second / sizeof *second);
    expect_message(path, 0, "half\nof it!");
    expect_message(path, 2, "/help\nme");
    unlink(history);
    unlink(path);
}

/* A folder's slash comes with its name. */
static void tab_completes_folders(void **state)
{
    (void)state;
    char folder[] = "/tmp/ternXXXXXX", typed[64];
    assert_non_null(mkdtemp(folder));
    const size_t n = strlen(folder) - 1;
    const char rest[] = {folder[n], '/', 0};
    snprintf(typed, sizeof typed, "/load %.*s\t", (int)n, folder);
    setenv("TERM", "xterm", 1);
    const test_step steps[] = {{PROMPT, typed}, {rest, "x\r"}, {"/x: cannot open", NULL}, {PROMPT, "/bye\r"}};
    test_output o = test_tern_talk(TERN_WORDS("chat", "--history", ""), steps, sizeof steps / sizeof *steps);
    assert_int_equal(o.code, 0);
    rmdir(folder);
    test_output_free(&o);
}

static bool has_colors(const char *term, const char *no_color)
{
    const test_step steps[] = {{"leaves.", NULL}, {"> ", "/bye\r"}};
    const test_step colored[] = {{"leaves.", NULL}, {">", "/bye\r"}};
    setenv("TERM", term, 1);
    if (no_color) setenv("NO_COLOR", no_color, 1);
    else unsetenv("NO_COLOR");
    const bool colors = tern_chat_style_of(true).colors;
    test_output o = test_tern_talk(TERN_WORDS("chat", "--history", ""), colors ? colored : steps, 2);
    const bool found = strstr(o.out, "\033[1;32m") != NULL;
    assert_int_equal(o.code, 0);
    test_output_free(&o);
    unsetenv("NO_COLOR");
    return found;
}

static void colors_can_be_refused(void **state)
{
    (void)state;
    assert_true(has_colors("xterm", NULL));
    assert_true(has_colors("xterm", ""));
    assert_false(has_colors("xterm", "1"));
    assert_false(has_colors("dumb", NULL));
    assert_false(tern_chat_style_of(false).colors);
}

/* Shows an answer in these pieces on a terminal of so many columns (0: any), standard output being a file. */
static void expect_shown(unsigned columns, size_t piece, const char *text, const char *expected)
{
    char shown[512] = "";
    tern_chat_style style = {.colors = true};
    FILE *file = tmpfile();
    fflush(stdout);
    const int saved = dup(STDOUT_FILENO);
    assert_true(file && saved >= 0 && dup2(fileno(file), STDOUT_FILENO) >= 0);
    tern_chat_style_begin(&style);
    style.wrap.columns = columns;
    for (size_t i = 0, n = strlen(text); i < n; i += piece)
        tern_chat_style_write(&style, text + i, n - i < piece ? n - i : piece);
    tern_chat_style_end(&style);
    fflush(stdout);
    dup2(saved, STDOUT_FILENO);
    close(saved);
    rewind(file);
    shown[fread(shown, 1, sizeof shown - 1, file)] = 0;
    fclose(file);
    assert_string_equal(shown, expected);
}

static void expect_styled(size_t piece, const char *text, const char *expected)
{
    expect_shown(0, piece, text, expected);
}

#define OFF  "\033[0m"
#define BOLD OFF "\033[1m"
#define CODE OFF "\033[36m"

static void lines_break_between_words(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"one two three four", "one two\nthree four" OFF}, /* 10 columns: "three four" fills the line */
        {"one  two   three\n\n  four", "one  two\nthree\n\n  four" OFF},
        {"a word longerthanthat end", "a word\nlongerthanthat\nend" OFF},
        {"see **bold words** here", "see " BOLD "**bold\nwords**" OFF "\nhere" OFF},
        {"```\nlong lines of code\n```\nx", CODE "```\nlong lines of code\n```" OFF "\nx" OFF},
        {"\u4f60\u597d\u4f60\u597d\u4f60\u597d", "\u4f60\u597d\u4f60\u597d\u4f60\n\u597d" OFF}, /* two columns each */
        {"\u00e9t\u00e9 na\u00efve", "\u00e9t\u00e9 na\u00efve" OFF},
        {"a\tb c", "a\tb\nc" OFF},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        expect_shown(10, 100, cases[i][0], cases[i][1]);
        expect_shown(10, 3, cases[i][0], cases[i][1]);
    }
}

static void markdown_is_styled_in_any_pieces(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"a **b** c", "a " BOLD "**b**" OFF " c" OFF},
        {"2 ** 3 * 4", "2 ** 3 * 4" OFF},
        {"`x*y` z", CODE "`x*y`" OFF " z" OFF},
        {"**b\nc", BOLD "**b" OFF "\nc" OFF},
        {"```c\n**p = `q`\n```\nend", CODE "```c\n**p = `q`\n```" OFF "\nend" OFF},
        {"**", "**" OFF},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t piece = 1; piece < 20; piece++) expect_styled(piece, cases[i][0], cases[i][1]);
}

static void a_family_has_a_template(void **state)
{
    (void)state;
    static const char *const cases[][2] = {{"llama3.2-1b", "llama3, by its family (llama)"},
                                           {"bitnet-tiny", "bitnet, by its family (bitnet-b1.58)"},
                                           {"gpt-oss-tiny", "none is known for its family (gpt-oss)"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *path = file_of("cli-chat-family.gguf");
        test_output made = TERN("synth", "--preset", cases[i][0], "--layers", "1", "-o", path);
        assert_int_equal(made.code, 0);
        test_output o = test_tern("", TERN_WORDS("chat", "-m", path)),
                    named = test_tern("", TERN_WORDS("chat", "-m", path, "--template", "chatml"));
        if (!strstr(o.err, cases[i][1])) fail_msg("%s: %s", cases[i][0], o.err);
        assert_int_equal(o.code, i == 2 ? 2 : 0);
        assert_null(strstr(named.err, "family"));
        test_output_free(&made);
        test_output_free(&o);
        test_output_free(&named);
        unlink(path);
    }
}

/* Conversations are trained on by the family's template too, and what was trained keeps it. */
static void a_family_is_trained_by_its_template(void **state)
{
    (void)state;
    static const char talk[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}, {\"role\": "
                               "\"assistant\", \"content\": \"Hello.\"}]}\n";
    static const char note[] = "the model has no chat template: bitnet, by its family (bitnet-b1.58); --template takes";
    char model[1024], data[1024], tokens[1024], output[1024], story[1024];
    snprintf(model, sizeof model, "%s", file_of("cli-family.gguf"));
    snprintf(data, sizeof data, "%s", file_of("cli-family.jsonl"));
    snprintf(story, sizeof story, "%s", file_of("cli-family.txt"));
    snprintf(tokens, sizeof tokens, "%s", file_of("cli-family.tern"));
    snprintf(output, sizeof output, "%s", test_scratch("cli-family-out.gguf"));
    test_write_text(data, talk);
    test_write_text(story, "Once upon a time there was a fox.");
    test_output o = TERN("synth", "--preset", "bitnet-tiny", "--layers", "1", "-o", model);
    assert_int_equal(o.code, 0);
    test_output_free(&o);
    o = TERN("data", "-m", model, data, "-o", tokens, "--overwrite");
    if (o.code != 0 || !strstr(o.err, note)) fail_msg("%s", o.err);
    test_output_free(&o);
    for (int talks = 0; talks < 2; talks++) {
        o = TERN("finetune", "-m", model, "--data", talks ? data : story, "--steps", "1", "--seq", "16", "--batch", "1",
                 "--val-split", "0", "-t", "1", "-o", output, "--overwrite");
        if (o.code != 0 || !strstr(o.err, note) != !talks) fail_msg("%s", o.err);
        test_output_free(&o);
        o = test_tern("", TERN_WORDS("chat", "-m", output));
        if (o.code != 0 || !strstr(o.err, note) != (bool)talks) fail_msg("%s", o.err);
        test_output_free(&o);
    }
    unlink(model);
    unlink(output);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(pasted_lines_are_one_message),
    cmocka_unit_test(marked_pastes_are_one_message),
    cmocka_unit_test(text_is_utf8_in_any_locale),
    cmocka_unit_test(ctrl_c_keeps_what_was_typed),
    cmocka_unit_test(messages_of_lines_are_remembered_whole),
    cmocka_unit_test(tab_completes_folders),
    cmocka_unit_test(colors_can_be_refused),
    cmocka_unit_test(markdown_is_styled_in_any_pieces),
    cmocka_unit_test(lines_break_between_words),
    cmocka_unit_test(a_family_has_a_template),
    cmocka_unit_test(a_family_is_trained_by_its_template),
};

TEST_GROUP(chat_terminal, "slow", tests);
