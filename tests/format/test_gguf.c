/* The GGUF reader: golden bytes, real files, getters, refused files with their messages, allocation failure. */
#include "format/gguf_cases.h"

/* Every kind once, two tensors (f32 [2][3] and i8 [5]). Also the input that the robustness tests damage. */
static tern_buf small_file(uint32_t version)
{
    tern_buf b = {0};
    put_header(&b, version, 2, 16);
    put_key(&b, "u8", 0), put8(&b, 200);
    put_key(&b, "i8", 1), put8(&b, 0xfe);
    put_key(&b, "u16", 2), put(&b, "\x34\x12", 2);
    put_key(&b, "i16", 3), put(&b, "\xff\xff", 2);
    put_key(&b, "u32", 4), put32(&b, 4000000000u);
    put_key(&b, "i32", 5), put32(&b, 0xfffffffd);
    put_key(&b, "f32", 6), put(&b, "\x00\x00\x20\x40", 4);
    put_key(&b, "bool", 7), put8(&b, 1);
    put_key(&b, "string", 8), put_text(&b, "hello");
    put_key(&b, "u64", 10), put64(&b, UINT64_MAX);
    put_key(&b, "i64", 11), put64(&b, 77);
    put_key(&b, "f64", 12), put64(&b, 0x3fe0000000000000u);
    put_key(&b, "ints", 9), put_array(&b, 3, 2), put(&b, "\x05\x00\xfb\xff", 4);
    put_key(&b, "strings", 9), put_array(&b, 8, 2), put_text(&b, "a"), put_text(&b, "");
    put_key(&b, "nested", 9), put_array(&b, 9, 2), put_array(&b, 0, 1), put8(&b, 9), put_array(&b, 8, 0);
    put_key(&b, "general.alignment", 4), put32(&b, 16);
    put_tensor(&b, "matrix", 0, 0, 2, (uint64_t[]){3, 2});
    put_tensor(&b, "bytes", 24, 32, 1, (uint64_t[]){5});
    put_pad(&b, 16);
    for (uint32_t i = 0; i < 6; i++) put32(&b, 0x3f800000 + (i << 20));
    put_pad(&b, 16);
    put(&b, "\1\2\3\4\5", 5);
    return b;
}

static void check_scalars(const tern_gguf *g)
{
    tern_error err = {0};
    uint32_t u = 0;
    float f = 0;
    bool flag = false;
    tern_span s = {0};
    assert_ok(tern_gguf_get_u32(g, "u8", &u, &err), err);
    assert_int_equal(u, 200);
    assert_ok(tern_gguf_get_u32(g, "u16", &u, &err), err);
    assert_int_equal(u, 0x1234);
    assert_ok(tern_gguf_get_u32(g, "u32", &u, &err), err);
    assert_int_equal(u, 4000000000u);
    assert_ok(tern_gguf_get_u32(g, "i64", &u, &err), err);
    assert_int_equal(u, 77);
    assert_ok(tern_gguf_get_f32(g, "f32", &f, &err), err);
    assert_true(f == 2.5f);
    assert_ok(tern_gguf_get_f32(g, "f64", &f, &err), err);
    assert_true(f == 0.5f);
    assert_ok(tern_gguf_get_f32(g, "i8", &f, &err), err);
    assert_true(f == -2.0f);
    assert_ok(tern_gguf_get_f32(g, "u64", &f, &err), err);
    assert_true(f == 0x1p64f);
    assert_ok(tern_gguf_get_bool(g, "bool", &flag, &err), err);
    assert_true(flag);
    assert_ok(tern_gguf_get_string(g, "string", &s, &err), err);
    assert_int_equal(s.size, 5);
    assert_memory_equal(s.data, "hello", 5);
}

