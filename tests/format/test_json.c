/* JSON: limits, messages, getters, the member walk, and speed-sized documents. */
#include "support/test.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/file.h"
#include "format/json.h"

static tern_status parse(json_t **root, const char *text, tern_error *err)
{
    return tern_json_parse(root, text, strlen(text), "doc", err);
}

static void refused_documents(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        tern_status status;
        const char *message;
    } cases[] = {
        {"", TERN_MALFORMED, "doc: line 1, column 0: "},
        {"{\n \"a\": }", TERN_MALFORMED, "doc: line 2, column 7: "},
        {"{\"a\": 1, \"a\": 2}", TERN_MALFORMED, "duplicate object key"},
        {"{\"a\\u0000b\": 1}", TERN_MALFORMED, "NUL byte in object key"},
        {"[1] 2", TERN_MALFORMED, "doc: line 1, column 5: end of file expected"},
        {"\"\xff\"", TERN_MALFORMED, "doc: line 1, column 1: unable to decode byte 0xff"},
        {"[1e999]", TERN_MALFORMED, "real number overflow"},
        {"\"abc", TERN_MALFORMED, "premature end of input"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *root = NULL;
        tern_error err = {0};
        assert_int_equal(parse(&root, cases[i].text, &err), cases[i].status);
        assert_null(root);
        if (!strstr(err.message, cases[i].message)) fail_msg("'%s': %s", cases[i].text, err.message);
    }
}

/* Of keys that are there twice the last one, at any depth; all else as before. */
static void the_last_of_two_counts(void **state)
{
    (void)state;
    static const char text[] = "{\"a\": {\"b\": 1, \"b\": 2}, \"c\": 3, \"c\": null}", open[] = "{\"a\": 1, \"a\": ";
    json_t *root = NULL;
    tern_error err = {0};
    assert_ok(tern_json_parse_last(&root, text, sizeof text - 1, "doc", &err), err);
    assert_float_equal(json_number_value(json_object_get(json_object_get(root, "a"), "b")), 2, 0);
    assert_true(json_is_null(json_object_get(root, "c")));
    tern_json_free(root);
    assert_int_equal(tern_json_parse_last(&root, open, sizeof open - 1, "doc", &err), TERN_MALFORMED);
    assert_null(root);
}

static void a_nul_byte_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t n;
    } cases[] = {{"{\"a\": 1\0}", 9}, {"\0{}", 3}, {"[1,\0 2]", 7}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *root = NULL;
        tern_error err = {0};
        assert_int_equal(tern_json_parse(&root, cases[i].text, cases[i].n, "doc", &err), TERN_MALFORMED);
        assert_null(root);
        assert_non_null(strstr(err.message, "doc: JSON has no NUL byte, one is at "));
    }
}

static void depth_and_memory_are_bounded(void **state)
{
    (void)state;
    enum { BYTES = 8 << 20 };
    char *text = malloc(BYTES);
    memset(text, '[', 65);
    json_t *root;
    tern_error err = {0};
    assert_int_equal(tern_json_parse(&root, text, 65, "deep", &err), TERN_LIMIT);
    assert_string_equal(err.message, "deep: JSON nested 65 deep, at most 64 expected");
    memset(text, '[', 64);
    memset(text + 64, ']', 64);
    assert_ok(tern_json_parse(&root, text, 128, "deep", &err), err);
    tern_json_free(root);
    for (size_t i = 0; i < BYTES; i++) text[i] = "[],"[i % 3];
    assert_int_equal(tern_json_parse(&root, text, BYTES, "wide", &err), TERN_LIMIT);
    assert_non_null(strstr(err.message, "wide: this JSON would take "));
    free(text);
}

