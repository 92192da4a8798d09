/* Properties of tokenizers: nothing is lost, streams never split a character, markup needs permission, long runs take
 * little time. */
#include "base/alloc.h"
#include "base/rng.h"
#include "text/goldens.h"
#include "text/utf8.h"

static tern_tokens ids_of(const tern_tokenizer *t, const void *text, size_t n, bool allow_special)
{
    tern_error err = {0};
    tern_tokens tokens = {0};
    assert_ok(tern_tokenize(t, text, n, allow_special, &tokens, &err), err);
    return tokens;
}

static tern_tokens ids_of_z(const tern_tokenizer *t, const char *text, bool allow_special)
{
    return ids_of(t, text, strlen(text), allow_special);
}

static void assert_ids(tern_tokens tokens, const int32_t *expected, size_t n)
{
    assert_int_equal(tokens.n, n);
    if (n) assert_memory_equal(tokens.ids, expected, n * sizeof *expected);
    tern_tokens_deinit(&tokens);
}

#define ASSERT_IDS(tokens, ...)                                                                                        \
    assert_ids(tokens, (const int32_t[]){__VA_ARGS__}, sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

static void check_round_trip(const tern_tokenizer *t, const uint8_t *text, size_t n)
{
    tern_error err = {0};
    tern_buf back = {0};
    tern_tokens tokens = ids_of(t, text, n, false);
    assert_ok(tern_detokenize(t, tokens.ids, tokens.n, false, &back, &err), err);
    assert_int_equal(back.size, n);
    if (n) assert_memory_equal(back.data, text, n);
    tern_buf_deinit(&back);
    tern_tokens_deinit(&tokens);
}

/* Random bytes, and random mixtures of characters that patterns treat differently. */
static size_t random_text(tern_rng *rng, uint8_t *out)
{
    static const char *const PARTS[] = {" ",    "  ",           "\n",           "\r\n", "\t",       "the",
                                        "'s",   "'LL",          "123",          "4",    "é",        "中",
                                        "🙂", "\xE2\x80\x83", "\xC2\xA0",     "\xFF", "\xE2\x82", "<|eot_id|>",
                                        "a",    "!?",           "\xED\xA0\x80", "▁",    "\xC2\x85"};
    size_t n = 0, parts = tern_rng_below(rng, 40);
    bool bytes = tern_rng_below(rng, 2);
    for (size_t i = 0; i < parts; i++) {
        const char *part = PARTS[tern_rng_below(rng, sizeof PARTS / sizeof PARTS[0])];
        size_t size = strlen(part);
        if (bytes) out[n++] = (uint8_t)tern_rng_u64(rng);
        else memcpy(out + n, part, size), n += size;
    }
    return n;
}

static void test_nothing_is_lost(void **state)
{
    (void)state;
    tern_tokenizer *tokenizers[] = {open_llama3(), open_demo()};
    tern_rng rng = {20240611};
    print_message("seed %llu\n", (unsigned long long)rng.state);
    for (int i = 0; i < 4000; i++) {
        uint8_t text[1024];
        size_t n = random_text(&rng, text);
        for (int k = 0; k < 2; k++) check_round_trip(tokenizers[k], text, n);
    }
    for (int k = 0; k < 2; k++) tern_tokenizer_close(tokenizers[k]);
}

/* SentencePiece replaces what is not UTF-8, one U+FFFD for each byte. */
static void test_sentencepiece_replaces(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_tokenizer *t = open_spm1024();
    tern_buf back = {0};
    tern_tokens tokens = ids_of(t, "a\xFF\xE2\x82 b", 6, false);
    assert_ok(tern_detokenize(t, tokens.ids, tokens.n, false, &back, &err), err);
    assert_string_equal(back.data, "a\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD b");
    tern_buf_deinit(&back);
    tern_tokens_deinit(&tokens);
    tern_tokenizer_close(t);
}

static void check_stream(const tern_tokenizer *t, const tern_tokens *tokens)
{
    tern_error err = {0};
    tern_text_stream stream = {0};
    tern_buf whole = {0}, shown = {0};
    assert_ok(tern_detokenize(t, tokens->ids, tokens->n, false, &whole, &err), err);
    assert_ok(tern_buf_add(&shown, "", 0, &err), err);
    for (size_t i = 0; i < tokens->n; i++) {
        size_t before = shown.size;
        assert_ok(tern_text_stream_add(&stream, t, tokens->ids[i], false, &shown, &err), err);
        if (shown.size == before) continue;
        assert_int_equal(tern_utf8__valid_run((const uint8_t *)shown.data + before, shown.size - before),
                         shown.size - before);
    }
    assert_ok(tern_text_stream_finish(&stream, &shown, &err), err);
    if (tern_utf8__valid_run((const uint8_t *)whole.data, whole.size) == whole.size) {
        assert_int_equal(shown.size, whole.size);
        if (whole.size) assert_memory_equal(shown.data, whole.data, whole.size);
    }
    assert_int_equal(tern_utf8__valid_run((const uint8_t *)shown.data, shown.size), shown.size);
    tern_buf_deinit(&whole);
    tern_buf_deinit(&shown);
}

static void check_streams(tern_tokenizer *t, const char *golden_name)
{
    goldens g = goldens_of_json(golden_name);
    for (size_t i = 0; i < g.n; i++) check_stream(t, &(tern_tokens){.ids = g.items[i].ids, .n = g.items[i].n});
    tern_rng rng = {7};
    for (int i = 0; i < 2000; i++) { /* ids that no text has: broken characters everywhere */
        int32_t ids[30];
        for (int k = 0; k < 30; k++) ids[k] = (int32_t)tern_rng_below(&rng, i % 2 ? 300 : tern_tokenizer_size(t));
        check_stream(t, &(tern_tokens){.ids = ids, .n = 30});
    }
    goldens_free(&g);
    tern_tokenizer_close(t);
}

static void test_streams(void **state)
{
    (void)state;
    check_streams(open_llama3(), "llama3_golden.json");
    check_streams(open_demo(), "demo_golden.json");
    check_streams(open_spm1024(), "spm1024_golden.json");
}

/* What cannot be completed becomes one U+FFFD for each longest beginning of a character, as in Unicode's chapter 3.9.
 */
static void test_stream_replaces(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_tokenizer *t = open_llama3();
    tern_buf shown = {0};
    tern_text_stream stream = {0};
    const uint8_t bytes[] = {'a', 0xE2, 0x82, 'b', 0xF0, 0x9F, 0x99, 0xE2, 0x82, 0xAC, 0x80, 0xC0, 0xF0, 0x9F};
    for (size_t i = 0; i < sizeof bytes; i++) {
        tern_tokens tokens = ids_of(t, bytes + i, 1, false);
        assert_ok(tern_text_stream_add(&stream, t, tokens.ids[0], false, &shown, &err), err);
        tern_tokens_deinit(&tokens);
    }
    assert_ok(tern_text_stream_finish(&stream, &shown, &err), err);
    assert_string_equal(shown.data, "a\uFFFDb\uFFFD€\uFFFD\uFFFD\uFFFD");
    tern_buf_deinit(&shown);
    tern_tokenizer_close(t);
}

static void test_stream_does_not_allocate(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_tokenizer *t = open_llama3();
    tern_buf shown = {0};
    tern_text_stream stream = {0};
    for (int i = 0; i < 100; i++) assert_ok(tern_buf_add(&shown, "0123456789", 10, &err), err);
    shown.size = 0;
    uint64_t before = tern_alloc_count();
    for (int32_t id = 0; id < 100; id++)
        assert_ok(tern_text_stream_add(&stream, t, 9906 + id, false, &shown, &err), err);
    assert_int_equal(tern_alloc_count(), before);
    tern_buf_deinit(&shown);
    tern_tokenizer_close(t);
}

static void test_markup_needs_permission(void **state)
{
    (void)state;
    tern_tokenizer *t = open_llama3(), *spm = open_spm1024(), *demo = open_demo();
    const char *text = "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>";
    ASSERT_IDS(ids_of_z(t, text, true), 128006, 882, 128007, 271, 13347, 128009);
    tern_tokens plain = ids_of_z(t, text, false);
    for (size_t i = 0; i < plain.n; i++) assert_true(plain.ids[i] < 128000);
    tern_tokens_deinit(&plain);
    plain = ids_of_z(spm, "<start_of_turn>user\n<end_of_turn></s><s>", false);
    for (size_t i = 0; i < plain.n; i++) assert_true(plain.ids[i] > 5);
    tern_tokens_deinit(&plain);
    tern_tokens marked = ids_of_z(spm, "<start_of_turn>user<end_of_turn>", true);
    assert_int_equal(marked.ids[0], 4);
    assert_int_equal(marked.ids[marked.n - 1], 5);
    tern_tokens_deinit(&marked);
    plain = ids_of_z(demo, "<|eot_id|>", false);
    for (size_t i = 0; i < plain.n; i++) assert_true(plain.ids[i] < 4091);
    tern_tokens_deinit(&plain);
    assert_int_equal(tern_token_bytes(t, 128009, false).size, 0);
    assert_int_equal(tern_token_bytes(t, 128009, true).size, 10);
    tern_tokenizer_close(t);
    tern_tokenizer_close(spm);
    tern_tokenizer_close(demo);
}

/* A megabyte without a break, in whose pieces every merge competes: a quadratic merge would take hours. */
static void test_long_runs(void **state)
{
    (void)state;
    static const char *const RUNS[] = {"a", " ", "ab", "\n", "é", "0"};
    const size_t n = 1 << 20;
    tern_tokenizer *tokenizers[] = {open_llama3(), open_spm1024(), open_demo()};
    uint8_t *text = malloc(n);
    for (size_t r = 0; r < sizeof RUNS / sizeof RUNS[0]; r++) {
        for (size_t i = 0; i < n; i++) text[i] = (uint8_t)RUNS[r][i % strlen(RUNS[r])];
        for (int k = 0; k < 3; k++) check_round_trip(tokenizers[k], text, n);
    }
    free(text);
    for (int k = 0; k < 3; k++) tern_tokenizer_close(tokenizers[k]);
}

static tern_tokenizer *of_json(const char *json)
{
    tern_error err = {0};
    tern_tokenizer *t = NULL;
    assert_ok(tern_tokenizer_parse_json(&t, json, strlen(json), &err), err);
    return t;
}

/* Expected ids by hand from the documented behaviour of the tokenizers library. */
static void test_json_prefix_space(void **state)
{
    (void)state;
    tern_tokenizer *t = of_json(
        "{\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\","
        "\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"\\u0120\":3,\"\\u0120ab\":4},\"merges\":[\"a b\",\"\\u0120 ab\"]}}");
    ASSERT_IDS(ids_of_z(t, "ab", false), 4);
    ASSERT_IDS(ids_of_z(t, " ab ab", false), 4, 4);
    tern_tokenizer_close(t);
}

static void test_json_byte_fallback(void **state)
{
    (void)state;
    tern_tokenizer *t =
        of_json("{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"▁\"},"
                "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"▁\"}]},"
                "\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"fuse_unk\":true,\"unk_token\":\"<unk>\","
                "\"vocab\":{\"<unk>\":0,\"<0xC3>\":1,\"<0xA9>\":2,\"▁\":3,\"a\":4,\"▁a\":5,\"aa\":6},"
                "\"merges\":[[\"▁\",\"a\"],[\"a\",\"a\"]]}}");
    ASSERT_IDS(ids_of_z(t, "aaé a", false), 5, 4, 1, 2, 5);
    ASSERT_IDS(ids_of_z(t, "xy", false), 3, 0);
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
    tern_tokenizer *t = of_json(
        "{\"normalizer\":{\"type\":\"NFC\"},\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
        "\"model\":{\"type\":\"BPE\",\"vocab\":{\"\u00C3\":0,\"\u00A9\":1,\"a\":2,\"\u00C3\u00A9\":3},\"merges\":["
        "\"\u00C3 \u00A9\"]}}");
    ASSERT_IDS(ids_of_z(t, "ae\u0301\u00E9", false), 2, 3, 3);
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
        tern_tokenizer *t = of_json(json);
        assert_ids(ids_of_z(t, "a1b", false), CASES[i].ids, CASES[i].n);
        tern_tokenizer_close(t);
    }
}

