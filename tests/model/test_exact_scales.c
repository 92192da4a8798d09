/* Files of trained models whose blocks hold an f16: no tensor more than others count, and yet the exact scales. */
#include <math.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/half.h"
#include "format/gguf.h"
#include "model/support.h"

static tern_buf converted(const char *from, const char *encoding)
{
    tern_error err = {0};
    tern_buf bytes = {0};
    const char *path = test_scratch("exact-scales.gguf");
    tern_model *model = open_model(from);
    const tern_export_options options = {.linear = tern_encoding_by_name(encoding)};
    assert_ok(tern_model_write_gguf(model, path, &options, &err), err);
    tern_model_close(model);
    assert_ok(tern_file_read(&bytes, path, 1 << 26, &err), err);
    return bytes;
}

/* As llama.cpp's loaders do, which refuse a file with more tensors than they have asked for: 2 + 11 for each layer. */
static void no_more_tensors_than_others_know(void **state)
{
    (void)state;
    static const char *const encodings[] = {"i2_s", "tq2_0", "tq1_0"};
    for (size_t i = 0; i < 3; i++) {
        tern_error err = {0};
        tern_gguf *g = NULL;
        tern_buf bytes = converted(test_model("tiny-stories-bitnet"), encodings[i]);
        assert_ok(tern_gguf_parse(&g, bytes.data, bytes.size, &err), err);
        assert_int_equal(tern_gguf_n_tensors(g), 2 + 11 * 8);
        assert_null(tern_gguf_find_tensor(g, "blk.0.attn_q.scale"));
        tern_gguf_close(g);
        tern_buf_deinit(&bytes);
    }
}

/* What others compute with is the scale, rounded: in every block of the tensor. */
static void blocks_hold_the_rounded_scale(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_gguf *g = NULL;
    tern_model *model = open_model(test_model("tiny-stories-bitnet"));
    const tern_weight *w = tern_model_weight(model, TERN_ROLE_FFN_UP, 3);
    tern_buf bytes = converted(test_model("tiny-stories-bitnet"), "tq2_0");
    assert_ok(tern_gguf_parse(&g, bytes.data, bytes.size, &err), err);
    const tern_gguf_tensor *t = tern_gguf_find_tensor(g, "blk.3.ffn_up.weight");
    assert_int_equal(t->bytes % 66, 0);
    assert_true(tern_f16_to_f32(tern_f32_to_f16(w->scale)) != w->scale); /* else this shows nothing */
    for (size_t at = 64; at < t->bytes; at += 66)
        assert_int_equal(tern_load_u16(t->data + at), tern_f32_to_f16(w->scale));
    tern_gguf_close(g);
    tern_buf_deinit(&bytes);
    tern_model_close(model);
}

static tern_model *open_bytes(const tern_buf *bytes)
{
    tern_error err = {0};
    tern_model *model = NULL;
    assert_ok(tern_model_open_memory(&model, bytes->data, bytes->size, NULL, &err), err);
    return model;
}

static uint8_t *data_of(const tern_buf *bytes, const char *name, size_t *n)
{
    tern_error err = {0};
    tern_gguf *g = NULL;
    assert_ok(tern_gguf_parse(&g, bytes->data, bytes->size, &err), err);
    const tern_gguf_tensor *t = tern_gguf_find_tensor(g, name);
    uint8_t *data = (uint8_t *)bytes->data + t->offset;
    *n = t->bytes;
    tern_gguf_close(g);
    return data;
}

/* Another program has written other blocks and kept the metadata: its blocks count, the others stay exact. */
static void other_blocks_count(void **state)
{
    (void)state;
    size_t n;
    tern_buf bytes = converted(test_model("tiny-stories-bitnet"), "tq2_0");
    tern_model *before = open_bytes(&bytes);
    const float up = tern_model_weight(before, TERN_ROLE_FFN_UP, 1)->scale;
    uint8_t *data = data_of(&bytes, "blk.1.ffn_down.weight", &n);
    for (size_t at = 64; at < n; at += 66) tern_store_u16(data + at, tern_f32_to_f16(0.25f));
    tern_model *after = open_bytes(&bytes);
    assert_float_equal(tern_model_weight(after, TERN_ROLE_FFN_DOWN, 1)->scale, 0.25f, 0);
    assert_float_equal(tern_model_weight(after, TERN_ROLE_FFN_UP, 1)->scale, up, 0);
    tern_model_close(before);
    tern_model_close(after);
    tern_buf_deinit(&bytes);
}

