/* The budget of grammars: steps are counted, are the same whatever was kept from before, and run out with an error that
 * names the part of the source. */
#include "base/alloc.h"
#include "base/rng.h"
#include "text/goldens.h"
#include "text/grammar/internal.h"
#include "text/tokenizer/tokenizer.h"

enum { MOST_TOKENS = 2000 };

/* A grammar that costs too much sooner or later, and the words of the error. */
typedef struct attack {
    tern_grammar_kind kind;
    const char *source, *words;
} attack;

static const attack attacks[] = {
    {TERN_GRAMMAR_GBNF, "root ::= (.{1,1000}){1,100}", "rule `root` "},
    {TERN_GRAMMAR_GBNF, "root ::= (.{1,1000}){1,100}\n", "fewer or smaller repetitions within repetitions expected"},
    {TERN_GRAMMAR_GBNF, "root ::= \"a\" slow\nslow ::= (.{1,1000}){1,100}", "rule `slow` "},
    {TERN_GRAMMAR_GBNF, "root ::= fine slow\nfine ::= \"a\"?\nslow ::= ([^a]{1,1000}){50,100}", "rule `slow` "},
    {TERN_GRAMMAR_GBNF, "root ::= x{9,900}\nx ::= y{9,900}\ny ::= [^0] z?\nz ::= [^1]", "rule `y` "},
    {TERN_GRAMMAR_GBNF, "root ::= (((.?){50}){50}){50}", "rule `root` "},
    {TERN_GRAMMAR_REGEX, "([a-z]{1,90}|[a-z]{2,99}){1,99}", "the regular expression "},
    {TERN_GRAMMAR_SCHEMA, "{\"pattern\": \"^(.{1,1000}){1,100}$\"}", "schema: /pattern "},
    {TERN_GRAMMAR_SCHEMA,
     "{\"properties\": {\"a\": {\"type\": \"string\"}, \"b\": {\"pattern\": \"(a|.)*(b|.)*(.{1,500}){1,99}\"}}, "
     "\"required\": [\"b\"]}",
     "schema: /properties/b/pattern "},
    {TERN_GRAMMAR_SCHEMA,
     "{\"$ref\": \"#/$defs/x\", \"$defs\": {\"x\": {\"items\": {\"pattern\": \"^(.{1,999}){1,99}$\"}, "
     "\"minItems\": 1}}}",
     "schema: /$defs/x/items/pattern "},
};

static int32_t draw(const uint32_t *words, uint32_t n_vocab, tern_rng *rng)
{
    const uint32_t from = (uint32_t)(tern_rng_u64(rng) % n_vocab);
    for (uint32_t i = 0; i < n_vocab; i++) {
        const uint32_t id = (from + i) % n_vocab;
        if (words[id / 32] >> (id % 32) & 1) return (int32_t)id;
    }
    return -1;
}

/* One token at random, never an end where there is another. */
static tern_status step(tern_grammar_state *s, const tern_tokenizer *t, uint32_t *words, tern_rng *rng, tern_error *err)
{
    const uint32_t n_vocab = tern_tokenizer_size(t);
    tern_status status = tern_grammar_state_mask(s, words, (n_vocab + 31) / 32, err);
    if (status != TERN_OK) return status;
    int32_t id = draw(words, n_vocab, rng);
    for (unsigned i = 0; i < 9 && tern_token_is_end(t, id); i++) id = draw(words, n_vocab, rng);
    assert_true(id >= 0);
    return tern_grammar_state_accept(s, id, err);
}

/* Until it costs too much; no token and no text costs more than it may. */
static tern_status walk(tern_grammar *g, const tern_tokenizer *t, tern_error *err)
{
    uint32_t *words = tern_calloc((tern_tokenizer_size(t) + 31) / 32, sizeof *words);
    tern_rng rng = {11};
    tern_grammar_state *s;
    tern_status status = tern_grammar_state_open(&s, g, err);
    for (unsigned i = 0; i < MOST_TOKENS && status == TERN_OK; i++) {
        status = step(s, t, words, &rng, err);
        assert_true(s->spent <= TERN_GRAMMAR_TEXT_STEPS + 2 * TERN_GRAMMAR_TOKEN_STEPS +
                                    (uint64_t)TERN_GRAMMAR_MEAN_STEPS * s->n_accepted);
        if (s->ended) break;
    }
    tern_grammar_state_close(s);
    tern_free(words);
    return status;
}

static void test_attacks(void **state)
{
    (void)state;
    tern_tokenizer *t = open_spm1024();
    tern_grammar_vocab *v;
    tern_error err = {0};
    assert_ok(tern_grammar_vocab_open(&v, t, &err), err);
    for (size_t i = 0; i < sizeof attacks / sizeof *attacks; i++) {
        const attack *a = &attacks[i];
        tern_grammar *g;
        tern_status status = tern_grammar_open(&g, v, a->kind, a->source, strlen(a->source), &err);
        if (status == TERN_OK) status = walk(g, t, &err);
        if (status != TERN_LIMIT || !strstr(err.message, a->words))
            fail_msg("%s: status %d: %s: \"%s\" expected", a->source, (int)status, err.message, a->words);
        tern_grammar_close(g);
    }
    tern_grammar_vocab_close(v);
    tern_tokenizer_close(t);
}

