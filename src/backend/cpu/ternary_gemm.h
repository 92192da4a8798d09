/* Ternary rows times many tokens, for any vector length: included at the end of one file for each level.
 *
 * A panel of rows is decoded once, a few hundred columns at a time so that it stays in the first cache, and laid out so
 * that one vector holds STEP columns of LANES rows. TOKENS tokens at a time run over it, STEP activations broadcast to
 * all lanes, TOKENS x VECTORS sums in registers. A lane is then a row, so sums leave without a reduction. The file
 * defines before
 *
 *   enum { LANES, VECTORS, TOKENS, RUN };   RUN: steps after which sums must be widened
 *   #define TERN_GEMM                       the function's name
 *   #define TERN_TILES(X)                   X(1) ... X(TOKENS)
 *   typedef vector; typedef sum;            LANES x STEP bytes; the sums of LANES rows
 *   vector load(const uint8_t *aligned);  vector broadcast(const int8_t *four);
 *   sum zero(void);  sum add_step(sum s, vector codes, vector x);
 *   void add_sums(int32_t *dots, uint32_t n, bool first, int32_t start, sum s);
 *       adds to min(n, LANES) rows of one token; `start` stands for what dots held before when this is the first run
 *   void interleave(uint8_t rows[LANES][TERN_PANEL_COLS_MAX], uint32_t c, uint8_t out[][VECTORS * LANES][STEP]);
 *       columns c .. c + 15 of LANES rows to four steps */
#include <string.h>

#include "backend/cpu/ternary.h"

enum { STEP = 4, ROWS = LANES * VECTORS };

typedef struct panel {
    /* raw codes */
    _Alignas(64) uint8_t codes[TERN_PANEL_COLS_MAX / STEP][ROWS][STEP];
    uint32_t steps;
} panel;

/* A tile of the result: up to ROWS rows, up to TOKENS tokens; `first` when no earlier panel has added to dots. */
typedef struct tile {
    const int8_t *x;
    size_t stride;
    const int32_t *sums;
    int32_t *dots;
    size_t dots_stride;
    uint32_t n_rows;
    bool first;
} tile;

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
        for (uint32_t c = 0; c < padded; c += 16)
            interleave(rows, c, (uint8_t(*)[ROWS][STEP])(void *)to->codes[c / STEP][r]);
    }
}

/* Adds the sums of a tile's rows to dots; the first run starts from minus the sum of the token's activations. */
static __attribute__((noinline)) void add_tile(const tile *t, bool first, int n_tokens, int n_vectors,
                                               sum sums[TOKENS][VECTORS])
{
    for (int i = 0; i < n_tokens; i++)
        for (int v = 0; v < n_vectors; v++) {
            const uint32_t row = (uint32_t)(LANES * v), n = t->n_rows > row ? t->n_rows - row : 0;
            add_sums(t->dots + (size_t)i * t->dots_stride + row, n, first, -t->sums[i], sums[i][v]);
        }
}

/* Steps begin .. end - 1. n_tokens and n_vectors are constants: with loops over them unrolled, and nothing else in the
 * function, all sums live in registers. */
static inline __attribute__((always_inline)) void multiply_run(const panel *from, const tile *t, const int n_tokens,
                                                               const int n_vectors, size_t begin, size_t end)
{
    sum sums[TOKENS][VECTORS];
    const int8_t *x[TOKENS];
    TERN_UNROLL for (int i = 0; i < n_tokens; i++)
    {
        x[i] = t->x + (size_t)i * t->stride;
        TERN_UNROLL for (int v = 0; v < n_vectors; v++) sums[i][v] = zero();
    }
    for (size_t s = begin; s < end; s++) {
        vector w[VECTORS];
        TERN_UNROLL for (int v = 0; v < n_vectors; v++) w[v] = load(from->codes[s][LANES * v]);
        TERN_UNROLL for (int i = 0; i < n_tokens; i++)
        {
            const vector four = broadcast(x[i] + STEP * s);
            TERN_UNROLL for (int v = 0; v < n_vectors; v++) sums[i][v] = add_step(sums[i][v], w[v], four);
        }
    }
    sum out[TOKENS][VECTORS];
    TERN_UNROLL for (int i = 0; i < n_tokens; i++)
    {
        TERN_UNROLL for (int v = 0; v < n_vectors; v++) out[i][v] = sums[i][v];
    }
    add_tile(t, t->first && begin == 0, n_tokens, n_vectors, out);
}

static inline __attribute__((always_inline)) void multiply(const panel *from, const tile *t, const int n_tokens,
                                                           const int n_vectors)
{
    for (uint32_t s = 0; s < from->steps; s += RUN)
        multiply_run(from, t, n_tokens, n_vectors, s, from->steps - s < RUN ? from->steps : s + RUN);
}

#define DEFINE_TILE(tokens)                                                                                            \
    static void multiply_##tokens(const panel *from, const tile *t)                                                    \
    {                                                                                                                  \
        if (t->n_rows > LANES) multiply(from, t, tokens, VECTORS);                                                     \
        else multiply(from, t, tokens, 1);                                                                             \
    }
#define NAME_TILE(tokens) multiply_##tokens,
TERN_TILES(DEFINE_TILE)

/* One panel of rows and columns for all tokens. */
static void multiply_panel(const panel *from, const tern_cpu__product *p, uint32_t row, uint32_t n_rows, uint32_t first)
{
    static void (*const tiles[TOKENS])(const panel *, const tile *) = {TERN_TILES(NAME_TILE)};
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

void TERN_GEMM(const tern_cpu__product *p, tern_cpu__codes_fn codes, uint32_t panel_cols)
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
