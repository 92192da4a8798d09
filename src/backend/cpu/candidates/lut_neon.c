/* Look-ups of two columns on NEON: tables of 16 bytes. */
#include <arm_neon.h>
#include <string.h>

#include "backend/cpu/kernels.h"

enum { WIDTH = 16, VECTORS = TERN_LUT_ROWS / WIDTH };

/* Adds n groups, at most TERN_LUT_BYTE_GROUPS, to the 16-bit sums of 16 rows. */
static inline void add_groups(const uint8_t *codes, const int8_t *table, uint32_t n, int16x8_t sums[2])
{
    int8x16_t low = vdupq_n_s8(0), high = vdupq_n_s8(0);
    for (uint32_t g = 0; g < n; g++, codes += TERN_LUT_ROWS, table += TERN_LUT2_TABLE) {
        const uint8x16_t rows = vld1q_u8(codes), first = vandq_u8(rows, vdupq_n_u8(15)), second = vshrq_n_u8(rows, 4);
        low = vaddq_s8(low, vaddq_s8(vqtbl1q_s8(vld1q_s8(table), first), vqtbl1q_s8(vld1q_s8(table + 32), second)));
        high =
            vaddq_s8(high, vaddq_s8(vqtbl1q_s8(vld1q_s8(table + 16), first), vqtbl1q_s8(vld1q_s8(table + 48), second)));
    }
    sums[0] = vaddq_s16(vaddw_s8(sums[0], vget_low_s8(low)), vshll_n_s8(vget_low_s8(high), 4));
    sums[1] = vaddq_s16(vaddw_s8(sums[1], vget_high_s8(low)), vshll_n_s8(vget_high_s8(high), 4));
}

static inline void add_eight(int16x8_t rows, int32_t *dots)
{
    vst1q_s32(dots, vaddw_s16(vld1q_s32(dots), vget_low_s16(rows)));
    vst1q_s32(dots + 4, vaddw_s16(vld1q_s32(dots + 4), vget_high_s16(rows)));
}

void tern_cpu__lut2_neon(const uint8_t *codes, const int8_t *table, uint32_t n_groups, int32_t *dots)
{
    memset(dots, 0, TERN_LUT_ROWS * sizeof *dots);
    while (n_groups) {
        uint32_t n = n_groups < TERN_LUT2_SHORT_GROUPS ? n_groups : TERN_LUT2_SHORT_GROUPS;
        int16x8_t sums[VECTORS][2];
        for (int v = 0; v < VECTORS; v++) sums[v][0] = sums[v][1] = vdupq_n_s16(0);
        n_groups -= n;
        for (; n >= 3; n -= 3, codes += 3 * TERN_LUT_ROWS, table += 3 * TERN_LUT2_TABLE)
            for (int v = 0; v < VECTORS; v++) add_groups(codes + v * WIDTH, table, 3, sums[v]);
        for (int v = 0; v < VECTORS && n; v++) add_groups(codes + v * WIDTH, table, n, sums[v]);
        codes += n * TERN_LUT_ROWS;
        table += n * TERN_LUT2_TABLE;
        for (int v = 0; v < 2 * VECTORS; v++) add_eight(sums[v / 2][v % 2], dots + 8 * v);
    }
}

/* Tables of the digits of two columns. */
static inline int8x16_t pair_table(int x, int y)
{
    static const int8_t first[16] = {-1, -1, -1, 0, 0, 0, 1, 1, 1}, second[16] = {-1, 0, 1, -1, 0, 1, -1, 0, 1};
    return vmlaq_s8(vmulq_s8(vld1q_s8(first), vdupq_n_s8((int8_t)x)), vld1q_s8(second), vdupq_n_s8((int8_t)y));
}

static inline int high_digit(int x)
{
    return (x + 8) >> 4;
}

void tern_cpu__lut2_tables_neon(const int8_t *x, uint32_t n, int8_t *out)
{
    for (uint32_t c = 0; c < (n + 3) / 4 * 4; c += 2, out += TERN_LUT2_TABLE / 2) {
        const int a = c < n ? x[c] : 0, b = c + 1 < n ? x[c + 1] : 0;
        vst1q_s8(out, pair_table(a - 16 * high_digit(a), b - 16 * high_digit(b)));
        vst1q_s8(out + 16, pair_table(high_digit(a), high_digit(b)));
    }
}
