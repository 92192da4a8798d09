/* Training data: every kind of input, the tokens that count, and the files that are refused. */
#include "base/alloc.h"
#include "format/gguf.h"
#include "support/command.h"
#include "support/converted.h"
#include "train/data_read.h"
#include "train/support.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static tern_tokenizer *tokenizer;
static tern_chat_template *template;
/* BitNet's own form: roles as words, an end token after each message, no mark where an answer begins. */
static const char template_source[] =
    "{% for m in messages %}{% if loop.first %}{{ bos_token }}{% endif %}"
    "{{ m['role'] | capitalize + ': ' + m['content'] | trim + '<|eot_id|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'Assistant: ' }}{% endif %}";

static int open_tokenizer(void **state)
{
    (void)state;
    tern_file_map map;
    tern_gguf *gguf;
    tern_error err = {0};
    assert_ok(tern_file_map_open(&map, test_small_model(), &err), err);
    assert_ok(tern_gguf_parse(&gguf, map.data, map.size, &err), err);
    assert_ok(tern_tokenizer_open_gguf(&tokenizer, gguf, &err), err);
    tern_gguf_close(gguf);
    tern_file_map_close(&map);
    assert_ok(tern_chat_template_parse(&template, template_source, strlen(template_source), &err), err);
    return 0;
}

static int close_tokenizer(void **state)
{
    (void)state;
    tern_chat_template_close(template);
    tern_tokenizer_close(tokenizer);
    return 0;
}

static tern_train_maker maker(void)
{
    return (tern_train_maker){.n_vocab = 4096, .tokenizer = tokenizer, .template = template};
}

/* The document as text, with what does not count between [ and ]. */
static char *shown(const tern_train_document *d)
{
    tern_buf out = {0};
    tern_error err = {0};
    for (size_t i = 0; i < d->ids.n; i++) {
        const bool counts = d->in_loss.data[i], before = i && d->in_loss.data[i - 1];
        if (!counts && (i == 0 || before)) assert_ok(tern_buf_add(&out, "[", 1, &err), err);
        if (counts && i && !before) assert_ok(tern_buf_add(&out, "]", 1, &err), err);
        tern_span s = tern_token_bytes(tokenizer, d->ids.ids[i], true);
        assert_ok(tern_buf_add(&out, s.data, s.size, &err), err);
    }
    assert_int_equal(d->in_loss.size, d->ids.n);
    return out.data;
}

static void expect_document(const char *line, const char *expected)
{
    const tern_train_maker m = maker();
    tern_train_document d = {0};
    tern_error err = {0};
    assert_ok(tern_train_document_json(&m, line, strlen(line), "line", &d, &err), err);
    assert_int_equal(d.skip, TERN_TRAIN_KEPT);
    char *found = shown(&d);
    if (strcmp(found, expected) != 0) fail_msg("%s\nfound    %s\nexpected %s", line, found, expected);
    tern_free(found);
    tern_train_document_deinit(&d);
}

#define BOS "<|begin_of_text|>"
#define EOS "<|endoftext|>"

static void text_and_pairs(void **state)
{
    (void)state;
    expect_document("{\"text\": \"A dog. <|eot_id|>\"}", BOS "A dog. <|eot_id|>" EOS);
    expect_document("{\"prompt\": \"The dog said\", \"completion\": \" hello.\"}", "[" BOS "The dog said] hello." EOS);
    /* a token spans the border: the prompt's space goes with the word that follows */
    expect_document("{\"prompt\": \"The dog \", \"completion\": \"said\"}", "[" BOS "The dog] said" EOS);
    expect_document("{\"prompt\": \"\", \"completion\": \"Once\", \"weight\": 2}", "[" BOS "]Once" EOS);
}

