/* Schemas as common tools write them: nearly all are taken, and their texts are accepted or not as jsonschema says.
 * tests/data/schemas/check.py checks at random what they allow. */
#include "base/alloc.h"
#include "support/places.h"
#include "text/goldens.h"
#include "text/grammar/internal.h"
#include "text/tokenizer/tokenizer.h"

/* Rows of tests/data/schemas/schemas.jsonl. */
typedef struct rows {
    tern_buf file;
    const char *at;
} rows;

static void open_rows(rows *r)
{
    tern_error err = {0};
    *r = (rows){0};
    assert_ok(tern_file_read(&r->file, TERN_SOURCE_DIR "/tests/data/schemas/schemas.jsonl", 1 << 22, &err), err);
    r->at = r->file.data;
}

/* The next row, and its schema as text; NULL after the last one. Both are the caller's to release. */
static json_t *next_row(rows *r, char **schema)
{
    json_t *row;
    tern_error err = {0};
    const char *end = strchr(r->at, '\n');
    if (!end) return NULL;
    assert_ok(tern_json_parse(&row, r->at, (size_t)(end - r->at), "row", &err), err);
    r->at = end + 1;
    *schema = json_dumps(json_object_get(row, "schema"), JSON_COMPACT | JSON_ENCODE_ANY);
    assert_non_null(*schema);
    return row;
}

static bool accepts(tern_grammar *g, const json_t *text)
{
    tern_grammar_state *s;
    tern_error err = {0};
    assert_ok(tern_grammar_state_open(&s, g, &err), err);
    const bool accepted =
        tern_grammar_state_accept_text(s, json_string_value(text), json_string_length(text), NULL) == TERN_OK &&
        tern_grammar_state_may_end(s);
    tern_grammar_state_close(s);
    return accepted;
}

static void check_texts(tern_grammar *g, const json_t *row, const char *key, bool expected, const char *schema)
{
    size_t i;
    json_t *text;
    json_array_foreach(json_object_get(row, key), i, text)
    {
        if (accepts(g, text) != expected)
            fail_msg("%s: %s is %s", schema, json_string_value(text), expected ? "refused" : "accepted");
    }
}

static void test_sample(void **state)
{
    (void)state;
    rows r;
    char *schema;
    size_t n = 0, taken = 0;
    open_rows(&r);
    for (json_t *row; (row = next_row(&r, &schema)) != NULL; n++) {
        const int64_t live = tern_alloc_live();
        tern_grammar *g;
        tern_error err = {0};
        const tern_status status = tern_grammar_open(&g, NULL, TERN_GRAMMAR_SCHEMA, schema, strlen(schema), &err);
        assert_true(status == TERN_OK || strncmp(err.message, "schema: ", 8) == 0);
        if (status == TERN_OK) {
            taken++;
            check_texts(g, row, "valid", true, schema);
            check_texts(g, row, "invalid", false, schema);
        }
        tern_grammar_close(g);
        assert_int_equal(tern_alloc_live(), live);
        tern_free(schema);
        json_decref(row);
    }
    tern_buf_deinit(&r.file);
    assert_true(n >= 120);
    if (taken * 100 < n * 95) fail_msg("%zu of %zu schemas are taken, 95 in 100 expected", taken, n);
}

typedef struct form {
    const char *schema;
    const char *texts[12]; /* those that are accepted, NULL, those that are not, NULL */
} form;

#define A31 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define A62 A31 A31
#define A64 A62 "aa"