static void getters_name_the_key(void **state)
{
    (void)state;
    json_t *root;
    tern_error err = {0};
    assert_ok(
        parse(&root,
              "{\"n\": 7, \"neg\": -1, \"half\": 0.5, \"huge\": 1000000000000000019884624838656, \"s\": \"x\\u0000y\","
              " \"t\": true, \"none\": null, \"list\": [1], \"o\": {}, \"big\": 4294967296, \"whole\": 3.0}",
              &err),
        err);
    uint32_t u = 99;
    int64_t i;
    double d;
    float f = 5;
    bool b;
    tern_span s;
    const json_t *v;
    assert_ok(tern_json_get_u32(root, "n", &u, &err), err);
    assert_int_equal(u, 7);
    assert_ok(tern_json_get_u32(root, "whole", &u, &err), err);
    assert_ok(tern_json_get_i64(root, "neg", &i, &err), err);
    assert_int_equal(i, -1);
    assert_ok(tern_json_get_f64(root, "huge", &d, &err), err);
    assert_true(d > 9e29);
    assert_ok(tern_json_get_bool(root, "t", &b, &err), err);
    assert_true(b);
    assert_ok(tern_json_get_string(root, "s", &s, &err), err);
    assert_int_equal(s.size, 3);
    assert_ok(tern_json_get_array(root, "list", &v, &err), err);
    assert_ok(tern_json_get_object(root, "o", &v, &err), err);
    assert_false(tern_json_has(root, "none"));
    assert_true(tern_json_has(root, "t"));
    u = 99;
#define REFUSED(call, code, text)                                                                                      \
    assert_int_equal(call, code);                                                                                      \
    assert_string_equal(err.message, text)
    REFUSED(tern_json_get_u32(root, "gone", &u, &err), TERN_NOT_FOUND, "gone: missing");
    REFUSED(tern_json_get_u32(root, "none", &u, &err), TERN_NOT_FOUND, "none: missing");
    REFUSED(tern_json_get_u32(root, "s", &u, &err), TERN_MALFORMED, "s: string found, a whole number expected");
    REFUSED(tern_json_get_u32(root, "neg", &u, &err), TERN_MALFORMED, "neg: -1 found, 0 to 4294967295 expected");
    REFUSED(tern_json_get_u32(root, "big", &u, &err), TERN_MALFORMED,
            "big: 4294967296 found, 0 to 4294967295 expected");
    REFUSED(tern_json_get_u32(root, "half", &u, &err), TERN_MALFORMED,
            "half: 0.5 found, a whole number of at most 2^53 in size expected");
    REFUSED(tern_json_get_f64(root, "t", &d, &err), TERN_MALFORMED, "t: true found, a number expected");
    REFUSED(tern_json_get_bool(root, "n", &b, &err), TERN_MALFORMED, "n: number found, true or false expected");
    REFUSED(tern_json_get_string(root, "list", &s, &err), TERN_MALFORMED, "list: array found, a string expected");
    REFUSED(tern_json_get_array(root, "o", &v, &err), TERN_MALFORMED, "o: object found, an array expected");
    REFUSED(tern_json_get_object(root, "n", &v, &err), TERN_MALFORMED, "n: number found, an object expected");
    REFUSED(tern_json_get_object(NULL, "n", &v, &err), TERN_MALFORMED, "n: looked up in nothing, an object expected");
    assert_int_equal(u, 99);
    assert_ok(tern_json_get_f32(root, "half", &f, &err), err);
    assert_true(f == 0.5f);
    tern_json_free(root);
}

static void walk_yields_members(void **state)
{
    (void)state;
    const char *text = " { \"a,}\" : [1, {\"x\": \"]}\"}] , \"b\":\"\\\"\", \"c\": 3 } \n";
    static const char *const expected[] = {"\"a,}\"", "[1, {\"x\": \"]}\"}] ", "\"b\"", "\"\\\"\"", "\"c\"", "3 "};
    tern_json_walk walk = {(const uint8_t *)text, strlen(text)};
    tern_error err = {0};
    tern_span key, value;
    bool more;
    for (size_t i = 0; i < 6; i += 2) {
        assert_ok(tern_json_walk_next(&walk, &more, &key, &value, &err), err);
        assert_true(more);
        assert_int_equal(key.size, strlen(expected[i]));
        assert_memory_equal(key.data, expected[i], key.size);
        assert_int_equal(value.size, strlen(expected[i + 1]));
        assert_memory_equal(value.data, expected[i + 1], value.size);
    }
    assert_ok(tern_json_walk_next(&walk, &more, &key, &value, &err), err);
    assert_false(more);
}

