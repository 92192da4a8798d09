/* What a tokenizer.json can ask for, case by case, and what is refused. */
#include <sys/stat.h>
#include <unistd.h>

#include "format/gguf.h"
#include "text/text_cases.h"

/* Expected ids by hand from the documented behaviour of the tokenizers library. */
static void test_json_prefix_space(void **state)
{
    (void)state;
    tern_tokenizer *t = text_of_json(
        "{\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\","
        "\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"\\u0120\":3,\"\\u0120ab\":4},\"merges\":[\"a b\",\"\\u0120 ab\"]}}");
    ASSERT_IDS(text_ids_of_z(t, "ab", false), 4);
    ASSERT_IDS(text_ids_of_z(t, " ab ab", false), 4, 4);
    tern_tokenizer_close(t);
}

static void test_json_byte_fallback(void **state)
{
    (void)state;
    tern_tokenizer *t =
        text_of_json("{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"▁\"},"
                     "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"▁\"}]},"
                     "\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"fuse_unk\":true,\"unk_token\":\"<unk>\","
                     "\"vocab\":{\"<unk>\":0,\"<0xC3>\":1,\"<0xA9>\":2,\"▁\":3,\"a\":4,\"▁a\":5,\"aa\":6},"
                     "\"merges\":[[\"▁\",\"a\"],[\"a\",\"a\"]]}}");
    ASSERT_IDS(text_ids_of_z(t, "aaé a", false), 5, 4, 1, 2, 5);
    ASSERT_IDS(text_ids_of_z(t, "xy", false), 3, 0);
    tern_error err = {0};
    tern_buf text = {0};
    const int32_t ids[] = {5, 4, 1, 2, 5};
    assert_ok(tern_detokenize(t, ids, 5, false, &text, &err), err);
    assert_string_equal(text.data, "aaé a");
    tern_buf_deinit(&text);
    tern_tokenizer_close(t);
}

static void test_json_nfc(void **state)
{
    (void)state;
    tern_tokenizer *t = text_of_json(
        "{\"normalizer\":{\"type\":\"NFC\"},\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
        "\"model\":{\"type\":\"BPE\",\"vocab\":{\"\u00C3\":0,\"\u00A9\":1,\"a\":2,\"\u00C3\u00A9\":3},\"merges\":["
        "\"\u00C3 \u00A9\"]}}");
    ASSERT_IDS(text_ids_of_z(t, "ae\u0301\u00E9", false), 2, 3, 3);
    tern_tokenizer_close(t);
}

/* A character that the vocabulary holds a second time, not in the byte alphabet, is no token that text becomes. */
static void test_json_twice(void **state)
{
    (void)state;
    tern_tokenizer *t = text_of_json(
        "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},\"model\":{\"type\":\"BPE\",\"vocab\":"
        "{\"\u00E9\":0,\"\u4E2D\":1,\"\u00E4\":2,\"\u00B8\":3,\"\u0143\":4,\"\u00E4\u00B8\":5,\"\u00E4\u00B8\u0143\":6}"
        ","
        "\"merges\":[\"\u00E4 \u00B8\",\"\u00E4\u00B8 \u0143\"]}}");
    ASSERT_IDS(text_ids_of_z(t, "\u4E2D", false), 6);
    tern_tokenizer_close(t);
}

/* Gemma lists runs of spaces among its added tokens: they are shown as spaces. */
static void test_json_added_spaces(void **state)
{
    (void)state;
    tern_tokenizer *t =
        text_of_json("{\"added_tokens\":[{\"id\":2,\"content\":\"▁▁\",\"special\":false}],\"normalizer\":{\"type\":"
                     "\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"▁\"},\"model\":{\"type\":\"BPE\","
                     "\"byte_fallback\":true,\"vocab\":{\"▁\":0,\"a\":1,\"▁▁\":2},\"merges\":[\"▁ ▁\"]}}");
    tern_tokens ids = text_ids_of_z(t, "a  a", false);
    tern_buf text = {0};
    tern_error err = {0};
    assert_ok(tern_detokenize(t, ids.ids, ids.n, false, &text, &err), err);
    assert_string_equal(text.data, "a  a");
    tern_buf_deinit(&text);
    ASSERT_IDS(ids, 1, 2, 1);
    tern_tokenizer_close(t);
}