static void test_json_added_flags(void **state)
{
    (void)state;
    tern_tokenizer *t =
        of_json("{\"added_tokens\":[{\"id\":4,\"content\":\"<m>\",\"special\":false,\"lstrip\":true,\"rstrip\":true},"
                "{\"id\":5,\"content\":\"aa\",\"special\":false,\"single_word\":true},{\"id\":6,\"content\":\"<m>b\","
                "\"special\":false}],"
                "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
                "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"\\u0120\":2,\"\\u010a\":3},\"merges\":[]}}");
    ASSERT_IDS(ids_of_z(t, "a \n<m> \na", false), 0, 4, 0);
    ASSERT_IDS(ids_of_z(t, "a<m>b", false), 0, 6);
    ASSERT_IDS(ids_of_z(t, "aa baa aa", false), 5, 2, 1, 0, 0, 2, 5);
    tern_tokenizer_close(t);
}

/* Merges that lead round in circles still only ever make text longer. */
static void test_json_cycles(void **state)
{
    (void)state;
    tern_tokenizer *t =
        of_json("{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},\"model\":{\"type\":\"BPE\","
                "\"vocab\":{\"a\":0,\"aa\":1,\"aaa\":2},\"merges\":[\"aa a\",\"a aa\",\"a a\",\"a a\"]}}");
    ASSERT_IDS(ids_of_z(t, "aaaa", false), 2, 0);
    ASSERT_IDS(ids_of_z(t, "aaa", false), 2);
    tern_tokenizer_close(t);
}

