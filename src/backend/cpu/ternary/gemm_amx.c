/* Ternary rows times many tokens in the tiles of AMX, for every encoding whose codes AVX-512 decodes: panels of 64
 * rows, squares of 32 rows by 32 tokens. Fewer tokens are AVX-512's. */
#include <string.h>

#include "backend/cpu/ternary/few_amx.h"
#include "backend/cpu/ternary/ternary.h"
#include "backend/cpu/ternary/vectors_avx512.h"
#include "backend/cpu/tiles/interleave_avx512.h"
#include "backend/cpu/tiles/tiles_amx.h"

enum {
    GROUPS = 4,
    ROWS = GROUPS * TILE,
    MIN_TOKENS = 9 /* measured on i2_s: a tenth less time than one token after another, a quarter less for 11 */
};

typedef struct panel {
    /* raw codes, 0 where columns are padded */
    _Alignas(64) int8_t codes[GROUPS][TERN_PANEL_COLS_MAX / 4][TILE][4];
    uint32_t first, cols; /* of the weight's columns; cols a multiple of 64 */
} panel;

/* Decodes n columns of n_rows rows from `first` on; rows past n_rows repeat the last one. */
static void fill_panel(const tern_cpu__product *p, tern_cpu__codes_fn codes, uint32_t row, uint32_t n_rows,
                       uint32_t first, uint32_t n, panel *to)
{
    _Alignas(64) uint8_t rows[TILE][TERN_PANEL_COLS_MAX];
    to->first = first;
    to->cols = (n + TILE_STEP - 1) / TILE_STEP * TILE_STEP;
    for (uint32_t g = 0; g * TILE < n_rows; g++) {
        for (uint32_t i = 0; i < TILE; i++) {
            const uint32_t from = g * TILE + i < n_rows ? g * TILE + i : n_rows - 1;
            memset(rows[i] + to->cols - TILE_STEP, 0, TILE_STEP);
            codes(p->w + (row + from) * p->row_bytes, p->cols, first, n, rows[i]);
        }
        for (uint32_t c = 0; c < to->cols; c += 16)
            tern_avx512__interleave(rows[0] + c, TERN_PANEL_COLS_MAX, to->codes[g][c / 4], 4 * TILE);
    }
}

/* Adds a square of n tokens from t on and n_rows rows from `row` on, or 32, to the dots; the first panel starts from
 * minus the sum of the token's activations, for raw codes are one more than their values. */
static void add_square(const tern_cpu__product *p, const panel *from, uint32_t t, uint32_t n, uint32_t row,
                       uint32_t n_rows, const square *s)
{
    const __mmask32 all = n_rows >= SQUARE ? 0xffffffff : ((__mmask32)1 << n_rows) - 1;
    for (uint32_t i = 0; i < n; i++) {
        int32_t *dots = p->dots + (t + i) * p->dots_stride + row;
        for (uint32_t j = 0; j < SQUARE; j += TILE) {
            const __mmask16 rows = (__mmask16)(all >> j);
            const __m512i before =
                from->first ? _mm512_maskz_loadu_epi32(rows, dots + j) : _mm512_set1_epi32(-p->x->sums[t + i]);
            _mm512_mask_storeu_epi32(dots + j, rows, _mm512_add_epi32(before, _mm512_load_si512(s->sums[i] + j)));
        }
    }
}

/* n_rows rows of a panel, from `row` on, for n tokens from t on. */
static void multiply_panel(const panel *from, const tern_cpu__product *p, uint32_t row, uint32_t n_rows, uint32_t t,
                           uint32_t n)
{
    const tile_tokens in = {p->x->x + t * p->x->stride, p->x->stride, n};
    square sums;
    for (uint32_t g = 0; g * TILE < n_rows; g += 2) {
        tiles_multiply(&in, from->first, from->codes[g][0][0], from->codes[g + 1][0][0], from->cols / TILE_STEP,
                       TILE_STEP, &sums);
        add_square(p, from, t, n, row + g * TILE, n_rows - g * TILE, &sums);
    }
}

static void tern_amx__gemm(const tern_cpu__product *p, tern_cpu__codes_fn codes, uint32_t panel_cols)
{
    panel part;
    uint32_t open = 0;
    memset(part.codes, 0, sizeof part.codes); /* groups without rows are multiplied too */
    for (uint32_t first = 0; first < p->cols; first += panel_cols) {
        const uint32_t n_cols = p->cols - first < panel_cols ? p->cols - first : panel_cols;
        for (uint32_t row = 0; row < p->n_rows; row += ROWS) {
            const uint32_t n_rows = p->n_rows - row < ROWS ? p->n_rows - row : ROWS;
            fill_panel(p, codes, row, n_rows, first, n_cols, &part);
            for (uint32_t t = 0; t < p->x->n; t += SQUARE) {
                const uint32_t n = p->x->n - t < SQUARE ? p->x->n - t : SQUARE;
                if (n != open) tiles_open(open = n, TILE_STEP);
                multiply_panel(&part, p, row, n_rows, t, n);
            }
        }
    }
    tiles_close();
}

/* Defines the kernel of a slot: the kernel `below` it for fewer than min_tokens tokens. */
#define KERNEL_OF(slot, below, codes, panel_cols, min_tokens)                                                          \
    void tern_cpu__##slot##_amx(const uint8_t *w, size_t row_bytes, uint32_t n_rows, uint32_t cols,                    \
                                const tern_q8_rows *x, int32_t *dots, size_t dots_stride)                              \
    {                                                                                                                  \
        const tern_cpu__product p = {w, row_bytes, n_rows, cols, x, dots, dots_stride};                                \
        if (x->n < (min_tokens)) tern_cpu__##slot##_##below(w, row_bytes, n_rows, cols, x, dots, dots_stride);         \
        else tern_amx__gemm(&p, codes, panel_cols);                                                                    \
    }

/* As above where four codes lie in a byte, with a product of its own for a few tokens. */
#define TWO_BIT_OF(slot, pair_bytes, low_first)                                                                        \
    void tern_cpu__##slot##_amx(const uint8_t *w, size_t row_bytes, uint32_t n_rows, uint32_t cols,                    \
                                const tern_q8_rows *x, int32_t *dots, size_t dots_stride)                              \
    {                                                                                                                  \
        const tern_cpu__product p = {w, row_bytes, n_rows, cols, x, dots, dots_stride};                                \
        if (x->n < TERN_AMX_FEW_MIN) tern_cpu__##slot##_avx512(w, row_bytes, n_rows, cols, x, dots, dots_stride);      \
        else if (x->n <= TERN_AMX_FEW_MAX) tern_amx__few(&p, pair_bytes, low_first);                                   \
        else tern_amx__gemm(&p, tern_avx512__codes_##slot, TERN_PANEL_COLS);                                           \
    }

TWO_BIT_OF(i2_s, 64, false)
TWO_BIT_OF(tq2_0, 66, true)
KERNEL_OF(tq1_0, avx512, tern_avx512__codes_tq1_0, TERN_PANEL_COLS, MIN_TOKENS)
KERNEL_OF(t160, avx512vbmi, tern_avx512vbmi__codes_t160, TERN_PANEL_COLS_T160, MIN_TOKENS)
