/* Properties of tokenizers: nothing is lost, streams never split a character, markup needs permission, long runs take
 * little time. */
#include "text/text_cases.h"
#include "text/tokenizer/pretokenize.h"

static void check_round_trip(const tern_tokenizer *t, const uint8_t *text, size_t n)
{
    tern_error err = {0};
    tern_buf back = {0};
    tern_tokens tokens = text_ids_of(t, text, n, false);
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
    tern_tokens tokens = text_ids_of(t, "a\xFF\xE2\x82 b", 6, false);
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
        tern_tokens tokens = text_ids_of(t, bytes + i, 1, false);
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
        assert_ok(tern_text_stream_add(&stream, t, 906 + id, false, &shown, &err), err);
    assert_int_equal(tern_alloc_count(), before);
    tern_buf_deinit(&shown);
    tern_tokenizer_close(t);
}

static void test_markup_needs_permission(void **state)
{
    (void)state;
    tern_tokenizer *t = open_llama3(), *spm = open_spm1024(), *demo = open_demo();
    const char *text = "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>";
    const int32_t n_ranks = llama3_ranks();
    if (test_on_shared()) {
        ASSERT_IDS(text_ids_of_z(t, text, true), n_ranks + 6, 882, n_ranks + 7, 271, 13347, n_ranks + 9);
    } else {
        ASSERT_IDS(text_ids_of_z(t, text, true), n_ranks + 6, 399, 260, n_ranks + 7, 198, 198, 39, 72, n_ranks + 9);
    }
    tern_tokens plain = text_ids_of_z(t, text, false);
    for (size_t i = 0; i < plain.n; i++) assert_true(plain.ids[i] < n_ranks);
    tern_tokens_deinit(&plain);
    plain = text_ids_of_z(spm, "<start_of_turn>user\n<end_of_turn></s><s>", false);
    for (size_t i = 0; i < plain.n; i++) assert_true(plain.ids[i] > 5);
    tern_tokens_deinit(&plain);
    tern_tokens marked = text_ids_of_z(spm, "<start_of_turn>user<end_of_turn>", true);
    assert_int_equal(marked.ids[0], 4);
    assert_int_equal(marked.ids[marked.n - 1], 5);
    tern_tokens_deinit(&marked);
    plain = text_ids_of_z(demo, "<|eot_id|>", false);
    for (size_t i = 0; i < plain.n; i++) assert_true(plain.ids[i] < (test_on_shared() ? 4091 : 2043));
    tern_tokens_deinit(&plain);
    assert_int_equal(tern_token_bytes(t, n_ranks + 9, false).size, 0);
    assert_int_equal(tern_token_bytes(t, n_ranks + 9, true).size, 10);
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

static void test_hostile_pattern(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_tokens tokens = {0};
    tern_tokenizer *t = text_of_json(
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
    check_failures(tern_tokenizer_parse_json, test_fuzz_seed("tokenizer_json", "byte_level.json"));
    check_failures(tern_tokenizer_parse_json, test_fuzz_seed("tokenizer_json", "byte_fallback.json"));
    check_failures(tern_tokenizer_parse_sentencepiece, test_fixture("tokenizers/spm1024.model"));
    check_failures(text_parse_ranks, test_fuzz_seed("tiktoken", "ranks"));
}

static tern_status add_piece(void *user, tern_span piece, tern_error *err)
{
    tern_buf *out = user;
    if (out->size) TERN_TRY(tern_buf_add(out, "|", 1, err));
    return tern_buf_add(out, piece.data, piece.size, err);
}

/* Pieces by JavaScript's regular expressions, of the patterns in the models' tokenizer.json (V8 11.3; matches and gaps,
 * stage after stage). */
static void test_named_pretokenizers(void **state)
{
    static const char text[] = "Hello, wörld  it's 123\n\n中文abc  Ǆ‘x’ नमस्ते a/b c d!\r\n ";
    static const char *const rows[][2] = {
        {"deepseek-llm", "Hello|,| w|ö|rld| | it|'|s| |1|2|3|\n|\n|中文|abc| | Ǆ|‘|x|’| |नमस्ते| a|/|b| c| d|!|\r|\n| "},
        {"qwen35", "Hello|,| wörld| | it|'s| |1|2|3|\n\n|中文abc| | Ǆ|‘x|’| नमस्ते| a|/b| c| d|!\r\n| "},
        {"seed-coder", "Hello|,| wörld| | it|'s| |1|2|3|\n\n|中文abc| | Ǆ|‘x|’| नमस|्त|े| a|/b| c| d|!|\r\n| "},
        {"exaone-moe", "Hello|,| wörld| | it|'s| |1|2|3|\n\n|中文abc| | Ǆ|‘x|’| नमस्ते a|/b c d|!\r|\n| "},
        {"bailingmoe", "Hello|,| wörld| | it|'s| |1|2|3|\n\n|中文abc| | Ǆ|‘x|’| नमस|्त|े| a|/b| c| d|!\r\n| "},
        {"viking", "Hello|,| wörld| | it's| |1|2|3|\n\n|中文abc| | Ǆ‘x’| नमस्ते| a/b| c| d|!\r\n "},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tern_error err = {0};
        tern_pretokenizer p = {0};
        tern_buf pieces = {0};
        const tern_pretokenizer_row *row = tern_pretokenizer__find(rows[i][0], strlen(rows[i][0]));
        assert_non_null(row);
        assert_ok(tern_pretokenizer__add_row(&p, row, &err), err);
        assert_ok(tern_pretokenizer__run(&p, (const uint8_t *)text, strlen(text), add_piece, &pieces, &err), err);
        assert_string_equal(pieces.data, rows[i][1]);
        tern_buf_deinit(&pieces);
        tern_pretokenizer__deinit(&p);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_named_pretokenizers),     cmocka_unit_test(test_nothing_is_lost),
    cmocka_unit_test(test_sentencepiece_replaces),  cmocka_unit_test(test_streams),
    cmocka_unit_test(test_stream_replaces),         cmocka_unit_test(test_stream_does_not_allocate),
    cmocka_unit_test(test_markup_needs_permission), cmocka_unit_test(test_long_runs),
    cmocka_unit_test(test_hostile_pattern),         cmocka_unit_test(test_out_of_memory),
};

TEST_GROUP(text, "shared web", tests);
