/* Packing ternary codes as indices of tables. */
#include "quant/lut.h"

#include <stdlib.h>
#include <string.h>

/* codes: of one group, with zeros for columns that are not there. */
static uint8_t byte_of(uint32_t width, const int8_t codes[TERN_LUT_MAX_COLS])
{
    if (width == 2) return (uint8_t)((3 * codes[0] + codes[1] + 4) | (3 * codes[2] + codes[3] + 4) << 4);
    int n = 0;
    for (int i = 4; i >= 0; i--) n = 3 * n + codes[i];
    return (uint8_t)(abs(n) | (n < 0) << 7);
}

void tern_lut_byte_codes(uint32_t width, uint8_t byte, int8_t codes[TERN_LUT_MAX_COLS])
{
    if (width == 2) {
        for (int i = 0; i < 2; i++) {
            const int index = byte >> 4 * i & 15;
            codes[2 * i] = (int8_t)(index / 3 - 1);
            codes[2 * i + 1] = (int8_t)(index % 3 - 1);
        }
        return;
    }
    int n = (byte & 127) > TERN_LUT_MAX_INDEX ? 0 : byte & 127;
    for (int i = 0; i < 5; i++) {
        const int digit = (n + 1) % 3 - 1; /* n stays at least 0: the highest digit that is not 0 is +1 */
        codes[i] = (int8_t)(byte & 128 ? -digit : digit);
        n = (n - digit) / 3;
    }
}

void tern_lut_pack(uint32_t width, const int8_t *codes, uint32_t n_rows, uint32_t cols, uint8_t *out)
{
    const uint32_t step = tern_lut_group_cols(width);
    const int8_t none[TERN_LUT_MAX_COLS] = {0};
    memset(out, byte_of(width, none), tern_lut_strip_bytes(width, cols));
    for (uint32_t r = 0; r < n_rows; r++)
        for (uint32_t c = 0; c < cols; c += step) {
            int8_t group[TERN_LUT_MAX_COLS] = {0};
            memcpy(group, codes + (size_t)r * cols + c, cols - c < step ? cols - c : step);
            out[(size_t)(c / step) * TERN_LUT_ROWS + r] = byte_of(width, group);
        }
}

void tern_lut_unpack(uint32_t width, const uint8_t *strip, uint32_t n_rows, uint32_t cols, int8_t *codes)
{
    const uint32_t step = tern_lut_group_cols(width);
    for (uint32_t r = 0; r < n_rows; r++)
        for (uint32_t c = 0; c < cols; c += step) {
            int8_t group[TERN_LUT_MAX_COLS];
            tern_lut_byte_codes(width, strip[(size_t)(c / step) * TERN_LUT_ROWS + r], group);
            memcpy(codes + (size_t)r * cols + c, group, cols - c < step ? cols - c : step);
        }
}