static tern_status walk_all(const char *text, tern_error *err)
{
    tern_json_walk walk = {(const uint8_t *)text, strlen(text)};
    tern_span key, value;
    bool more = true;
    while (more) TERN_TRY(tern_json_walk_next(&walk, &more, &key, &value, err));
    return TERN_OK;
}

static void walk_refuses(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", "JSON ends at byte 0, '{' expected"},
        {"[]", "'[' at byte 0 of the JSON, '{' expected"},
        {"{", "JSON ends at byte 1, a string expected"},
        {"{\"a", "JSON ends at byte 3, the end of a string expected"},
        {"{\"a\\", "JSON ends at byte 4, the end of a string expected"},
        {"{\"a\"}", "'}' at byte 4 of the JSON, ':' expected"},
        {"{\"a\":", "JSON ends at byte 5, a value and '}' expected"},
        {"{\"a\":\"", "JSON ends at byte 6, a value and '}' expected"},
        {"{\"a\":1,}", "'}' at byte 7 of the JSON, a string expected"},
        {"{\"a\":1]", "']' at byte 6 of the JSON, ',' or '}' expected"},
        {"{\"a\":1} x", "'x' at byte 8 of the JSON, the end expected"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tern_error err = {0};
        assert_int_equal(walk_all(cases[i][0], &err), TERN_MALFORMED);
        assert_string_equal(err.message, cases[i][1]);
    }
    tern_error err = {0};
    assert_ok(walk_all("{}", &err), err);
}

static void strings_are_quoted(void **state)
{
    (void)state;
    tern_buf buf = {0};
    tern_error err = {0};
    assert_ok(tern_json_add_string(&buf, "a\"\\\n\0\xc3\xa9", 7, &err), err);
    assert_string_equal(buf.data, "\"a\\\"\\\\\\u000a\\u0000\xc3\xa9\"");
    assert_int_equal(tern_json_add_string(&buf, "\xff", 1, &err), TERN_INVALID_ARGUMENT);
    assert_string_equal(err.message, "\\xff: not UTF-8");
    tern_buf_deinit(&buf);
}

static void failed_allocations_are_clean(void **state)
{
    (void)state;
    const char *text =
        "{\"model\": {\"vocab\": {\"a\": 0, \"b\": 1}, \"merges\": [[\"a\", \"b\"], \"c d, a text longer than the"
        " first token buffer\", 1.5, true]}}";
    int64_t live = tern_alloc_live();
    tern_status status = TERN_OUT_OF_MEMORY;
    for (uint64_t n = 1; status != TERN_OK; n++) {
        json_t *root;
        tern_error err = {0};
        tern_alloc_fail_after(n, false);
        status = parse(&root, text, &err);
        tern_alloc_fail_after(0, false);
        if (status != TERN_OK) assert_int_equal(status, TERN_OUT_OF_MEMORY);
        tern_json_free(root);
        assert_int_equal(tern_alloc_live(), live);
    }
}