/* The place of `text` in the header, behind it. */
static uint8_t *behind(const tern_buf *bytes, const char *text)
{
    const size_t n = strlen(text);
    for (size_t i = 0; i + n < bytes->size; i++)
        if (memcmp(bytes->data + i, text, n) == 0) return (uint8_t *)bytes->data + i + n;
    fail_msg("no %s", text);
    return NULL;
}

/* Behind an array's key: kind u32, kind of elements u32, count u64, elements. */
enum { ELEMENTS_AT = 4 + 4 + 8 };

static void wrong_metadata(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        size_t at;
        uint8_t bytes[4];
        const char *words;
    } rows[] = {
        {"tern.scales.counts", ELEMENTS_AT, {2, 0, 0, 0}, "tern.scales.values: 56 values found, 57 expected"},
        {"tern.scales.counts", ELEMENTS_AT, {0xff, 0xff, 0xff, 0xff}, "tern.scales.values: 56 values found"},
        {"tern.scales.values", ELEMENTS_AT + 4, {0, 0, 0xc0, 0x7f}, "tern.scales.values: nan found at 1"},
        {"tern.scales.values", ELEMENTS_AT, {0, 0, 0x80, 0xbf}, "tern.scales.values: -1 found at 0"},
        {"tern.scales.values", 4, {5, 0, 0, 0}, "tern.scales.values: array of i32 found"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tern_error err = {0};
        tern_model *model = NULL;
        tern_buf bytes = converted(test_model("tiny-stories-bitnet"), "tq2_0");
        memcpy(behind(&bytes, rows[i].key) + rows[i].at, rows[i].bytes, 4);
        const int64_t live = tern_alloc_live();
        assert_int_equal(tern_model_open_memory(&model, bytes.data, bytes.size, NULL, &err), TERN_MALFORMED);
        if (!strstr(err.message, rows[i].words)) fail_msg("'%s' is not in '%s'", rows[i].words, err.message);
        assert_int_equal(tern_alloc_live(), live);
        tern_buf_deinit(&bytes);
    }
}

/* A name of the list that comes twice; and one value fewer than the tensor has rows. */
static void wrong_names_and_numbers(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_model *model = NULL;
    tern_buf bytes = converted(test_model("tiny-stories-bitnet"), "tq2_0");
    uint8_t *names = behind(&bytes, "tern.scales.tensors");
    memcpy(names + ELEMENTS_AT + 8 + 19 + 8, "blk.0.attn_q", 12); /* was blk.0.attn_k, behind blk.0.attn_q */
    assert_int_equal(tern_model_open_memory(&model, bytes.data, bytes.size, NULL, &err), TERN_MALFORMED);
    assert_non_null(strstr(err.message, "tern.scales.tensors: a name found twice at 1"));
    tern_buf_deinit(&bytes);
    bytes = converted(test_model("tiny-stories-bitnet"), "tq2_0");
    uint8_t *counts = behind(&bytes, "tern.scales.counts") + ELEMENTS_AT;
    tern_store_u32(counts, 2);
    tern_store_u32(counts + 4, 0);
    assert_int_equal(tern_model_open_memory(&model, bytes.data, bytes.size, NULL, &err), TERN_MALFORMED);
    assert_non_null(strstr(err.message, "2 values for blk.0.attn_q.weight found, 1 or one for each of 256 rows"));
    tern_buf_deinit(&bytes);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(no_more_tensors_than_others_know),
    cmocka_unit_test(blocks_hold_the_rounded_scale),
    cmocka_unit_test(other_blocks_count),
    cmocka_unit_test(wrong_metadata),
    cmocka_unit_test(wrong_names_and_numbers),
};

TEST_GROUP(exact_scales, "", tests);