static void test_json_splits(void **state)
{
    (void)state;
    static const struct {
        const char *split;
        int32_t ids[8];
        size_t n;
    } CASES[] = {
        /* "a1b", with merges a1, 1b and a1b */
        {"{\"type\":\"Split\",\"pattern\":{\"String\":\"1\"},\"behavior\":\"Isolated\"}", {0, 1, 2}, 3},
        {"{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[0-9]\"},\"behavior\":\"Removed\"}", {0, 2}, 2},
        {"{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[a-z]\"},\"behavior\":\"Removed\",\"invert\":true}", {0, 2}, 2},
        {"{\"type\":\"Split\",\"pattern\":{\"String\":\"1\"},\"behavior\":\"MergedWithPrevious\"}", {3, 2}, 2},
        {"{\"type\":\"Split\",\"pattern\":{\"String\":\"1\"},\"behavior\":\"MergedWithNext\"}", {0, 4}, 2},
        {"{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[a-z]\"},\"behavior\":\"Contiguous\"}", {0, 1, 2}, 3},
        {"{\"type\":\"Digits\",\"individual_digits\":true}", {0, 1, 2}, 3},
        {"{\"type\":\"Punctuation\"}", {5}, 1},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char json[1024];
        snprintf(json, sizeof json,
                 "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[%s,{\"type\":\"ByteLevel\",\"add_prefix_"
                 "space\":false,"
                 "\"use_regex\":false}]},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"1\":1,\"b\":2,\"a1\":3,"
                 "\"1b\":4,\"a1b\":5},"
                 "\"merges\":[\"a 1\",\"1 b\",\"a1 b\"]}}",
                 CASES[i].split);
        tern_tokenizer *t = text_of_json(json);
        text_assert_ids(text_ids_of_z(t, "a1b", false), CASES[i].ids, CASES[i].n);
        tern_tokenizer_close(t);
    }
}

static void test_json_added_flags(void **state)
{
    (void)state;
    tern_tokenizer *t = text_of_json(
        "{\"added_tokens\":[{\"id\":4,\"content\":\"<m>\",\"special\":false,\"lstrip\":true,\"rstrip\":true},"
        "{\"id\":5,\"content\":\"aa\",\"special\":false,\"single_word\":true},{\"id\":6,\"content\":\"<m>b\","
        "\"special\":false}],"
        "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
        "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"\\u0120\":2,\"\\u010a\":3},\"merges\":[]}}");
    ASSERT_IDS(text_ids_of_z(t, "a \n<m> \na", false), 0, 4, 0);
    ASSERT_IDS(text_ids_of_z(t, "a<m>b", false), 0, 6);
    ASSERT_IDS(text_ids_of_z(t, "aa baa aa", false), 5, 2, 1, 0, 0, 2, 5);
    tern_tokenizer_close(t);
}

/* Merges that lead round in circles still only ever make text longer. */
static void test_json_cycles(void **state)
{
    (void)state;
    tern_tokenizer *t = text_of_json(
        "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},\"model\":{\"type\":\"BPE\","
        "\"vocab\":{\"a\":0,\"aa\":1,\"aaa\":2},\"merges\":[\"aa a\",\"a aa\",\"a a\",\"a a\"]}}");
    ASSERT_IDS(text_ids_of_z(t, "aaaa", false), 2, 0);
    ASSERT_IDS(text_ids_of_z(t, "aaa", false), 2);
    tern_tokenizer_close(t);
}

#define BPE(rest) "{\"model\":{\"type\":\"BPE\"," rest "}}"

