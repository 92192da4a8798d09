/* Masks within repetitions: a grammar that counts against the same one with its copies written out, and a schema's
 * string against counting its characters. */
#include "base/alloc.h"
#include "base/rng.h"
#include "text/goldens.h"
#include "text/grammar/vocab.h"
#include "text/tokenizer/tokenizer.h"

enum { MOST_STEPS = 24, FOREVER = 1000 };

/* `before` x{least,most} `after`, where x is a rule and so is what these name. */
typedef struct counted {
    const char *x, *rules, *before, *after;
    unsigned least, most;
} counted;

#define JSON_CHAR                                                                                                      \
    "[^\"\\\\\\x00-\\x1f] | \"\\\\\" ([\"\\\\/bfnrt] | \"u\" [0-9a-fA-F] [0-9a-fA-F] [0-9a-fA-F] [0-9a-fA-F])"

static const counted grammars[] = {
    {JSON_CHAR, "", "\"\\\"\"", "\"\\\"\"", 0, 40},
    {JSON_CHAR, "", "\"\\\"\"", "\"\\\", \" [a-z]*", 3, 9},
    {JSON_CHAR, "", "\"\\\"\"", "\"\\\"\"", 12, FOREVER},
    {JSON_CHAR, "", "\"\\\"\"", "\"\\\"\"", 7, 7},
    {JSON_CHAR, "", "\"\\\"\"", "\"\\\"\"", 0, 2},
    {"[^a]", "", "", "", 2, 12},
    {"[^a]", "", "\"a\"", "\"a\" root?", 0, 30},
    {"[a-z]", "", "", "[a-z0-9] \".\"", 0, 6}, /* what comes after begins as a copy does */
    {"[a-z]+", "", "", "\" \"?", 2, 5},        /* a copy can be cut in many ways */
    {"[a-z]?", "", "", "\".\"", 2, 5},         /* a copy may be empty */
    {"[a-z] \"e\"?", "", "", "\".\"", 0, 9},   /* and end within another */
    {"[A-z] [a-z] | \" \"", "", "", "\",\" | \"\\n\"", 1, 8},
    {"\"(\" [^()]* \")\"", "", "[^()]*", "\"!\"", 0, 5},
    {"[^ ]", "y ::= [^,] | x \",\"", "y", "y? \" \"", 0, 9}, /* x is called elsewhere, too */
    {"\",\" \" \"? ([a-z]{1,8} | [0-9]{2,3})", "", "\"[\"", "\"]\"", 0, 20},
    {"[^\\n]", "", "[a-z]{2,6} \" \"?", "\"\\n\" root?", 0, 25},
};

static void add(tern_buf *out, const char *text)
{
    tern_error err = {0};
    assert_ok(tern_buf_add(out, text, strlen(text), &err), err);
}

static void add_counted(tern_buf *out, const counted *c)
{
    tern_error err = {0};
    if (c->most == FOREVER) assert_ok(tern_buf_addf(out, &err, "x{%u,}", c->least), err);
    else assert_ok(tern_buf_addf(out, &err, "x{%u,%u}", c->least, c->most), err);
}

static void add_written_out(tern_buf *out, const counted *c)
{
    const unsigned optional = c->most == FOREVER ? 0 : c->most - c->least;
    for (unsigned i = 0; i < c->least; i++) add(out, "x ");
    if (c->most == FOREVER) add(out, "x*");
    for (unsigned i = 0; i < optional; i++) add(out, "(x ");
    for (unsigned i = 0; i < optional; i++) add(out, ")?");
}

static tern_grammar *open_counted(const tern_grammar_vocab *v, const counted *c, bool written_out)
{
    tern_buf source = {0};
    tern_grammar *g;
    tern_error err = {0};
    assert_ok(tern_buf_addf(&source, &err, "x ::= %s\n%s\nroot ::= %s ", c->x, c->rules, c->before), err);
    (written_out ? add_written_out : add_counted)(&source, c);
    assert_ok(tern_buf_addf(&source, &err, " %s\n", c->after), err);
    assert_ok(tern_grammar_open(&g, v, TERN_GRAMMAR_GBNF, source.data, source.size, &err), err);
    tern_buf_deinit(&source);
    return g;
}

static bool bit(const uint32_t *words, int32_t id)
{
    return words[id / 32] >> (id % 32) & 1;
}

/* A token of the mask, now and then a long one; -1 where there is none. */
static int32_t draw(const tern_tokenizer *t, const uint32_t *words, tern_rng *rng)
{
    const uint32_t n = tern_tokenizer_size(t), from = (uint32_t)(tern_rng_u64(rng) % n);
    const size_t wanted = tern_rng_u64(rng) % 4;
    int32_t found = -1;
    for (uint32_t i = 0; i < n; i++) {
        const int32_t id = (int32_t)((from + i) % n);
        if (!bit(words, id) || tern_token_is_end(t, id)) continue;
        found = id;
        if (tern_token_bytes(t, id, false).size > wanted) break;
    }
    return found;
}

