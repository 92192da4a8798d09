/* Grammars against tables of Python's re and jsonschema, masks against trying every token, and what is refused. */
#include "base/alloc.h"
#include "base/rng.h"
#include "format/json.h"
#include "support/places.h"
#include "text/goldens.h"
#include "text/tokenizer/tokenizer.h"

static tern_grammar *open_grammar(const tern_grammar_vocab *vocab, tern_grammar_kind kind, const char *source)
{
    tern_grammar *g;
    tern_error err = {0};
    assert_ok(tern_grammar_open(&g, vocab, kind, source, strlen(source), &err), err);
    return g;
}

static bool accepts(tern_grammar *g, const char *text, size_t n)
{
    tern_grammar_state *s;
    tern_error err = {0};
    assert_ok(tern_grammar_state_open(&s, g, &err), err);
    const bool accepted = tern_grammar_state_accept_text(s, text, n, NULL) == TERN_OK && tern_grammar_state_may_end(s);
    tern_grammar_state_close(s);
    return accepted;
}

static tern_grammar_kind kind_of(const char *name)
{
    if (strcmp(name, "gbnf") == 0) return TERN_GRAMMAR_GBNF;
    return strcmp(name, "regex") == 0 ? TERN_GRAMMAR_REGEX : TERN_GRAMMAR_SCHEMA;
}

static void check_case(const char *line, size_t n)
{
    json_t *c;
    tern_error err = {0};
    assert_ok(tern_json_parse(&c, line, n, "case", &err), err);
    const char *source = json_string_value(json_array_get(c, 1));
    const json_t *text = json_array_get(c, 2);
    tern_grammar *g = open_grammar(NULL, kind_of(json_string_value(json_array_get(c, 0))), source);
    const bool accepted = accepts(g, json_string_value(text), json_string_length(text));
    if (accepted != json_is_true(json_array_get(c, 3))) fail_msg("%.*s: accepted: %d", (int)n, line, accepted);
    tern_grammar_close(g);
    tern_json_free(c);
}

static void test_tables(void **state)
{
    (void)state;
    tern_buf file = {0};
    tern_error err = {0};
    size_t n = 0;
    assert_ok(tern_file_read(&file, TERN_SOURCE_DIR "/tests/data/grammar/cases.jsonl", 1 << 22, &err), err);
    for (const char *line = file.data, *end; (end = strchr(line, '\n')) != NULL; line = end + 1, n++)
        check_case(line, (size_t)(end - line));
    assert_true(n > 900);
    tern_buf_deinit(&file);
}

typedef struct refusal {
    tern_grammar_kind kind;
    const char *source;
    tern_status status;
    const char *words;
} refusal;