static void check_arrays(const tern_gguf *g)
{
    tern_error err = {0};
    const tern_gguf_kv *kv = NULL;
    assert_ok(tern_gguf_get_array(g, "ints", TERN_GGUF_I16, &kv, &err), err);
    assert_int_equal(kv->count, 2);
    assert_int_equal(tern_gguf_array_int(kv, 0), 5);
    assert_int_equal(tern_gguf_array_int(kv, 1), -5);
    assert_int_equal(tern_gguf_array_int(kv, 2), 0);
    assert_ok(tern_gguf_get_array(g, "strings", TERN_GGUF_STRING, &kv, &err), err);
    assert_int_equal(kv->count, 2);
    tern_cursor c = tern_cursor_open(kv->value.data, kv->value.size);
    tern_span s = tern_gguf_next_string(&c);
    assert_int_equal(s.size, 1);
    assert_int_equal(s.data[0], 'a');
    assert_int_equal(tern_gguf_next_string(&c).size, 0);
    assert_false(c.bad);
    assert_int_equal(c.at, c.size);
    assert_ok(tern_gguf_get_array(g, "nested", TERN_GGUF_ARRAY, &kv, &err), err);
    assert_int_equal(kv->value.size, 12 + 1 + 12);
}

static void check_tensors(const tern_gguf *g, const tern_buf *file)
{
    const tern_gguf_tensor *t = tern_gguf_find_tensor(g, "matrix");
    assert_non_null(t);
    assert_int_equal(t->n_dims, 2);
    assert_int_equal(t->cols, 3);
    assert_int_equal(t->rows, 2);
    assert_int_equal(t->dims[2], 1);
    assert_int_equal(t->bytes, 24);
    assert_int_equal(tern_load_u32(t->data + 4), 0x3f900000);
    t = tern_gguf_tensor_at(g, 1);
    assert_int_equal(t->type, 24);
    assert_int_equal(t->bytes, 5);
    assert_ptr_equal(t->data, file->data + file->size - 5);
    assert_null(tern_gguf_tensor_at(g, 2));
    assert_null(tern_gguf_find_tensor(g, "none"));
}

static void golden_bytes(void **state)
{
    (void)state;
    for (uint32_t version = 2; version <= 3; version++) {
        tern_buf file = small_file(version);
        tern_gguf *g = NULL;
        tern_error err = {0};
        assert_ok(tern_gguf_parse(&g, file.data, file.size, &err), err);
        assert_int_equal(tern_gguf_version(g), version);
        assert_int_equal(tern_gguf_n_kv(g), 16);
        assert_int_equal(tern_gguf_n_tensors(g), 2);
        check_scalars(g);
        check_arrays(g);
        check_tensors(g, &file);
        tern_gguf_close(g);
        tern_buf_deinit(&file);
    }
}

static void getters_name_the_key(void **state)
{
    (void)state;
    tern_buf file = small_file(3);
    tern_gguf *g = NULL;
    tern_error err = {0};
    assert_ok(tern_gguf_parse(&g, file.data, file.size, &err), err);
    uint32_t u = 99;
    float f = 99;
    bool flag = true;
    tern_span s = {0};
    const tern_gguf_kv *kv = NULL;
#define REFUSED(call, code, text)                                                                                      \
    assert_int_equal(call, code);                                                                                      \
    assert_string_equal(err.message, text)
    REFUSED(tern_gguf_get_u32(g, "gone", &u, &err), TERN_NOT_FOUND, "gone: missing");
    REFUSED(tern_gguf_get_u32(g, "i32", &u, &err), TERN_MALFORMED, "i32: -3 found, 0 to 4294967295 expected");
    REFUSED(tern_gguf_get_u32(g, "u64", &u, &err), TERN_MALFORMED,
            "u64: 18446744073709551615 found, 0 to 4294967295 expected");
    REFUSED(tern_gguf_get_u32(g, "string", &u, &err), TERN_MALFORMED, "string: string found, u32 expected");
    REFUSED(tern_gguf_get_u32(g, "bool", &u, &err), TERN_MALFORMED, "bool: bool found, u32 expected");
    REFUSED(tern_gguf_get_u32(g, "ints", &u, &err), TERN_MALFORMED, "ints: array of i16 found, u32 expected");
    REFUSED(tern_gguf_get_f32(g, "bool", &f, &err), TERN_MALFORMED, "bool: bool found, f32 expected");
    REFUSED(tern_gguf_get_bool(g, "u8", &flag, &err), TERN_MALFORMED, "u8: u8 found, bool expected");
    REFUSED(tern_gguf_get_string(g, "strings", &s, &err), TERN_MALFORMED,
            "strings: array of string found, string expected");
    REFUSED(tern_gguf_get_array(g, "ints", TERN_GGUF_STRING, &kv, &err), TERN_MALFORMED,
            "ints: array of i16 found, array of string expected");
    REFUSED(tern_gguf_get_array(g, "u8", TERN_GGUF_U8, &kv, &err), TERN_MALFORMED,
            "u8: u8 found, array of u8 expected");
    assert_int_equal(u, 99);
    assert_true(f == 99 && flag && !s.data && !kv);
    tern_gguf_close(g);
    tern_buf_deinit(&file);
}