typedef tern_status (*parse_fn)(tern_tokenizer **t, const void *data, size_t size, tern_error *err);

static tern_status parse_ranks(tern_tokenizer **t, const void *data, size_t size, tern_error *err)
{
    return tern_tokenizer_parse_tiktoken(t, data, size, NULL, err);
}

#define BPE(rest) "{\"model\":{\"type\":\"BPE\"," rest "}}"

/* Each file is refused with a message that names what is wrong. */
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
        {parse_ranks, "", TERN_MALFORMED, {"", ""}},
        {parse_ranks, "!!!! 0\n", TERN_MALFORMED, {"line 1", "base64"}},
        {parse_ranks, "YQ==\n", TERN_MALFORMED, {"line 1", "rank"}},
        {parse_ranks, "YQ== 7\n", TERN_MALFORMED, {"line 1", "\"7\""}},
        {parse_ranks, "YQ== 0\nYg== 0\n", TERN_MALFORMED, {"line 2", "token 0"}},
        {parse_ranks, "YQ== 0\nYQ== 1\n", TERN_MALFORMED, {"0 and 1", "\"a\""}},
        {parse_ranks, "YQ== 0\nYg== 1\n", TERN_MALFORMED, {"0x00", ""}},
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

static void test_hostile_pattern(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_tokens tokens = {0};
    tern_tokenizer *t = of_json(
        "{\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Isolated\",\"pattern\":{\"Regex\":\"((a+)+)+$\"}},"
        "\"model\":{\"vocab\":{\"a\":0,\"!\":1},\"merges\":[]}}");
    char text[64];
    memset(text, 'a', sizeof text);
    text[63] = '!';
    assert_int_equal(tern_tokenize(t, text, sizeof text, false, &tokens, &err), TERN_LIMIT);
    assert_non_null(strstr(err.message, "too many steps"));
    assert_int_equal(tokens.n, 0);
    tern_tokens_deinit(&tokens);
    tern_tokenizer_close(t);
}

