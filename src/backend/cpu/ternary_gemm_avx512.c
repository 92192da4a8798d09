/* Ternary rows times many tokens on AVX-512 with VNNI.
 *
 * 64 rows by up to 640 columns are decoded into a panel that stays in the first cache, laid out so that one register
 * holds four columns of 16 rows; six tokens at a time run over it, four activations broadcast to all lanes, 24 sums in
 * registers. A lane is then a row, so sums leave without a reduction. */
#include <immintrin.h>
#include <string.h>

#include "backend/cpu/ternary.h"

enum { ROWS = 64, LANES = 16, VECTORS = ROWS / LANES, TOKENS = 6, STEP = 4 };

typedef struct panel {
    /* [columns / 4][64 rows][4 columns] raw codes */
    _Alignas(64) uint8_t codes[TERN_PANEL_COLS_MAX / STEP][ROWS][STEP];
    uint32_t steps;
} panel;

/* A tile of the result: up to 64 rows, up to six tokens; `first` when no earlier panel has added to dots. */
typedef struct tile {
    const int8_t *x;
    size_t stride;
    const int32_t *sums;
    int32_t *dots;
    size_t dots_stride;
    uint32_t n_rows;
    bool first;
} tile;

/* Four rows of 16 bytes, of which each lane of 128 bits holds one: in[i] lane l is row 4 l + i. Out: out[j] has dword j
 * of each row. */
static inline void transpose_dwords(const __m512i in[4], __m512i out[4])
{
    const __m512i a = _mm512_unpacklo_epi32(in[0], in[1]), b = _mm512_unpackhi_epi32(in[0], in[1]);
    const __m512i c = _mm512_unpacklo_epi32(in[2], in[3]), d = _mm512_unpackhi_epi32(in[2], in[3]);
    out[0] = _mm512_unpacklo_epi64(a, c);
    out[1] = _mm512_unpackhi_epi64(a, c);
    out[2] = _mm512_unpacklo_epi64(b, d);
    out[3] = _mm512_unpackhi_epi64(b, d);
}

/* 16 columns of 16 rows into place. */
static inline void interleave_16(uint8_t rows[LANES][TERN_PANEL_COLS_MAX], uint32_t c, uint8_t out[][ROWS][STEP])
{
    __m512i in[4], columns[4];
    for (int i = 0; i < 4; i++) {
        in[i] = _mm512_castsi128_si512(_mm_load_si128((const void *)(rows[i] + c)));
        in[i] = _mm512_inserti32x4(in[i], _mm_load_si128((const void *)(rows[4 + i] + c)), 1);
        in[i] = _mm512_inserti32x4(in[i], _mm_load_si128((const void *)(rows[8 + i] + c)), 2);
        in[i] = _mm512_inserti32x4(in[i], _mm_load_si128((const void *)(rows[12 + i] + c)), 3);
    }
    transpose_dwords(in, columns);
    for (int j = 0; j < 4; j++) _mm512_store_si512(out[c / STEP + (uint32_t)j], columns[j]);
}

/* Decodes columns first .. first + n - 1 of n_rows rows; rows past n_rows repeat the last one. */
static void fill_panel(const tern_cpu__product *p, tern_cpu__codes_fn codes, uint32_t row, uint32_t n_rows,
                       uint32_t first, uint32_t n, panel *to)
{
    _Alignas(64) uint8_t rows[LANES][TERN_PANEL_COLS_MAX];
    const uint32_t padded = (n + 63) & ~63u;
    to->steps = padded / STEP;
    for (uint32_t r = 0; r < n_rows; r += LANES) {
        for (uint32_t i = 0; i < LANES; i++) {
            const uint32_t from = r + i < n_rows ? r + i : n_rows - 1;
            memset(rows[i] + padded - 64, 0, 64);
            codes(p->w + (row + from) * p->row_bytes, p->cols, first, n, rows[i]);
        }
        for (uint32_t c = 0; c < padded; c += 16) interleave_16(rows, c, (uint8_t(*)[ROWS][STEP]) & to->codes[0][r]);
    }
}

static inline __m512i broadcast_4(const int8_t *x)
{
    int32_t four;
    memcpy(&four, x, sizeof four);
    return _mm512_set1_epi32(four);
}

