/* Tokenizer metadata of GGUF files that must be refused, and what the keys' absence means. */
#include <math.h>

#include "base/alloc.h"
#include "format/gguf.h"
#include "text/goldens.h"

/* A vocabulary of seven pieces in which one thing may be wrong. */
typedef struct vocab {
    const char *model, *pre, *arch;
    const char *pieces[8];
    const char *merges[4];
    int32_t types[8];
    size_t n_types;
    float scores[8];
    size_t n_scores;
    uint32_t eos;
    const char *fim_keys[4]; /* of tokens 0, 1, ... */
} vocab;

static const vocab GOOD = {.model = "gpt2",
                           .pre = "gpt-2",
                           .arch = "llama",
                           .pieces = {"a", "b", "1", "ab", "1b", "<|end|>", "11"},
                           .merges = {"a b", "1 b", "1 1"},
                           .types = {1, 1, 1, 1, 1, 3, 1},
                           .n_types = 7,
                           .eos = 5};

static size_t to_spans(tern_span *spans, const char *const *strings)
{
    size_t n = 0;
    for (; strings[n]; n++) spans[n] = (tern_span){(const uint8_t *)strings[n], strlen(strings[n])};
    return n;
}

static void write_vocab(const vocab *v, const char *path)
{
    tern_error err = {0};
    tern_gguf_writer *w = NULL;
    tern_span spans[8];
    assert_ok(tern_gguf_writer_open(&w, path, &err), err);
    assert_ok(tern_gguf_add_string(w, "general.architecture", v->arch, strlen(v->arch), &err), err);
    assert_ok(tern_gguf_add_string(w, "tokenizer.ggml.model", v->model, strlen(v->model), &err), err);
    if (v->pre) assert_ok(tern_gguf_add_string(w, "tokenizer.ggml.pre", v->pre, strlen(v->pre), &err), err);
    size_t n = to_spans(spans, v->pieces);
    assert_ok(tern_gguf_add_array(w, "tokenizer.ggml.tokens", TERN_GGUF_STRING, spans, n, &err), err);
    if (v->n_types)
        assert_ok(tern_gguf_add_array(w, "tokenizer.ggml.token_type", TERN_GGUF_I32, v->types, v->n_types, &err), err);
    if (v->n_scores)
        assert_ok(tern_gguf_add_array(w, "tokenizer.ggml.scores", TERN_GGUF_F32, v->scores, v->n_scores, &err), err);
    n = to_spans(spans, v->merges);
    assert_ok(tern_gguf_add_array(w, "tokenizer.ggml.merges", TERN_GGUF_STRING, spans, n, &err), err);
    assert_ok(tern_gguf_add_u32(w, "tokenizer.ggml.eos_token_id", v->eos, &err), err);
    for (uint32_t i = 0; v->fim_keys[i]; i++) assert_ok(tern_gguf_add_u32(w, v->fim_keys[i], i, &err), err);
    assert_ok(tern_gguf_writer_begin_data(w, &err), err);
    assert_ok(tern_gguf_writer_commit(w, &err), err);
}

static tern_status open_vocab(tern_tokenizer **t, const vocab *v, tern_error *err)
{
    const char *path = test_scratch("vocab.gguf");
    tern_error ignored = {0};
    tern_gguf *gguf = NULL;
    write_vocab(v, path);
    tern_buf file = read_whole(path);
    assert_ok(tern_gguf_parse(&gguf, file.data, file.size, &ignored), ignored);
    tern_status status = tern_tokenizer_open_gguf(t, gguf, err);
    tern_gguf_close(gguf);
    tern_buf_deinit(&file);
    return status;
}

static void check_refused(const vocab *v, tern_status expected, const char *first, const char *second)
{
    tern_error err = {0};
    tern_tokenizer *t = NULL;
    int64_t live = tern_alloc_live();
    assert_int_equal(open_vocab(&t, v, &err), expected);
    assert_null(t);
    if (!strstr(err.message, first) || !strstr(err.message, second))
        fail_msg("\"%s\" and \"%s\" expected in \"%s\"", first, second, err.message);
    assert_int_equal(tern_alloc_live(), live);
}

static void test_refusals(void **state)
{
    (void)state;
    vocab v = GOOD;
    v.model = "bert";
    check_refused(&v, TERN_UNSUPPORTED, "tokenizer.ggml.model", "bert");
    v = GOOD, v.pre = "no-such-thing";
    check_refused(&v, TERN_UNSUPPORTED, "tokenizer.ggml.pre", "no-such-thing");
    v = GOOD, v.n_types = 6;
    check_refused(&v, TERN_MALFORMED, "token_type: 6", "7 expected");
    v = GOOD, v.types[3] = 9;
    check_refused(&v, TERN_MALFORMED, "token 3 \"ab\"", "type");
    v = GOOD, v.pieces[1] = "a";
    check_refused(&v, TERN_MALFORMED, "0 and 1", "\"a\"");
    v = GOOD, v.merges[1] = "1 c";
    check_refused(&v, TERN_MALFORMED, "merge 1", "second");
    v = GOOD, v.merges[2] = "ab ab";
    check_refused(&v, TERN_MALFORMED, "merge 2", "together");
    v = GOOD, v.merges[0] = "ab";
    check_refused(&v, TERN_MALFORMED, "merge 0", "\"ab\"");
    v = GOOD, v.eos = 7;
    check_refused(&v, TERN_MALFORMED, "7", "0 to 6");
    v = GOOD, v.model = "llama";
    check_refused(&v, TERN_MALFORMED, "tokenizer.ggml.scores", "missing");
    v.n_scores = 7, v.scores[2] = (float)NAN;
    check_refused(&v, TERN_MALFORMED, "token 2 \"1\"", "not finite");
    v.scores[2] = (float)INFINITY;
    check_refused(&v, TERN_MALFORMED, "token 2 \"1\"", "not finite");
    v.n_scores = 8, v.scores[2] = 0;
    check_refused(&v, TERN_MALFORMED, "scores: 8", "7 expected");
}

