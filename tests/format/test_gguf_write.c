/* The GGUF writer: golden bytes, round trips through the reader, refused calls, no file left behind. */
#include "support/test.h"

#include "base/alloc.h"
#include "base/file.h"
#include "format/gguf.h"
#include "format/gguf_bytes.h"

static const float matrix[6] = {1, 2, 3, 4, 5, 6};

static tern_status write_small(const char *path, tern_error *err)
{
    tern_gguf_writer *w = NULL;
    tern_status status = TERN_OK;
    static const tern_span words[] = {{(const uint8_t *)"ab", 2}, {NULL, 0}};
    static const int8_t codes[3] = {-1, 0, 1};
    TERN_TRY(tern_gguf_writer_open(&w, path, err));
    TERN_GOTO(tern_gguf_add_string(w, "general.architecture", "bitnet", 6, err));
    TERN_GOTO(tern_gguf_add_u32(w, "n", 7, err));
    TERN_GOTO(tern_gguf_add_f32(w, "eps", 0.5f, err));
    TERN_GOTO(tern_gguf_add_bool(w, "tied", true, err));
    TERN_GOTO(tern_gguf_add_array(w, "words", TERN_GGUF_STRING, words, 2, err));
    TERN_GOTO(tern_gguf_add_array(w, "codes", TERN_GGUF_I8, codes, 3, err));
    TERN_GOTO(tern_gguf_add_tensor(w, "a", 0, (uint64_t[]){3, 2}, 2, err));
    TERN_GOTO(tern_gguf_add_tensor(w, "b", 24, (uint64_t[]){3}, 1, err));
    TERN_GOTO(tern_gguf_writer_begin_data(w, err));
    TERN_GOTO(tern_gguf_writer_data(w, matrix, 8, err));
    TERN_GOTO(tern_gguf_writer_data(w, matrix + 2, 16, err));
    TERN_GOTO(tern_gguf_writer_data(w, codes, 3, err));
    return tern_gguf_writer_commit(w, err);
fail:
    tern_gguf_writer_abort(w);
    return status;
}

static tern_buf expected_small(void)
{
    tern_buf b = {0};
    put_header(&b, 3, 2, 6);
    put_key(&b, "general.architecture", 8), put_text(&b, "bitnet");
    put_key(&b, "n", 4), put32(&b, 7);
    put_key(&b, "eps", 6), put32(&b, 0x3f000000);
    put_key(&b, "tied", 7), put8(&b, 1);
    put_key(&b, "words", 9), put_array(&b, 8, 2), put_text(&b, "ab"), put_text(&b, "");
    put_key(&b, "codes", 9), put_array(&b, 1, 3), put(&b, "\xff\0\1", 3);
    put_tensor(&b, "a", 0, 0, 2, (uint64_t[]){3, 2});
    put_tensor(&b, "b", 24, 32, 1, (uint64_t[]){3});
    put_pad(&b, 32);
    for (int i = 0; i < 6; i++) {
        uint8_t bytes[4];
        tern_store_f32(bytes, matrix[i]);
        put(&b, bytes, 4);
    }
    put_pad(&b, 32);
    put(&b, "\xff\0\1", 3);
    put_pad(&b, 32);
    return b;
}

static void golden_bytes(void **state)
{
    (void)state;
    const char *path = test_scratch("written.gguf");
    tern_error err = {0};
    tern_buf expected = expected_small();
    for (int i = 0; i < 2; i++) {
        tern_file_map map;
        assert_ok(write_small(path, &err), err);
        assert_ok(tern_file_map_open(&map, path, &err), err);
        assert_int_equal(map.size, expected.size);
        assert_memory_equal(map.data, expected.data, expected.size);
        tern_file_map_close(&map);
    }
    tern_buf_deinit(&expected);
}

static void copy_pairs(const tern_gguf *from, const char *path)
{
    tern_error err = {0};
    tern_gguf_writer *w = NULL;
    assert_ok(tern_gguf_writer_open(&w, path, &err), err);
    for (size_t i = 0; i < tern_gguf_n_kv(from); i++)
        assert_ok(tern_gguf_add_kv(w, tern_gguf_kv_at(from, i), &err), err);
    assert_ok(tern_gguf_writer_commit(w, &err), err);
}