static const refusal refusals[] = {
    {TERN_GRAMMAR_GBNF, "", TERN_MALFORMED, "line 1, column 1: found the end: a rule `root` expected"},
    {TERN_GRAMMAR_GBNF, "root ::= \"a\n", TERN_MALFORMED, "line 2, column 1: found the end: `\"` at the end"},
    {TERN_GRAMMAR_GBNF, "root ::= [a-", TERN_MALFORMED, "column 13: found the end: `]` at the end of a class"},
    {TERN_GRAMMAR_GBNF, "root ::= [b-a]", TERN_MALFORMED, "column 12: found \"-\": a range that goes upwards"},
    {TERN_GRAMMAR_GBNF, "root ::= (\"a\"\nx = 1", TERN_MALFORMED, "line 2, column 3: found \"=\": `)`, `|`"},
    {TERN_GRAMMAR_GBNF, "root ::= b\nc ::= \"\"", TERN_MALFORMED, "line 1, column 10: found \"b\": the name of a rule"},
    {TERN_GRAMMAR_GBNF, "root ::= \"a\"\nroot ::= \"b\"", TERN_MALFORMED, "line 2, column 1: found \"r\": a rule that"},
    {TERN_GRAMMAR_GBNF, "root ::= root \"a\" | \"\"", TERN_MALFORMED, "rule `root` calls itself before"},
    {TERN_GRAMMAR_GBNF, "root ::= a? b\na ::= \"\"\nb ::= root", TERN_MALFORMED, "left recursion"},
    {TERN_GRAMMAR_GBNF, "root ::= \"a\" root", TERN_MALFORMED, "rule `root` can never end"},
    {TERN_GRAMMAR_GBNF, "root ::= \"\\q\"", TERN_MALFORMED, "column 12: found \"q\": an escape"},
    {TERN_GRAMMAR_GBNF, "root ::= \"\\ud800\"", TERN_MALFORMED, "is not a surrogate"},
    {TERN_GRAMMAR_GBNF, "root ::= \"a\"{3,2}", TERN_MALFORMED, "column 14: found \"3\": no more at least"},
    {TERN_GRAMMAR_GBNF, "root ::= \"a\"{,100001}", TERN_MALFORMED, "at most 100000 repetitions"},
    {TERN_GRAMMAR_GBNF, "root ::= <x>", TERN_MALFORMED, "no vocabulary"},
    {TERN_GRAMMAR_GBNF, "root ::= \"\xff\"", TERN_MALFORMED, "column 11: found \"\\xff\": UTF-8"},
    {TERN_GRAMMAR_GBNF, "root ::= (((((\"a\"{1000}){1000}){1000}){1000}){1000})", TERN_OK, ""},
    {TERN_GRAMMAR_REGEX, "a(?=b)", TERN_MALFORMED, "column 2: found \"(\": a group without look-ahead"},
    {TERN_GRAMMAR_REGEX, "a)", TERN_MALFORMED, "column 2: found \")\": `(` before"},
    {TERN_GRAMMAR_REGEX, "(a", TERN_MALFORMED, "column 3: found the end: `)`"},
    {TERN_GRAMMAR_REGEX, "*a", TERN_MALFORMED, "something to repeat"},
    {TERN_GRAMMAR_REGEX, "\\1", TERN_MALFORMED, "column 2: found \"1\": an escape"},
    {TERN_GRAMMAR_REGEX, "a^b", TERN_MALFORMED, "^ only at the beginning"},
    {TERN_GRAMMAR_SCHEMA, "{\"type\": \"x\"}", TERN_MALFORMED, "schema: /type: a type of JSON Schema"},
    {TERN_GRAMMAR_SCHEMA, "{\"properties\": {\"a\": {\"contains\": {}}}}", TERN_UNSUPPORTED,
     "schema: /properties/a/contains: this keyword is not supported"},
    {TERN_GRAMMAR_SCHEMA, "{\"if\": {}, \"then\": {}}", TERN_UNSUPPORTED, "schema: /if: this keyword is not supported"},
    {TERN_GRAMMAR_SCHEMA, "{\"not\": {\"type\": \"null\"}}", TERN_UNSUPPORTED,
     "schema: /not: this keyword is supported"},
    {TERN_GRAMMAR_SCHEMA, "{\"allOf\": []}", TERN_MALFORMED, "schema: /allOf: an array of at least one schema"},
    {TERN_GRAMMAR_SCHEMA, "{\"anyOf\": [{}, {\"$ref\": \"#/x\"}]}", TERN_UNSUPPORTED, "/anyOf/1/$ref: a pointer"},
    {TERN_GRAMMAR_SCHEMA, "{\"$ref\": \"http://x/y\"}", TERN_UNSUPPORTED, "/$ref: a pointer, $id or $anchor of this"},
    {TERN_GRAMMAR_SCHEMA, "{\"$ref\": \"#\"}", TERN_MALFORMED, "left recursion"},
    {TERN_GRAMMAR_SCHEMA, "{\"allOf\": [{\"$ref\": \"#\"}, {\"type\": \"object\"}]}", TERN_LIMIT, "without an end"},
    {TERN_GRAMMAR_SCHEMA, "{\"type\": \"number\", \"multipleOf\": 0}", TERN_MALFORMED,
     "schema: /multipleOf: a number above 0 expected"},
    {TERN_GRAMMAR_SCHEMA, "{\"type\": \"integer\", \"multipleOf\": 7919}", TERN_LIMIT,
     "schema: /multipleOf: more values"},
    {TERN_GRAMMAR_SCHEMA, "{\"type\": \"integer\", \"minimum\": 3, \"maximum\": 2}", TERN_MALFORMED,
     "schema: at its top: a minimum above the maximum"},
    {TERN_GRAMMAR_SCHEMA, "{\"type\": \"integer\", \"minimum\": 6, \"maximum\": 9, \"multipleOf\": 5}", TERN_MALFORMED,
     "schema: /multipleOf: no multiple between the bounds"},
    {TERN_GRAMMAR_SCHEMA, "{\"allOf\": [{\"type\": \"string\"}, {\"type\": \"integer\"}]}", TERN_MALFORMED,
     "contradict each other"},
    {TERN_GRAMMAR_SCHEMA, "{\"items\": {\"type\": \"string\"}, \"uniqueItems\": true}", TERN_UNSUPPORTED,
     "schema: /uniqueItems: it is supported for items of few values"},
    {TERN_GRAMMAR_SCHEMA, "{\"oneOf\": [{\"type\": \"integer\"}, {\"type\": \"number\"}]}", TERN_UNSUPPORTED,
     "schema: /oneOf: several of its schemas may hold at once"},
    {TERN_GRAMMAR_SCHEMA, "{\"required\": [\"a\"], \"additionalProperties\": false}", TERN_MALFORMED,
     "schema: /properties/a: false: no value fits"},
    {TERN_GRAMMAR_SCHEMA, "{\"additionalProperties\": {}, \"minProperties\": 2}", TERN_UNSUPPORTED,
     "schema: /minProperties: it is supported up to"},
    {TERN_GRAMMAR_SCHEMA, "{\"pattern\": \"(?<!a)\"}", TERN_MALFORMED, "schema: /pattern: pattern: line 1, column 1"},
    {TERN_GRAMMAR_SCHEMA, "{\"pattern\": \"(a$)*\"}", TERN_UNSUPPORTED, "schema: /pattern: look-ahead or $ in a"},
    {TERN_GRAMMAR_SCHEMA, "{\"pattern\": \"^a$\", \"minLength\": 2}", TERN_MALFORMED, "schema: /pattern: no text fits"},
    {TERN_GRAMMAR_SCHEMA, "{\"format\": \"color\"}", TERN_UNSUPPORTED, "schema: /format: date, time"},
    {TERN_GRAMMAR_SCHEMA, "{\"type\": \"array\", \"minItems\": 3, \"maxItems\": 2}", TERN_MALFORMED, "/minItems"},
    {TERN_GRAMMAR_SCHEMA, "{\"const\": 1, \"type\": \"string\"}", TERN_MALFORMED, "/enum: none of its values fits"},
    {TERN_GRAMMAR_SCHEMA, "{\"properties\": {\"x/y\": {\"anyOf\": 3}}}", TERN_MALFORMED, "/properties/x~1y/anyOf"},
    {TERN_GRAMMAR_GBNF, "root ::= ((\"a\"{0,9999}){0,9999}){0,9999}", TERN_LIMIT,
     "more than 65536 ways: fewer or smaller repetitions within repetitions expected"},
    {TERN_GRAMMAR_REGEX, "(((a?){0,300}){0,300}b?){0,300}", TERN_LIMIT, "more than 65536 ways: fewer"},
    {TERN_GRAMMAR_SCHEMA, "[1", TERN_MALFORMED, "schema: "},
};

