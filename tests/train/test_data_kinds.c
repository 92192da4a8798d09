/* Kinds of training data: each gives the documents that the same ones as JSONL give, and what is no text is refused. */
#include "format/gguf.h"
#include "support/converted.h"
#include "train/data/kind.h"
#include "train/data/read.h"
#include "train/support.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static tern_tokenizer *tokenizer;

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
    return 0;
}

static int close_tokenizer(void **state)
{
    (void)state;
    tern_tokenizer_close(tokenizer);
    return 0;
}

typedef struct input {
    const char *name, *bytes, *column;
    size_t n; /* 0: up to the NUL */
    bool skip_bad;
} input;

static tern_status make(const input *in, tern_buf *out, tern_train_data_report *report, tern_error *err)
{
    const tern_train_data_params params = {
        .maker = {.n_vocab = 4096, .tokenizer = tokenizer}, .column = in->column, .skip_bad = in->skip_bad};
    *out = (tern_buf){0};
    return tern_train_data_make_memory(&params, in->name, in->bytes, in->n ? in->n : strlen(in->bytes), out, report,
                                       err);
}

static void assert_same(const input *a, const input *b)
{
    tern_buf x, y;
    tern_error err = {0};
    tern_train_data_report report;
    assert_ok(make(a, &x, &report, &err), err);
    assert_ok(make(b, &y, &report, &err), err);
    assert_int_equal(x.size, y.size);
    assert_memory_equal(x.data, y.data, x.size);
    tern_buf_deinit(&x);
    tern_buf_deinit(&y);
}

static const char lines[] = "{\"text\": \"One, \\\"two\\\".\"}\n{\"text\": \"A \\u00e9\\nnew ] line.\"}\n";

static void kinds_agree(void **state)
{
    (void)state;
    const input jsonl = {"a.jsonl", lines};
    static const input same[] = {
        {"a.ndjson", lines},
        {"a.txt", lines},
        {"a", lines},
        {"a.json", lines},
        {"a.json", "[{\"text\": \"One, \\\"two\\\".\"},\n {\"x\": [{}], \"text\": \"A \\u00e9\\nnew ] line.\"}]\n"},
        {"a.json", "\xEF\xBB\xBF [ { \"text\" : \"One, \\\"two\\\".\" },{\"text\":\"A \\u00e9\\nnew ] line.\"} ] "},
        {"a.csv", "text\n\"One, \"\"two\"\".\"\n\"A \xC3\xA9\nnew ] line.\"\n"},
        {"a.csv", "id,text,x\r\n1,\"One, \"\"two\"\".\",\r\n\r\n2,\"A \xC3\xA9\nnew ] line.\",\"\"\r\n"},
        {"a.csv", "id,body\n1,\"One, \"\"two\"\".\"\n2,\"A \xC3\xA9\nnew ] line.\"", "body"},
        {"a.tsv", "id\ttext\n1\t\"One, \"\"two\"\".\"\n2\t\"A \xC3\xA9\nnew ] line.\"\n"},
    };
    for (size_t i = 0; i < COUNT(same); i++) assert_same(&same[i], &jsonl);
    const input pair = {"a.jsonl", "{\"prompt\": \"One \", \"completion\": \"two.\"}"};
    const input pairs[] = {{"a.csv", "completion,prompt\ntwo.,One \n"},
                           {"a.json", "{\"prompt\": \"One \", \"completion\": \"two.\"}"},
                           {"a.json", "{\n \"prompt\": \"One \",\n \"completion\": \"two.\"\n}"}};
    for (size_t i = 0; i < COUNT(pairs); i++) assert_same(&pairs[i], &pair);
}

static void text_stays_text(void **state)
{
    (void)state;
    static const input texts[] = {{"a.txt", "[1, 2] is a list.\n"},
                                  {"a.txt", "{\"name\": \"a config\"}\n"},
                                  {"a.md", "{not json}\n"},
                                  {"a.txt", "Caf\xE9 is Latin-1, once in a long enough line of text that is UTF-8.\n"}};
    for (size_t i = 0; i < COUNT(texts); i++) {
        tern_train_data_kind kind;
        tern_error err = {0};
        const tern_span bytes = {(const uint8_t *)texts[i].bytes, strlen(texts[i].bytes)};
        assert_ok(tern_train_data_kind_of(texts[i].name, bytes, &kind, &err), err);
        assert_int_equal(kind, TERN_TRAIN_DATA_TEXT);
    }
}

