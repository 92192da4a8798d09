/* Checkpoint files: back as they were; cut off, damaged or mistaken ones refused; the old one there until the new one
 * is. */
#include <math.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/half.h"
#include "train/checkpoint.h"
#include "train/support.h"

enum { ROWS = 5, COLS = 70, N_ITEMS = 4 };

static const tern_checkpoint_item items[N_ITEMS] = {{"master.a", TERN_DTYPE_F32, ROWS, COLS},
                                                    {"m.a", TERN_DTYPE_M8, ROWS, COLS},
                                                    {"v.a", TERN_DTYPE_V8, ROWS, COLS},
                                                    {"master.norm", TERN_DTYPE_BF16, 1, COLS}};

/* Byte k of an item: f32 and bf16 from 0.5 on, any codes of 8-bit states before their scales. */
static uint8_t byte_of(size_t item, size_t k)
{
    const tern_checkpoint_item *t = &items[item];
    const bool codes = (t->dtype == TERN_DTYPE_M8 || t->dtype == TERN_DTYPE_V8) && k < 512;
    const size_t in = t->dtype == TERN_DTYPE_BF16 ? k % 2 : k % 4, last = t->dtype == TERN_DTYPE_BF16 ? 1 : 3;
    return codes || in < last ? (uint8_t)(item * 31 + k * 7 + k / 256) : 0x3f;
}

static size_t bytes_of(size_t i)
{
    return (size_t)tern_row_bytes(items[i].dtype, items[i].cols, items[i].rows);
}

static tern_status read_item(void *context, size_t i, void *bytes, tern_error *err)
{
    const size_t *broken = context;
    if (broken && *broken == i) return tern_fail(err, TERN_IO, "the device is gone");
    for (size_t k = 0; k < bytes_of(i); k++) ((uint8_t *)bytes)[k] = byte_of(i, k);
    return TERN_OK;
}

/* Byte `at` of item `item` and those after it are this f32 instead. */
typedef struct wrong_value {
    size_t item, at;
    float value;
    const char *words;
} wrong_value;

static tern_status read_wrong(void *context, size_t i, void *bytes, tern_error *err)
{
    const wrong_value *w = context;
    TERN_TRY(read_item(NULL, i, bytes, err));
    const uint32_t bits = tern_f32_bits(w->value);
    const bool half = items[i].dtype == TERN_DTYPE_BF16;
    if (i == w->item) memcpy((char *)bytes + w->at, (const char *)&bits + (half ? 2 : 0), half ? 2 : 4);
    return TERN_OK;
}

static json_t *make_run(void)
{
    return json_pack("{s:i, s:i, s:s}", "version", 1, "step", 7, "seed", "00ff");
}

static tern_status write_to(const char *path, size_t *broken, tern_error *err)
{
    json_t *run = make_run();
    const tern_checkpoint_source source = {
        .run = run, .items = items, .n = N_ITEMS, .read = read_item, .context = broken};
    tern_status status = tern_checkpoint_write(path, &source, err);
    json_decref(run);
    return status;
}

static void check_content(const tern_checkpoint *c)
{
    tern_error err = {0};
    assert_int_equal(tern_checkpoint_count(c), N_ITEMS);
    assert_true(json_number_value(json_object_get(tern_checkpoint_run(c), "step")) == 7);
    assert_string_equal(json_string_value(json_object_get(tern_checkpoint_run(c), "seed")), "00ff");
    for (size_t i = 0; i < N_ITEMS; i++) {
        const uint8_t *bytes;
        assert_ok(tern_checkpoint_find(c, &items[i], &bytes, &err), err);
        for (size_t k = 0; k < bytes_of(i); k++) assert_int_equal(bytes[k], byte_of(i, k));
    }
}