static size_t count_ids(const vocab *v, const char *text)
{
    tern_error err = {0};
    tern_tokenizer *t = NULL;
    tern_tokens tokens = {0};
    assert_ok(open_vocab(&t, v, &err), err);
    assert_ok(tern_tokenize(t, text, strlen(text), true, &tokens, &err), err);
    size_t n = tokens.n;
    tern_tokens_deinit(&tokens);
    tern_tokenizer_close(t);
    return n;
}

/* LLaMA-3 takes at most three digits to a piece, GPT-2 all of them: 11 11 or 11 1, 1. */
static void test_implied_pattern(void **state)
{
    (void)state;
    vocab v = GOOD;
    v.pre = NULL;
    assert_int_equal(count_ids(&v, "1111"), 2);
    v.arch = "bitnet-b1.58";
    assert_int_equal(count_ids(&v, "1111"), 3);
    v.arch = "bitnet-25";
    assert_int_equal(count_ids(&v, "1111"), 3);
    v.pre = "gpt-2";
    assert_int_equal(count_ids(&v, "1111"), 2);
}

/* Without types, the named special tokens at least are no plain text. */
static void test_without_types(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_tokenizer *t = NULL;
    vocab v = GOOD;
    v.n_types = 0;
    assert_ok(open_vocab(&t, &v, &err), err);
    assert_true(tern_token_is_special(t, 5));
    assert_true(tern_token_is_end(t, 5));
    assert_false(tern_token_is_special(t, 3));
    tern_tokenizer_close(t);
}

static void check_written_fim(const tern_tokenizer *t)
{
    const char *path = test_scratch("written.gguf");
    tern_error err = {0};
    tern_gguf_writer *w = NULL;
    tern_gguf *gguf = NULL;
    tern_tokenizer *again = NULL;
    assert_ok(tern_gguf_writer_open(&w, path, &err), err);
    assert_ok(tern_tokenizer_write_gguf(t, tern_tokenizer_size(t), w, &err), err);
    assert_ok(tern_gguf_writer_begin_data(w, &err), err);
    assert_ok(tern_gguf_writer_commit(w, &err), err);
    tern_buf file = read_whole(path);
    assert_ok(tern_gguf_parse(&gguf, file.data, file.size, &err), err);
    assert_ok(tern_tokenizer_open_gguf(&again, gguf, &err), err);
    for (int i = 0; i < TERN_FIM_TOKENS; i++)
        assert_int_equal(tern_tokenizer_fim(again, (tern_fim_token)i), tern_tokenizer_fim(t, (tern_fim_token)i));
    tern_gguf_close(gguf);
    tern_buf_deinit(&file);
    tern_tokenizer_close(again);
}

/* Keys name the tokens of fill in the middle; those before October 2024 too, and they come back from a written file. */
static void test_fim_keys(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_tokenizer *t = NULL;
    vocab v = GOOD;
    assert_ok(open_vocab(&t, &v, &err), err);
    assert_false(tern_tokenizer_fills(t));
    tern_tokenizer_close(t);
    const char *const keys[2][4] = {
        {"tokenizer.ggml.fim_pre_token_id", "tokenizer.ggml.fim_suf_token_id", "tokenizer.ggml.fim_mid_token_id"},
        {"tokenizer.ggml.prefix_token_id", "tokenizer.ggml.suffix_token_id", "tokenizer.ggml.middle_token_id"}};
    for (int i = 0; i < 2; i++) {
        memcpy(v.fim_keys, keys[i], sizeof v.fim_keys);
        assert_ok(open_vocab(&t, &v, &err), err);
        assert_true(tern_tokenizer_fills(t));
        assert_int_equal(tern_tokenizer_fim(t, TERN_FIM_PREFIX), 0);
        assert_int_equal(tern_tokenizer_fim(t, TERN_FIM_SUFFIX), 1);
        assert_int_equal(tern_tokenizer_fim(t, TERN_FIM_MIDDLE), 2);
        check_written_fim(t);
        tern_tokenizer_close(t);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_refusals),
    cmocka_unit_test(test_implied_pattern),
    cmocka_unit_test(test_without_types),
    cmocka_unit_test(test_fim_keys),
};

TEST_GROUP(tokenizer_gguf, "web", tests);
