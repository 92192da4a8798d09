/* The file of training data: what is written is read, and what is not sound is refused. */
#include "base/alloc.h"
#include "train/data/layout.h"
#include "train/support.h"

static const size_t lengths[] = {5, 2, 300, 9};
enum { N = 4, IDS = TERN_TRAIN_DATA_HEADER };

static void round_trip(uint32_t n_vocab, int32_t top)
{
    const tern_train_data_info info = {.n_vocab = n_vocab, .tokenizer = 77};
    const char *path = test_scratch("round.tern");
    tern_train_data_writer w;
    tern_train_data *data;
    tern_error err = {0};
    static int32_t ids[700], found[700];
    static uint8_t mask[700], found_mask[700];
    uint64_t n_loss = 0;
    for (int i = 0; i < 700; i++) ids[i] = (int32_t)((int64_t)top * i / 699), mask[i] = i % 3 != 1;
    assert_ok(tern_train_data_writer_open(&w, path, &info, &err), err);
    assert_ok(tern_train_data_writer_add(&w, ids, mask, 700, &err), err);
    assert_ok(tern_train_data_writer_add(&w, ids, NULL, 7, &err), err);
    assert_ok(tern_train_data_writer_add(&w, ids, mask, 9, &err), err);
    assert_ok(tern_train_data_writer_commit(&w, &err), err);
    tern_train_data_writer_abort(&w);
    assert_ok(tern_train_data_open(&data, path, &err), err);
    assert_ok(tern_train_data_check(data, &err), err);
    assert_int_equal(tern_train_data_document(data, 0), 700);
    assert_int_equal(tern_train_data_document(data, 2), 9);
    assert_ok(tern_train_data_read(data, 0, 0, 700, found, found_mask, &err), err);
    assert_memory_equal(found, ids, sizeof ids);
    mask[0] = 0; /* never a label */
    assert_memory_equal(found_mask, mask, sizeof mask);
    for (int i = 0; i < 700; i++) n_loss += mask[i];
    for (int i = 0; i < 9; i++) n_loss += mask[i];
    assert_int_equal(tern_train_data_about(data)->n_loss, n_loss + 6);
    assert_int_equal(tern_train_data_about(data)->n_tokens, 716);
    assert_ok(tern_train_data_read(data, 2, 3, 4, found, found_mask, &err), err);
    assert_memory_equal(found, ids + 3, 4 * sizeof *ids);
    assert_memory_equal(found_mask, mask + 3, 4);
    tern_train_data_close(data);
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    round_trip(4096, 4095);
    round_trip(65536, 65535);
    round_trip(65537, 65536);
    round_trip((uint32_t)INT32_MAX + 1, INT32_MAX);
}

static void wrong_documents_are_refused(void **state)
{
    (void)state;
    const tern_train_data_info info = {.n_vocab = 10}, none = {0};
    static const int32_t one[] = {1}, high[] = {1, 10}, negative[] = {-1, 1};
    const char *path = test_scratch("refused.tern");
    tern_train_data_writer w;
    tern_error err = {0};
    assert_int_equal(tern_train_data_writer_open(&w, path, &none, &err), TERN_INVALID_ARGUMENT);
    tern_train_data_writer_abort(&w);
    assert_ok(tern_train_data_writer_open(&w, path, &info, &err), err);
    assert_int_equal(tern_train_data_writer_add(&w, one, NULL, 1, &err), TERN_INVALID_ARGUMENT);
    assert_int_equal(tern_train_data_writer_add(&w, high, NULL, 2, &err), TERN_INVALID_ARGUMENT);
    assert_string_equal(err.message, "token 1 is id 10: 0 to 9 expected");
    assert_int_equal(tern_train_data_writer_add(&w, negative, NULL, 2, &err), TERN_INVALID_ARGUMENT);
    assert_int_equal(tern_train_data_writer_commit(&w, &err), TERN_INVALID_ARGUMENT);
    tern_train_data_writer_abort(&w);
    assert_false(tern_file_exists(path));
}

/* The bytes of a sound file. */
static tern_buf sound_bytes(void)
{
    tern_buf bytes = {0};
    tern_error err = {0};
    tern_train_data_close(put_documents("sound.tern", lengths, N, 3, false));
    assert_ok(tern_file_read(&bytes, test_scratch("sound.tern"), 1 << 20, &err), err);
    return bytes;
}

/* Opens exactly these bytes, in a block of their own. */
static tern_status open_bytes(const void *bytes, size_t n, bool check, tern_error *err)
{
    uint8_t *copy = malloc(n ? n : 1);
    tern_train_data *data;
    memcpy(copy, bytes, n);
    tern_status status = tern_train_data_open_memory(&data, copy, n, err);
    assert_true((status == TERN_OK) == (data != NULL));
    if (status == TERN_OK && check) status = tern_train_data_check(data, err);
    tern_train_data_close(data);
    free(copy);
    return status;
}

