/* The product of two-bit codes with some tokens on AVX-512 with VNNI: tiles of three rows by eight tokens.
 *
 * A group of codes is unpacked once for eight tokens, and what is loaded of a token meets three rows, so that nearly
 * all that is done is multiplying. Sums of a tile stay in registers over a run of columns. */
#include "backend/cpu/ternary/few_avx512.h"

#include <immintrin.h>

enum {
    GROUP = 128,
    TILE_ROWS = 3,
    TILE_TOKENS = 8,
    RUN_COLS = 3072, /* of eight tokens: half of the first cache */
    NEAR_ROWS = 24   /* that stay in the caches while eight tokens after the other eight are multiplied with them */
};

typedef struct tile {
    const uint8_t *w;
    size_t row_bytes;
    uint32_t pair_bytes, cols;
    __m512i shift[2]; /* of elements 0-63 and 64-127 of a group */
    const int8_t *x;
    size_t x_stride;
    const int32_t *sums; /* of the tokens; NULL: dots have been begun */
    int32_t *dots;
    size_t dots_stride;
} tile;

/* Sums of the 16 numbers of each of eight vectors. */
static inline __m256i sums_of(const __m512i v[TILE_TOKENS])
{
    __m512i two[4], four[2];
    TERN_UNROLL for (int i = 0; i < 4; i++) two[i] =
        _mm512_add_epi32(_mm512_unpacklo_epi32(v[2 * i], v[2 * i + 1]), _mm512_unpackhi_epi32(v[2 * i], v[2 * i + 1]));
    TERN_UNROLL for (int i = 0; i < 2; i++) four[i] = _mm512_add_epi32(
        _mm512_unpacklo_epi64(two[2 * i], two[2 * i + 1]), _mm512_unpackhi_epi64(two[2 * i], two[2 * i + 1]));
    const __m512i all = _mm512_add_epi32(_mm512_shuffle_i64x2(four[0], four[1], _MM_SHUFFLE(1, 0, 1, 0)),
                                         _mm512_shuffle_i64x2(four[0], four[1], _MM_SHUFFLE(3, 2, 3, 2)));
    const __m256i low = _mm512_castsi512_si256(all), high = _mm512_extracti64x4_epi64(all, 1);
    return _mm256_add_epi32(_mm256_permute2x128_si256(low, high, 0x20), _mm256_permute2x128_si256(low, high, 0x31));
}

/* 64 columns of one half of a group times all tokens of the tile. */
static inline __attribute__((always_inline)) void add_half(const tile *t, const uint8_t *w, const int8_t *x, int half,
                                                           const int n_tokens, const int n_rows,
                                                           __m512i sums[TILE_ROWS][TILE_TOKENS])
{
    const __m512i low = _mm512_set1_epi8(3);
    __m512i codes[TILE_ROWS];
    TERN_UNROLL for (int r = 0; r < n_rows; r++)
    {
        const __m256i group = _mm256_loadu_si256((const void *)(w + (size_t)r * t->row_bytes));
        codes[r] = _mm512_and_si512(_mm512_srlv_epi32(_mm512_broadcast_i64x4(group), t->shift[half]), low);
    }
    TERN_UNROLL for (int i = 0; i < n_tokens; i++)
    {
        const __m512i of = _mm512_loadu_si512(x + (size_t)i * t->x_stride + 64 * half);
        TERN_UNROLL for (int r = 0; r < n_rows; r++) sums[r][i] = _mm512_dpbusd_epi32(sums[r][i], codes[r], of);
    }
}

static inline __attribute__((always_inline)) void add_group(const tile *t, const uint8_t *w, const int8_t *x,
                                                            const int n_tokens, const int n_rows,
                                                            __m512i sums[TILE_ROWS][TILE_TOKENS])
{
    add_half(t, w, x, 0, n_tokens, n_rows, sums);
    add_half(t, w, x, 1, n_tokens, n_rows, sums);
}

static inline void give(const tile *t, int n_tokens, int row, __m256i sums)
{
    _Alignas(32) int32_t of[TILE_TOKENS];
    _mm256_store_si256((__m256i *)of, sums);
    for (int i = 0; i < n_tokens; i++) {
        int32_t *to = t->dots + (size_t)i * t->dots_stride + row;
        *to = of[i] + (t->sums ? -t->sums[i] : *to);
    }
}

