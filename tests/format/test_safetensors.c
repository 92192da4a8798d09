/* SafeTensors: golden bytes, fixtures, writer, refused files with their messages, allocation failure. */
#include "format/safetensors_cases.h"

static tern_buf file_of(const char *header, size_t data_bytes)
{
    tern_buf b = {0};
    put64(&b, strlen(header));
    put(&b, header, strlen(header));
    for (size_t i = 0; i < data_bytes; i++) put8(&b, (uint8_t)i);
    return b;
}

static const char small_header[] =
    "{\"__metadata__\":{\"format\":\"pt\"},\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[8,10]},"
    "\"a\\u00e9\":{\"dtype\":\"BF16\",\"shape\":[2,2],\"data_offsets\":[0,8]},\"none\":{\"dtype\":\"F32\",\"shape\":[0,"
    "3],"
    "\"data_offsets\":[8,8],\"extra\":null}}  ";

static void golden_bytes(void **state)
{
    (void)state;
    tern_buf file = file_of(small_header, 10);
    tern_safetensors *st = NULL;
    tern_error err = {0};
    assert_ok(tern_safetensors_parse(&st, file.data, file.size, &err), err);
    assert_int_equal(tern_safetensors_count(st), 3);
    const tern_st_tensor *t = tern_safetensors_find(st, "a\xc3\xa9");
    assert_ptr_equal(t, tern_safetensors_at(st, 0));
    assert_int_equal(t->dtype, TERN_ST_BF16);
    assert_int_equal(t->n_dims, 2);
    assert_int_equal(t->dims[1], 2);
    assert_int_equal(t->n_elements, 4);
    assert_int_equal(t->bytes, 8);
    assert_ptr_equal(t->data, file.data + file.size - 10);
    assert_string_equal(tern_safetensors_at(st, 1)->name, "none");
    assert_int_equal(tern_safetensors_at(st, 1)->n_elements, 0);
    assert_int_equal(tern_safetensors_find(st, "b")->data[1], 9);
    assert_null(tern_safetensors_find(st, "c"));
    assert_null(tern_safetensors_at(st, 3));
    tern_safetensors_close(st);
    tern_buf_deinit(&file);
}

static void fixtures_parse(void **state)
{
    (void)state;
    static const char *const files[] = {
        "bitnet/golden.safetensors",
        "bitnet/model.safetensors",
        "bitnet-packed/golden.safetensors",
        "bitnet-packed/model.safetensors",
        "bitnet-train/golden_lora.safetensors",
        "bitnet-train/golden_train.safetensors",
        "bitnet-train/model.safetensors",
        "gemma2/golden.safetensors",
        "gemma2/model.safetensors",
        "gemma3/golden.safetensors",
        "gemma3/model.safetensors",
        "gpt-oss/golden.safetensors",
        "gpt-oss/model.safetensors",
        "llama/golden.safetensors",
        "llama/model.safetensors",
        "mixtral/golden.safetensors",
        "mixtral/model.safetensors",
        "bitnet",
        "llama",
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        tern_safetensors *st = NULL;
        tern_error err = {0};
        assert_ok(tern_safetensors_open(&st, test_fixture(files[i]), &err), err);
        assert_true(tern_safetensors_count(st) > 0);
        tern_safetensors_close(st);
    }
}

/* Logits of the fixture are finite and the greedy ids lie inside the vocabulary: dtype, shape and place are right. */
static void fixture_values(void **state)
{
    (void)state;
    tern_safetensors *st = NULL;
    tern_error err = {0};
    assert_ok(tern_safetensors_open(&st, test_fixture("llama/golden.safetensors"), &err), err);
    const tern_st_tensor *ids = tern_safetensors_find(st, "greedy.ids"),
                         *logits = tern_safetensors_find(st, "0.logits");
    assert_non_null(ids);
    assert_int_equal(ids->n_elements, 32);
    assert_int_equal(logits->n_dims, 2);
    float v[32];
    tern_st_to_f32(ids, 0, 32, v);
    for (int i = 0; i < 32; i++) assert_true(v[i] >= 0 && v[i] < (float)logits->dims[1] && v[i] == (float)(int)v[i]);
    tern_st_to_f32(logits, logits->n_elements - 32, 32, v);
    for (int i = 0; i < 32; i++) assert_true(v[i] > -1e4f && v[i] < 1e4f && v[i] != 0);
    tern_safetensors_close(st);
}