/* SentencePiece puts a space before a text: a completion is no text of its own, so none comes in between. */
static void completions_get_no_space(void **state)
{
    (void)state;
    static const char line[] = "{\"prompt\": \"The small d\", \"completion\": \"og ran\"}";
    tern_tokenizer *spm;
    tern_train_document d = {0};
    tern_tokens whole = {0};
    tern_buf text = {0};
    tern_error err = {0};
    assert_ok(tern_tokenizer_open_hf(&spm, test_fixture("tokenizers/spm1024.model"), &err), err);
    const tern_train_maker m = {.n_vocab = tern_tokenizer_size(spm), .tokenizer = spm};
    assert_ok(tern_train_document_json(&m, line, strlen(line), "line", &d, &err), err);
    assert_ok(tern_tokenize(spm, "The small dog ran", 17, false, &whole, &err), err);
    const size_t bos = tern_tokenizer_adds_bos(spm) ? 1 : 0;
    assert_int_equal(d.ids.n, bos + whole.n + 1);
    assert_memory_equal(d.ids.ids + bos, whole.ids, whole.n * sizeof *whole.ids);
    const size_t masked = (size_t)((const char *)memchr(d.in_loss.data, 1, d.in_loss.size) - d.in_loss.data);
    assert_ok(tern_detokenize(spm, d.ids.ids, masked, false, &text, &err), err);
    assert_true(text.size <= 11 && memcmp(text.data, "The small d", text.size) == 0 && text.size >= 9);
    tern_buf_deinit(&text);
    tern_tokens_deinit(&whole);
    tern_train_document_deinit(&d);
    tern_tokenizer_close(spm);
}

/* What spells a special token in text is text. */
static void special_tokens_are_not_read_in_text(void **state)
{
    (void)state;
    const tern_train_maker m = maker();
    tern_train_document d = {0};
    tern_error err = {0};
    assert_ok(tern_train_document_text(&m, "a<|eot_id|>", 11, &d, &err), err);
    for (size_t i = 1; i + 1 < d.ids.n; i++) assert_false(tern_token_is_special(tokenizer, d.ids.ids[i]));
    assert_int_equal(d.ids.ids[0], tern_tokenizer_bos(tokenizer));
    assert_int_equal(d.ids.ids[d.ids.n - 1], tern_tokenizer_eos(tokenizer));
    tern_train_document_deinit(&d);
}

static void only_the_assistant_counts(void **state)
{
    (void)state;
    expect_document("{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}, {\"role\": \"assistant\", \"content\": "
                    "\"Hello there.\"}]}",
                    "[" BOS "User: Hi<|eot_id|>Assistant:] Hello there.<|eot_id|>");
    expect_document(
        "{\"messages\": [{\"role\": \"system\", \"content\": \"Be kind.\"}, {\"role\": \"user\", \"content\": "
        "\"Assistant: no\"}, {\"role\": \"assistant\", \"content\": \"Yes.\"}, {\"role\": \"user\", "
        "\"content\": \"Bye\"}, {\"role\": \"assistant\", \"content\": \"Bye bye.\"}, {\"role\": \"user\", "
        "\"content\": \"unheard\"}]}",
        "[" BOS "System: Be kind.<|eot_id|>User: Assistant: no<|eot_id|>Assistant:] Yes.<|eot_id|>"
        "[User: Bye<|eot_id|>Assistant:] Bye bye.<|eot_id|>");
}

