/* bitnet.cpp's layouts for look-up tables. Source: its utils/convert-hf-to-gguf-bitnet.py (process_tl1,
 * preprocess_two_weights_tl2, preprocess_three_weights_tl2). */
#include "quant/foreign_internal.h"

enum { TL1_BM_BY = 256, TL2_BM_BY = 192, TL2_STRIP = 32, TL2_PAIR_COLS = 32, TL2_PAIR_BY = 4 };

static void note(size_t *bad, size_t at)
{
    if (at < *bad) *bad = at;
}

bool tern_tl__fits(const tern_tl_tile *t, uint32_t type)
{
    if (!t->tile_rows || !t->tile_cols || !t->strip_rows) return false;
    if (t->rows % t->tile_rows || t->tile_rows % t->strip_rows) return false;
    if (type == TERN_TL2)
        return t->strip_rows == TL2_STRIP && t->tile_cols % 24 == 0 && t->cols % t->tile_cols % TL2_PAIR_COLS == 0 &&
               t->cols % t->tile_cols <= 256;
    const uint32_t by = TL1_BM_BY / t->strip_rows;
    return TL1_BM_BY % t->strip_rows == 0 && t->strip_rows % 16 == 0 && by % 4 == 0 && t->tile_cols % by == 0 &&
           t->cols % t->tile_cols == 0;
}

/* The number of a cell's strip, counted through, in a tile with strips of `strip` rows and cells of `by` columns. */
static size_t cell_of(const tern_tl_tile *t, size_t cols, size_t row, size_t col, size_t tile_cols, size_t strip,
                      size_t by)
{
    const size_t tile = row / t->tile_rows * (cols / tile_cols) + col / tile_cols;
    const size_t strips = t->tile_rows / strip, cells = tile_cols / by;
    return (tile * strips + row % t->tile_rows / strip) * cells + col % tile_cols / by;
}

/* Two codes as 3 a + b + 4. */
static void put_pair(unsigned v, size_t at, int8_t *codes, size_t *bad)
{
    if (v > 8) note(bad, at);
    codes[0] = (int8_t)(v > 8 ? 0 : (int)v / 3 - 1);
    codes[1] = (int8_t)(v > 8 ? 0 : (int)v % 3 - 1);
}

/* A cell has `by` columns of a strip: for each 16 rows and 4 columns 16 bytes, one for each row, the first pair in the
 * high bits. */
void tern_foreign__tl1(const uint8_t *in, const tern_tl_tile *t, int8_t *codes, size_t *bad)
{
    const size_t strip = t->strip_rows, by = TL1_BM_BY / strip;
    for (size_t row = 0; row < t->rows; row++)
        for (size_t col = 0; col < t->cols; col += 2) {
            const size_t cell = cell_of(t, t->cols, row, col, t->tile_cols, strip, by);
            const size_t group = (cell * (strip / 16) + row % strip / 16) * (by / 4) + col % by / 4;
            const size_t at = group * 16 + row % 16;
            put_pair(in[at] >> (col % 4 / 2 ? 0 : 4) & 15u, at, codes + row * t->cols + col, bad);
        }
}

/* In the 32 rows of a strip, the second and the third eight have changed places. */
static size_t swapped(size_t row)
{
    const size_t eight = row % TL2_STRIP / 8;
    return (eight == 1 || eight == 2 ? 3 - eight : eight) * 8 + row % 8;
}

/* Three codes as |9 a + 3 b + c|, and whether the sum is negative. */
static void put_triple(unsigned v, bool negative, size_t at, int8_t *codes, size_t *bad)
{
    if (v > 13) note(bad, at);
    const unsigned number = v > 13 ? 13 : negative ? 13 - v : 13 + v;
    codes[0] = (int8_t)((int)(number / 9) - 1);
    codes[1] = (int8_t)((int)(number / 3 % 3) - 1);
    codes[2] = (int8_t)((int)(number % 3) - 1);
}

/* A cell has six columns of a strip in 32 bytes, a row's first triple in the high bits. The signs of four cells are 16
 * words: word j has in its bit 15 - 2 e - h the sign of triple e of row 16 h + j. */
static void triples(const uint8_t *in, const tern_tl_tile *t, size_t n_cols, int8_t *codes, size_t *bad)
{
    const size_t by = TL2_BM_BY / TL2_STRIP, signs_at = t->rows * n_cols / 6;
    for (size_t row = 0; row < t->rows; row++)
        for (size_t col = 0; col < n_cols; col += 3) {
            const size_t cell = cell_of(t, n_cols, row, col, t->tile_cols, TL2_STRIP, by);
            const size_t at = cell * TL2_STRIP + swapped(row);
            const size_t word = cell_of(t, n_cols, row, col, t->tile_cols, TL2_STRIP, 4 * by) * 16 + row % 16;
            const size_t bit = 15 - (col % t->tile_cols % (4 * by) / 3 * 2 + row % TL2_STRIP / 16);
            const bool negative = in[signs_at + 2 * word + bit / 8] >> bit % 8 & 1;
            put_triple(in[at] >> (col % by ? 0 : 4) & 15u, negative, at, codes + row * t->cols + col, bad);
        }
}

/* The columns that no tile has left: pairs, as cells of four columns. */
static void pairs(const uint8_t *in, size_t base, const tern_tl_tile *t, size_t first, int8_t *codes, size_t *bad)
{
    const size_t n_cols = t->cols - first;
    for (size_t row = 0; row < t->rows; row++)
        for (size_t col = 0; col < n_cols; col += 2) {
            const size_t cell = cell_of(t, n_cols, row, col, TL2_PAIR_COLS, TL2_STRIP, TL2_PAIR_BY);
            const size_t at = base + cell * TL2_STRIP + swapped(row);
            put_pair(in[at] >> (col % TL2_PAIR_BY ? 0 : 4) & 15u, at, codes + row * t->cols + first + col, bad);
        }
}

void tern_foreign__tl2(const uint8_t *in, const tern_tl_tile *t, int8_t *codes, size_t *bad)
{
    const size_t n_triples = t->cols / t->tile_cols * t->tile_cols;
    triples(in, t, n_triples, codes, bad);
    pairs(in, t->rows * n_triples / 24 * 5, t, n_triples, codes, bad);
}