static const form forms[] = {
    {"{\"type\":\"number\",\"minimum\":-1.5,\"exclusiveMaximum\":10}",
     {"-1.5", "0", "9.99", "-0.25", "3", NULL, "10", "-1.51", "10.0", "-2", "09", NULL}},
    {"{\"type\":\"number\",\"exclusiveMinimum\":0}", {"0.1", "1", "123456.75", NULL, "0", "-1", "0.0", NULL}},
    {"{\"type\":\"number\",\"maximum\":1e300}", {"-5.5", "0.000001", "99999999999.5", NULL, "1e301", NULL}},
    {"{\"type\":\"integer\"}",
     {"0", "-7", "123456789012345678", "-999999999999999999", NULL, "1234567890123456789", "1e5", "01", NULL}},
    {"{\"type\":\"integer\",\"minimum\":5}",
     {"5", "10", "123456789012345678", NULL, "4", "-5", "1234567890123456789", NULL}},
    {"{\"type\":\"number\",\"minimum\":0}",
     {"0", "123456789012345678", "99999999999.5", NULL, "-1", "1234567890123456789", NULL}},
    {"{\"type\":\"number\"}",
     {"-1.5e-7", "1E+199", "0.123456789012345678", "123456789012345678", NULL, "1e200", "3312E98613",
      "1234567890123456789", NULL}},
    {"{}", {"1e9", "[1e-10]", NULL, "[1e999]", "{\"a\":1e400}", NULL}},
    {"{\"type\":\"number\",\"multipleOf\":0.01}", {"0.07", "19.99", "5", "-1.1", NULL, "0.001", "1.005", NULL}},
    {"{\"type\":\"number\",\"multipleOf\":2.5,\"minimum\":1}",
     {"2.5", "5", "1002.5", NULL, "0", "1", "4", "2.50", NULL}},
    {"{\"type\":\"integer\",\"multipleOf\":2.5}", {"0", "5", "-10", NULL, "2", "7", NULL}},
    {"{\"type\":\"integer\",\"multipleOf\":1000}", {"0", "7000", "-12000", NULL, "700", "1", NULL}},
    {"{\"type\":\"integer\",\"multipleOf\":7,\"minimum\":100}",
     {"105", "700", "7000007", NULL, "7", "98", "106", NULL}},
    {"{\"allOf\":[{\"multipleOf\":4},{\"multipleOf\":6},{\"type\":\"integer\"}]}", {"12", "24", NULL, "4", "6", NULL}},
    {"{\"pattern\":\"^(?!ab)(?=.*9)[a-z0-9]{2,4}$\"}",
     {"\"a9\"", "\"xyz9\"", NULL, "\"ab9\"", "\"abc\"", "\"9\"", NULL}},
    {"{\"pattern\":\"a\",\"allOf\":[{\"pattern\":\"b\"},{\"maxLength\":2}]}",
     {"\"ab\"", "\"ba\"", NULL, "\"a\"", "\"abc\"", NULL}},
    {"{\"format\":\"date\"}", {"\"2024-02-29\"", "\"2000-02-29\"", NULL, "\"2023-02-29\"", "\"1900-02-29\"", NULL}},
    {"{\"format\":\"ipv6\"}",
     {"\"::\"", "\"1::8\"", "\"::ffff:1.2.3.4\"", NULL, "\":::\"", "\"1:2\"", "\"g::\"", NULL}},
    {"{\"format\":\"email\",\"maxLength\":12}",
     {"\"a.b@c.de\"", NULL, "\"a@b\"", "\"a..b@c.de\"", "\"abcdef@ghij.kl\"", NULL}},
    {"{\"format\":\"email\"}",
     {"\"" A64 "@b.cd\"", "\"" A31 "." A31 "@b.cd\"", "\"a.b.c.d.e.f.g@" A62 "." A62 "." A62 "\"", NULL,
      "\"" A64 "a@b.cd\"", "\"" A31 "." A31 "aa@b.cd\"", "\"a@" A64 ".de\"", "\"a@" A62 "." A62 "." A62 ".de\"",
      "\".a@b.cd\"", NULL}},
    {"{\"format\":\"email\",\"maxLength\":254}", {"\"" A64 "@b.cd\"", NULL, "\"" A64 "a@b.cd\"", NULL}},
    {"{\"format\":\"uri\"}",
     {"\"a://" A64 A64 A64 A62 "a/b\"", "\"a://" A64 A64 A64 A64 "@b\"", NULL, "\"a://" A64 A64 A64 A64 "\"", NULL}},
    {"{\"format\":\"uri\",\"maxLength\":2083}", {"\"https://a.org/b?c#d\"", NULL, "\"a b\"", "\"//a\"", NULL}},
    {"{\"items\":{\"enum\":[1,2,3]},\"uniqueItems\":true,\"minItems\":2}",
     {"[3,1]", "[1,2,3]", NULL, "[1,1]", "[2]", NULL}},
    {"{\"properties\":{\"a\":{\"minimum\":1}},\"allOf\":[{\"properties\":{\"a\":{\"type\":\"integer\",\"maximum\":3}}}]"
     "}",
     {"{\"a\":3}", "{}", NULL, "{\"a\":4}", "{\"a\":0}", NULL}},
    {"{\"patternProperties\":{\"^x\":{\"type\":\"integer\"},\"y$\":{\"minimum\":5}}}",
     {"{\"x\":1,\"xy\":7}", "{\"ay\":8.5}", NULL, "{\"xy\":1}", "{\"b\":1}", NULL}},
    {"{\"propertyNames\":{\"maxLength\":2},\"additionalProperties\":{\"type\":\"null\"},\"minProperties\":1}",
     {"{\"a\":null}", "{\"ab\":null}", NULL, "{}", "{\"abc\":null}", NULL}},
    {"{\"oneOf\":[{\"required\":[\"a\"]},{\"required\":[\"b\"]}],\"properties\":{\"a\":{},\"b\":{}}}",
     {"{\"a\":1}", "{\"b\":1}", NULL, "{}", "{\"a\":1,\"b\":1}", NULL}},
    {"{\"$defs\":{\"a\":{\"type\":\"object\",\"properties\":{\"x\":{\"allOf\":[{\"$ref\":\"#/$defs/a\"},{\"$ref\":"
     "\"#/$defs/b\"}]}}},\"b\":{\"properties\":{\"y\":{\"type\":\"integer\"}}}},\"allOf\":[{\"$ref\":\"#/$defs/a\"},"
     "{\"$ref\":\"#/$defs/b\"}]}",
     {"{\"x\":{\"x\":{\"y\":1}},\"y\":2}", NULL, "{\"x\":{\"y\":true}}", NULL}},
    {"{\"type\":\"string\",\"nullable\":true,\"x-more\":{}}", {"null", "\"a\"", NULL, "1", NULL}},
};