static void real_files(void **state)
{
    (void)state;
    static const struct {
        const char *name, *model;
        uint64_t vocabulary;
    } files[] = {
        {"tokenizers/ggml-vocab-gpt-2.gguf", "gpt2", 901},
        {"tokenizers/ggml-vocab-llama-spm.gguf", "llama", 700},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        tern_file_map map;
        tern_gguf *g = NULL;
        tern_error err = {0};
        const tern_gguf_kv *tokens = NULL;
        tern_span model = {0};
        assert_ok(tern_file_map_open(&map, test_fixture(files[i].name), &err), err);
        assert_ok(tern_gguf_parse(&g, map.data, map.size, &err), err);
        assert_ok(tern_gguf_get_array(g, "tokenizer.ggml.tokens", TERN_GGUF_STRING, &tokens, &err), err);
        assert_int_equal(tokens->count, files[i].vocabulary);
        assert_ok(tern_gguf_get_string(g, "tokenizer.ggml.model", &model, &err), err);
        assert_int_equal(model.size, strlen(files[i].model));
        assert_memory_equal(model.data, files[i].model, model.size);
        assert_int_equal(tern_gguf_n_tensors(g), 0);
        tern_gguf_close(g);
        tern_file_map_close(&map);
    }
}

/* Parses a copy that ends where its block ends, so that sanitizers see a read past it. */
static tern_status parse_copy(const void *data, size_t size)
{
    void *copy = malloc(size ? size : 1);
    if (size) memcpy(copy, data, size);
    tern_gguf *g = NULL;
    tern_error err = {0};
    tern_status status = tern_gguf_parse(&g, copy, size, &err);
    if (status != TERN_OK) assert_true(err.message[0] != 0);
    tern_gguf_close(g);
    free(copy);
    return status;
}

static void truncated_anywhere(void **state)
{
    (void)state;
    tern_buf file = small_file(3);
    for (size_t size = 0; size < file.size; size++) assert_int_equal(parse_copy(file.data, size), TERN_MALFORMED);
    assert_int_equal(parse_copy(file.data, file.size), TERN_OK);
    tern_buf_deinit(&file);
}

/* Every 4- and 8-byte word of the file, at any place, set to 0, 1, max and max - 1. */
static void damaged_anywhere(void **state)
{
    (void)state;
    tern_buf file = small_file(3);
    static const uint64_t values[] = {0, 1, UINT64_MAX, UINT64_MAX - 1, UINT32_MAX, INT64_MAX, 1u << 31};
    for (size_t at = 0; at + 8 <= file.size; at++) {
        uint64_t kept = tern_load_u64(file.data + at);
        for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
            tern_store_u64(file.data + at, values[i]);
            parse_copy(file.data, file.size);
            tern_store_u64(file.data + at, kept);
            tern_store_u32(file.data + at, (uint32_t)values[i]);
            parse_copy(file.data, file.size);
            tern_store_u64(file.data + at, kept);
        }
    }
    assert_int_equal(parse_copy(file.data, file.size), TERN_OK);
    tern_buf_deinit(&file);
}

