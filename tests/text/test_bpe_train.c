/* Learning a vocabulary: against counting everything anew for each merge, and what comes out as a tokenizer. */
#include "base/bytes.h"
#include "base/file.h"
#include "support/places.h"
#include "support/test.h"
#include "text/tokenizer/bpe_train.h"

static tern_tokenizer *learn(const char *text, uint32_t n_vocab)
{
    tern_error err = {0};
    tern_bpe_trainer *trainer = NULL;
    tern_tokenizer *t = NULL;
    assert_ok(tern_bpe_trainer_open(&trainer, &err), err);
    assert_ok(tern_bpe_trainer_add(trainer, text, strlen(text), &err), err);
    assert_ok(tern_bpe_trainer_finish(trainer, n_vocab, NULL, NULL, &t, &err), err);
    tern_bpe_trainer_close(trainer);
    return t;
}

static char *logbook(void)
{
    tern_error err = {0};
    tern_buf text = {0};
    assert_ok(tern_file_read(&text, TERN_SOURCE_DIR "/examples/finetune/logbook.txt", 1 << 20, &err), err);
    char *out = calloc(text.size + 1, 1);
    memcpy(out, text.data, text.size);
    tern_buf_deinit(&text);
    return out;
}

/* The plain definition: words of letters with the space before them, every pair counted anew for each merge. */
enum { MAX_WORDS = 4000, MAX_LENGTH = 24, MAX_TOKENS = 420 };
typedef struct plain {
    struct {
        int s[MAX_LENGTH];
        int n;
        long count;
    } words[MAX_WORDS];
    int n_words, n_tokens;
    char tokens[MAX_TOKENS][64];
} plain;

static void plain_add(plain *p, const char *word, int n)
{
    int s[MAX_LENGTH], k = 0;
    assert_true(n <= MAX_LENGTH);
    for (int i = 0; i < n; i++) s[i] = (unsigned char)word[i];
    while (k < p->n_words && (p->words[k].n != n || memcmp(p->words[k].s, s, (size_t)n * sizeof *s) != 0)) k++;
    if (k == p->n_words) {
        assert_true(p->n_words < MAX_WORDS);
        memcpy(p->words[k].s, s, (size_t)n * sizeof *s);
        p->words[k].n = n;
        p->n_words++;
    }
    p->words[k].count++;
}

static long plain_count(const plain *p, int a, int b)
{
    long total = 0;
    for (int w = 0; w < p->n_words; w++)
        for (int i = 1; i < p->words[w].n; i++)
            total += p->words[w].s[i - 1] == a && p->words[w].s[i] == b ? p->words[w].count : 0;
    return total;
}

static void plain_merge(plain *p)
{
    static long counts[MAX_TOKENS][MAX_TOKENS];
    int a = 0, b = 0;
    long best = 1;
    memset(counts, 0, sizeof counts);
    for (int w = 0; w < p->n_words; w++)
        for (int i = 1; i < p->words[w].n; i++) counts[p->words[w].s[i - 1]][p->words[w].s[i]] += p->words[w].count;
    for (int i = 0; i < p->n_tokens; i++)
        for (int k = 0; k < p->n_tokens; k++)
            if (counts[i][k] > best) best = counts[a = i][b = k];
    assert_true(best > 1 && plain_count(p, a, b) == best);
    char text[64];
    snprintf(text, sizeof text, "%.31s%.31s", p->tokens[a], p->tokens[b]);
    int id = 256;
    while (id < p->n_tokens && strcmp(p->tokens[id], text) != 0) id++;
    memcpy(p->tokens[id], text, sizeof text);
    p->n_tokens += id == p->n_tokens;
    for (int w = 0; w < p->n_words; w++) {
        int n = 0;
        for (int i = 0; i < p->words[w].n; i++) {
            bool both = i + 1 < p->words[w].n && p->words[w].s[i] == a && p->words[w].s[i + 1] == b;
            p->words[w].s[n++] = both ? id : p->words[w].s[i];
            i += both;
        }
        p->words[w].n = n;
    }
}