/* Each file is refused with a message that names what is wrong. */
/* Patterns of the table in the forms that files have: "matches alone", which leaves no gaps, and line ends as they are.
 * They are written by name, which other programs need. */
static void test_json_names(void **state)
{
    (void)state;
#define NOT_WORD     "[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?"
#define TAIL(r, n)   " ?[^\\\\s\\\\p{L}\\\\p{N}]+[" r n "]*|\\\\s*[" r n "]+|\\\\s+(?!\\\\S)|\\\\s+"
#define LLAMA3(r, n) "(?i:'s|'t|'re|'ve|'m|'ll|'d)|" NOT_WORD "\\\\p{L}+|\\\\p{N}{1,3}|" TAIL(r, n)
    static const char *const patterns[] = {LLAMA3("\\\\r", "\\\\n"), LLAMA3("\\r", "\\n")};
    for (size_t i = 0; i < 2; i++) {
        tern_buf json = {0}, file = {0};
        tern_error err = {0};
        tern_gguf_writer *w;
        assert_ok(tern_buf_addf(&json, &err,
                                "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\","
                                "\"pattern\":{\"Regex\":\"%s\"},\"behavior\":\"Removed\",\"invert\":true},"
                                "{\"type\":\"ByteLevel\",\"use_regex\":false,\"add_prefix_space\":false}]},"
                                "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}",
                                patterns[i]),
                  err);
        tern_tokenizer *t = text_of_json(json.data);
        assert_ok(tern_gguf_writer_open_memory(&w, &file, &err), err);
        assert_ok(tern_tokenizer_write_gguf(t, 0, w, &err), err);
        assert_ok(tern_gguf_writer_begin_data(w, &err), err);
        assert_ok(tern_gguf_writer_commit(w, &err), err);
        assert_non_null(memmem(file.data, file.size, "smaug-bpe", 9));
        tern_buf_deinit(&json);
        tern_buf_deinit(&file);
        tern_tokenizer_close(t);
    }
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        parse_fn parse;
        const char *file;
        tern_status status;
        const char *words[2];
    } CASES[] = {
        {tern_tokenizer_parse_json, "{}", TERN_MALFORMED, {"model", ""}},
        {tern_tokenizer_parse_json, "[", TERN_MALFORMED, {"{", ""}},
        {tern_tokenizer_parse_json,
         "{\"model\":{\"type\":\"Unigram\",\"vocab\":[]}}",
         TERN_UNSUPPORTED,
         {"Unigram", "BPE"}},
        {tern_tokenizer_parse_json,
         BPE("\"vocab\":{\"a\":0},\"merges\":[\"a b\"]"),
         TERN_MALFORMED,
         {"merge 0", "second"}},
        {tern_tokenizer_parse_json,
         BPE("\"vocab\":{\"a\":0,\"b\":1},\"merges\":[\"a b\"]"),
         TERN_MALFORMED,
         {"merge 0", "together"}},
        {tern_tokenizer_parse_json,
         BPE("\"vocab\":{\"a\":0,\"b\":1},\"merges\":[\"ab\"]"),
         TERN_MALFORMED,
         {"merge 0", "\"ab\""}},
        {tern_tokenizer_parse_json,
         BPE("\"vocab\":{\"a\":0,\"b\":1},\"merges\":[[\"a\"]]"),
         TERN_MALFORMED,
         {"merge 0", "two"}},
        {tern_tokenizer_parse_json,
         BPE("\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]"),
         TERN_MALFORMED,
         {"token 0", "\"b\""}},
        {tern_tokenizer_parse_json,
         BPE("\"vocab\":{\"a\":0,\"a\":1},\"merges\":[]"),
         TERN_MALFORMED,
         {"0 and 1", "\"a\""}},
        {tern_tokenizer_parse_json, BPE("\"vocab\":{\"a\":99999999},\"merges\":[]"), TERN_MALFORMED, {"99999999", ""}},
        {tern_tokenizer_parse_json, BPE("\"vocab\":{\"a\":-1},\"merges\":[]"), TERN_MALFORMED, {"-1", "whole"}},
        {tern_tokenizer_parse_json, BPE("\"vocab\":{},\"merges\":[]"), TERN_MALFORMED, {"empty", ""}},
        {tern_tokenizer_parse_json,
         BPE("\"unk_token\":\"x\",\"vocab\":{\"a\":0},\"merges\":[]"),
         TERN_MALFORMED,
         {"unk_token", "x"}},
        {tern_tokenizer_parse_json,
         BPE("\"end_of_word_suffix\":\"</w>\",\"vocab\":{\"a\":0},\"merges\":[]"),
         TERN_UNSUPPORTED,
         {"end_of_word_suffix", "</w>"}},
        {tern_tokenizer_parse_json,
         "{\"normalizer\":{\"type\":\"Lowercase\"},\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}",
         TERN_UNSUPPORTED,
         {"normalizer", "Lowercase"}},
        {tern_tokenizer_parse_json,
         "{\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}",
         TERN_UNSUPPORTED,
         {"pre-tokenizer", "Bert"}},
        {tern_tokenizer_parse_json,
         "{\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Isolated\",\"pattern\":{\"Regex\":\"(a\"}},\"model\":{"
         "\"vocab\":{\"a\":0},\"merges\":[]}}",
         TERN_UNSUPPORTED,
         {"pattern \"(a\"", "parenthesis"}},
        {tern_tokenizer_parse_json,
         "{\"added_tokens\":[{\"id\":70000,\"content\":\"x\"}],\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}",
         TERN_MALFORMED,
         {"added_tokens[0]", "70000"}},
        {text_parse_ranks, "", TERN_MALFORMED, {"", ""}},
        {text_parse_ranks, "!!!! 0\n", TERN_MALFORMED, {"line 1", "base64"}},
        {text_parse_ranks, "YQ==\n", TERN_MALFORMED, {"line 1", "rank"}},
        {text_parse_ranks, "YQ== 7\n", TERN_MALFORMED, {"line 1", "\"7\""}},
        {text_parse_ranks, "YQ== 0\nYg== 0\n", TERN_MALFORMED, {"line 2", "token 0"}},
        {text_parse_ranks, "YQ== 0\nYQ== 1\n", TERN_MALFORMED, {"0 and 1", "\"a\""}},
        {text_parse_ranks, "YQ== 0\nYg== 1\n", TERN_MALFORMED, {"0x00", ""}},
        {tern_tokenizer_parse_sentencepiece, "\x0A\x05\x0A", TERN_MALFORMED, {"protobuf", ""}},
        {tern_tokenizer_parse_sentencepiece,
         "\x0A\x03\x0A\x01"
         "a",
         TERN_UNSUPPORTED,
         {"unigram", "BPE"}},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        tern_error err = {0};
        tern_tokenizer *t = NULL;
        int64_t live = tern_alloc_live();
        tern_status status = CASES[i].parse(&t, CASES[i].file, strlen(CASES[i].file), &err);
        if (status != CASES[i].status) fail_msg("case %zu: status %d, \"%s\"", i, (int)status, err.message);
        for (int k = 0; k < 2; k++)
            if (!strstr(err.message, CASES[i].words[k]))
                fail_msg("case %zu: \"%s\" is not in \"%s\"", i, CASES[i].words[k], err.message);
        assert_null(t);
        assert_int_equal(tern_alloc_live(), live);
    }
}

