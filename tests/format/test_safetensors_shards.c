/* Models in several SafeTensors files: an index and its shards. */
#include "format/safetensors_cases.h"

static const char *in_folder(const char *folder, const char *name)
{
    char path[256];
    mkdir(test_scratch(folder), 0777);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return test_scratch(path);
}

static void write_shards(const char *folder)
{
    tern_error err = {0};
    tern_st_tensor one[] = {safetensors_tensor_of("a", TERN_ST_U8, 2, "aa"),
                            safetensors_tensor_of("b", TERN_ST_U8, 1, "b")};
    tern_st_tensor two = safetensors_tensor_of("c", TERN_ST_U8, 1, "c");
    assert_ok(tern_safetensors_write(in_folder(folder, "one.safetensors"), one, 2, NULL, &err), err);
    assert_ok(tern_safetensors_write(in_folder(folder, "two.safetensors"), &two, 1, NULL, &err), err);
}

static void shards_are_opened(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_safetensors *st = NULL;
    write_shards("shards");
    test_write_text(
        in_folder("shards", "model.safetensors.index.json"),
        "{\"metadata\":{\"total_size\":4},\"weight_map\":{\"c\":\"two.safetensors\",\"a\":\"one.safetensors\","
        "\"b\":\"one.safetensors\"}}");
    assert_ok(tern_safetensors_open(&st, test_scratch("shards"), &err), err);
    assert_int_equal(tern_safetensors_count(st), 3);
    assert_int_equal(tern_safetensors_find(st, "c")->data[0], 'c');
    assert_int_equal(tern_safetensors_find(st, "b")->data[0], 'b');
    tern_safetensors_close(st);
}

static void refused_shards(void **state)
{
    (void)state;
    static const struct {
        const char *index;
        tern_status status;
        const char *message;
    } cases[] = {
        {"{}", TERN_MALFORMED, "model.safetensors.index.json: weight_map: nothing found, an object expected"},
        {"{\"weight_map\":[]}", TERN_MALFORMED,
         "model.safetensors.index.json: weight_map: array found, an object expected"},
        {"{\"weight_map\":{\"a\":1}}", TERN_MALFORMED,
         "model.safetensors.index.json: a: number found, a file name expected"},
        {"{\"weight_map\":{\"a\":\"../one.safetensors\"}}", TERN_MALFORMED,
         "model.safetensors.index.json: a: '../one.safetensors' found, a file name without a folder expected"},
        {"{\"weight_map\":{\"a\":\"x\\\\y\"}}", TERN_MALFORMED,
         "model.safetensors.index.json: a: 'x\\\\y' found, a file name without a folder expected"},
        {"{\"weight_map\":{\"a\":\"..\"}}", TERN_MALFORMED,
         "model.safetensors.index.json: a: '..' found, a file name without a folder expected"},
        {"{\"weight_map\":{\"a\":\"\"}}", TERN_MALFORMED,
         "model.safetensors.index.json: a: '' found, a file name without a folder expected"},
        {"{\"weight_map\":{\"a\":\"one.safetensors\\u0000\"}}", TERN_MALFORMED,
         "model.safetensors.index.json: a: 'one.safetensors\\x00' found, a file name without a folder expected"},
        {"{\"weight_map\":{\"a\":\"one.safetensors\",\"d\":\"two.safetensors\"}}", TERN_MALFORMED,
         "model.safetensors.index.json: d: not in two.safetensors, where the index says it is"},
        {"{\"weight_map\":{\"a\":\"two.safetensors\",\"b\":\"one.safetensors\"}}", TERN_MALFORMED,
         "model.safetensors.index.json: a: not in two.safetensors, where the index says it is"},
    };
    int64_t live = tern_alloc_live();
    write_shards("bad-shards");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tern_safetensors *st = NULL;
        tern_error err = {0};
        test_write_text(in_folder("bad-shards", "model.safetensors.index.json"), cases[i].index);
        assert_int_equal(tern_safetensors_open(&st, test_scratch("bad-shards"), &err), cases[i].status);
        assert_string_equal(err.message, cases[i].message);
        assert_null(st);
        assert_int_equal(tern_alloc_live(), live);
    }
}

static void missing_files(void **state)
{
    (void)state;
    tern_safetensors *st = NULL;
    tern_error err = {0};
    in_folder("nothing", "x");
    assert_int_equal(tern_safetensors_open(&st, test_scratch("nothing"), &err), TERN_NOT_FOUND);
    assert_non_null(strstr(err.message, "nothing: neither model.safetensors nor model.safetensors.index.json found"));
    assert_int_equal(tern_safetensors_open(&st, test_scratch("nothing/x"), &err), TERN_NOT_FOUND);
    test_write_text(in_folder("nothing-else", "model.safetensors.index.json"),
                    "{\"weight_map\":{\"a\":\"gone.safetensors\"}}");
    assert_int_equal(tern_safetensors_open(&st, test_scratch("nothing-else"), &err), TERN_NOT_FOUND);
    assert_non_null(strstr(err.message, "gone.safetensors"));
    test_write_text(test_scratch("bad.safetensors"), "xx");
    assert_int_equal(tern_safetensors_open(&st, test_scratch("bad.safetensors"), &err), TERN_MALFORMED);
    assert_non_null(strstr(err.message, "bad.safetensors: header: a file of 2 bytes, at least 8 expected"));
}

static void failed_allocations_of_shards_are_clean(void **state)
{
    (void)state;
    write_shards("starved-shards");
    test_write_text(in_folder("starved-shards", "model.safetensors.index.json"),
                    "{\"weight_map\":{\"c\":\"two.safetensors\",\"a\":\"one.safetensors\"}}");
    int64_t live = tern_alloc_live();
    tern_status status = TERN_OUT_OF_MEMORY;
    for (uint64_t n = 1; status != TERN_OK; n++) {
        tern_safetensors *st = NULL;
        tern_error err = {0};
        tern_alloc_fail_after(n, false);
        status = tern_safetensors_open(&st, test_scratch("starved-shards"), &err);
        tern_alloc_fail_after(0, false);
        if (status != TERN_OK && status != TERN_OUT_OF_MEMORY) fail_msg("%s", err.message);
        tern_safetensors_close(st);
        assert_int_equal(tern_alloc_live(), live);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(shards_are_opened),
    cmocka_unit_test(refused_shards),
    cmocka_unit_test(missing_files),
    cmocka_unit_test(failed_allocations_of_shards_are_clean),
};

TEST_GROUP(safetensors_shards, "web", tests);
