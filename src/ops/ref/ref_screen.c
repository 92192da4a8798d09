/* The screen of an output table: codes of one plane times activations of two int8 digits. */
#include "ops/ref/ref.h"

static uint32_t bit(const uint8_t *bytes, uint32_t i)
{
    return *bytes >> i & 1u;
}

uint32_t tern_ref_screen_code(const uint8_t *row, uint32_t halves, uint32_t bits, uint32_t c)
{
    const uint32_t group = c / (2 * TERN_SCREEN_HALF), first = group * 2; /* in halves */
    const uint32_t n = halves - first < 2 ? 32 : 64, v = c % (2 * TERN_SCREEN_HALF) / n, j = c % n;
    const uint8_t *w = row + (size_t)first * 32 * bits + j;
    if (bits == 1) return bit(w, v);
    if (bits == 2) return w[v / 4 * n] >> 2 * (v % 4) & 3u;
    if (v < 6) return w[v % 3 * n] >> 3 * (v / 3) & 7u;
    return (uint32_t)w[(v - 6) * n] >> 6 | bit(w + 2 * (size_t)n, v) << 2;
}

void tern_ref_screen(const uint8_t *w, uint32_t n_rows, uint32_t halves, uint32_t bits, const int8_t *high,
                     const int8_t *low, int32_t *dots)
{
    for (uint32_t r = 0; r < n_rows; r++, w += (size_t)halves * 32 * bits) {
        int32_t sums[2] = {0, 0};
        for (uint32_t c = 0; c < halves * TERN_SCREEN_HALF; c++) {
            const int32_t u = (int32_t)tern_ref_screen_code(w, halves, bits, c);
            sums[0] += u * high[c];
            if (bits == 3) sums[1] += u * low[c];
        }
        dots[r] = sums[0];
        if (bits == 3) dots[n_rows + r] = sums[1];
    }
}