static void accepted_edges(void **state)
{
    (void)state;
    tern_buf file = {0};
    put_header(&file, 3, 0, 0);
    assert_int_equal(parse_copy(file.data, file.size), TERN_OK);
    file.size = 0;
    gguf_aligned(&file, 1);
    assert_int_equal(parse_copy(file.data, file.size), TERN_OK);
    file.size = 0;
    gguf_aligned(&file, 1 << 20);
    assert_int_equal(parse_copy(file.data, file.size), TERN_OK);
    file.size = 0;
    put_header(&file, 3, 0, 1), put_key(&file, "deep", 9);
    for (int i = 0; i < 3; i++) put_array(&file, 9, 1);
    put_array(&file, 8, 1), put_text(&file, "bottom");
    assert_int_equal(parse_copy(file.data, file.size), TERN_OK);
    file.size = 0;
    gguf_two_tensors(&file, "late", 64, "early", 32); /* any order */
    assert_int_equal(parse_copy(file.data, file.size), TERN_OK);
    file.size = 0;
    gguf_tensor(&file, 0, 32, 4, (uint64_t[]){1, 2, 2, 2});
    assert_int_equal(parse_copy(file.data, file.size), TERN_OK);
    file.size = 0;
    gguf_tensor(&file, 36, 0, 1, (uint64_t[]){128}); /* i2_s: 32 bytes of codes, 32 of tail */
    assert_int_equal(parse_copy(file.data, file.size), TERN_OK);
    file.size = 0;
    gguf_tensor(&file, 28, 0, 0, NULL); /* a scalar */
    assert_int_equal(parse_copy(file.data, file.size), TERN_OK);
    tern_buf_deinit(&file);
}

/* A file of two tensors of one type and shape, and `last` bytes after the second's offset. */
static void check_layout(uint32_t type, uint32_t n_dims, const uint64_t *dims, uint64_t second, uint64_t last,
                         const char *expected)
{
    tern_buf file = {0};
    tern_gguf *g = NULL;
    tern_error err = {0};
    put_header(&file, 3, 2, 0);
    put_tensor(&file, "a", type, 0, n_dims, dims);
    put_tensor(&file, "b", type, second, n_dims, dims);
    while (file.size % 32) put8(&file, 0);
    for (uint64_t i = 0; i < second + last; i++) put8(&file, 0);
    tern_status status = tern_gguf_parse(&g, file.data, file.size, &err);
    if (!expected) assert_int_equal(status, TERN_MALFORMED);
    else {
        assert_ok(status, err);
        for (size_t i = 0; i < 2; i++)
            assert_string_equal(tern_gguf_type_name(tern_gguf_tensor_at(g, i)->type), expected);
    }
    tern_gguf_close(g);
    tern_buf_deinit(&file);
}

static void check_groups(uint64_t rows, uint64_t second, uint64_t last, const char *expected)
{
    check_layout(42, 2, (uint64_t[]){128, rows}, second, last, expected);
}

/* 128 numbers take 36 bytes in groups of 64 and 34 in groups of 128; 16 rows 576 and 544. */
static void groups_of_q2_0(void **state)
{
    (void)state;
    check_groups(16, 576, 576, "q2_0");
    check_groups(16, 544, 544, "pq2_0");
    check_groups(16, 1024, 1024, "q2_0"); /* room for either: what is published for the type */
    check_groups(1, 64, 64, "q2_0");      /* padded, both take the same */
    check_groups(1, 64, 36, "q2_0");
    check_groups(16, 576, 544, NULL); /* cut short, not of the other kind */
    check_groups(16, 544, 576, NULL);
    check_groups(16, 512, 544, NULL);
}