/* A table with more rows than tokens: the others are unused tokens, which no text becomes and which stay so. */
static void test_rows_without_tokens(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_gguf_writer *w;
    tern_gguf *g;
    tern_buf file = {0};
    tern_tokenizer *back,
        *t = text_of_json(
            "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},\"model\":{\"type\":\"BPE\","
            "\"vocab\":{\"a\":0,\"[\":1,\"P\":2},\"merges\":[]}}");
    assert_ok(tern_gguf_writer_open_memory(&w, &file, &err), err);
    assert_ok(tern_gguf_add_string(w, "general.architecture", "llama", 5, &err), err);
    assert_ok(tern_tokenizer_write_gguf(t, 6, w, &err), err);
    assert_ok(tern_gguf_writer_begin_data(w, &err), err);
    assert_ok(tern_gguf_writer_commit(w, &err), err);
    assert_ok(tern_gguf_parse(&g, file.data, file.size, &err), err);
    assert_int_equal(tern_gguf_find(g, "tokenizer.ggml.tokens")->count, 6);
    assert_int_equal(tern_gguf_find(g, "tokenizer.ggml.token_type")->count, 6);
    assert_int_equal(tern_gguf_array_int(tern_gguf_find(g, "tokenizer.ggml.token_type"), 5), 5); /* unused */
    assert_ok(tern_tokenizer_open_gguf(&back, g, &err), err);
    assert_int_equal(tern_tokenizer_size(back), 6);
    ASSERT_IDS(text_ids_of_z(back, "a[P", true), 0, 1, 2);
    tern_gguf_close(g);
    tern_tokenizer_close(t);
    tern_tokenizer_close(back);
    tern_buf_deinit(&file);
}

