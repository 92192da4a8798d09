/* Signs and Hadamard transforms of blocks, against rows that a script made from the definition of the matrix. */
#include "support/test.h"

#include <math.h>

#include "base/bytes.h"
#include "base/file.h"
#include "ops/ref/rotated/hadamard.h"
#include "support/places.h"

enum { MAX_COLS = 4096 };

static const float *row(const tern_buf *bytes, size_t *at, uint32_t cols)
{
    static float rows[4][MAX_COLS];
    static unsigned next;
    float *out = rows[next++ % 4];
    assert_true(*at + cols * sizeof *out <= bytes->size);
    memcpy(out, bytes->data + *at, cols * sizeof *out);
    *at += cols * sizeof *out;
    return out;
}

static void rows_of_the_script(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_buf bytes = {0};
    unsigned n = 0;
    assert_ok(tern_file_read(&bytes, TERN_SOURCE_DIR "/tests/data/hadamard/hadamard.bin", 1 << 20, &err), err);
    for (size_t at = 0; at < bytes.size; n++) {
        uint32_t sizes[2];
        float y[MAX_COLS];
        memcpy(sizes, bytes.data + at, sizeof sizes);
        at += sizeof sizes;
        const uint32_t block = sizes[0], cols = sizes[1];
        const float *x = row(&bytes, &at, cols), *signs = row(&bytes, &at, cols), *forward = row(&bytes, &at, cols),
                    *inverse = row(&bytes, &at, cols);
        tern_ref_hadamard(x, signs, cols, block, y);
        assert_memory_equal(y, forward, cols * sizeof *y);
        tern_ref_hadamard_inverse(x, signs, cols, block, y);
        assert_memory_equal(y, inverse, cols * sizeof *y);
    }
    assert_int_equal(n, 6);
    tern_buf_deinit(&bytes);
}

/* One undoes the other, in place and without signs as well. */
static void there_and_back(void **state)
{
    (void)state;
    enum { COLS = 2048, BLOCK = 1024 };
    static float x[COLS], y[COLS], signs[COLS];
    for (uint32_t c = 0; c < COLS; c++) {
        x[c] = (float)(c * 7 % 23) - 11;
        signs[c] = c % 3 ? 1.0f : -1.0f;
    }
    for (int i = 0; i < 2; i++) {
        const float *s = i ? signs : NULL;
        memcpy(y, x, sizeof y);
        tern_ref_hadamard(y, s, COLS, BLOCK, y);
        tern_ref_hadamard_inverse(y, s, COLS, BLOCK, y);
        for (uint32_t c = 0; c < COLS; c++) assert_true(fabsf(y[c] - x[c]) < 1e-4f);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(rows_of_the_script),
    cmocka_unit_test(there_and_back),
};

TEST_GROUP(hadamard, "", tests);