static void assert_same_pairs(const tern_gguf *a, const tern_gguf *b)
{
    assert_int_equal(tern_gguf_n_kv(a), tern_gguf_n_kv(b));
    for (size_t i = 0; i < tern_gguf_n_kv(a); i++) {
        const tern_gguf_kv *x = tern_gguf_kv_at(a, i), *y = tern_gguf_kv_at(b, i);
        assert_int_equal(x->key.size, y->key.size);
        assert_memory_equal(x->key.data, y->key.data, x->key.size);
        assert_int_equal(x->kind, y->kind);
        assert_int_equal(x->element, y->element);
        assert_int_equal(x->count, y->count);
        assert_int_equal(x->value.size, y->value.size);
        if (x->value.size) assert_memory_equal(x->value.data, y->value.data, x->value.size);
    }
}

static void real_metadata_round_trips(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_file_map in, out;
    tern_gguf *a = NULL, *b = NULL;
    const char *path = test_scratch("vocab.gguf");
    assert_ok(tern_file_map_open(&in, test_fixture("tokenizers/ggml-vocab-llama-spm.gguf"), &err), err);
    assert_ok(tern_gguf_parse(&a, in.data, in.size, &err), err);
    copy_pairs(a, path);
    assert_ok(tern_file_map_open(&out, path, &err), err);
    assert_ok(tern_gguf_parse(&b, out.data, out.size, &err), err);
    assert_same_pairs(a, b);
    tern_gguf_close(a);
    tern_gguf_close(b);
    tern_file_map_close(&in);
    tern_file_map_close(&out);
}

/* An alignment that is copied with the other pairs holds for the file that gets it. */
static void alignment_is_kept(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_gguf_writer *w = NULL;
    const char *path = test_scratch("aligned.gguf");
    assert_ok(tern_gguf_writer_open(&w, path, &err), err);
    assert_ok(tern_gguf_add_u32(w, "general.alignment", 256, &err), err);
    assert_ok(tern_gguf_add_tensor(w, "a", 24, (uint64_t[]){1}, 1, &err), err);
    assert_ok(tern_gguf_add_tensor(w, "b", 24, (uint64_t[]){1}, 1, &err), err);
    assert_ok(tern_gguf_writer_begin_data(w, &err), err);
    assert_ok(tern_gguf_writer_data(w, "x", 1, &err), err);
    assert_ok(tern_gguf_writer_data(w, "y", 1, &err), err);
    assert_ok(tern_gguf_writer_commit(w, &err), err);
    tern_file_map map;
    tern_gguf *g = NULL;
    assert_ok(tern_file_map_open(&map, path, &err), err);
    assert_ok(tern_gguf_parse(&g, map.data, map.size, &err), err);
    assert_int_equal(tern_gguf_find_tensor(g, "b")->data[0], 'y');
    assert_int_equal((tern_gguf_find_tensor(g, "b")->data - map.data) % 256, 0);
    tern_gguf_close(g);
    tern_file_map_close(&map);
}