static void cut_files_are_refused(void **state)
{
    (void)state;
    tern_buf bytes = sound_bytes();
    tern_error err = {0};
    assert_ok(open_bytes(bytes.data, bytes.size, true, &err), err);
    for (size_t n = 0; n < bytes.size; n++) assert_int_equal(open_bytes(bytes.data, n, false, &err), TERN_MALFORMED);
    assert_ok(tern_buf_add(&bytes, "", 1, &err), err);
    assert_int_equal(open_bytes(bytes.data, bytes.size, false, &err), TERN_MALFORMED);
    tern_buf_deinit(&bytes);
}

/* Any byte but the padding and what is reserved is noticed: when opening or when checking. */
static void changed_files_are_refused(void **state)
{
    (void)state;
    tern_buf bytes = sound_bytes();
    tern_error err = {0};
    const size_t n_tokens = 5 + 2 + 300 + 9, mask = (IDS + 4 * n_tokens + 63) / 64 * 64,
                 offsets = (mask + (n_tokens + 7) / 8 + 63) / 64 * 64;
    assert_int_equal(bytes.size, offsets + 8 * (N + 1));
    for (size_t i = 0; i < bytes.size; i++) {
        const bool free_byte = (i >= 20 && i < 32) || (i >= 64 && i < IDS) || (i >= IDS + 4 * n_tokens && i < mask) ||
                               (i >= mask + (n_tokens + 7) / 8 && i < offsets);
        bytes.data[i] ^= 0x21;
        tern_status status = open_bytes(bytes.data, bytes.size, true, &err);
        bytes.data[i] ^= 0x21;
        if (free_byte || (i >= 16 && i < 20)) continue; /* the vocabulary may be another one */
        if (status != TERN_MALFORMED && status != TERN_UNSUPPORTED) fail_msg("byte %zu: %d", i, status);
    }
    tern_buf_deinit(&bytes);
}

static void refusals_say_why(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        uint64_t value;
        int bytes;
        const char *message;
    } cases[] = {
        {0, 0x55, 1, "not a training data file"},
        {8, 2, 4, "version 2: 1 expected"},
        {12, 4, 4, "flags 0x4: only bits 0 and 1 expected"},
        {12, 0, 4, "ids of 2 bytes: 4 expected for a vocabulary of 1048576"},
        {16, 0, 4, "a vocabulary of 0 tokens"},
        {32, UINT64_MAX, 8, "too many for"},
        {40, UINT64_MAX / 4 + 1, 8, "too many for"},
        {32, 200, 8, "200 documents of 316 tokens"},
        {40, 315, 8, "315 expected"},
        {40, 300, 8, "fewer expected for 4 documents of 300 tokens"},
        {48, 313, 8, "313 of them labels"},
        {48, 1, 8, "1, as the header says, expected"},
        {56, 1, 8, "0000000000000001, as the header says, expected"},
        {1472 + 8, 1, 8, "document 0 is tokens 0 to 1: at least 2 expected"},
        {1472 + 8, 6, 8, "document 1 is tokens 6 to 7: at least 2 expected"},
        {1472 + 8, 317, 8, "document 1 is tokens 317 to 7: at least 2 expected"},
        {1472, 1, 8, "documents from token 1 to 316: 0 to 316 expected"},
        {IDS, 1 << 20, 4, "document 0: token 0 is id 1048576: 0 to 1048575 expected"},
    };
    tern_buf bytes = sound_bytes();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tern_buf changed = {0};
        tern_error err = {0};
        uint8_t value[8];
        tern_store_u64(value, cases[i].value);
        assert_ok(tern_buf_add(&changed, bytes.data, bytes.size, &err), err);
        memcpy(changed.data + cases[i].at, value, (size_t)cases[i].bytes);
        assert_int_not_equal(open_bytes(changed.data, changed.size, true, &err), TERN_OK);
        if (!strstr(err.message, cases[i].message))
            fail_msg("case %zu: \"%s\": \"%s\" expected", i, err.message, cases[i].message);
        tern_buf_deinit(&changed);
    }
    tern_buf_deinit(&bytes);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(what_is_written_is_read), cmocka_unit_test(wrong_documents_are_refused),
    cmocka_unit_test(cut_files_are_refused),   cmocka_unit_test(changed_files_are_refused),
    cmocka_unit_test(refusals_say_why),
};

TEST_GROUP(data_file, "", tests);