static void test_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const refusal *r = &refusals[i];
        const int64_t live = tern_alloc_live();
        tern_grammar *g;
        tern_error err = {0};
        const tern_status status = tern_grammar_open(&g, NULL, r->kind, r->source, strlen(r->source), &err);
        if (status != r->status || !strstr(err.message, r->words))
            fail_msg("%s: status %d: %s: \"%s\" expected", r->source, (int)status, err.message, r->words);
        tern_grammar_close(g);
        assert_int_equal(tern_alloc_live(), live);
    }
}

static bool bit(const uint32_t *words, int32_t id)
{
    return words[id / 32] >> (id % 32) & 1;
}

/* Of a state: every token's bit is whether a copy of the state accepts it. */
static void check_mask(tern_grammar_state *s, const tern_tokenizer *t, uint32_t *words, size_t n)
{
    tern_error err = {0};
    assert_ok(tern_grammar_state_mask(s, words, n, &err), err);
    for (int32_t id = 0; id < (int32_t)tern_tokenizer_size(t); id++) {
        tern_grammar_state *copy;
        assert_ok(tern_grammar_state_clone(&copy, s, &err), err);
        const bool accepted = tern_grammar_state_accept(copy, id, NULL) == TERN_OK;
        tern_grammar_state_close(copy);
        if (accepted != bit(words, id)) fail_msg("token %d: accepted: %d, in the mask: %d", id, accepted, !accepted);
    }
}