/* Ids beside the vocabulary: whole numbers of tokens, in a list or alone; anything else is named. */
static void test_end_ids(void **state)
{
    static const char vocabulary[] = "{\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\","
                                     "\"vocab\":{\"a\":0,\"b\":1,\"c\":2},\"merges\":[]}}";
    static const struct {
        const char *ids, *words; /* words: "" when they are taken */
    } cases[] = {{"1", ""},
                 {"[2, 1]", ""},
                 {"null", ""},
                 {"[]", ""},
                 {"true", "eos_token_id: true found"},
                 {"0.5", "eos_token_id: another number found"},
                 {"\"x\"", "eos_token_id: string found"},
                 {"1e39", "eos_token_id: another number found"},
                 {"9223372036854775807", "eos_token_id: another number found"},
                 {"[1, null]", "eos_token_id: null found"},
                 {"[[1]]", "eos_token_id: array found"},
                 {"3", "eos_token_id: token id 3, below 3 expected"},
                 {"-1", "eos_token_id: token id -1"}};
    static const char *const files[] = {"end-ids/config.json", "end-ids/generation_config.json"};
    (void)state;
    mkdir(test_scratch("end-ids"), 0777);
    test_write_text(test_scratch("end-ids/tokenizer.json"), vocabulary);
    for (size_t f = 0; f < 2; f++) {
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            char text[100];
            tern_error err = {0};
            tern_tokenizer *t = NULL;
            snprintf(text, sizeof text, "{\"eos_token_id\": %s}", cases[i].ids);
            test_write_text(test_scratch(files[f]), text);
            const tern_status status = tern_tokenizer_open_hf(&t, test_scratch("end-ids"), &err);
            assert_int_equal(status, *cases[i].words ? TERN_MALFORMED : TERN_OK);
            if (*cases[i].words && !strstr(err.message, cases[i].words)) fail_msg("%s: %s", text, err.message);
            tern_tokenizer_close(t);
        }
        unlink(test_scratch(files[f]));
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_json_prefix_space), cmocka_unit_test(test_json_byte_fallback),
    cmocka_unit_test(test_json_nfc),          cmocka_unit_test(test_json_twice),
    cmocka_unit_test(test_json_added_spaces), cmocka_unit_test(test_json_splits),
    cmocka_unit_test(test_json_added_flags),  cmocka_unit_test(test_json_cycles),
    cmocka_unit_test(test_json_names),        cmocka_unit_test(test_refusals),
    cmocka_unit_test(test_end_ids),           cmocka_unit_test(test_rows_without_tokens),
};

TEST_GROUP(tokenizer_json, "web", tests);
