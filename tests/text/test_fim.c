/* Texts with a gap as tokens: where the marks stand, what is left out, and who has none. */
#include "format/gguf.h"
#include "text/fim.h"
#include "text/text_cases.h"

/* Letters a to f, a newline, and a token for all else; the marks of Qwen 2.5 Coder; those of Granite; those of DeepSeek
 * Coder. */
#define LETTERS                                                                                                        \
    "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},\"model\":{\"type\":\"BPE\","               \
    "\"unk_token\":\"?\",\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"d\":3,\"e\":4,\"f\":5,\"\u010A\":6,\"?\":13},"           \
    "\"merges\":[]}}"
#define MARK(id, text, special) "{\"id\":" #id ",\"content\":\"" text "\",\"special\":" special "}"
#define ADDED(id, text)         MARK(id, text, "true")
/* clang-format off */
static const char qwen[] =
    "{\"added_tokens\":[" ADDED(7, "<|fim_prefix|>") "," ADDED(8, "<|fim_middle|>") "," ADDED(9, "<|fim_suffix|>") ","
    ADDED(10, "<|fim_pad|>") "," ADDED(11, "<|repo_name|>") "," ADDED(12, "<|file_sep|>") "]," LETTERS;
static const char granite[] =
    "{\"added_tokens\":[" ADDED(7, "<fim_prefix>") "," ADDED(8, "<fim_middle>") "," ADDED(9, "<fim_suffix>") "],"
    LETTERS;
static const char deepseek[] =
    "{\"added_tokens\":[" MARK(7, "<｜fim▁begin｜>", "false") "," MARK(8, "<｜fim▁end｜>", "false") ","
    MARK(9, "<｜fim▁hole｜>", "false") "]," LETTERS;
/* clang-format on */

static tern_fim gap(const char *prefix, const char *suffix)
{
    return (tern_fim){.size = sizeof(tern_fim),
                      .prefix = prefix,
                      .n_prefix = strlen(prefix),
                      .suffix = suffix,
                      .n_suffix = strlen(suffix)};
}

static tern_tokens ids_of(const tern_tokenizer *t, const tern_fim *fim, bool *cut)
{
    tern_error err = {0};
    tern_tokens ids = {0};
    assert_ok(tern_fim_tokenize(t, fim, &ids, cut, &err), err);
    return ids;
}

static void test_fim_order(void **state)
{
    (void)state;
    tern_tokenizer *t = text_of_json(qwen);
    tern_fim fim = gap("ab", "cd");
    bool cut = true;
    assert_true(tern_tokenizer_fills(t));
    ASSERT_IDS(ids_of(t, &fim, &cut), 7, 0, 1, 9, 2, 3, 8);
    assert_false(cut);
    fim.start = "e", fim.n_start = 1;
    ASSERT_IDS(ids_of(t, &fim, NULL), 7, 0, 1, 4, 9, 2, 3, 8);
    fim.suffix_first = true;
    ASSERT_IDS(ids_of(t, &fim, NULL), 9, 2, 3, 7, 0, 1, 4, 8);
    fim = gap("", "");
    ASSERT_IDS(ids_of(t, &fim, NULL), 7, 9, 8);
    tern_tokenizer_close(t);
}

/* The pattern of a repository, of the technical report of Qwen 2.5 Coder (arXiv:2409.12186). */
static void test_fim_files(void **state)
{
    (void)state;
    tern_tokenizer *t = text_of_json(qwen);
    const tern_fim_file files[] = {{"e", "ff", 2}, {"d", "c", 1}};
    tern_fim fim = gap("a", "b");
    fim.repository = "d";
    fim.name = "f";
    fim.files = files;
    fim.n_files = 2;
    ASSERT_IDS(ids_of(t, &fim, NULL), 11, 3, 6, 12, 4, 6, 5, 5, 12, 3, 6, 2, 12, 5, 6, 7, 0, 9, 1, 8);
    fim.suffix_first = true;
    ASSERT_IDS(ids_of(t, &fim, NULL), 11, 3, 6, 12, 4, 6, 5, 5, 12, 3, 6, 2, 12, 5, 6, 9, 1, 7, 0, 8);
    fim.suffix_first = false;
    tern_tokenizer_close(t);
    t = text_of_json(granite); /* no token for names: "\n\n--- snippet ---\n\n" comes before each file */
#define SEPARATOR 6, 6, 13, 13, 13, 13, 13, 13, 13, 13, 13, 4, 13, 13, 13, 13, 13, 6, 6
    ASSERT_IDS(ids_of(t, &fim, NULL), SEPARATOR, 5, 5, SEPARATOR, 2, 7, 0, 9, 1, 8);
    tern_tokenizer_close(t);
}

