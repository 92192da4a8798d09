/* Ternary rows times many tokens on WebAssembly SIMD128.
 *
 * Two rows share a 16-bit number: code + 2^14 * other code, codes -1 to 1. Pairs of products are summed to 32 bits: the
 * lower 14 hold the sum of the one row, the rest that of the other. RUN pairs sum to at most 31 * 256 < 2^13.
 * Then both are taken apart and added to sums of their own.
 *
 * A panel of 16 rows is decoded for up to 32 tokens, whose activations wait as 16-bit numbers; a vector is two columns
 * of eight rows, and tiles are 16 rows by four tokens. */
#include <string.h>
#include <wasm_simd128.h>

#include "backend/cpu/ternary/ternary.h"

enum { STEP = 2, LANES = 4, GROUP = 2 * LANES, VECTORS = 2, ROWS = VECTORS * GROUP, TILE = 4, TOKENS = 32, RUN = 31 };
enum { STEPS = TERN_PANEL_COLS_MAX / STEP };

#define ALWAYS static inline __attribute__((always_inline))

typedef struct panel {
    int16_t codes[STEPS][VECTORS][LANES][STEP];
    int16_t x[TOKENS][TERN_PANEL_COLS_MAX];
    uint32_t steps;
} panel;

/* Raw codes of two rows in one number for each column. */
ALWAYS v128_t two_rows(v128_t a, v128_t b)
{
    const v128_t centre = wasm_i16x8_splat(1 + (1 << 14));
    return wasm_i16x8_sub(wasm_i16x8_add(a, wasm_i16x8_shl(b, 14)), centre);
}

/* Four steps: rows i are four pairs of columns each. */
ALWAYS void store_steps(const v128_t *rows, int16_t (*to)[VECTORS][LANES][STEP])
{
    const v128_t a = wasm_i32x4_shuffle(rows[0], rows[1], 0, 4, 1, 5);
    const v128_t b = wasm_i32x4_shuffle(rows[2], rows[3], 0, 4, 1, 5);
    const v128_t c = wasm_i32x4_shuffle(rows[0], rows[1], 2, 6, 3, 7);
    const v128_t d = wasm_i32x4_shuffle(rows[2], rows[3], 2, 6, 3, 7);
    wasm_v128_store(to[0][0], wasm_i64x2_shuffle(a, b, 0, 2));
    wasm_v128_store(to[1][0], wasm_i64x2_shuffle(a, b, 1, 3));
    wasm_v128_store(to[2][0], wasm_i64x2_shuffle(c, d, 0, 2));
    wasm_v128_store(to[3][0], wasm_i64x2_shuffle(c, d, 1, 3));
}

static void interleave(uint8_t rows[GROUP][TERN_PANEL_COLS_MAX], uint32_t c, int16_t (*to)[VECTORS][LANES][STEP])
{
    v128_t low[LANES], high[LANES];
    for (int i = 0; i < LANES; i++) {
        const v128_t a = wasm_v128_load(rows[i] + c), b = wasm_v128_load(rows[LANES + i] + c);
        low[i] = two_rows(wasm_u16x8_extend_low_u8x16(a), wasm_u16x8_extend_low_u8x16(b));
        high[i] = two_rows(wasm_u16x8_extend_high_u8x16(a), wasm_u16x8_extend_high_u8x16(b));
    }
    store_steps(low, to);
    store_steps(high, to + 4);
}

/* Columns first .. first + n - 1 of n_rows rows; rows past n_rows repeat the last one. */
static void fill_rows(const tern_cpu__product *p, tern_cpu__codes_fn codes, uint32_t row, uint32_t n_rows,
                      uint32_t first, uint32_t n, panel *to)
{
    uint8_t rows[GROUP][TERN_PANEL_COLS_MAX];
    const uint32_t padded = (n + 63) & ~63u;
    for (uint32_t v = 0; v < VECTORS; v++) {
        for (uint32_t i = 0; i < GROUP; i++) {
            const uint32_t r = v * GROUP + i, from = r < n_rows ? r : n_rows - 1;
            memset(rows[i] + padded - 64, 0, 64);
            codes(p->w + (row + from) * p->row_bytes, p->cols, first, n, rows[i]);
        }
        for (uint32_t c = 0; c < padded; c += 16)
            interleave(rows, c, (int16_t(*)[VECTORS][LANES][STEP])(void *)to->codes[c / STEP][v]);
    }
}

/* Activations of up to TOKENS tokens; those past the columns are zeros (tern_q8_rows). */
static void fill_x(const tern_q8_rows *x, uint32_t token, uint32_t n_tokens, uint32_t first, uint32_t n, panel *to)
{
    const uint32_t padded = (n + 63) & ~63u;
    to->steps = padded / STEP;
    for (uint32_t t = 0; t < n_tokens; t++)
        for (uint32_t c = 0; c < padded; c += 8)
            wasm_v128_store(to->x[t] + c, wasm_i16x8_load8x8(x->x + (token + t) * x->stride + first + c));
}

