/* The screen of an output table: 6-bit weights times activations of two int8 digits. */
#include "ops/ref/ref.h"

static uint32_t code(const uint8_t *group, uint32_t c)
{
    if (c < 192) return group[c] & 0x3fu;
    uint32_t j = c - 192;
    return group[j] >> 6 | (uint32_t)(group[64 + j] >> 6) << 2 | (uint32_t)(group[128 + j] >> 6) << 4;
}

void tern_ref_screen(const uint8_t *w, uint32_t n_rows, uint32_t groups, const int8_t *high, const int8_t *low,
                     int32_t *dots)
{
    for (uint32_t r = 0; r < n_rows; r++) {
        int32_t sums[2] = {0, 0};
        for (uint32_t c = 0; c < groups * TERN_SCREEN_GROUP; c++) {
            const uint8_t *group = w + ((size_t)r * groups + c / TERN_SCREEN_GROUP) * TERN_SCREEN_BYTES;
            int32_t u = (int32_t)code(group, c % TERN_SCREEN_GROUP);
            sums[0] += u * high[c];
            sums[1] += u * low[c];
        }
        dots[r] = sums[0];
        dots[n_rows + r] = sums[1];
    }
}