/* A token of the mask, or -1. */
static int32_t draw(const uint32_t *words, uint32_t n_vocab, tern_rng *rng)
{
    const uint32_t from = (uint32_t)(tern_rng_u64(rng) % n_vocab);
    for (uint32_t i = 0; i < n_vocab; i++) {
        const int32_t id = (int32_t)((from + i) % n_vocab);
        if (bit(words, id)) return id;
    }
    return -1;
}

/* Walks at random through a grammar; what was written is text that the grammar accepts. */
static void walk(const tern_tokenizer *t, const tern_grammar_vocab *v, tern_grammar *g, uint64_t seed, unsigned steps)
{
    const uint32_t n_vocab = tern_tokenizer_size(t);
    const size_t n = (n_vocab + 31) / 32;
    uint32_t *words = tern_alloc(n * sizeof *words);
    tern_rng rng = {seed};
    tern_buf text = {0};
    tern_error err = {0};
    tern_grammar_state *s;
    (void)v;
    assert_ok(tern_grammar_state_open(&s, g, &err), err);
    for (unsigned i = 0; i < steps; i++) {
        if (i % 4 == 0) check_mask(s, t, words, n);
        assert_ok(tern_grammar_state_mask(s, words, n, &err), err);
        const int32_t id = draw(words, n_vocab, &rng);
        if (id < 0) break;
        assert_ok(tern_grammar_state_accept(s, id, &err), err);
        const tern_span bytes = tern_token_bytes(t, id, false);
        assert_ok(tern_buf_add(&text, bytes.data, bytes.size, &err), err);
    }
    tern_grammar_state *again;
    assert_ok(tern_grammar_state_open(&again, g, &err), err);
    assert_ok(tern_grammar_state_accept_text(again, text.data, text.size, &err), err);
    assert_true(tern_grammar_state_may_end(again) == tern_grammar_state_may_end(s));
    tern_grammar_state_close(again);
    tern_grammar_state_close(s);
    tern_buf_deinit(&text);
    tern_free(words);
}

static const struct {
    tern_grammar_kind kind;
    const char *source;
} walks[] = {
    {TERN_GRAMMAR_JSON, ""},
    {TERN_GRAMMAR_REGEX, "[^a]{5,9}(?:é|你|x)*"},
    {TERN_GRAMMAR_GBNF, "root ::= \"(\" root? \")\" | [a-z]+ \" \"\n"},
    {TERN_GRAMMAR_SCHEMA, "{\"properties\": {\"a\": {\"type\": \"string\", \"maxLength\": 7}, \"b\": {\"enum\": "
                          "[\"one\", \"on\", \"two\"]}, \"c\": {\"items\": {\"type\": \"number\"}}}, \"required\": "
                          "[\"b\"], \"additionalProperties\": {\"type\": \"boolean\"}}"},
};

static void test_masks(void **state)
{
    (void)state;
    tern_tokenizer *tokenizers[] = {open_demo(), open_spm1024()};
    for (size_t i = 0; i < 2; i++) {
        tern_grammar_vocab *v;
        tern_error err = {0};
        assert_ok(tern_grammar_vocab_open(&v, tokenizers[i], &err), err);
        for (size_t k = 0; k < sizeof walks / sizeof *walks; k++) {
            tern_grammar *g = open_grammar(v, walks[k].kind, walks[k].source);
            walk(tokenizers[i], v, g, 17 + k, test_quick() ? 8 : 40);
            tern_grammar_close(g);
        }
        tern_grammar_vocab_close(v);
        tern_tokenizer_close(tokenizers[i]);
    }
}