/* A tile's sums of one run, taken apart and added. */
ALWAYS void take_apart(v128_t sum, v128_t *wide)
{
    const v128_t low = wasm_i32x4_shr(wasm_i32x4_shl(sum, 18), 18);
    wide[0] = wasm_i32x4_add(wide[0], low);
    wide[1] = wasm_i32x4_add(wide[1], wasm_i32x4_shr(wasm_i32x4_sub(sum, low), 14));
}

/* Steps begin .. end - 1, at most RUN. */
ALWAYS void multiply_run(const panel *from, uint32_t token, int n_tokens, uint32_t begin, uint32_t end,
                         v128_t wide[TILE][VECTORS][2])
{
    v128_t sums[TILE][VECTORS];
    TERN_UNROLL for (int t = 0; t < n_tokens; t++)
    {
        TERN_UNROLL for (int v = 0; v < VECTORS; v++) sums[t][v] = wasm_i32x4_splat(0);
    }
    for (uint32_t s = begin; s < end; s++) {
        v128_t w[VECTORS];
        TERN_UNROLL for (int v = 0; v < VECTORS; v++) w[v] = wasm_v128_load(from->codes[s][v]);
        TERN_UNROLL for (int t = 0; t < n_tokens; t++)
        {
            const v128_t x = wasm_v128_load32_splat(from->x[token + (uint32_t)t] + STEP * s);
            TERN_UNROLL for (int v = 0; v < VECTORS; v++) sums[t][v] =
                wasm_i32x4_add(sums[t][v], wasm_i32x4_dot_i16x8(w[v], x));
        }
    }
    TERN_UNROLL for (int t = 0; t < n_tokens; t++)
    {
        TERN_UNROLL for (int v = 0; v < VECTORS; v++) take_apart(sums[t][v], wide[t][v]);
    }
}

/* Sums of n rows of one token to dots. */
static void add_sums(const v128_t (*wide)[2], uint32_t n, bool first, int32_t *dots)
{
    int32_t rows[ROWS];
    for (int v = 0; v < VECTORS; v++)
        for (int half = 0; half < 2; half++) wasm_v128_store(rows + v * GROUP + half * LANES, wide[v][half]);
    for (uint32_t i = 0; i < n; i++) dots[i] = rows[i] + (first ? 0 : dots[i]);
}

ALWAYS void multiply(const panel *from, uint32_t token, const int n_tokens, uint32_t n_rows, bool first, int32_t *dots,
                     size_t dots_stride)
{
    v128_t wide[TILE][VECTORS][2];
    for (int i = 0; i < n_tokens * VECTORS * 2; i++) wide[0][0][i] = wasm_i32x4_splat(0);
    for (uint32_t s = 0; s < from->steps; s += RUN)
        multiply_run(from, token, n_tokens, s, from->steps - s < RUN ? from->steps : s + RUN, wide);
    for (int t = 0; t < n_tokens; t++)
        add_sums((const v128_t(*)[2])wide[t], n_rows, first, dots + (size_t)t * dots_stride);
}

static void multiply_some(const panel *from, uint32_t token, uint32_t n, uint32_t n_rows, bool first, int32_t *dots,
                          size_t dots_stride)
{
    switch (n) {
    case 1: multiply(from, token, 1, n_rows, first, dots, dots_stride); break;
    case 2: multiply(from, token, 2, n_rows, first, dots, dots_stride); break;
    case 3: multiply(from, token, 3, n_rows, first, dots, dots_stride); break;
    default: multiply(from, token, TILE, n_rows, first, dots, dots_stride); break;
    }
}

/* Columns first .. first + n - 1 for tokens token .. token + n_tokens - 1. */
static void multiply_panel(const tern_cpu__product *p, tern_cpu__codes_fn codes, uint32_t token, uint32_t n_tokens,
                           uint32_t first, uint32_t n)
{
    panel part;
    fill_x(p->x, token, n_tokens, first, n, &part);
    for (uint32_t row = 0; row < p->n_rows; row += ROWS) {
        const uint32_t n_rows = p->n_rows - row < ROWS ? p->n_rows - row : ROWS;
        fill_rows(p, codes, row, n_rows, first, n, &part);
        for (uint32_t t = 0; t < n_tokens; t += TILE)
            multiply_some(&part, t, n_tokens - t < TILE ? n_tokens - t : TILE, n_rows, first == 0,
                          p->dots + (token + t) * p->dots_stride + row, p->dots_stride);
    }
}

void tern_cpu__ternary_gemm_simd128(const tern_cpu__product *p, tern_cpu__codes_fn codes, uint32_t panel_cols)
{
    for (uint32_t token = 0; token < p->x->n; token += TOKENS) {
        const uint32_t n_tokens = p->x->n - token < TOKENS ? p->x->n - token : TOKENS;
        for (uint32_t first = 0; first < p->cols; first += panel_cols) {
            const uint32_t n = p->cols - first < panel_cols ? p->cols - first : panel_cols;
            multiply_panel(p, codes, token, n_tokens, first, n);
        }
    }
}