static inline __attribute__((always_inline)) void store_rows(const tile *t, int32_t *dots, int32_t sum, uint32_t row,
                                                             __m512i total)
{
    if (row >= t->n_rows) return;
    const __mmask16 rows = t->n_rows - row >= LANES ? 0xffff : (__mmask16)((1u << (t->n_rows - row)) - 1);
    const __m512i before = t->first ? _mm512_set1_epi32(-sum) : _mm512_maskz_loadu_epi32(rows, dots + row);
    _mm512_mask_storeu_epi32(dots + row, rows, _mm512_add_epi32(before, total));
}

/* n_tokens and n_vectors are constants: with every loop over them unrolled, all sums live in registers. */
static inline __attribute__((always_inline)) void multiply(const panel *from, const tile *t, const int n_tokens,
                                                           const int n_vectors)
{
    __m512i sums[TOKENS][VECTORS];
    const int8_t *x[TOKENS];
    TERN_UNROLL for (int i = 0; i < n_tokens; i++)
    {
        x[i] = t->x + (size_t)i * t->stride;
        TERN_UNROLL for (int v = 0; v < n_vectors; v++) sums[i][v] = _mm512_setzero_si512();
    }
    for (size_t s = 0; s < from->steps; s++) {
        __m512i w[VECTORS];
        TERN_UNROLL for (int v = 0; v < n_vectors; v++) w[v] = _mm512_load_si512(from->codes[s][LANES * v]);
        TERN_UNROLL for (int i = 0; i < n_tokens; i++)
        {
            const __m512i four = broadcast_4(x[i] + STEP * s);
            TERN_UNROLL for (int v = 0; v < n_vectors; v++) sums[i][v] = _mm512_dpbusd_epi32(sums[i][v], w[v], four);
        }
    }
    TERN_UNROLL for (int i = 0; i < n_tokens; i++)
    {
        TERN_UNROLL for (int v = 0; v < n_vectors; v++)
            store_rows(t, t->dots + (size_t)i * t->dots_stride, t->sums[i], (uint32_t)(LANES * v), sums[i][v]);
    }
}

#define DEFINE_TILE(tokens)                                                                                            \
    static void multiply_##tokens(const panel *from, const tile *t)                                                    \
    {                                                                                                                  \
        if (t->n_rows > LANES) multiply(from, t, tokens, VECTORS);                                                     \
        else multiply(from, t, tokens, 1);                                                                             \
    }
DEFINE_TILE(1)
DEFINE_TILE(2)
DEFINE_TILE(3)
DEFINE_TILE(4)
DEFINE_TILE(5)
DEFINE_TILE(6)

/* One panel of rows and columns for all tokens. */
static void multiply_panel(const panel *from, const tern_cpu__product *p, uint32_t row, uint32_t n_rows, uint32_t first)
{
    static void (*const tiles[TOKENS])(const panel *, const tile *) = {
        multiply_1, multiply_2, multiply_3, multiply_4, multiply_5, multiply_6,
    };
    const tern_q8_rows *x = p->x;
    for (uint32_t t = 0; t < x->n; t += TOKENS) {
        const tile at = {
            .x = x->x + t * x->stride + first,
            .stride = x->stride,
            .sums = x->sums + t,
            .dots = p->dots + t * p->dots_stride + row,
            .dots_stride = p->dots_stride,
            .n_rows = n_rows,
            .first = first == 0,
        };
        tiles[(x->n - t < TOKENS ? x->n - t : TOKENS) - 1](from, &at);
    }
}

void tern_cpu__ternary_gemm_avx512(const tern_cpu__product *p, tern_cpu__codes_fn codes, uint32_t panel_cols)
{
    panel part;
    for (uint32_t first = 0; first < p->cols; first += panel_cols) {
        const uint32_t n = p->cols - first < panel_cols ? p->cols - first : panel_cols;
        for (uint32_t row = 0; row < p->n_rows; row += ROWS) {
            const uint32_t n_rows = p->n_rows - row < ROWS ? p->n_rows - row : ROWS;
            fill_panel(p, codes, row, n_rows, first, n, &part);
            multiply_panel(&part, p, row, n_rows, first);
        }
    }
}