/* Sources that cost much to read; each is read or refused within the bounds of the parser. */
static void test_sources(void **state)
{
    (void)state;
    tern_buf rules = {0}, cycle = {0}, values = {0};
    tern_error err = {0};
    tern_grammar *g;
    enum { N = 16000 };
    assert_ok(tern_buf_addf(&rules, &err, "root ::= \"a\""), err);
    for (unsigned i = 0; i < N; i++) assert_ok(tern_buf_addf(&rules, &err, " | rule-with-a-long-name-%u", i), err);
    for (unsigned i = 0; i < N; i++)
        assert_ok(tern_buf_addf(&cycle, &err, "%s%u ::= \"a\" r%u?\n", i ? "r" : "root ::= r0\nr", i, (i + 1) % N),
                  err);
    assert_ok(tern_buf_addf(&values, &err, "{\"enum\": [0"), err);
    for (unsigned i = 1; i < 90000; i++) assert_ok(tern_buf_addf(&values, &err, ",%u", i), err);
    assert_ok(tern_buf_addf(&values, &err, "]}"), err);
    assert_int_equal(tern_grammar_open(&g, NULL, TERN_GRAMMAR_GBNF, rules.data, rules.size, &err), TERN_MALFORMED);
    assert_non_null(strstr(err.message, "line 1, column 16: found \"rule-with-a-long-name-0\""));
    assert_int_equal(tern_grammar_open(&g, NULL, TERN_GRAMMAR_GBNF, cycle.data, cycle.size, &err), TERN_LIMIT);
    assert_ok(tern_grammar_open(&g, NULL, TERN_GRAMMAR_SCHEMA, values.data, values.size, &err), err);
    tern_grammar_close(g);
    tern_buf_deinit(&rules);
    tern_buf_deinit(&cycle);
    tern_buf_deinit(&values);
}

static uint64_t spend(tern_grammar *g, const tern_tokenizer *t, uint64_t seed, unsigned n)
{
    uint32_t *words = tern_calloc((tern_tokenizer_size(t) + 31) / 32, sizeof *words);
    tern_rng rng = {seed};
    tern_grammar_state *s;
    tern_error err = {0};
    assert_ok(tern_grammar_state_open(&s, g, &err), err);
    for (unsigned i = 0; i < n && !s->ended; i++) assert_ok(step(s, t, words, &rng, &err), err);
    const uint64_t spent = s->spent;
    tern_grammar_state_close(s);
    tern_free(words);
    return spent;
}

/* The cost of a text does not depend on what other texts of the grammar have left behind. */
static void test_same_cost(void **state)
{
    (void)state;
    static const attack grammars[] = {
        {TERN_GRAMMAR_JSON, "", NULL},
        {TERN_GRAMMAR_SCHEMA, "{\"properties\": {\"a\": {\"maxLength\": 30}, \"b\": {\"items\": {}}}}", NULL},
        {TERN_GRAMMAR_GBNF, "root ::= (.{1,20}){1,10}", NULL},
        {TERN_GRAMMAR_REGEX, "([a-z]{2,5} ?){3,40}\\.", NULL},
    };
    tern_tokenizer *t = open_spm1024();
    tern_grammar_vocab *v;
    tern_error err = {0};
    assert_ok(tern_grammar_vocab_open(&v, t, &err), err);
    for (size_t i = 0; i < sizeof grammars / sizeof *grammars; i++) {
        const attack *a = &grammars[i];
        tern_grammar *fresh, *used;
        assert_ok(tern_grammar_open(&fresh, v, a->kind, a->source, strlen(a->source), &err), err);
        assert_ok(tern_grammar_open(&used, v, a->kind, a->source, strlen(a->source), &err), err);
        for (unsigned k = 0; k < 30; k++) spend(used, t, 100 + k, 40);
        const uint64_t expected = spend(fresh, t, 7, 40);
        assert_true(expected > 0);
        for (unsigned k = 0; k < 2; k++) {
            const uint64_t found = spend(k ? fresh : used, t, 7, 40);
            if (found != expected)
                fail_msg("%s: %llu steps, %llu expected", a->source, (unsigned long long)found,
                         (unsigned long long)expected);
        }
        tern_grammar_close(fresh);
        tern_grammar_close(used);
    }
    tern_grammar_vocab_close(v);
    tern_tokenizer_close(t);
}

static const struct CMUnitTest cases[] = {cmocka_unit_test(test_attacks), cmocka_unit_test(test_sources),
                                          cmocka_unit_test(test_same_cost)};
TEST_GROUP(grammar_work, "", cases);
