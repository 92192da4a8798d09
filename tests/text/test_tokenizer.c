/* Tokenizers against the ids of tiktoken, tokenizers, SentencePiece and llama.cpp. */
#include <sys/stat.h>

#include "format/gguf.h"
#include "text/goldens.h"

static void test_demo(void **state)
{
    (void)state;
    tern_tokenizer *t = open_demo();
    goldens g = goldens_of_json("demo_golden.json");
    check_goldens(t, &g, true);
    const int32_t size = test_on_shared() ? 4096 : 2048;
    assert_int_equal(tern_tokenizer_size(t), size);
    assert_true(tern_token_is_end(t, size - 4));
    assert_true(tern_token_is_end(t, size - 1));
    assert_true(tern_token_is_special(t, size - 5));
    assert_false(tern_token_is_end(t, size - 5));
    goldens_free(&g);
    tern_tokenizer_close(t);
}

static void test_llama3(void **state)
{
    (void)state;
    tern_tokenizer *t = open_llama3();
    goldens g = goldens_of_json("llama3_golden.json"), h = goldens_of_inp("ggml-vocab-llama-bpe.gguf");
    check_goldens(t, &g, false);
    check_goldens(t, &h, false);
    const int32_t n_ranks = llama3_ranks();
    assert_int_equal(tern_tokenizer_size(t), n_ranks + 256);
    assert_int_equal(tern_token_find(t, "<|start_header_id|>", 19), n_ranks + 6);
    assert_int_equal(tern_token_find(t, "<|reserved_special_token_250|>", 30), n_ranks + 255);
    assert_int_equal(tern_token_find(t, "\xC4\xA0the", 5), test_on_shared() ? 279 : 264);
    assert_int_equal(tern_tokenizer_bos(t), n_ranks);
    assert_true(tern_token_is_end(t, n_ranks + 1));
    assert_true(tern_token_is_end(t, n_ranks + 9));
    goldens_free(&g);
    goldens_free(&h);
    tern_tokenizer_close(t);
}

static void test_sentencepiece(void **state)
{
    (void)state;
    tern_tokenizer *t = open_spm1024();
    goldens g = goldens_of_json("spm1024_golden.json");
    check_goldens(t, &g, false);
    check_goldens(t, &g, true);
    assert_int_equal(tern_tokenizer_bos(t), 2);
    assert_int_equal(tern_tokenizer_eos(t), 1);
    assert_true(tern_token_is_end(t, 1));
    assert_true(tern_token_is_end(t, 5)); /* <end_of_turn> */
    goldens_free(&g);
    tern_tokenizer_close(t);
}

/* Opens the metadata of a GGUF file. */
static tern_tokenizer *open_gguf(const char *path)
{
    tern_error err = {0};
    tern_gguf *g = NULL;
    tern_tokenizer *t = NULL;
    tern_buf file = read_whole(path);
    assert_ok(tern_gguf_parse(&g, file.data, file.size, &err), err);
    assert_ok(tern_tokenizer_open_gguf(&t, g, &err), err);
    tern_gguf_close(g);
    tern_buf_deinit(&file);
    return t;
}

/* Closes the original. */
static tern_tokenizer *check_same(tern_tokenizer *t, tern_tokenizer *back)
{
    assert_int_equal(tern_tokenizer_size(back), tern_tokenizer_size(t));
    assert_int_equal(tern_tokenizer_bos(back), tern_tokenizer_bos(t));
    assert_int_equal(tern_tokenizer_eos(back), tern_tokenizer_eos(t));
    assert_int_equal(tern_tokenizer_adds_bos(back), tern_tokenizer_adds_bos(t));
    assert_int_equal(tern_tokenizer_closing(back), tern_tokenizer_closing(t));
    for (int32_t id = 0; id < (int32_t)tern_tokenizer_size(t); id++) {
        tern_span a = tern_token_bytes(t, id, true), b = tern_token_bytes(back, id, true);
        assert_int_equal(a.size, b.size);
        assert_memory_equal(a.data, b.data, a.size);
        assert_int_equal(tern_token_is_special(t, id), tern_token_is_special(back, id));
        assert_int_equal(tern_token_is_end(t, id), tern_token_is_end(back, id));
    }
    tern_tokenizer_close(t);
    return back;
}

/* Writes a folder, reads it back, closes the original. */
static tern_tokenizer *through_hf(tern_tokenizer *t, const char *name)
{
    tern_error err = {0};
    tern_tokenizer *back = NULL;
    const char *dir = test_scratch(name);
    mkdir(dir, 0777);
    assert_ok(tern_tokenizer_write_hf(t, dir, &err), err);
    assert_ok(tern_tokenizer_open_hf(&back, dir, &err), err);
    return check_same(t, back);
}