static void test_forms(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        tern_grammar *g;
        tern_error err = {0};
        const char *schema = forms[i].schema;
        assert_ok(tern_grammar_open(&g, NULL, TERN_GRAMMAR_SCHEMA, schema, strlen(schema), &err), err);
        bool expected = true;
        for (size_t k = 0; expected || forms[i].texts[k]; k++) {
            if (!forms[i].texts[k]) {
                expected = false;
                continue;
            }
            json_t *text = json_string(forms[i].texts[k]);
            if (accepts(g, text) != expected)
                fail_msg("%s: %s is %s", schema, forms[i].texts[k], expected ? "refused" : "accepted");
            json_decref(text);
        }
        tern_grammar_close(g);
    }
}

/* Schemas that a stranger might send to fill memory or to take long: each is taken or refused in bounded steps. */
static void test_bounds(void **state)
{
    (void)state;
    tern_buf values = {0}, bomb = {0};
    tern_error err = {0};
    tern_grammar *g;
    assert_ok(tern_buf_addf(&values, &err, "{\"enum\":[\"v0\""), err);
    for (unsigned i = 1; i < 5000; i++) assert_ok(tern_buf_addf(&values, &err, ",\"v%u\"", i), err);
    assert_ok(tern_buf_addf(&values, &err, "]}"), err);
    assert_ok(tern_grammar_open(&g, NULL, TERN_GRAMMAR_SCHEMA, values.data, values.size, &err), err);
    assert_true(g->machine.states[2].n < 64); /* what the values share is read once */
    tern_grammar_close(g);
    assert_ok(tern_buf_addf(&bomb, &err, "{\"$ref\":\"#/$defs/a0\",\"$defs\":{"), err);
    for (unsigned i = 0; i < 30; i++)
        assert_ok(tern_buf_addf(&bomb, &err,
                                "\"a%u\":{\"allOf\":[{\"$ref\":\"#/$defs/a%u\"},{\"$ref\":\"#/$defs/a%u\"}]},", i,
                                i + 1, i + 1),
                  err);
    assert_ok(tern_buf_addf(&bomb, &err, "\"a30\":{}}}"), err);
    assert_int_equal(tern_grammar_open(&g, NULL, TERN_GRAMMAR_SCHEMA, bomb.data, bomb.size, &err), TERN_LIMIT);
    assert_non_null(strstr(err.message, "more than 262144 keywords"));
    tern_buf_deinit(&values);
    tern_buf_deinit(&bomb);
}

static const struct CMUnitTest cases[] = {cmocka_unit_test(test_sample), cmocka_unit_test(test_forms),
                                          cmocka_unit_test(test_bounds)};
TEST_GROUP(schemas, "", cases);