/* A document like a tokenizer.json of LLaMA-3's size parses whole. */
static void large_vocabulary(void **state)
{
    (void)state;
    tern_buf buf = {0};
    tern_error err = {0};
    assert_ok(tern_buf_addf(&buf, &err, "{\"vocab\": {\"x\": 0"), err);
    for (int i = 1; i < 128000; i++) assert_ok(tern_buf_addf(&buf, &err, ",\n  \"token %d\": %d", i, i), err);
    assert_ok(tern_buf_addf(&buf, &err, "}, \"merges\": [\"a b\""), err);
    for (int i = 0; i < 280000; i++) assert_ok(tern_buf_addf(&buf, &err, ",\n  [\"left%d\", \"r%d\"]", i, i), err);
    assert_ok(tern_buf_addf(&buf, &err, "]}"), err);
    json_t *root;
    assert_ok(tern_json_parse(&root, buf.data, buf.size, "tokenizer.json", &err), err);
    const json_t *vocab;
    assert_ok(tern_json_get_object(root, "vocab", &vocab, &err), err);
    assert_int_equal(json_object_size(vocab), 128000);
    uint32_t id;
    assert_ok(tern_json_get_u32(vocab, "token 127999", &id, &err), err);
    assert_int_equal(id, 127999);
    tern_json_free(root);
    tern_buf_deinit(&buf);
}

static void files_are_read(void **state)
{
    (void)state;
    json_t *root;
    tern_error err = {0};
    uint32_t v;
    assert_ok(tern_json_read_in(&root, test_fixture("bitnet"), "config.json", 1 << 20, &err), err);
    assert_ok(tern_json_get_u32(root, "hidden_size", &v, &err), err);
    tern_json_free(root);
    assert_int_equal(tern_json_read_in(&root, test_fixture("bitnet"), "config.json", 100, &err), TERN_LIMIT);
    assert_int_equal(tern_json_read_in(&root, test_fixture("bitnet"), "none.json", 100, &err), TERN_NOT_FOUND);
}

/* Whole or not at all, the document gone in any case. */
static void documents_are_written(void **state)
{
    (void)state;
    const char *path = test_scratch("written.json");
    char *dir = tern_strndup(path, (size_t)(strrchr(path, '/') - path));
    int64_t live = tern_alloc_live();
    tern_status status = TERN_OUT_OF_MEMORY;
    uint64_t n = 1;
    remove(path);
    for (; status != TERN_OK; n++) {
        tern_error err = {0};
        json_t *document = json_pack("{s:i, s:[s]}", "a", 1, "b", "x");
        tern_alloc_fail_after(n, false);
        status = tern_json_write_in(document, dir, "written.json", JSON_COMPACT, &err);
        tern_alloc_fail_after(0, false);
        if (status != TERN_OK) assert_int_equal(status, TERN_OUT_OF_MEMORY);
        assert_int_equal(tern_file_exists(path), status == TERN_OK);
        assert_int_equal(tern_alloc_live(), live);
    }
    assert_true(n > 4);
    tern_error err = {0};
    tern_buf text = {0};
    assert_ok(tern_file_read(&text, path, 100, &err), err);
    assert_string_equal(text.data, "{\"a\":1,\"b\":[\"x\"]}\n");
    tern_buf_deinit(&text);
    assert_int_equal(tern_json_write(NULL, path, 0, &err), TERN_OUT_OF_MEMORY);
    assert_int_equal(tern_json_write_in(json_array(), path, "a file is no folder", 0, &err), TERN_IO);
    remove(path);
    tern_free(dir);
    assert_int_equal(tern_alloc_live(), live - 1);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(refused_documents),
    cmocka_unit_test(the_last_of_two_counts),
    cmocka_unit_test(a_nul_byte_is_refused),
    cmocka_unit_test(depth_and_memory_are_bounded),
    cmocka_unit_test(getters_name_the_key),
    cmocka_unit_test(walk_yields_members),
    cmocka_unit_test(walk_refuses),
    cmocka_unit_test(strings_are_quoted),
    cmocka_unit_test(failed_allocations_are_clean),
    cmocka_unit_test(large_vocabulary),
    cmocka_unit_test(files_are_read),
    cmocka_unit_test(documents_are_written),
};

TEST_GROUP(json, "web", tests);