/* A template that ends lines after each turn: the line end is nobody's, the end token is the assistant's. */
static void what_follows_an_answer_does_not_count(void **state)
{
    (void)state;
    static const char source[] = "{% for m in messages %}{{ '<|begin_of_text|>' + m['role'] + '\\n' + m['content'] + "
                                 "'<|eot_id|>\\n' }}{% endfor %}{% if add_generation_prompt %}"
                                 "{{ '<|begin_of_text|>assistant\\n' }}{% endif %}";
    static const char line[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}, {\"role\": \"assistant\", "
                               "\"content\": \"Yes.\"}, {\"role\": \"user\", \"content\": \"Bye\"}, {\"role\": "
                               "\"assistant\", \"content\": \"\"}]}";
    tern_train_maker m = maker();
    tern_chat_template *lines;
    tern_train_document d = {0};
    tern_error err = {0};
    assert_ok(tern_chat_template_parse(&lines, source, strlen(source), &err), err);
    m.template = lines;
    assert_ok(tern_train_document_json(&m, line, strlen(line), "line", &d, &err), err);
    char *found = shown(&d);
    assert_string_equal(found, "[" BOS "user\nHi<|eot_id|>\n" BOS "assistant\n]Yes.<|eot_id|>[\n" BOS
                               "user\nBye<|eot_id|>\n" BOS "assistant\n]<|eot_id|>[\n");
    tern_free(found);
    tern_train_document_deinit(&d);
    tern_chat_template_close(lines);
}

/* The tokens are those that the chat sees. */
static void messages_are_the_templates_tokens(void **state)
{
    (void)state;
    static const char line[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": \" What? \"}, {\"role\": \"assistant\", "
        "\"content\": \"That.\"}]}";
    const tern_chat_message messages[] = {{"user", " What? ", 7}, {"assistant", "That.", 5}};
    const tern_train_maker m = maker();
    tern_train_document d = {0};
    tern_tokens want = {0};
    tern_error err = {0};
    assert_ok(tern_train_document_json(&m, line, strlen(line), "line", &d, &err), err);
    assert_ok(tern_chat_template_tokens(template, tokenizer, messages, 2, false, &want, &err), err);
    assert_int_equal(d.ids.n, want.n);
    assert_memory_equal(d.ids.ids, want.ids, want.n * sizeof *want.ids);
    tern_tokens_deinit(&want);
    tern_train_document_deinit(&d);
}

static void ids_are_used_as_they_are(void **state)
{
    (void)state;
    static const char line[] = "{\"ids\": [7, 0, 4095, 7]}";
    static const int32_t want[] = {7, 0, 4095, 7};
    const tern_train_maker without = {.n_vocab = 4096};
    tern_train_document d = {0};
    tern_error err = {0};
    assert_ok(tern_train_document_json(&without, line, strlen(line), "line", &d, &err), err);
    assert_true(d.sequence);
    assert_int_equal(d.ids.n, 4);
    assert_memory_equal(d.ids.ids, want, sizeof want);
    assert_memory_equal(d.in_loss.data, "\1\1\1\1", 4);
    tern_train_document_deinit(&d);
}

static void documents_left_out(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        tern_train_skip skip;
    } cases[] = {
        {"{\"text\": \"\"}", TERN_TRAIN_SHORT},
        {"{\"ids\": []}", TERN_TRAIN_SHORT},
        {"{\"ids\": [5]}", TERN_TRAIN_SHORT},
        {"{\"prompt\": \"a\", \"completion\": \"\"}", TERN_TRAIN_NO_LABELS},
        {"{\"messages\": []}", TERN_TRAIN_NO_LABELS},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]}", TERN_TRAIN_NO_LABELS},
    };
    const tern_train_maker m = maker();
    tern_train_document d = {0};
    for (size_t i = 0; i < COUNT(cases); i++) {
        tern_error err = {0};
        assert_ok(tern_train_document_json(&m, cases[i].line, strlen(cases[i].line), "line", &d, &err), err);
        if (d.skip != cases[i].skip) fail_msg("%s: %d, %d expected", cases[i].line, d.skip, cases[i].skip);
    }
    tern_train_document_deinit(&d);
}

static void bad_lines_are_explained(void **state)
{
    (void)state;
    static const struct {
        const char *line, *message;
    } cases[] = {
        {"{\"text\": \"a\"", "line: line 1, column"},
        {"[1]", "array found, an object expected"},
        {"{\"txet\": \"a\"}", "none of text, prompt (with completion), messages and ids: one of them expected"},
        {"{\"text\": \"a\", \"ids\": [1]}", "both text and ids: one of them expected"},
        {"{\"text\": 5}", "text: number found, a string expected"},
        {"{\"prompt\": \"a\"}", "completion: missing"},
        {"{\"ids\": [1, 4096]}", "ids: item 1 is 4096: 0 to 4095 expected"},
        {"{\"ids\": [1, -1]}", "ids: item 1 is -1: 0 to 4095 expected"},
        {"{\"ids\": [1, 1.5]}", "ids: item 1 is no whole number"},
        {"{\"ids\": [\"1\"]}", "ids: item 0 is string: a whole number expected"},
        {"{\"ids\": 1}", "ids: number found, an array expected"},
        {"{\"messages\": [{\"role\": \"user\"}]}", "message 0: content: missing"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [1]}]}",
         "message 0: content: array found, a string expected"},
        {"{\"messages\": [3]}", "message 0"},
        {"{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\"}]}",
         "message 0: the assistant's: something to answer"},
    };
    const tern_train_maker m = maker();
    tern_train_document d = {0};
    const int64_t live = tern_alloc_live();
    for (size_t i = 0; i < COUNT(cases); i++) {
        tern_error err = {0};
        assert_int_equal(tern_train_document_json(&m, cases[i].line, strlen(cases[i].line), "line", &d, &err),
                         TERN_MALFORMED);
        if (!strstr(err.message, cases[i].message))
            fail_msg("%s: \"%s\": \"%s\" expected", cases[i].line, err.message, cases[i].message);
        assert_memory_equal(err.message, "line: ", 6);
    }
    tern_train_document_deinit(&d);
    assert_true(tern_alloc_live() <= live);
}

