/* Packing ternary codes as indices of tables. */
#include "quant/lut.h"

#include <stdlib.h>
#include <string.h>

/* The number whose digits in balanced ternary are n codes. */
static int number_of(const int8_t *codes, int n)
{
    int number = 0;
    for (int i = n - 1; i >= 0; i--) number = 3 * number + codes[i];
    return number;
}

/* A number below 0 needs the sign that its digits lack. */
static void digits_of(int number, int n, int8_t *codes)
{
    for (int i = 0; i < n; i++) { /* the number stays at least 0: the highest digit that is not 0 is +1 */
        codes[i] = (int8_t)((number + 1) % 3 - 1);
        number = (number - codes[i]) / 3;
    }
}

void tern_lut_index_codes(uint32_t width, uint8_t index, int8_t codes[TERN_LUT_MAX_WIDTH])
{
    if (width == 2) {
        codes[0] = (int8_t)((index & 15) / 3 - 1);
        codes[1] = (int8_t)((index & 15) % 3 - 1);
        return;
    }
    const int n = index & (width == 3 ? 15 : 127), most = width == 3 ? 13 : TERN_LUT_MAX_INDEX;
    digits_of(n > most ? 0 : n, (int)width, codes);
    if (width == 5 && index & 128)
        for (int i = 0; i < 5; i++) codes[i] = (int8_t)-codes[i];
}

/* The bytes of one row in a group: TERN_LUT3_ROWS apart. */
static void pack_triples(const int8_t codes[TERN_LUT_MAX_COLS], uint8_t *out)
{
    uint8_t bytes[TERN_LUT_MAX_BYTES] = {1, 1};
    for (int t = 0; t < TERN_LUT3_TRIPLES; t++) {
        const int n = number_of(codes + 3 * t, 3);
        bytes[TERN_LUT3_SIGNS + t / 2] |= (uint8_t)(abs(n) << 4 * (t % 2));
        if (n < 0) bytes[t / 7] |= (uint8_t)(128 >> t % 7);
    }
    for (int i = 0; i < TERN_LUT_MAX_BYTES; i++) out[i * TERN_LUT3_ROWS] = bytes[i];
}

static void unpack_triples(const uint8_t *bytes, int8_t codes[TERN_LUT_MAX_COLS])
{
    for (int t = 0; t < TERN_LUT3_TRIPLES; t++, codes += 3) {
        int8_t digits[TERN_LUT_MAX_WIDTH];
        tern_lut_index_codes(3, bytes[(TERN_LUT3_SIGNS + t / 2) * TERN_LUT3_ROWS] >> 4 * (t % 2) & 15, digits);
        for (int i = 0; i < 3; i++)
            codes[i] = (int8_t)(bytes[t / 7 * TERN_LUT3_ROWS] & 128 >> t % 7 ? -digits[i] : digits[i]);
    }
}

/* codes: of one group, with zeros for columns that are not there. */
static void pack_group(uint32_t width, const int8_t codes[TERN_LUT_MAX_COLS], uint8_t *out)
{
    if (width == 2) *out = (uint8_t)((3 * codes[0] + codes[1] + 4) | (3 * codes[2] + codes[3] + 4) << 4);
    else if (width == 3) pack_triples(codes, out);
    else *out = (uint8_t)(abs(number_of(codes, 5)) | (number_of(codes, 5) < 0) << 7);
}

static void unpack_group(uint32_t width, const uint8_t *bytes, int8_t codes[TERN_LUT_MAX_COLS])
{
    if (width == 3) {
        unpack_triples(bytes, codes);
        return;
    }
    tern_lut_index_codes(width, *bytes, codes);
    if (width == 2) tern_lut_index_codes(2, *bytes >> 4, codes + 2);
}

void tern_lut_pack(uint32_t width, const int8_t *codes, uint32_t n_rows, uint32_t cols, uint8_t *out)
{
    const uint32_t step = tern_lut_group_cols(width), bytes = tern_lut_group_bytes(width) * TERN_LUT_ROWS;
    for (uint32_t c = 0; c < cols; c += step, out += bytes)
        for (uint32_t r = 0; r < TERN_LUT_ROWS; r++) {
            int8_t group[TERN_LUT_MAX_COLS] = {0};
            if (r < n_rows) memcpy(group, codes + (size_t)r * cols + c, cols - c < step ? cols - c : step);
            pack_group(width, group, out + tern_lut_row_at(width, r));
        }
}

void tern_lut_unpack(uint32_t width, const uint8_t *strip, uint32_t n_rows, uint32_t cols, int8_t *codes)
{
    const uint32_t step = tern_lut_group_cols(width), bytes = tern_lut_group_bytes(width) * TERN_LUT_ROWS;
    for (uint32_t c = 0; c < cols; c += step, strip += bytes)
        for (uint32_t r = 0; r < n_rows; r++) {
            int8_t group[TERN_LUT_MAX_COLS];
            unpack_group(width, strip + tern_lut_row_at(width, r), group);
            memcpy(codes + (size_t)r * cols + c, group, cols - c < step ? cols - c : step);
        }
}