/* 32 rows of 288 columns: 4896 bytes as mxfp4 of llama.cpp, as tl2 of bitnet.cpp 32 * 32 / 3 * 5 / 8 = 213 and 32 * 64
 * for its pairs, rounded up to 32, and 32 more. Only matrices are tl2. */
static void layouts_of_type_39(void **state)
{
    (void)state;
    const uint64_t matrix[] = {288, 32}, experts[] = {288, 16, 2}, narrow[] = {96, 32};
    check_layout(39, 2, matrix, 4896, 4896, "mxfp4");
    check_layout(39, 2, matrix, 2304, 2304, "tl2");
    check_layout(39, 2, matrix, 9792, 9792, "mxfp4");
    check_layout(39, 2, matrix, 4896, 2304, NULL); /* cut short, not of the other kind */
    check_layout(39, 2, matrix, 2272, 2304, NULL);
    check_layout(39, 3, experts, 4896, 4896, "mxfp4");
    check_layout(39, 3, experts, 2304, 2304, NULL);
    check_layout(39, 2, narrow, 1632, 1632, "mxfp4");
    check_layout(39, 1, matrix, 160, 160, "mxfp4");
}

/* 96 rows of 768 columns: 20736 bytes as q2_0, 19584 as pq2_0, as tl2 512 * 96 / 3 * 5 / 8 + 128 * 96 / 2 and 32. */
static void layouts_of_type_42(void **state)
{
    (void)state;
    const uint64_t matrix[] = {768, 96}, experts[] = {768, 48, 2};
    check_layout(42, 2, matrix, 20736, 20736, "q2_0");
    check_layout(42, 2, matrix, 19584, 19584, "pq2_0");
    check_layout(42, 2, matrix, 16416, 16416, "tl2");
    check_layout(42, 2, matrix, 19584, 16416, NULL);
    check_layout(42, 2, matrix, 16384, 16416, NULL);
    check_layout(42, 3, experts, 16416, 16416, NULL);
}

static void failed_allocations_are_clean(void **state)
{
    (void)state;
    tern_buf file = small_file(3);
    int64_t live = tern_alloc_live();
    tern_status status = TERN_OUT_OF_MEMORY;
    uint64_t n = 1;
    for (; status != TERN_OK; n++) {
        tern_gguf *g = NULL;
        tern_error err = {0};
        tern_alloc_fail_after(n, false);
        status = tern_gguf_parse(&g, file.data, file.size, &err);
        tern_alloc_fail_after(0, false);
        if (status != TERN_OK) {
            assert_int_equal(status, TERN_OUT_OF_MEMORY);
            assert_null(g);
        }
        tern_gguf_close(g);
        assert_int_equal(tern_alloc_live(), live);
    }
    assert_true(n > 4);
    tern_buf_deinit(&file);
}

static void names_of_kinds_and_types(void **state)
{
    (void)state;
    assert_string_equal(tern_gguf_kind_name(TERN_GGUF_F64), "f64");
    assert_string_equal(tern_gguf_kind_name(13), "unknown");
    assert_string_equal(tern_gguf_type_name(36), "i2_s");
    assert_string_equal(tern_gguf_type_name(15), "Q8_K");
    assert_string_equal(tern_gguf_type_name(1000), "unknown");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(golden_bytes),
    cmocka_unit_test(getters_name_the_key),
    cmocka_unit_test(real_files),
    cmocka_unit_test(truncated_anywhere),
    cmocka_unit_test(damaged_anywhere),
    cmocka_unit_test(accepted_edges),
    cmocka_unit_test(groups_of_q2_0),
    cmocka_unit_test(layouts_of_type_39),
    cmocka_unit_test(layouts_of_type_42),
    cmocka_unit_test(failed_allocations_are_clean),
    cmocka_unit_test(names_of_kinds_and_types),
};

TEST_GROUP(gguf, "web", tests);
