/* What the tests of look-up tables share. */
#include "backend/cpu/lut_cases.h"

tern_rng lut_rng;

int8_t *lut_make_codes(uint32_t rows, uint32_t cols, fill f)
{
    int8_t *codes = malloc((size_t)rows * cols);
    assert_non_null(codes);
    const int8_t one = (int8_t)((int)test_between(&lut_rng, 0, 1) * 2 - 1);
    for (size_t i = 0; i < (size_t)rows * cols; i++) {
        codes[i] = f == ALL_EQUAL ? one : f == ALL_ZERO ? 0 : (int8_t)((int)test_between(&lut_rng, 0, 2) - 1);
        if (f == SPARSE && test_between(&lut_rng, 0, 20)) codes[i] = 0;
    }
    return codes;
}

void lut_make_inputs(int8_t *x, uint32_t n, int extreme)
{
    for (uint32_t c = 0; c < n; c++)
        x[c] = extreme ? (int8_t)(extreme < 0 ? -128 : 127) : (int8_t)test_between(&lut_rng, 0, 255);
}