static void conversions(void **state)
{
    (void)state;
    static const struct {
        tern_st_dtype dtype;
        const char *bytes; /* two elements; the second is looked at */
        float value;
    } cases[] = {
        {TERN_ST_BOOL, "\0\1", 1},
        {TERN_ST_U8, "\0\xff", 255},
        {TERN_ST_I8, "\0\xff", -1},
        {TERN_ST_U16, "\0\0\xff\xff", 65535},
        {TERN_ST_I16, "\0\0\xfe\xff", -2},
        {TERN_ST_F16, "\0\0\0\xc0", -2},
        {TERN_ST_BF16, "\0\0\x20\x40", 2.5f},
        {TERN_ST_I32, "\0\0\0\0\xfd\xff\xff\xff", -3},
        {TERN_ST_U32, "\0\0\0\0\0\0\0\x80", 0x1p31f},
        {TERN_ST_F32, "\0\0\0\0\0\0\x20\x41", 10},
        {TERN_ST_F64, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\xe0\xbf", -0.5f},
        {TERN_ST_I64, "\0\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff", -1},
        {TERN_ST_U64, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x80", 0x1p63f},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tern_st_tensor t = {.dtype = cases[i].dtype, .n_elements = 2, .data = (const uint8_t *)cases[i].bytes};
        float v = 99;
        tern_st_to_f32(&t, 1, 1, &v);
        assert_true(v == cases[i].value);
    }
}

#define ENTRY(dtype, shape, offsets) "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static const struct {
    const char *header;
    size_t data_bytes;
    tern_status status;
    const char *message;
} refused[] = {
    {"", 0, TERN_MALFORMED, "header: JSON ends at byte 0, '{' expected"},
    {"[]", 0, TERN_MALFORMED, "header: '[' at byte 0 of the JSON, '{' expected"},
    {"{} x", 0, TERN_MALFORMED, "header: 'x' at byte 3 of the JSON, the end expected"},
    {"{}", 1, TERN_MALFORMED, "1 bytes of data and no tensor"},
    {"{\"t\":1}", 0, TERN_MALFORMED, "t: number found, an object expected"},
    {"{\"t\":{}", 0, TERN_MALFORMED, "header: JSON ends at byte 7, a value and '}' expected"},
    {"{\"t\":{]}}", 0, TERN_MALFORMED, "t: its entry: line 1, column 2: string or '}' expected near ']'"},
    {"{\"t\\q\":{}}", 0, TERN_MALFORMED, "a tensor's name: line 1, column 4: invalid escape near '\"t\\\\q'"},
    {"{\"t\\u0000\":{}}", 0, TERN_MALFORMED, "\"t\\\\u0000\": a tensor name with a NUL"},
    {"{\"t\xff\":{}}", 0, TERN_MALFORMED, "a tensor's name: line 1, column 2: unable to decode byte 0xff near '\"t'"},
    {"{\"__metadata__\":1}", 0, TERN_MALFORMED, "__metadata__: '1' at byte 0 of the JSON, '{' expected"},
    {"{\"__metadata__\":{\"a\":1}}", 0, TERN_MALFORMED, "__metadata__: \"a\": number found, a string expected"},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, TERN_MALFORMED, "header: duplicate __metadata__"},
    {"{\"t\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, TERN_MALFORMED, "t: data_offsets: missing"},
    {"{\"t\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, TERN_MALFORMED, "t: shape: missing"},
    {"{\"t\":{\"shape\":[1],\"data_offsets\":[0,1]}}", 1, TERN_MALFORMED, "t: dtype: missing"},
    {"{\"t\":{\"dtype\":8,\"shape\":[1],\"data_offsets\":[0,1]}}", 1, TERN_MALFORMED,
     "t: dtype: number found, a string expected"},
    {"{\"t\":" ENTRY("U9", "[1]", "[0,1]") "}", 1, TERN_MALFORMED, "t: dtype 'U9' is unknown"},
    {"{\"t\":" ENTRY("F8_E4M3", "[1]", "[0,1]") "}", 1, TERN_UNSUPPORTED, "t: dtype F8_E4M3 cannot be read here"},
    {"{\"t\":" ENTRY("U8", "1", "[0,1]") "}", 1, TERN_MALFORMED, "t: shape: number found, an array expected"},
    {"{\"t\":" ENTRY("U8", "[-1]", "[0,1]") "}", 1, TERN_MALFORMED, "t: shape[0] is not a whole number from 0 to 2^53"},
    {"{\"t\":" ENTRY("U8", "[1,0.5]", "[0,1]") "}", 1, TERN_MALFORMED,
     "t: shape[1] is not a whole number from 0 to 2^53"},
    {"{\"t\":" ENTRY("U8", "[18446744073709551615]", "[0,1]") "}", 1, TERN_MALFORMED,
     "t: shape[0] is not a whole number from 0 to 2^53"},
    {"{\"t\":" ENTRY("U8", "[4294967296,4294967296]", "[0,1]") "}", 1, TERN_MALFORMED,
     "t: the product of its shape overflows"},
    {"{\"t\":" ENTRY("F64", "[4294967296,1073741824]", "[0,1]") "}", 1, TERN_MALFORMED,
     "t: the product of its shape overflows"},
    {"{\"t\":" ENTRY("U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]") "}", 1, TERN_UNSUPPORTED,
     "t: 9 dimensions, at most 8 expected"},
    {"{\"t\":" ENTRY("U8", "[1]", "[0]") "}", 1, TERN_MALFORMED, "t: data_offsets has 1 numbers, 2 expected"},
    {"{\"t\":" ENTRY("U8", "[1]", "[1,0]") "}", 1, TERN_MALFORMED,
     "t: data_offsets 1 to 0 are outside the file, which has 1 bytes of data"},
    {"{\"t\":" ENTRY("U8", "[1]", "[0,2]") "}", 1, TERN_MALFORMED,
     "t: data_offsets 0 to 2 are outside the file, which has 1 bytes of data"},
    {"{\"t\":" ENTRY("U8", "[1]", "[9007199254740991,9007199254740992]") "}", 1, TERN_MALFORMED,
     "t: data_offsets 9007199254740991 to 9007199254740992 are outside the file, which has 1 bytes of data"},
    {"{\"t\":" ENTRY("U16", "[1]", "[0,1]") "}", 1, TERN_MALFORMED, "t: data_offsets hold 1 bytes, its shape needs 2"},
    {"{\"t\":" ENTRY("U8", "[1]", "[1,2]") "}", 2, TERN_MALFORMED, "t: a gap of 1 bytes before it"},
    {"{\"t\":" ENTRY("U8", "[1]", "[0,1]") "}", 3, TERN_MALFORMED, "2 bytes after the last tensor, none expected"},
    {"{\"t\":" ENTRY("U8", "[2]", "[0,2]") ",\"u\":" ENTRY("U8", "[2]", "[1,3]") "}", 3, TERN_MALFORMED,
     "u: overlaps t"},
    {"{\"t\":" ENTRY("U8", "[1]", "[0,1]") ",\"t\":" ENTRY("U8", "[1]", "[1,2]") "}", 2, TERN_MALFORMED,
     "t: duplicate tensor"},
    {"{\"t\":{\"dtype\":\"U8\",\"dtype\":\"U8\"}}", 2, TERN_MALFORMED,
     "t: its entry: line 1, column 21: duplicate object key near '\"dtype\"'"},
};

static void check_refused(const tern_buf *file, tern_status status, const char *message)
{
    tern_safetensors *st = NULL;
    tern_error err = {0};
    int64_t live = tern_alloc_live();
    tern_status found = tern_safetensors_parse(&st, file->data, file->size, &err);
    assert_string_equal(err.message, message);
    assert_int_equal(found, status);
    assert_null(st);
    assert_int_equal(tern_safetensors_parse(&st, file->data, file->size, NULL), status);
    assert_int_equal(tern_alloc_live(), live);
}

static void refused_files(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        tern_buf file = file_of(refused[i].header, refused[i].data_bytes);
        check_refused(&file, refused[i].status, refused[i].message);
        tern_buf_deinit(&file);
    }
}

static void header_length(void **state)
{
    (void)state;
    static const struct {
        uint64_t length;
        const char *message;
    } cases[] = {
        {0, "header: JSON ends at byte 0, '{' expected"},
        {1, "header: JSON ends at byte 1, a string expected"},
        {3, "header: length 3, the file has 2 bytes after it"},
        {100000000, "header: length 100000000, the file has 2 bytes after it"},
        {100000001, "header: length 100000001, at most 100000000 expected"},
        {UINT64_MAX, "header: length 18446744073709551615, at most 100000000 expected"},
        {UINT64_MAX - 1, "header: length 18446744073709551614, at most 100000000 expected"},
    };
    tern_buf file = file_of("{}", 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tern_store_u64(file.data, cases[i].length);
        check_refused(&file, TERN_MALFORMED, cases[i].message);
    }
    file.size = 7;
    check_refused(&file, TERN_MALFORMED, "header: a file of 7 bytes, at least 8 expected");
    tern_buf_deinit(&file);
}

static tern_status parse_copy(const void *data, size_t size)
{
    void *copy = malloc(size ? size : 1);
    if (size) memcpy(copy, data, size);
    tern_safetensors *st = NULL;
    tern_error err = {0};
    tern_status status = tern_safetensors_parse(&st, copy, size, &err);
    if (status != TERN_OK) assert_true(err.message[0] != 0);
    tern_safetensors_close(st);
    free(copy);
    return status;
}

static void truncated_and_damaged_anywhere(void **state)
{
    (void)state;
    tern_buf file = file_of(small_header, 10);
    for (size_t size = 0; size < file.size; size++) assert_int_not_equal(parse_copy(file.data, size), TERN_OK);
    assert_int_equal(parse_copy(file.data, file.size), TERN_OK);
    static const char bytes[] = "\0\xff\"\\{}[],:09-e ";
    for (size_t at = 0; at < file.size; at++) {
        char kept = file.data[at];
        for (size_t i = 0; i < sizeof bytes; i++) {
            file.data[at] = bytes[i];
            parse_copy(file.data, file.size);
        }
        file.data[at] = kept;
    }
    tern_buf_deinit(&file);
}

static void writer_round_trips(void **state)
{
    (void)state;
    const char *path = test_scratch("written.safetensors");
    tern_error err = {0};
    tern_st_tensor in[] = {safetensors_tensor_of("x\"y", TERN_ST_F32, 2, "12345678"),
                           safetensors_tensor_of("empty", TERN_ST_F16, 0, ""),
                           safetensors_tensor_of("z", TERN_ST_U8, 3, "abc")};
    const char *const metadata[] = {"format", "pt", NULL};
    assert_ok(tern_safetensors_write(path, in, 3, metadata, &err), err);
    tern_buf file = {0};
    assert_ok(tern_file_read(&file, path, 4096, &err), err);
    const char *expected =
        "{\"__metadata__\":{\"format\":\"pt\"},\"x\\\"y\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
        "\"empty\":{\"dtype\":\"F16\",\"shape\":[0],\"data_offsets\":[8,8]},"
        "\"z\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[8,11]}}";
    size_t header = tern_load_u64(file.data);
    assert_int_equal(header % 8, 0);
    assert_memory_equal(file.data + 8, expected, strlen(expected));
    assert_memory_equal(file.data + 8 + header, "12345678abc", 11);
    tern_buf_deinit(&file);
    tern_safetensors *st = NULL;
    assert_ok(tern_safetensors_open(&st, path, &err), err);
    assert_int_equal(tern_safetensors_count(st), 3);
    assert_memory_equal(tern_safetensors_find(st, "x\"y")->data, "12345678", 8);
    tern_safetensors_close(st);
}

static void writer_refuses(void **state)
{
    (void)state;
    const char *path = test_scratch("refused.safetensors");
    remove(path);
    tern_error err = {0};
    tern_st_tensor twice[] = {safetensors_tensor_of("t", TERN_ST_U8, 1, "a"),
                              safetensors_tensor_of("t", TERN_ST_U8, 1, "b")};
    assert_int_equal(tern_safetensors_write(path, twice, 2, NULL, &err), TERN_INVALID_ARGUMENT);
    assert_string_equal(err.message, "t: duplicate tensor");
    twice[0].bytes = 2;
    assert_int_equal(tern_safetensors_write(path, twice, 1, NULL, &err), TERN_INVALID_ARGUMENT);
    assert_string_equal(err.message, "t: 2 bytes, its shape needs 1");
    tern_st_tensor bad = safetensors_tensor_of("\xff", TERN_ST_U8, 1, "a");
    assert_int_equal(tern_safetensors_write(path, &bad, 1, NULL, &err), TERN_INVALID_ARGUMENT);
    assert_string_equal(err.message, "\\xff: not UTF-8");
    assert_false(tern_file_exists(path));
}

static void failed_allocations_are_clean(void **state)
{
    (void)state;
    tern_buf file = file_of(small_header, 10);
    int64_t live = tern_alloc_live();
    tern_status status = TERN_OUT_OF_MEMORY;
    uint64_t n = 1;
    for (; status != TERN_OK; n++) {
        tern_safetensors *st = NULL;
        tern_error err = {0};
        tern_alloc_fail_after(n, false);
        status = tern_safetensors_parse(&st, file.data, file.size, &err);
        tern_alloc_fail_after(0, false);
        if (status != TERN_OK) {
            assert_int_equal(status, TERN_OUT_OF_MEMORY);
            assert_null(st);
        }
        tern_safetensors_close(st);
        assert_int_equal(tern_alloc_live(), live);
    }
    assert_true(n > 20);
    tern_buf_deinit(&file);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(golden_bytes),
    cmocka_unit_test(fixtures_parse),
    cmocka_unit_test(fixture_values),
    cmocka_unit_test(conversions),
    cmocka_unit_test(refused_files),
    cmocka_unit_test(header_length),
    cmocka_unit_test(truncated_and_damaged_anywhere),
    cmocka_unit_test(writer_round_trips),
    cmocka_unit_test(writer_refuses),
    cmocka_unit_test(failed_allocations_are_clean),
};

TEST_GROUP(safetensors, "web", tests);
