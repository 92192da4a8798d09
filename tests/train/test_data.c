/* Training data: every kind of input, the tokens that count, and the files that are refused. */
#include "train/data_cases.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

#define EOS "<|end_of_text|>"

static void text_and_pairs(void **state)
{
    (void)state;
    data_expect_document("{\"text\": \"A dog. <|eot_id|>\"}", BOS "A dog. <|eot_id|>" EOS);
    data_expect_document("{\"prompt\": \"The dog said\", \"completion\": \" hello.\"}",
                         "[" BOS "The dog said] hello." EOS);
    /* a token spans the border: the prompt's space goes with the word that follows */
    data_expect_document("{\"prompt\": \"The dog \", \"completion\": \"said\"}", "[" BOS "The dog] said" EOS);
    data_expect_document("{\"prompt\": \"\", \"completion\": \"Once\", \"weight\": 2}", "[" BOS "]Once" EOS);
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
    const tern_train_maker m = data_maker();
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
         "message 0: content: a part of the type \"\" found, parts of the type \"text\" expected"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": 1}]}", "message 0: content: number found"},
        {"{\"messages\": \"[1\"}", "messages: a string that is not JSON found"},
        {"{\"messages\": [3]}", "message 0"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\", \"weight\": 2}]}",
         "weight: 2 found, 0 or 1 expected"},
        {"{\"conversations\": [{\"from\": \"cat\", \"value\": \"a\"}]}", "turn 0: from: \"cat\" found, one of human"},
        {"{\"conversations\": [{\"from\": \"human\"}]}", "turn 0: value: missing"},
        {"{\"conversations\": [], \"text\": \"a\"}", "both text and conversations: one of them expected"},
        {"{\"instruction\": \"a\"}", "output: missing"},
        {"{\"instruction\": \"a\", \"output\": \"b\", \"history\": [[\"a\"]]}", "history: item 0: array found, a pair"},
        {"{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\"}]}",
         "message 0 is from the assistant: a message of the user"},
    };
    const tern_train_maker m = data_maker();
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

static tern_status make_from(const char *name, const char *bytes, tern_train_split split, bool skip_bad,
                             tern_train_data_report *report, tern_error *err)
{
    const char *input = put_file(name, bytes, strlen(bytes));
    const tern_train_data_params params = {
        .maker = data_maker(), .inputs = &input, .n_inputs = 1, .split = split, .skip_bad = skip_bad};
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
    assert_ok(tern_train_data_match(data, 4096, data_tokenizer, &err), err);
    assert_int_equal(tern_train_data_match(data, 4097, data_tokenizer, &err), TERN_MALFORMED);
    assert_int_equal(tern_train_data_match(data, 4096, NULL, &err), TERN_MALFORMED);
    const size_t n = tern_train_data_document(data, 0);
    assert_ok(tern_train_data_read(data, 0, 0, n, ids, in_loss, &err), err);
    assert_ok(tern_detokenize(data_tokenizer, ids, n, false, &found, &err), err);
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
        .maker = data_maker(), .inputs = &input, .n_inputs = 1, .split = TERN_TRAIN_SPLIT_MARK, .mark = "<end>"};
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
        assert_ok(tern_detokenize(data_tokenizer, ids, n, false, &found, &err), err);
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
    const tern_train_data_params params = {.maker = data_maker(), .inputs = &input, .n_inputs = 1, .progress = stop};
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
    const tern_train_data_params params = {.maker = data_maker(), .inputs = &input, .n_inputs = 1};
    for (uint64_t n = 1; status != TERN_OK; n++) {
        if (!test_takes(n, 7, 1)) continue;
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
    cmocka_unit_test(text_and_pairs),           cmocka_unit_test(completions_get_no_space),
    cmocka_unit_test(ids_are_used_as_they_are), cmocka_unit_test(documents_left_out),
    cmocka_unit_test(bad_lines_are_explained),  cmocka_unit_test(lines_have_numbers),
    cmocka_unit_test(text_files_are_split),     cmocka_unit_test(text_ends_at_marks),
    cmocka_unit_test(interrupts_write_nothing), cmocka_unit_test(out_of_memory_is_an_error),
};

TEST_GROUP(data, "", tests, .setup = data_open_tokenizer, .teardown = data_close_tokenizer);