static inline __attribute__((always_inline)) void multiply(const tile *t, const int n_tokens, const int n_rows)
{
    __m512i sums[TILE_ROWS][TILE_TOKENS];
    const uint8_t *w = t->w;
    const int8_t *x = t->x;
    TERN_UNROLL for (int r = 0; r < TILE_ROWS; r++)
    {
        TERN_UNROLL for (int i = 0; i < TILE_TOKENS; i++) sums[r][i] = _mm512_setzero_si512();
    }
    for (uint32_t c = 0; c + 2 * GROUP <= t->cols; c += 2 * GROUP, w += t->pair_bytes, x += 2 * GROUP) {
        TERN_UNROLL for (int r = 0; r < n_rows; r++)
            _mm_prefetch((const char *)w + (size_t)(r + n_rows) * t->row_bytes, _MM_HINT_T0);
        add_group(t, w, x, n_tokens, n_rows, sums);
        add_group(t, w + GROUP / 4, x + GROUP, n_tokens, n_rows, sums);
    }
    if (t->cols % (2 * GROUP)) add_group(t, w, x, n_tokens, n_rows, sums);
    TERN_UNROLL for (int r = 0; r < n_rows; r++) give(t, n_tokens, r, sums_of(sums[r]));
}

#define DEFINE_TILE(tokens)                                                                                            \
    static void three_rows_##tokens(const tile *t)                                                                     \
    {                                                                                                                  \
        multiply(t, tokens, TILE_ROWS);                                                                                \
    }                                                                                                                  \
    static void row_##tokens(const tile *t)                                                                            \
    {                                                                                                                  \
        multiply(t, tokens, 1);                                                                                        \
    }
DEFINE_TILE(1)
DEFINE_TILE(2)
DEFINE_TILE(3)
DEFINE_TILE(4)
DEFINE_TILE(5)
DEFINE_TILE(6)
DEFINE_TILE(7)
DEFINE_TILE(8)

typedef void (*tile_fn)(const tile *t);
static const tile_fn three_rows[] = {three_rows_1, three_rows_2, three_rows_3, three_rows_4,
                                     three_rows_5, three_rows_6, three_rows_7, three_rows_8};
static const tile_fn one_row[] = {row_1, row_2, row_3, row_4, row_5, row_6, row_7, row_8};

/* Rows begin .. end - 1 times up to eight tokens, whose first columns `at` has. */
static void multiply_rows(tile at, uint32_t begin, uint32_t end, uint32_t n_tokens)
{
    at.w += begin * at.row_bytes;
    at.dots += begin;
    for (uint32_t r = begin; r < end;) {
        const uint32_t n = end - r >= TILE_ROWS ? TILE_ROWS : 1;
        (n > 1 ? three_rows : one_row)[n_tokens - 1](&at);
        at.w += n * at.row_bytes;
        at.dots += n;
        r += n;
    }
}

static __m512i halves(int low, int high)
{
    return _mm512_inserti64x4(_mm512_set1_epi32(low), _mm256_set1_epi32(high), 1);
}

/* All rows and tokens, columns first .. first + cols - 1. */
static void multiply_run(const tern_cpu__product *p, tile at, uint32_t first)
{
    const tern_q8_rows *x = p->x;
    at.w = p->w + first / (2 * GROUP) * at.pair_bytes;
    for (uint32_t row = 0; row < p->n_rows; row += NEAR_ROWS)
        for (uint32_t i = 0; i < x->n; i += TILE_TOKENS) {
            at.x = x->x + i * x->stride + first;
            at.sums = first ? NULL : x->sums + i;
            at.dots = p->dots + i * p->dots_stride;
            multiply_rows(at, row, p->n_rows - row < NEAR_ROWS ? p->n_rows : row + NEAR_ROWS,
                          x->n - i < TILE_TOKENS ? x->n - i : TILE_TOKENS);
        }
}

void tern_avx512__few(const tern_cpu__product *p, uint32_t pair_bytes, const uint8_t shift[4])
{
    tile at = {.row_bytes = p->row_bytes,
               .pair_bytes = pair_bytes,
               .shift = {halves(shift[0], shift[1]), halves(shift[2], shift[3])},
               .x_stride = p->x->stride,
               .dots_stride = p->dots_stride};
    for (uint32_t first = 0; first < p->cols; first += RUN_COLS) {
        at.cols = p->cols - first < RUN_COLS ? p->cols - first : RUN_COLS;
        multiply_run(p, at, first);
    }
}