/* States are few however long the text is, and all that are open stay where they are. */
static void test_many_states(void **state)
{
    (void)state;
    static const char source[] = "root ::= (\"a\" [b-c]){30000} | deep\ndeep ::= \"(\" deep? \")\"";
    tern_error err = {0};
    tern_grammar *g = open_grammar(NULL, TERN_GRAMMAR_GBNF, source);
    tern_grammar_state *s, *still;
    assert_ok(tern_grammar_state_open(&s, g, &err), err);
    assert_ok(tern_grammar_state_open(&still, g, &err), err);
    assert_ok(tern_grammar_state_accept_text(still, "((", 2, &err), err);
    for (unsigned i = 0; i < 30000; i++)
        assert_ok(tern_grammar_state_accept_text(s, i % 3 ? "ab" : "ac", 2, &err), err);
    assert_true(tern_grammar_state_may_end(s));
    assert_int_equal(tern_grammar_state_accept_text(s, "a", 1, &err), TERN_INVALID_ARGUMENT);
    assert_ok(tern_grammar_state_accept_text(still, "))", 2, &err), err);
    assert_true(tern_grammar_state_may_end(still));
    assert_ok(tern_grammar_state_reset(still, &err), err);
    for (unsigned i = 0; i < 512; i++) assert_ok(tern_grammar_state_accept_text(still, "(", 1, &err), err);
    assert_int_equal(tern_grammar_state_accept_text(still, "((", 2, &err), TERN_INVALID_ARGUMENT);
    tern_grammar_state_close(s);
    tern_grammar_state_close(still);
    tern_grammar_close(g);
}

/* What would take minutes ends after the bound, and the state is where it was. */
static void test_work(void **state)
{
    (void)state;
    enum { N = 2000 };
    tern_error err = {0};
    char text[N];
    tern_grammar *g = open_grammar(NULL, TERN_GRAMMAR_GBNF, "root ::= ([a-z]{0,120} \"1\"?){0,120} \"2\"");
    tern_grammar_state *s;
    memset(text, 'x', N);
    assert_ok(tern_grammar_state_open(&s, g, &err), err);
    assert_int_equal(tern_grammar_state_accept_text(s, text, N, &err), TERN_LIMIT);
    assert_non_null(strstr(err.message, "rule `root` takes more than 652288 steps for one token: fewer"));
    assert_ok(tern_grammar_state_accept_text(s, "2", 1, &err), err); /* as at the start */
    assert_true(tern_grammar_state_may_end(s));
    tern_grammar_state_close(s);
    tern_grammar_close(g);
}

/* A grammar that begins, but not with any token of a vocabulary within the bounds, is refused when it is opened. */
static void test_first_mask(void **state)
{
    (void)state;
    static const char source[] = "root ::= (\"a\"{0,9999}){0,9999}";
    const int64_t live = tern_alloc_live();
    tern_tokenizer *t = open_demo();
    tern_grammar_vocab *v;
    tern_grammar *g;
    tern_error err = {0};
    assert_ok(tern_grammar_vocab_open(&v, t, &err), err);
    assert_int_equal(tern_grammar_open(&g, v, TERN_GRAMMAR_GBNF, source, sizeof source - 1, &err), TERN_LIMIT);
    assert_non_null(strstr(err.message, "more than 65536 ways"));
    assert_null(g);
    tern_grammar_vocab_close(v);
    tern_tokenizer_close(t);
    assert_int_equal(tern_alloc_live(), live);
}

static const struct CMUnitTest cases[] = {cmocka_unit_test(test_tables), cmocka_unit_test(test_refused),
                                          cmocka_unit_test(test_masks),  cmocka_unit_test(test_many_states),
                                          cmocka_unit_test(test_work),   cmocka_unit_test(test_first_mask)};
TEST_GROUP(grammar, "", cases);