static void test_plain(void **state)
{
    (void)state;
    char *text = logbook();
    for (char *c = text; *c; c++) /* what the pattern cuts as simply as this test: letters with one space before */
        if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || *c == ' ')) *c = ' ';
    char *squeezed = text;
    for (char *c = text; *c; c++)
        if (*c != ' ' || (c[1] && c[1] != ' ')) *squeezed++ = *c;
    *squeezed = 0;
    plain *p = calloc(1, sizeof *p);
    for (int i = 0; i < 256; i++) p->tokens[i][0] = (char)i;
    p->n_tokens = 256;
    for (const char *c = text; *c;) {
        size_t n = 1 + strcspn(c + 1, " ");
        plain_add(p, c, (int)n);
        c += n;
    }
    while (p->n_tokens < 400) plain_merge(p);
    tern_tokenizer *t = learn(text, 400 + TERN_BPE_N_SPECIAL);
    for (int id = 256; id < 400; id++) {
        tern_span bytes = tern_token_bytes(t, id, false);
        char got[64];
        snprintf(got, sizeof got, "%.*s", (int)bytes.size, (const char *)bytes.data);
        assert_string_equal(got, p->tokens[id]);
    }
    tern_tokenizer_close(t);
    free(p);
    free(text);
}

static size_t length(const tern_tokenizer *t, const char *text)
{
    tern_error err = {0};
    tern_tokens ids = {0};
    tern_buf back = {0};
    assert_ok(tern_tokenize(t, text, strlen(text), false, &ids, &err), err);
    assert_ok(tern_detokenize(t, ids.ids, ids.n, false, &back, &err), err);
    assert_int_equal(back.size, strlen(text));
    assert_memory_equal(back.data, text, back.size);
    size_t n = ids.n;
    tern_tokens_deinit(&ids);
    tern_buf_deinit(&back);
    return n;
}

static void test_tokenizer(void **state)
{
    (void)state;
    char *text = logbook();
    tern_tokenizer *small = learn(text, 512), *large = learn(text, 1024);
    const int32_t end = (int32_t)tern_tokenizer_size(large);
    assert_true(end > 600 && end <= 1024); /* the logbook has no more pairs */
    assert_int_equal(tern_tokenizer_size(small), 512);
    assert_int_equal(tern_tokenizer_bos(large), end - 5);
    assert_true(tern_tokenizer_adds_bos(large));
    assert_true(tern_token_is_end(large, end - 4));
    assert_true(tern_token_is_end(large, end - 1));
    assert_int_equal(tern_token_find(large, "<|start_header_id|>", 19), end - 3);
    size_t a = length(small, text), b = length(large, text);
    assert_true(b < a && a < strlen(text) / 2);
    assert_true(length(small, "Gr\xc3\xbc\xc3\x9f dich \xf0\x9f\x98\x80 \xff\x01\n") >= 8); /* any bytes */
    for (int32_t id = 0; id < 507; id++) { /* the same text, the same tokens: the larger one only goes on */
        tern_span x = tern_token_piece(small, id), y = tern_token_piece(large, id);
        assert_int_equal(x.size, y.size);
        assert_memory_equal(x.data, y.data, x.size);
    }
    tern_tokenizer_close(small);
    tern_tokenizer_close(large);
    free(text);
}

static bool cancel(void *context, float done)
{
    (void)context;
    return done > 2;
}

static void test_limits(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_bpe_trainer *trainer = NULL;
    tern_tokenizer *t = NULL;
    assert_ok(tern_bpe_trainer_open(&trainer, &err), err);
    assert_int_equal(tern_bpe_trainer_finish(trainer, 260, NULL, NULL, &t, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "260"));
    assert_ok(tern_bpe_trainer_finish(trainer, 261, NULL, NULL, &t, &err), err); /* no text: bytes alone */
    assert_int_equal(length(t, "abc"), 3);
    tern_tokenizer_close(t);
    assert_ok(tern_bpe_trainer_add(trainer, "ab ab ab", 8, &err), err);
    assert_ok(tern_bpe_trainer_finish(trainer, 300, NULL, NULL, &t, &err), err); /* too little text: fewer tokens */
    assert_int_equal(tern_tokenizer_size(t), 256 + 2 + TERN_BPE_N_SPECIAL);      /* "ab", " ab" */
    assert_int_equal(length(t, "ab ab"), 2);
    assert_int_equal(tern_tokenizer_bos(t), 258);
    tern_tokenizer_close(t);
    char *text = logbook();
    assert_ok(tern_bpe_trainer_add(trainer, text, strlen(text), &err), err);
    assert_int_equal(tern_bpe_trainer_finish(trainer, 1000, cancel, NULL, &t, &err), TERN_CANCELLED);
    tern_bpe_trainer_close(trainer);
    free(text);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(test_plain), cmocka_unit_test(test_tokenizer),
                                          cmocka_unit_test(test_limits)};

TEST_GROUP(bpe_train, "web", tests);