/* A template that drops what earlier answers said: nobody could say which tokens are the assistant's. */
static void templates_that_rewrite_are_refused(void **state)
{
    (void)state;
    static const char source[] = "{% for m in messages %}{{ m['role'] + (m['content'] if loop.last else '') + '\\n' }}"
                                 "{% endfor %}{% if add_generation_prompt %}assistant{% endif %}",
                      line[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", "
                               "\"content\": \"b\"}]}";
    tern_train_maker m = maker();
    tern_chat_template *rewriting;
    tern_train_document d = {0};
    tern_error err = {0};
    assert_ok(tern_chat_template_parse(&rewriting, source, strlen(source), &err), err);
    m.template = rewriting;
    assert_int_equal(tern_train_document_json(&m, line, strlen(line), "line", &d, &err), TERN_MALFORMED);
    assert_non_null(
        strstr(err.message, "renders the first 1 and the opening of an answer differently when more follow"));
    m.template = NULL;
    assert_int_equal(tern_train_document_json(&m, line, strlen(line), "line", &d, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "no chat template"));
    tern_train_document_deinit(&d);
    tern_chat_template_close(rewriting);
}

static tern_status make_from(const char *name, const char *bytes, tern_train_split split, bool skip_bad,
                             tern_train_data_report *report, tern_error *err)
{
    const char *input = put_file(name, bytes, strlen(bytes));
    const tern_train_data_params params = {
        .maker = maker(), .inputs = &input, .n_inputs = 1, .split = split, .skip_bad = skip_bad};
    return tern_train_data_make(&params, test_scratch("made.tern"), report, err);
}

static void lines_have_numbers(void **state)
{
    (void)state;
    static const char lines[] = "{\"text\": \"One.\"}\r\n\n{\"text\": 1}\n{\"ids\": [1]}\n{\"text\": \"Two.\"}";
    tern_train_data_report report;
    tern_error err = {0};
    assert_int_equal(make_from("lines.jsonl", lines, 0, false, &report, &err), TERN_MALFORMED);
    assert_non_null(strstr(err.message, "lines.jsonl:3: text: number found"));
    assert_false(tern_file_exists(test_scratch("made.tern.tmp")));
    assert_ok(make_from("lines.jsonl", lines, 0, true, &report, &err), err);
    assert_int_equal(report.info.n_documents, 2);
    assert_int_equal(report.bad, 1);
    assert_int_equal(report.skipped[TERN_TRAIN_SHORT], 1);
    assert_non_null(strstr(report.first_bad.message, "lines.jsonl:3: "));
    assert_int_equal(make_from("mixed.jsonl", "{\"text\": \"One.\"}\n{\"ids\": [1, 2]}", 0, true, &report, &err),
                     TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "mixed.jsonl:2: ids after text"));
    assert_int_equal(make_from("empty.jsonl", "\n", 0, false, &report, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "no document"));
}

static void text_files_are_split(void **state)
{
    (void)state;
    static const char text[] = "\nOne\nand a half.\n\n \nTwo.\r\n\r\nThree.";
    static const uint64_t documents[] = {1, 3, 4};
    tern_train_data_report report;
    tern_error err = {0};
    for (int split = 0; split < 3; split++) {
        assert_ok(make_from("text.txt", text, (tern_train_split)split, false, &report, &err), err);
        assert_int_equal(report.info.n_documents, documents[split]);
    }
    assert_ok(make_from("text.txt", text, TERN_TRAIN_SPLIT_BLANK, false, &report, &err), err);
    tern_train_data *data;
    int32_t ids[64];
    uint8_t in_loss[64];
    tern_buf found = {0};
    assert_ok(tern_train_data_open(&data, test_scratch("made.tern"), &err), err);
    assert_ok(tern_train_data_check(data, &err), err);
    assert_ok(tern_train_data_match(data, 4096, tokenizer, &err), err);
    assert_int_equal(tern_train_data_match(data, 4097, tokenizer, &err), TERN_MALFORMED);
    assert_int_equal(tern_train_data_match(data, 4096, NULL, &err), TERN_MALFORMED);
    const size_t n = tern_train_data_document(data, 0);
    assert_ok(tern_train_data_read(data, 0, 0, n, ids, in_loss, &err), err);
    assert_ok(tern_detokenize(tokenizer, ids, n, false, &found, &err), err);
    assert_string_equal(found.data, "One\nand a half.");
    assert_int_equal(in_loss[0], 0);
    for (size_t i = 1; i < n; i++) assert_int_equal(in_loss[i], 1);
    tern_buf_deinit(&found);
    tern_train_data_close(data);
}