static void comes_back_as_it_was(void **state)
{
    (void)state;
    const char *path = test_scratch("a.checkpoint");
    tern_checkpoint *c;
    tern_error err = {0};
    assert_ok(write_to(path, NULL, &err), err);
    assert_ok(tern_checkpoint_open(&c, path, &err), err);
    check_content(c);
    const uint8_t *bytes;
    tern_checkpoint_item other = items[0];
    other.rows++;
    assert_int_equal(tern_checkpoint_find(c, &other, &bytes, &err), TERN_MALFORMED);
    assert_string_equal(err.message, "master.a: F32 [5][70] found, F32 [6][70] expected");
    other = items[0];
    other.dtype = TERN_DTYPE_BF16;
    assert_int_equal(tern_checkpoint_find(c, &other, &bytes, &err), TERN_MALFORMED);
    other.name[0] = 'x';
    assert_int_equal(tern_checkpoint_find(c, &other, &bytes, &err), TERN_NOT_FOUND);
    tern_checkpoint_close(c);
}

static tern_buf read_back(const char *path)
{
    tern_buf file = {0};
    tern_error err = {0};
    assert_ok(tern_file_read(&file, path, 1 << 20, &err), err);
    return file;
}

/* Whether a checkpoint opens and has all items. */
static bool whole(const char *bytes, size_t n, tern_error *err)
{
    tern_checkpoint *c;
    const uint8_t *data;
    tern_status status = tern_checkpoint_parse(&c, bytes, n, err);
    assert_true((status == TERN_OK) == (c != NULL));
    for (size_t i = 0; c && status == TERN_OK && i < N_ITEMS; i++)
        status = tern_checkpoint_find(c, &items[i], &data, err);
    tern_checkpoint_close(c);
    return status == TERN_OK;
}

/* Every byte that changes is noticed, and every byte that is missing. */
static void damage_is_noticed(void **state)
{
    (void)state;
    const char *path = test_scratch("damaged.checkpoint");
    tern_error err = {0};
    tern_checkpoint *c;
    assert_ok(write_to(path, NULL, &err), err);
    tern_buf file = read_back(path);
    for (size_t at = 0; at < file.size; at++) {
        file.data[at] = (char)(file.data[at] ^ 1);
        err = (tern_error){0};
        if (whole(file.data, file.size, &err)) fail_msg("a changed byte %zu of %zu is taken", at, file.size);
        assert_true(err.message[0]);
        file.data[at] = (char)(file.data[at] ^ 1);
    }
    for (size_t n = 0; n < file.size; n++) {
        err = (tern_error){0};
        assert_int_not_equal(tern_checkpoint_parse(&c, file.data, n, &err), TERN_OK);
        assert_true(err.message[0]);
    }
    assert_ok(tern_checkpoint_parse(&c, file.data, file.size, &err), err);
    check_content(c);
    tern_checkpoint_close(c);
    tern_buf_deinit(&file);
}

static void what_is_damaged_is_named(void **state)
{
    (void)state;
    const char *path = test_scratch("named.checkpoint");
    tern_error err = {0};
    tern_checkpoint *c;
    assert_ok(write_to(path, NULL, &err), err);
    tern_buf file = read_back(path);
    file.data[file.size - 8 * (N_ITEMS + 1) - 1] ^= 4; /* the last byte of the last item */
    const char *bad = put_file("named.checkpoint", file.data, file.size);
    assert_int_equal(tern_checkpoint_open(&c, bad, &err), TERN_MALFORMED);
    assert_non_null(strstr(err.message, "named.checkpoint: master.norm: damaged (hash "));
    bad = put_file("named.checkpoint", file.data, file.size / 2);
    assert_int_equal(tern_checkpoint_open(&c, bad, &err), TERN_MALFORMED);
    bad = put_file("named.checkpoint", "", 0);
    assert_int_equal(tern_checkpoint_open(&c, bad, &err), TERN_MALFORMED);
    assert_int_equal(tern_checkpoint_open(&c, test_scratch("none.checkpoint"), &err), TERN_NOT_FOUND);
    tern_buf_deinit(&file);
}