/* Writes it, reads it back, closes the original. */
static tern_tokenizer *through_gguf(tern_tokenizer *t, const char *name)
{
    tern_error err = {0};
    tern_gguf_writer *w = NULL;
    const char *path = test_scratch(name);
    assert_ok(tern_gguf_writer_open(&w, path, &err), err);
    assert_ok(tern_tokenizer_write_gguf(t, 0, w, &err), err);
    assert_ok(tern_gguf_writer_begin_data(w, &err), err);
    assert_ok(tern_gguf_writer_commit(w, &err), err);
    return check_same(t, open_gguf(path));
}

/* tokenizer.json of each kind of byte-level tokenizer: listed merges, ranks, GPT-2's pattern. */
static void test_written_hf(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_tokenizer *t = through_hf(open_llama3(), "hf-llama3");
    goldens g = goldens_of_json("llama3_golden.json"), h = goldens_of_inp("ggml-vocab-llama-bpe.gguf");
    check_goldens(t, &g, false);
    check_goldens(t, &h, false);
    goldens_free(&g);
    goldens_free(&h);
    tern_tokenizer_close(t);
    t = through_hf(open_gguf(test_fixture("tokenizers/ggml-vocab-gpt-2.gguf")), "hf-gpt2");
    g = goldens_of_inp("ggml-vocab-gpt-2.gguf");
    check_goldens(t, &g, true);
    goldens_free(&g);
    tern_tokenizer_close(t);
    assert_ok(tern_tokenizer_open_hf(&t, test_model("tiny-stories-bitnet"), &err), err);
    t = through_hf(t, "hf-demo");
    g = goldens_of_json("demo_golden.json");
    check_goldens(t, &g, true);
    goldens_free(&g);
    tern_tokenizer_close(t);
    t = open_spm1024();
    assert_int_equal(tern_tokenizer_write_hf(t, test_scratch("hf-demo"), &err), TERN_UNSUPPORTED);
    tern_tokenizer_close(t);
}

static void test_gguf_gpt2(void **state)
{
    (void)state;
    tern_tokenizer *t = open_gguf(test_fixture("tokenizers/ggml-vocab-gpt-2.gguf"));
    goldens g = goldens_of_inp("ggml-vocab-gpt-2.gguf");
    check_goldens(t, &g, true);
    assert_false(tern_tokenizer_adds_bos(t));
    assert_int_equal(tern_tokenizer_eos(t), test_on_shared() ? 50256 : 900);
    t = through_gguf(t, "gpt2.gguf");
    check_goldens(t, &g, true);
    goldens_free(&g);
    tern_tokenizer_close(t);
}

static void test_gguf_llama_spm(void **state)
{
    (void)state;
    tern_tokenizer *t = open_gguf(test_fixture("tokenizers/ggml-vocab-llama-spm.gguf"));
    goldens g = goldens_of_inp("ggml-vocab-llama-spm.gguf");
    check_goldens(t, &g, true);
    assert_true(tern_tokenizer_adds_bos(t));
    t = through_gguf(t, "llama-spm.gguf");
    check_goldens(t, &g, true);
    goldens_free(&g);
    tern_tokenizer_close(t);
}

static void test_written_llama3(void **state)
{
    (void)state;
    tern_tokenizer *t = through_gguf(open_llama3(), "llama3.gguf");
    goldens g = goldens_of_json("llama3_golden.json");
    check_goldens(t, &g, false);
    goldens_free(&g);
    tern_tokenizer_close(t);
}

/* As other converters write it: merges by their rank alone. */
static void test_llama3_by_merges(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_tokenizer_close(through_gguf(open_llama3(), "llama3.gguf"));
    tern_buf file = read_whole(test_scratch("llama3.gguf"));
    char *key = memmem(file.data, file.size, "tern.tokenizer.merge_rule", 25);
    assert_non_null(key);
    memcpy(memmem(key, 64, "ranks", 5), "pairs", 5);
    tern_gguf *gguf = NULL;
    tern_tokenizer *t = NULL;
    assert_ok(tern_gguf_parse(&gguf, file.data, file.size, &err), err);
    assert_ok(tern_tokenizer_open_gguf(&t, gguf, &err), err);
    goldens g = goldens_of_json("llama3_golden.json"), h = goldens_of_inp("ggml-vocab-llama-bpe.gguf");
    check_goldens(t, &g, false);
    check_goldens(t, &h, false);
    goldens_free(&g);
    goldens_free(&h);
    tern_gguf_close(gguf);
    tern_buf_deinit(&file);
    tern_tokenizer_close(t);
}

static void check_same_ids(const tern_tokenizer *a, const tern_tokenizer *b, const goldens *texts)
{
    tern_error err = {0};
    for (size_t i = 0; i < texts->n; i++) {
        tern_tokens x = {0}, y = {0};
        tern_span text = texts->items[i].text;
        tern_status status = tern_tokenize(a, text.data, text.size, true, &x, &err);
        assert_int_equal(tern_tokenize(b, text.data, text.size, true, &y, &err), status);
        assert_int_equal(x.n, y.n);
        if (x.n) assert_memory_equal(x.ids, y.ids, x.n * sizeof *x.ids);
        tern_tokens_deinit(&x);
        tern_tokens_deinit(&y);
    }
}