/* Documents end at marks; no mark is among their tokens. */
static void text_ends_at_marks(void **state)
{
    (void)state;
    static const char text[] = "<end>\nOne\n\ntwo.\n<end>\n<end>\r\nThree.<end>Four";
    static const char *const want[] = {"One\n\ntwo.", "Three.", "Four"};
    const char *input = put_file("marks.txt", text, strlen(text)), *path = test_scratch("marks.tern");
    tern_train_data_params params = {
        .maker = maker(), .inputs = &input, .n_inputs = 1, .split = TERN_TRAIN_SPLIT_MARK, .mark = "<end>"};
    tern_train_data_report report;
    tern_train_data *data;
    tern_error err = {0};
    assert_ok(tern_train_data_make(&params, path, &report, &err), err);
    assert_int_equal(report.info.n_documents, 3);
    assert_ok(tern_train_data_open(&data, path, &err), err);
    for (uint64_t d = 0; d < 3; d++) {
        int32_t ids[64];
        tern_buf found = {0};
        const size_t n = tern_train_data_document(data, d);
        assert_ok(tern_train_data_read(data, d, 0, n, ids, NULL, &err), err);
        assert_ok(tern_detokenize(tokenizer, ids, n, false, &found, &err), err);
        assert_string_equal(found.data, want[d]);
        tern_buf_deinit(&found);
    }
    tern_train_data_close(data);
    params.mark = "";
    assert_int_equal(tern_train_data_make(&params, path, &report, &err), TERN_INVALID_ARGUMENT);
}

static bool stop(void *context, float done)
{
    (void)context;
    assert_true(done >= 0 && done <= 1);
    return false;
}

static void interrupts_write_nothing(void **state)
{
    (void)state;
    const char *input = put_file("stop.txt", "Once.", 5), *path = test_scratch("stopped.tern");
    const tern_train_data_params params = {.maker = maker(), .inputs = &input, .n_inputs = 1, .progress = stop};
    tern_train_data_report report;
    tern_error err = {0};
    assert_int_equal(tern_train_data_make(&params, path, &report, &err), TERN_CANCELLED);
    assert_false(tern_file_exists(path));
}

/* Every allocation that fails ends in an error and leaves nothing behind. */
static void out_of_memory_is_an_error(void **state)
{
    (void)state;
    static const char lines[] =
        "{\"text\": \"One.\"}\n{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": "
        "\"assistant\", \"content\": \"b\"}]}\n";
    tern_train_data_report report;
    tern_status status = TERN_INTERNAL;
    const char *input = put_file("memory.jsonl", lines, strlen(lines)), *path = test_scratch("memory.tern");
    const tern_train_data_params params = {.maker = maker(), .inputs = &input, .n_inputs = 1};
    for (uint64_t n = 1; status != TERN_OK; n += test_quick() ? 7 : 1) {
        tern_error err = {0};
        const int64_t live = tern_alloc_live();
        tern_alloc_fail_after(n, true);
        status = tern_train_data_make(&params, path, &report, &err);
        tern_alloc_fail_after(0, false);
        if (status != TERN_OK && status != TERN_OUT_OF_MEMORY) fail_msg("allocation %d: %s", (int)n, err.message);
        assert_int_equal(tern_alloc_live(), live);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(text_and_pairs),
    cmocka_unit_test(completions_get_no_space),
    cmocka_unit_test(special_tokens_are_not_read_in_text),
    cmocka_unit_test(only_the_assistant_counts),
    cmocka_unit_test(messages_are_the_templates_tokens),
    cmocka_unit_test(ids_are_used_as_they_are),
    cmocka_unit_test(documents_left_out),
    cmocka_unit_test(bad_lines_are_explained),
    cmocka_unit_test(templates_that_rewrite_are_refused),
    cmocka_unit_test(lines_have_numbers),
    cmocka_unit_test(text_files_are_split),
    cmocka_unit_test(text_ends_at_marks),
    cmocka_unit_test(what_follows_an_answer_does_not_count),
    cmocka_unit_test(interrupts_write_nothing),
    cmocka_unit_test(out_of_memory_is_an_error),
};

TEST_GROUP(data, "", tests, .setup = open_tokenizer, .teardown = close_tokenizer);