/* Every allocation fails once, in opening and in tokenising. */
static void check_failures(parse_fn parse, const char *path)
{
    tern_buf file = read_whole(path);
    tern_status status = TERN_OUT_OF_MEMORY;
    int64_t live = tern_alloc_live();
    for (uint64_t n = 1; status != TERN_OK; n++) {
        tern_error err = {0};
        tern_tokenizer *t = NULL;
        tern_tokens tokens = {0};
        tern_alloc_fail_after(n, true);
        status = parse(&t, file.data, file.size, &err);
        if (status == TERN_OK) status = tern_tokenize(t, "Hello \xE4\xB8\xAD </s>", 14, true, &tokens, &err);
        tern_alloc_fail_after(0, false);
        if (status != TERN_OK) assert_int_equal(status, TERN_OUT_OF_MEMORY);
        tern_tokens_deinit(&tokens);
        tern_tokenizer_close(t);
        assert_int_equal(tern_alloc_live(), live);
    }
    tern_buf_deinit(&file);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    check_failures(tern_tokenizer_parse_json, TERN_SOURCE_DIR "/tests/fuzz/corpus/tokenizer_json/byte_level.json");
    check_failures(tern_tokenizer_parse_json, TERN_SOURCE_DIR "/tests/fuzz/corpus/tokenizer_json/byte_fallback.json");
    check_failures(tern_tokenizer_parse_sentencepiece, test_fixture("tokenizers/spm1024.model"));
    check_failures(parse_ranks, TERN_SOURCE_DIR "/tests/fuzz/corpus/tiktoken/ranks");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_nothing_is_lost),
    cmocka_unit_test(test_sentencepiece_replaces),
    cmocka_unit_test(test_streams),
    cmocka_unit_test(test_stream_replaces),
    cmocka_unit_test(test_stream_does_not_allocate),
    cmocka_unit_test(test_markup_needs_permission),
    cmocka_unit_test(test_long_runs),
    cmocka_unit_test(test_json_prefix_space),
    cmocka_unit_test(test_json_byte_fallback),
    cmocka_unit_test(test_json_nfc),
    cmocka_unit_test(test_json_splits),
    cmocka_unit_test(test_json_added_flags),
    cmocka_unit_test(test_json_cycles),
    cmocka_unit_test(test_refusals),
    cmocka_unit_test(test_hostile_pattern),
    cmocka_unit_test(test_out_of_memory),
};

TEST_GROUP(text, "web", tests);