static void test_fim_limit(void **state)
{
    (void)state;
    tern_tokenizer *t = text_of_json(qwen);
    const tern_fim_file file = {"e", "ff", 2};
    tern_fim fim = gap("abcdef", "fedcba");
    bool cut = false;
    tern_error err = {0};
    tern_tokens ids = {0};
    fim.files = &file;
    fim.n_files = 1;
    fim.max_tokens = 20;
    ASSERT_IDS(ids_of(t, &fim, &cut), 12, 4, 6, 5, 5, 7, 0, 1, 2, 3, 4, 5, 9, 5, 4, 3, 2, 1, 0, 8);
    assert_false(cut);
    fim.max_tokens = 16; /* the beginning of the file goes first */
    ASSERT_IDS(ids_of(t, &fim, &cut), 5, 7, 0, 1, 2, 3, 4, 5, 9, 5, 4, 3, 2, 1, 0, 8);
    assert_true(cut);
    fim.max_tokens = 11; /* room for eight: six of the prefix at most, two of the suffix */
    ASSERT_IDS(ids_of(t, &fim, NULL), 7, 0, 1, 2, 3, 4, 5, 9, 5, 4, 8);
    fim.max_tokens = 7; /* three to one */
    ASSERT_IDS(ids_of(t, &fim, NULL), 7, 3, 4, 5, 9, 5, 8);
    fim.n_prefix = 1; /* a short prefix leaves its room to the suffix */
    ASSERT_IDS(ids_of(t, &fim, NULL), 7, 0, 9, 5, 4, 3, 8);
    fim.start = "aaaaa", fim.n_start = 5;
    assert_int_equal(tern_fim_tokenize(t, &fim, &ids, NULL, &err), TERN_CONTEXT_FULL);
    tern_tokenizer_close(t);
}

/* The names of marks in a text are text; marks that no text goes on after are ends. */
static void test_fim_special(void **state)
{
    (void)state;
    tern_tokenizer *t = text_of_json(qwen);
    const tern_fim fim = gap("a<|fim_suffix|>b", "");
    tern_tokens ids = ids_of(t, &fim, NULL);
    assert_int_equal(ids.ids[ids.n - 2], 9);
    for (size_t i = 1; i + 2 < ids.n; i++) assert_true(ids.ids[i] < 7 || ids.ids[i] == 13);
    tern_tokens_deinit(&ids);
    for (int32_t id = 7; id < 13; id++) assert_int_equal(tern_token_is_end(t, id), id > 9);
    tern_tokenizer_close(t);
}

/* Files of Qwen 2.5 Coder and DeepSeek Coder do not call these tokens special. */
static void test_fim_user_defined(void **state)
{
    (void)state;
    tern_tokenizer *t = text_of_json(deepseek);
    const tern_fim fim = gap("a<｜fim▁end｜>", "b");
    tern_tokens ids = ids_of(t, &fim, NULL);
    assert_int_equal(ids.ids[0], 7);
    for (size_t i = 1; i + 3 < ids.n; i++) assert_true(ids.ids[i] < 7 || ids.ids[i] == 13);
    tern_tokens_deinit(&ids);
    tern_tokenizer_close(t);
}

static void test_fim_none(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_tokens ids = {0};
    const tern_fim fim = gap("a", "b");
    tern_tokenizer *t = text_of_json("{\"added_tokens\":[" ADDED(7, "<fim_prefix>") "]," LETTERS);
    assert_false(tern_tokenizer_fills(t));
    assert_int_equal(tern_fim_tokenize(t, &fim, &ids, NULL, &err), TERN_UNSUPPORTED);
    assert_non_null(strstr(err.message, "no suffix token"));
    assert_int_equal(ids.n, 0);
    tern_tokenizer_close(t);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_fim_order),   cmocka_unit_test(test_fim_files),        cmocka_unit_test(test_fim_limit),
    cmocka_unit_test(test_fim_special), cmocka_unit_test(test_fim_user_defined), cmocka_unit_test(test_fim_none),
};

TEST_GROUP(fim, "web", tests);