static void check_same(tern_grammar_state *a, tern_grammar_state *b, uint32_t *words[2], size_t n, size_t index)
{
    tern_error err = {0};
    assert_ok(tern_grammar_state_mask(a, words[0], n, &err), err);
    assert_ok(tern_grammar_state_mask(b, words[1], n, &err), err);
    for (size_t i = 0; i < n; i++)
        if (words[0][i] != words[1][i])
            fail_msg("grammar %zu: tokens from %zu on: %x instead of %x", index, i * 32, words[0][i], words[1][i]);
}

static void walk_both(const tern_tokenizer *t, tern_grammar *g[2], tern_rng *rng, size_t index)
{
    const size_t n = (tern_tokenizer_size(t) + 31) / 32;
    uint32_t *words[] = {tern_alloc(n * sizeof(uint32_t)), tern_alloc(n * sizeof(uint32_t))};
    tern_grammar_state *s[2];
    tern_error err = {0};
    for (unsigned i = 0; i < 2; i++) assert_ok(tern_grammar_state_open(&s[i], g[i], &err), err);
    for (unsigned i = 0; i < MOST_STEPS; i++) {
        check_same(s[0], s[1], words, n, index);
        const int32_t id = draw(t, words[0], rng);
        if (id < 0) break;
        for (unsigned k = 0; k < 2; k++) assert_ok(tern_grammar_state_accept(s[k], id, &err), err);
    }
    for (unsigned i = 0; i < 2; i++) tern_grammar_state_close(s[i]);
    for (unsigned i = 0; i < 2; i++) tern_free(words[i]);
}

static void check_vocabulary(tern_tokenizer *t, unsigned rounds)
{
    tern_grammar_vocab *v;
    tern_error err = {0};
    tern_rng rng = {23};
    assert_ok(tern_grammar_vocab_open(&v, t, &err), err);
    for (size_t i = 0; i < sizeof grammars / sizeof *grammars; i++) {
        tern_grammar *g[] = {open_counted(v, &grammars[i], false), open_counted(v, &grammars[i], true)};
        for (unsigned k = 0; k < rounds; k++) walk_both(t, g, &rng, i);
        for (unsigned k = 0; k < 2; k++) tern_grammar_close(g[k]);
    }
    tern_grammar_vocab_close(v);
    tern_tokenizer_close(t);
}

static void test_written_out(void **state)
{
    (void)state;
    check_vocabulary(open_demo(), test_quick() ? 3 : 20);
    check_vocabulary(open_spm1024(), test_quick() ? 3 : 20);
}

static void test_large(void **state)
{
    (void)state;
    check_vocabulary(open_llama3(), test_quick() ? 1 : 4);
}

/* Whether these are characters of ASCII that stand in a JSON string as they are. */
static bool plain(tern_span bytes)
{
    for (size_t i = 0; i < bytes.size; i++) {
        const uint8_t b = bytes.data[i];
        if (b < 0x20 || b == '"' || b == '\\' || b > 0x7e) return false;
    }
    return bytes.size > 0;
}

/* Plain tokens may come where all their characters do. */
static void check_plain(const tern_tokenizer *t, const uint32_t *words, unsigned used, unsigned most)
{
    for (int32_t id = 0; id < (int32_t)tern_tokenizer_size(t); id++) {
        const tern_span bytes = tern_token_bytes(t, id, false);
        if (tern_token_is_special(t, id) || !plain(bytes)) continue;
        const bool fits = used + bytes.size <= most;
        if (bit(words, id) != fits) fail_msg("token %d after %u characters: in the mask: %d", id, used, !fits);
    }
}

static void test_schema(void **state)
{
    (void)state;
    static const char source[] = "{\"type\": \"string\", \"minLength\": 2, \"maxLength\": 20}";
    tern_tokenizer *t = open_llama3();
    const size_t n = (tern_tokenizer_size(t) + 31) / 32;
    uint32_t *words = tern_alloc(n * sizeof *words);
    tern_grammar_vocab *v;
    tern_grammar *g;
    tern_grammar_state *s;
    tern_error err = {0};
    assert_ok(tern_grammar_vocab_open(&v, t, &err), err);
    assert_ok(tern_grammar_open(&g, v, TERN_GRAMMAR_SCHEMA, source, sizeof source - 1, &err), err);
    assert_ok(tern_grammar_state_open(&s, g, &err), err);
    assert_ok(tern_grammar_state_accept_text(s, "\"", 1, &err), err);
    for (unsigned used = 0; used <= 20; used++) {
        assert_ok(tern_grammar_state_mask(s, words, n, &err), err);
        check_plain(t, words, used, 20);
        const char *next = used % 2 ? "a" : "\xc3\xa9";
        if (used < 20) assert_ok(tern_grammar_state_accept_text(s, next, strlen(next), &err), err);
    }
    tern_grammar_state_close(s);
    tern_grammar_close(g);
    tern_grammar_vocab_close(v);
    tern_tokenizer_close(t);
    tern_free(words);
}

static const struct CMUnitTest cases[] = {cmocka_unit_test(test_written_out), cmocka_unit_test(test_large),
                                          cmocka_unit_test(test_schema)};
TEST_GROUP(grammar_runs, "", cases);
