/* Packing I2_S codes in every order, element by element. */
#include "support/i2s_order.h"

#include "base/file.h"
#include "format/gguf.h"
#include "quant/encoding.h"
#include "support/test.h"

const char *const test_i2s_orders[TEST_I2S_ORDERS] = {"x86", "arm", "rows", "lsb", "msb", "x86-lsb", "arm-lsb"};

typedef struct place {
    size_t byte;
    unsigned part; /* which of a byte's codes */
} place;

/* bitnet.cpp, quantize_i2_s: groups of 128 (QK_I2_S on x86) or 64 (on ARM), group_idx = j / 32 or j / 16, and in the
 * build without ACT_PARALLEL four rows for each column; the shift is 6 - 2 part. */
static place place_of(const char *order, size_t i, size_t cols)
{
    if (strncmp(order, "x86", 3) == 0) return (place){i / 128 * 32 + i % 32, (unsigned)(i % 128 / 32)};
    if (strncmp(order, "arm", 3) == 0) return (place){i / 64 * 16 + i % 16, (unsigned)(i % 64 / 16)};
    if (strcmp(order, "rows") == 0) return (place){i / cols / 4 * cols + i % cols, (unsigned)(i / cols % 4)};
    return (place){i / 4, (unsigned)(i % 4)};
}

void test_i2s_pack(const char *order, const int8_t *codes, size_t rows, size_t cols, uint8_t *out)
{
    const bool low_first = strstr(order, "lsb") != NULL;
    memset(out, 0, rows * cols / 4);
    for (size_t i = 0; i < rows * cols; i++) {
        const place p = place_of(order, i, cols);
        out[p.byte] |= (uint8_t)((codes[i] + 1) << (low_first ? 2 * p.part : 6 - 2 * p.part));
    }
}

static void repack(uint8_t *data, const tern_gguf_tensor *t, const char *order)
{
    tern_error err = {0};
    int8_t *codes = malloc(t->rows * t->cols);
    assert_non_null(codes);
    assert_ok(tern_decode_codes(tern_encoding_find(t->type), t->data, t->rows, t->cols, 0, t->rows, codes, NULL, NULL,
                                NULL, &err),
              err);
    test_i2s_pack(order, codes, t->rows, t->cols, data);
    free(codes);
}

tern_buf test_i2s_file(const char *path, const char *order)
{
    tern_error err = {0};
    tern_buf bytes = {0};
    tern_gguf *g = NULL;
    size_t n = 0;
    assert_ok(tern_file_read(&bytes, path, 1 << 28, &err), err);
    assert_ok(tern_gguf_parse(&g, bytes.data, bytes.size, &err), err);
    for (size_t i = 0; i < tern_gguf_n_tensors(g); i++) {
        const tern_gguf_tensor *t = tern_gguf_tensor_at(g, i);
        if (t->type != TERN_ENC_I2_S) continue;
        repack((uint8_t *)bytes.data + t->offset, t, order);
        n++;
    }
    assert_true(n > 0);
    tern_gguf_close(g);
    return bytes;
}
