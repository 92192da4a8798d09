/* The definition of the look-up kernels. */
#include "ops/ref/lut.h"

#include <string.h>

static int high_digit(int x)
{
    return (x + 136) / 16 - 8;
}

static void add_entry(int8_t *low, int8_t *high, int code, int x)
{
    *low = (int8_t)(*low + code * (x - 16 * high_digit(x)));
    *high = (int8_t)(*high + code * high_digit(x));
}

static int input(const int8_t *x, uint32_t n, uint32_t c)
{
    return c < n ? x[c] : 0;
}

void tern_ref_lut2_tables(const int8_t *x, uint32_t n, int8_t *tables)
{
    memset(tables, 0, (size_t)tern_lut_groups(2, n) * TERN_LUT2_TABLE);
    for (uint32_t c = 0; c < tern_lut_groups(2, n) * 4; c += 2, tables += TERN_LUT2_TABLE / 2)
        for (int i = 0; i < 9; i++)
            for (int k = 0; k < 2; k++)
                add_entry(&tables[i], &tables[16 + i], (k ? i % 3 : i / 3) - 1, input(x, n, c + (uint32_t)k));
}

void tern_ref_lut3_tables(const int8_t *x, uint32_t n, int8_t *tables)
{
    memset(tables, 0, (size_t)tern_lut_groups(3, n) * TERN_LUT3_TABLE);
    for (uint32_t c = 0; c < n; c += 3, tables += TERN_LUT3_TABLE / TERN_LUT3_TRIPLES)
        for (int i = 0; i < 14; i++) {
            int8_t codes[TERN_LUT_MAX_WIDTH];
            tern_lut_index_codes(3, (uint8_t)i, codes);
            for (uint32_t k = 0; k < 3; k++) add_entry(&tables[i], &tables[16 + i], codes[k], input(x, n, c + k));
        }
}

void tern_ref_lut5_tables(const int8_t *x, uint32_t n, int8_t *tables)
{
    memset(tables, 0, (size_t)tern_lut_groups(5, n) * TERN_LUT5_TABLE);
    for (uint32_t c = 0; c < n; c += 5, tables += TERN_LUT5_TABLE)
        for (int i = 0; i <= TERN_LUT_MAX_INDEX; i++) {
            int8_t codes[TERN_LUT_MAX_WIDTH];
            tern_lut_index_codes(5, (uint8_t)i, codes);
            for (uint32_t k = 0; k < 5; k++) add_entry(&tables[i], &tables[128 + i], codes[k], input(x, n, c + k));
        }
}

void tern_ref_lut2(const uint8_t *codes, const int8_t *tables, uint32_t n_groups, int32_t *dots)
{
    memset(dots, 0, TERN_LUT_ROWS * sizeof *dots);
    for (uint32_t g = 0; g < n_groups; g++, tables += TERN_LUT2_TABLE, codes += TERN_LUT_ROWS)
        for (int r = 0; r < TERN_LUT_ROWS; r++) {
            const int first = codes[r] & 15, second = codes[r] >> 4;
            dots[r] += tables[first] + 16 * tables[16 + first] + tables[32 + second] + 16 * tables[48 + second];
        }
}

/* A row of a group. */
static int group_of_triples(const uint8_t *bytes, const int8_t *tables)
{
    int sum = 0;
    for (int t = 0; t < TERN_LUT3_TRIPLES; t++, tables += TERN_LUT3_TABLE / TERN_LUT3_TRIPLES) {
        const int index = bytes[(TERN_LUT3_SIGNS + t / 2) * TERN_LUT3_ROWS] >> 4 * (t % 2) & 15,
                  triple = tables[index] + 16 * tables[16 + index];
        sum += bytes[t / 7 * TERN_LUT3_ROWS] & 128 >> t % 7 ? -triple : triple;
    }
    return sum;
}

void tern_ref_lut3(const uint8_t *codes, const int8_t *tables, uint32_t n_groups, int32_t *dots)
{
    memset(dots, 0, TERN_LUT_ROWS * sizeof *dots);
    for (uint32_t g = 0; g < n_groups; g++, tables += TERN_LUT3_TABLE, codes += TERN_LUT_MAX_BYTES * TERN_LUT_ROWS)
        for (int r = 0; r < TERN_LUT_ROWS; r++)
            dots[r] += group_of_triples(codes + tern_lut_row_at(3, (uint32_t)r), tables);
}

void tern_ref_lut5(const uint8_t *codes, const int8_t *tables, uint32_t n_groups, int32_t *dots)
{
    memset(dots, 0, TERN_LUT_ROWS * sizeof *dots);
    for (uint32_t g = 0; g < n_groups; g++, tables += TERN_LUT5_TABLE, codes += TERN_LUT_ROWS)
        for (int r = 0; r < TERN_LUT_ROWS; r++) {
            const int index = codes[r] & 127, sum = tables[index] + 16 * tables[128 + index];
            dots[r] += codes[r] & 128 ? -sum : sum;
        }
}
