/* Vocabularies that would make little text cost much: each ends soon, with an error that says why. */
#include "text/goldens.h"
#include "text/tokenizer/normal/normalize.h"
#include "text/tokenizer/pretokenize.h"

static tern_status count_piece(void *user, tern_span piece, tern_error *err)
{
    (void)err;
    *(size_t *)user += piece.size;
    return TERN_OK;
}

static tern_status cut(const char *pattern, const char *text, size_t n, size_t *bytes, tern_error *err)
{
    tern_pretokenizer p = {0};
    tern_span span = {(const uint8_t *)pattern, strlen(pattern)};
    assert_ok(tern_pretokenizer__add(&p, span, TERN_SPLIT_ISOLATED, err), *err);
    *bytes = 0;
    tern_status status = tern_pretokenizer__run(&p, (const uint8_t *)text, n, count_piece, bytes, err);
    tern_pretokenizer__deinit(&p);
    return status;
}

/* Each place that a match could start at takes 2^n steps. */
static void steps_are_limited_for_the_text(void **state)
{
    (void)state;
    enum { N = 4096 };
    static char text[N];
    for (size_t i = 0; i < N; i++) text[i] = i % 32 == 31 ? '!' : 'a';
    size_t bytes;
    tern_error err = {0};
    assert_int_equal(cut("((a+)+)+$", text, N, &bytes, &err), TERN_LIMIT);
    assert_non_null(strstr(err.message, "too many steps"));
}

/* A capital letter is tried as the start of a word in small letters, as long as the run is. */
static void long_runs_may_take_many_steps(void **state)
{
    (void)state;
    enum { N = 300000 };
    char *text = malloc(N);
    memset(text, 'A', N);
    size_t bytes;
    tern_error err = {0};
    assert_ok(cut("\\p{Lu}*\\p{Ll}+|\\p{Lu}+", text, N, &bytes, &err), err);
    assert_int_equal(bytes, N);
    free(text);
}

enum { UNITS = 512, ROOT = 256 };

/* A trie of one rule: 'a', whose unit is given, becomes n bytes of text. */
static tern_status open_map(tern_charsmap *map, uint32_t unit, size_t n)
{
    size_t bytes = 4 + UNITS * 4 + n + 1;
    uint8_t *blob = calloc(bytes, 1);
    tern_store_u32(blob, UNITS * 4);
    tern_store_u32(blob + 4, ROOT << 10);
    tern_store_u32(blob + 4 + 4 * (ROOT ^ 'a'), unit);
    tern_store_u32(blob + 4 + 4 * (ROOT ^ 'a' ^ 1), 0x80000000);
    memset(blob + 4 + UNITS * 4, 'b', n);
    tern_status status = tern_charsmap__open(map, (tern_span){blob, bytes}, NULL);
    free(blob);
    return status;
}

static tern_status normalize(uint32_t unit, size_t n, tern_span text, tern_buf *out, tern_error *err)
{
    tern_normalizer norm = {0};
    const tern_added frozen = {0};
    out->size = 0;
    assert_int_equal(open_map(&norm.charsmap, unit, n), TERN_OK);
    tern_status status = tern_normalizer__run(&norm, &frozen, text, true, out, err);
    tern_charsmap__deinit(&norm.charsmap);
    return status;
}

static void mapped_characters_stay_short(void **state)
{
    (void)state;
    const uint32_t unit = 1u << 10 | 1u << 8 | 'a'; /* its value hangs below it, at ^ 1 */
    const tern_span text = {(const uint8_t *)"xa", 2};
    tern_buf out = {0};
    tern_error err = {0};
    assert_ok(normalize(unit, 33, text, &out, &err), err);
    assert_int_equal(out.size, 34);
    assert_ok(normalize(unit, TERN_CHARSMAP_MAX_BYTES, text, &out, &err), err);
    assert_int_equal(out.size, TERN_CHARSMAP_MAX_BYTES + 1);
    assert_int_equal(normalize(unit, 1700000, text, &out, &err), TERN_LIMIT);
    assert_non_null(strstr(err.message, "precompiled_charsmap: 1 bytes of text become more than 128"));
    tern_buf_deinit(&out);
}

/* A unit that leads back to itself matches all letters that follow, at every letter anew: years for this text. */
static void a_rule_ends(void **state)
{
    (void)state;
    enum { N = 10 << 20 };
    const uint32_t unit = 'a' << 10 | 'a';
    uint8_t *text = malloc(N);
    tern_buf out = {0};
    tern_error err = {0};
    memset(text, 'a', N);
    assert_ok(normalize(unit, 1, (tern_span){text, TERN_CHARSMAP_MAX_BYTES}, &out, &err), err);
    assert_int_equal(out.size, TERN_CHARSMAP_MAX_BYTES);
    assert_int_equal(normalize(unit, 1, (tern_span){text, N}, &out, &err), TERN_LIMIT);
    assert_non_null(strstr(err.message, "precompiled_charsmap: a rule for more than 128 bytes"));
    tern_buf_deinit(&out);
    free(text);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(steps_are_limited_for_the_text),
    cmocka_unit_test(long_runs_may_take_many_steps),
    cmocka_unit_test(mapped_characters_stay_short),
    cmocka_unit_test(a_rule_ends),
};

TEST_GROUP(bombs, "web", tests);