/* Pipelines that no tokenizer.ggml.pre name describes. */
static void test_written_pipelines(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"byte_level.json", "byte_fallback.json", "small.json", "prefix_space.json"};
    goldens texts = goldens_of_json("demo_golden.json");
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        tern_error err = {0};
        const char *path = test_fuzz_seed("tokenizer_json", NAMES[i]);
        tern_tokenizer *t = NULL, *again = NULL;
        assert_ok(tern_tokenizer_open_hf(&t, path, &err), err);
        assert_ok(tern_tokenizer_open_hf(&again, path, &err), err);
        tern_tokenizer *back = through_gguf(again, "pipeline.gguf");
        check_same_ids(t, back, &texts);
        tern_tokenizer_close(t);
        tern_tokenizer_close(back);
    }
    goldens_free(&texts);
}

static void test_written_demo(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_tokenizer *t = NULL;
    assert_ok(tern_tokenizer_open_hf(&t, test_model("tiny-stories-bitnet"), &err), err);
    assert_int_equal(tern_tokenizer_bos(t), test_on_shared() ? 4091 : 2043);
    assert_int_equal(tern_tokenizer_eos(t), test_on_shared() ? 4092 : 2044);
    assert_true(tern_tokenizer_adds_bos(t));
    t = through_gguf(t, "demo.gguf");
    goldens g = goldens_of_json("demo_golden.json");
    check_goldens(t, &g, true);
    goldens_free(&g);
    tern_tokenizer_close(t);
}

/* What follows texts that are embedded: said by the configuration, or by the template of tokenizer.json; kept. */
static void test_closing(void **state)
{
    (void)state;
    const char *config = test_on_shared() ? "{\"eos_token\": \"<|endoftext|>\", \"add_eos_token\": true}"
                                          : "{\"eos_token\": \"<|end_of_text|>\", \"add_eos_token\": true}";
    tern_error err = {0};
    tern_tokenizer *t = NULL;
    tern_buf file = read_whole(test_model("tiny-stories-bitnet/tokenizer.json"));
    mkdir(test_scratch("closing"), 0777);
    test_write_file(test_scratch("closing/tokenizer.json"), file.data, file.size);
    test_write_file(test_scratch("closing/tokenizer_config.json"), config, strlen(config));
    tern_buf_deinit(&file);
    assert_ok(tern_tokenizer_open_hf(&t, test_scratch("closing"), &err), err);
    const int32_t eos = tern_tokenizer_eos(t);
    assert_int_equal(tern_tokenizer_closing(t), eos);
    t = through_gguf(through_hf(t, "hf-closing"), "closing.gguf");
    assert_int_equal(tern_tokenizer_closing(t), eos);
    tern_tokenizer_close(t);
}

static void test_written_spm1024(void **state)
{
    (void)state;
    tern_tokenizer *t = through_gguf(open_spm1024(), "spm1024.gguf");
    goldens g = goldens_of_json("spm1024_golden.json");
    check_goldens(t, &g, false);
    goldens_free(&g);
    tern_tokenizer_close(t);
}

/* A tokenizer.json of Qwen's kind and one of Gemma's, through both formats. */
static void test_folders(void **state)
{
    (void)state;
    static const char *const names[] = {"qwen2", "gemma"};
    if (test_on_shared()) test_skip("the larger golden files have none of these");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[64], listed[64];
        tern_error err = {0};
        tern_tokenizer *t = NULL;
        snprintf(path, sizeof path, "tokenizers/%s", names[i]);
        snprintf(listed, sizeof listed, "%s_golden.json", names[i]);
        assert_ok(tern_tokenizer_open_hf(&t, test_fixture(path), &err), err);
        goldens g = goldens_of_json(listed);
        check_goldens(t, &g, true);
        t = through_gguf(t, "folder.gguf");
        check_goldens(t, &g, true);
        goldens_free(&g);
        tern_tokenizer_close(t);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_demo),
    cmocka_unit_test(test_llama3),
    cmocka_unit_test(test_sentencepiece),
    cmocka_unit_test(test_written_hf),
    cmocka_unit_test(test_gguf_gpt2),
    cmocka_unit_test(test_gguf_llama_spm),
    cmocka_unit_test(test_written_llama3),
    cmocka_unit_test(test_llama3_by_merges),
    cmocka_unit_test(test_written_pipelines),
    cmocka_unit_test(test_written_demo),
    cmocka_unit_test(test_written_spm1024),
    cmocka_unit_test(test_closing),
    cmocka_unit_test(test_folders),
};

TEST_GROUP(tokenizer, "shared web", tests);