static void refused_calls(void **state)
{
    (void)state;
    int64_t live = tern_alloc_live();
    const char *path = test_scratch("refused.gguf");
    tern_error err = {0};
    tern_gguf_writer *w = NULL;
    remove(path);
    assert_ok(tern_gguf_writer_open(&w, path, &err), err);
    assert_ok(tern_gguf_add_u32(w, "n", 1, &err), err);
#define REFUSED(call, code, text)                                                                                      \
    assert_int_equal(call, code);                                                                                      \
    assert_string_equal(err.message, text)
    REFUSED(tern_gguf_add_u32(w, "n", 2, &err), TERN_INVALID_ARGUMENT, "n: duplicate key");
    REFUSED(tern_gguf_add_u32(w, "", 2, &err), TERN_INVALID_ARGUMENT, "a key of 0 bytes, 1 to 65535 expected");
    REFUSED(tern_gguf_add_u32(w, "general.alignment", 12, &err), TERN_MALFORMED,
            "general.alignment: 12 found, a power of two from 1 to 1048576 expected");
    tern_gguf_kv kv = {{(const uint8_t *)"k", 1}, TERN_GGUF_U64, 0, 1, {(const uint8_t *)"1234", 4}};
    REFUSED(tern_gguf_add_kv(w, &kv, &err), TERN_INVALID_ARGUMENT, "k: its 4 bytes are not a value of kind u64");
    kv.kind = TERN_GGUF_U8;
    REFUSED(tern_gguf_add_kv(w, &kv, &err), TERN_INVALID_ARGUMENT, "k: its 4 bytes are not a value of kind u8");
    REFUSED(tern_gguf_add_array(w, "k", TERN_GGUF_ARRAY, "", 1, &err), TERN_INVALID_ARGUMENT, "k: array of 1 array");
    REFUSED(tern_gguf_add_tensor(w, "t", 0, (uint64_t[]){1, 0}, 2, &err), TERN_MALFORMED,
            "t: dimension 1 is 0, at least 1 expected");
    REFUSED(tern_gguf_add_tensor(w, "t", 23, (uint64_t[]){32}, 1, &err), TERN_UNSUPPORTED,
            "t: tensor type IQ4_XS (23) cannot be read here");
    REFUSED(tern_gguf_add_tensor(w, "t", 0, NULL, 5, &err), TERN_INVALID_ARGUMENT,
            "t: 5 dimensions, at most 4 expected");
    assert_ok(tern_gguf_add_tensor(w, "t", 24, (uint64_t[]){4}, 1, &err), err);
    REFUSED(tern_gguf_add_tensor(w, "t", 24, (uint64_t[]){4}, 1, &err), TERN_INVALID_ARGUMENT, "t: duplicate tensor");
    REFUSED(tern_gguf_add_u32(w, "general.alignment", 64, &err), TERN_INVALID_ARGUMENT,
            "general.alignment: added after a tensor");
    assert_int_equal(tern_gguf_writer_data(w, "1", 1, &err), TERN_INVALID_ARGUMENT);
    assert_ok(tern_gguf_writer_begin_data(w, &err), err);
    REFUSED(tern_gguf_add_u32(w, "late", 1, &err), TERN_INVALID_ARGUMENT, "late: added after the data was begun");
    assert_ok(tern_gguf_writer_data(w, "12", 2, &err), err);
    REFUSED(tern_gguf_writer_data(w, "123", 3, &err), TERN_INVALID_ARGUMENT, "t: 3 bytes of data, 2 expected");
    REFUSED(tern_gguf_writer_commit(w, &err), TERN_INVALID_ARGUMENT, "t: 2 bytes of data written, 4 expected");
    assert_false(tern_file_exists(path));
    assert_int_equal(tern_alloc_live(), live);
    assert_int_equal(tern_gguf_writer_open(&w, test_scratch("no/such/folder.gguf"), &err), TERN_NOT_FOUND);
    assert_null(w);
    tern_gguf_writer_abort(NULL);
}

static void failed_allocations_are_clean(void **state)
{
    (void)state;
    const char *path = test_scratch("starved.gguf");
    int64_t live = tern_alloc_live();
    tern_status status = TERN_OUT_OF_MEMORY;
    for (uint64_t n = 1; status != TERN_OK; n++) {
        tern_error err = {0};
        remove(path);
        tern_alloc_fail_after(n, false);
        status = write_small(path, &err);
        tern_alloc_fail_after(0, false);
        if (status != TERN_OK) assert_int_equal(status, TERN_OUT_OF_MEMORY);
        assert_int_equal(tern_file_exists(path), status == TERN_OK);
        assert_int_equal(tern_alloc_live(), live);
    }
}

/* A caller that goes on after a failed addition does not get a file. */
static void broken_header_is_not_written(void **state)
{
    (void)state;
    const char *path = test_scratch("broken.gguf");
    tern_error err = {0};
    tern_gguf_writer *w = NULL;
    remove(path);
    assert_ok(tern_gguf_writer_open(&w, path, &err), err);
    assert_ok(tern_gguf_add_u32(w, "a", 1, &err), err);
    char *text = calloc(1, 1 << 16);
    tern_alloc_fail_after(1, false);
    assert_int_equal(tern_gguf_add_string(w, "b", text, 1 << 16, &err), TERN_OUT_OF_MEMORY);
    assert_int_equal(tern_gguf_writer_commit(w, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "an addition to it failed"));
    assert_false(tern_file_exists(path));
    free(text);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(golden_bytes),
    cmocka_unit_test(real_metadata_round_trips),
    cmocka_unit_test(alignment_is_kept),
    cmocka_unit_test(refused_calls),
    cmocka_unit_test(failed_allocations_are_clean),
    cmocka_unit_test(broken_header_is_not_written),
};

TEST_GROUP(gguf_write, "web", tests);
