/* Blocks and what they hold, made by scripts that share no code with Tern (tests/data/encodings). */
#include "quant/encoding_cases.h"

#include "base/file.h"
#include "support/places.h"

/* Records of a block and its int8 codes; the first `written` are as a writer makes them. */
static const struct {
    const char *name;
    size_t scale_at, written;
} cases[] = {{"ptq1_0", 26, 16}};

static void check(const tern_encoding *e, size_t scale_at, const uint8_t *record, bool written, size_t at)
{
    float x[256], expected[256];
    uint8_t block[256];
    const float d = tern_f16_to_f32(tern_load_u16(record + scale_at));
    const int8_t *codes = (const int8_t *)record + e->block_bytes;
    for (uint32_t i = 0; i < e->block_elements; i++) expected[i] = d * (float)codes[i];
    e->unpack(record, 1, x);
    for (uint32_t i = 0; i < e->block_elements; i++)
        if (!(x[i] == expected[i]))
            fail_msg("%s: block %zu, element %u: %g found, %g expected", e->name, at, i, (double)x[i],
                     (double)expected[i]);
    if (!written) return;
    e->pack(expected, 1, block);
    assert_memory_equal(block, record, e->block_bytes);
}

static void blocks_of_scripts(void **state)
{
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const tern_encoding *e = encoding_named(cases[c].name);
        const size_t record = e->block_bytes + e->block_elements;
        char path[512];
        tern_error err = {0};
        tern_buf bytes = {0};
        snprintf(path, sizeof path, TERN_SOURCE_DIR "/tests/data/encodings/%s.bin", e->name);
        assert_ok(tern_file_read(&bytes, path, 1 << 20, &err), err);
        assert_true(bytes.size / record > cases[c].written && bytes.size % record == 0);
        for (size_t i = 0; i * record < bytes.size; i++)
            check(e, cases[c].scale_at, (const uint8_t *)bytes.data + i * record, i < cases[c].written, i);
        tern_buf_deinit(&bytes);
    }
}

/* The layouts for devices hold the same numbers, to the bit. */
static void rewritten_blocks(void **state)
{
    (void)state;
    for (size_t i = 0; tern_encoding_at(i); i++) {
        const tern_encoding *e = tern_encoding_at(i), *as = e->rewrite ? tern_encoding_find(e->rewritten) : NULL;
        if (!e->rewrite) continue;
        assert_int_equal(as->block_elements, e->block_elements);
        float x[3 * 256], y[3 * 256];
        uint8_t in[3 * 256], out[3 * 256];
        for (size_t k = 0; k < sizeof in; k++) in[k] = (uint8_t)(k * 37 + 11);
        for (size_t b = 0; b < 3; b++) tern_store_u16(in + (b + 1) * e->block_bytes - 2, (uint16_t)(0x2e66 + b));
        e->unpack(in, 3, x);
        e->rewrite(in, 3, out);
        as->unpack(out, 3, y);
        assert_memory_equal(x, y, 3 * e->block_elements * sizeof *x);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(blocks_of_scripts),
    cmocka_unit_test(rewritten_blocks),
};

TEST_GROUP(encoding_files, "", tests);