static void refusals(void **state)
{
    (void)state;
    static const struct {
        input in;
        tern_status status;
        const char *words;
    } cases[] = {
        {{"a.txt", "\x1F\x8B\x08\0text", NULL, 8}, TERN_UNSUPPORTED, "gzip: unpack it first"},
        {{"a.jsonl", "\x28\xB5\x2F\xFD....", NULL, 8}, TERN_UNSUPPORTED, "zstd"},
        {{"a.txt", "\xFF\xFEO\0n\0e\0", NULL, 8}, TERN_UNSUPPORTED, "UTF-16"},
        {{"a.txt", "\xFE\xFF\0O\0n\0e", NULL, 8}, TERN_UNSUPPORTED, "UTF-16"},
        {{"a.txt", "O\0n\0e\0", NULL, 6}, TERN_UNSUPPORTED, "zero bytes"},
        {{"a.csv", "PAR1....", NULL, 8}, TERN_UNSUPPORTED, "Parquet"},
        {{"a", "GGUF....", NULL, 8}, TERN_UNSUPPORTED, "a model"},
        {{"a.txt", "\x81\xFF\x93\x88 a \xC0\xAF\xB1\xF9\xE2\x28", NULL, 13}, TERN_UNSUPPORTED, "no UTF-8 text"},
        {{"a.json", "[{\"text\": \"One.\"} {\"text\": \"Two.\"}]"},
         TERN_MALFORMED,
         "a.json:1: \",\" or \"]\" expected"},
        {{"a.json", "[\n{\"text\": \"One.\"},\n{\"text\": 2}]"}, TERN_MALFORMED, "a.json:3: text: number found"},
        {{"a.json", "[{\"text\": \"One.\"}] x"}, TERN_MALFORMED, "the end of the file expected"},
        {{"a.json", "[{\"text\": \"One.\"},"}, TERN_MALFORMED, "an object expected"},
        {{"a.json", "[1]"}, TERN_MALFORMED, "number found, an object expected"},
        {{"a.json", "[]"}, TERN_INVALID_ARGUMENT, "no document"},
        {{"a.csv", "id,body\n1,One.\n"}, TERN_INVALID_ARGUMENT, "--column names the one to read"},
        {{"a.csv", "id,text\n1,One.\n", "body"}, TERN_INVALID_ARGUMENT, "no column \"body\" among the 2"},
        {{"a.csv", "id,text\n1,One.\n2\n"}, TERN_MALFORMED, "a.csv:3: 1 fields found, 2 expected"},
        {{"a.csv", "id,text\n1,\"A\nB\"\n2,B,C\n"}, TERN_MALFORMED, "a.csv:4: 3 fields found, 2 expected"},
        {{"a.csv", "text\n\"One."}, TERN_MALFORMED, "without its end"},
        {{"a.csv", "text\nCaf\xE9 once in a long enough line of text.\n"}, TERN_MALFORMED, "no UTF-8"},
        {{"a.csv", ""}, TERN_INVALID_ARGUMENT, "no column"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        tern_buf out;
        tern_error err = {0};
        tern_train_data_report report;
        tern_status status = make(&cases[i].in, &out, &report, &err);
        if (status != cases[i].status || !strstr(err.message, cases[i].words))
            fail_msg("case %zu: %d, %s", i, (int)status, err.message);
        tern_buf_deinit(&out);
    }
}

static void bad_records_are_skipped(void **state)
{
    (void)state;
    static const input inputs[] = {
        {"a.csv", "id,text\n1,One more.\n2\n3,a,b\n4,Two more.\n", NULL, 0, true},
        {"a.json", "[{\"text\": \"One more.\"}, 1, {}, {\"text\": \"Two more.\"}]", NULL, 0, true}};
    for (size_t i = 0; i < COUNT(inputs); i++) {
        tern_buf out;
        tern_error err = {0};
        tern_train_data_report report;
        assert_ok(make(&inputs[i], &out, &report, &err), err);
        assert_int_equal(report.info.n_documents, 2);
        assert_int_equal(report.bad, 2);
        tern_buf_deinit(&out);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(kinds_agree),
    cmocka_unit_test(text_stays_text),
    cmocka_unit_test(refusals),
    cmocka_unit_test(bad_records_are_skipped),
};

TEST_GROUP(data_kinds, "", tests, .setup = open_tokenizer, .teardown = close_tokenizer);