/* With right hashes, and numbers from which no run can go on. */
static void numbers_that_are_none_are_refused(void **state)
{
    static const wrong_value wrong[] = {
        {0, 0, NAN, "master.a: nan found at element 0, a finite number expected"},
        {0, 4 * (ROWS * COLS - 1), -INFINITY, "master.a: -inf found at element 349, a finite number expected"},
        {1, 512, NAN, "m.a: nan found at the scale of block 0, a finite number from 0 expected"},
        {2, 516, INFINITY, "v.a: inf found at the scale of block 1, a finite number from 0 expected"},
        {2, 512, -1.0f, "v.a: -1 found at the scale of block 0, a finite number from 0 expected"},
        {3, 2, NAN, "master.norm: nan found at element 1, a finite number expected"},
    };
    (void)state;
    const char *path = test_scratch("wrong.checkpoint");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        wrong_value w = wrong[i];
        tern_error err = {0};
        tern_checkpoint *c;
        json_t *run = make_run();
        const tern_checkpoint_source source = {
            .run = run, .items = items, .n = N_ITEMS, .read = read_wrong, .context = &w};
        assert_ok(tern_checkpoint_write(path, &source, &err), err);
        json_decref(run);
        assert_int_equal(tern_checkpoint_open(&c, path, &err), TERN_MALFORMED);
        if (!strstr(err.message, w.words)) fail_msg("%s", err.message);
    }
}

/* Models are SafeTensors files too. */
static void other_files_are_no_checkpoints(void **state)
{
    (void)state;
    tern_checkpoint *c;
    tern_error err = {0};
    assert_int_equal(tern_checkpoint_open(&c, test_fixture("bitnet/model.safetensors"), &err), TERN_MALFORMED);
    assert_non_null(strstr(err.message, "no checkpoint: "));
}

static void a_failed_write_leaves_the_old_one(void **state)
{
    (void)state;
    const char *path = test_scratch("kept.checkpoint");
    tern_error err = {0};
    tern_checkpoint *c;
    assert_ok(write_to(path, NULL, &err), err);
    for (size_t broken = 0; broken < N_ITEMS; broken++) {
        assert_int_equal(write_to(path, &broken, &err), TERN_IO);
        assert_string_equal(err.message, "the device is gone");
        assert_ok(tern_checkpoint_open(&c, path, &err), err);
        check_content(c);
        tern_checkpoint_close(c);
    }
    assert_int_equal(write_to(test_scratch("no/folder/here"), NULL, &err), TERN_NOT_FOUND);
}

static void no_memory_is_an_error(void **state)
{
    (void)state;
    const char *path = test_scratch("memory.checkpoint");
    tern_error err = {0};
    assert_ok(write_to(path, NULL, &err), err);
    tern_buf file = read_back(path);
    const int64_t live = tern_alloc_live();
    for (uint64_t n = 1;; n++) {
        tern_checkpoint *c = NULL;
        tern_alloc_fail_after(n, false);
        tern_status status = tern_checkpoint_parse(&c, file.data, file.size, &err);
        tern_alloc_fail_after(0, false);
        tern_checkpoint_close(c);
        assert_int_equal(tern_alloc_live(), live);
        if (status == TERN_OK) break;
        assert_int_equal(status, TERN_OUT_OF_MEMORY);
    }
    tern_buf_deinit(&file);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(comes_back_as_it_was),           cmocka_unit_test(damage_is_noticed),
    cmocka_unit_test(what_is_damaged_is_named),       cmocka_unit_test(numbers_that_are_none_are_refused),
    cmocka_unit_test(other_files_are_no_checkpoints), cmocka_unit_test(a_failed_write_leaves_the_old_one),
    cmocka_unit_test(no_memory_is_an_error),
};

TEST_GROUP(checkpoint, "", tests);
