/* Dense weights times activations that are int8 by blocks, for many tokens, in the tiles of AMX: one product for all
 * encodings.
 *
 * A panel of PANEL_ROWS rows by PANEL_COLS columns is unpacked to signed bytes. Where runs of columns have integer
 * scales of their own, code times scale does not fit a byte. Two digits to the base 256 then take its place, high * 256
 * + low: the tiles add up the scaled sum of a whole block at full speed. The two tiles of weights in a square
 * are then the digits of the same 16 rows, else they are 32 rows. AVX-512 takes fewer tokens. */
#include "backend/cpu/floats/avx512.h"

#include "backend/cpu/blocks/scales.h"
#include "backend/cpu/blocks/unpack_small.h"

#undef LEVEL
#define LEVEL amx
#include "backend/cpu/floats/floats.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/tiles/interleave_avx512.h"
#include "backend/cpu/tiles/tiles_amx.h"

enum {
    PANEL_ROWS = 64,
    PANEL_COLS = 1024, /* fewer cost more of what each panel takes of a token, more the second cache */
    PANEL_BLOCKS = PANEL_COLS / 32,
    GROUPS = PANEL_ROWS / TILE,
    ROWS_AHEAD = 8,
    MIN_TOKENS = 12,
    MIN_TOKENS_SCALED = 20 /* measured: panels cost more than they save for fewer */
};

/* The arguments of a tern_blocks_fn. */
typedef struct product {
    const uint8_t *w;
    size_t row_bytes;
    uint32_t n_rows, cols;
    const tern_q8_blocks *x;
    float *y;
    size_t y_stride;
} product;

typedef struct panel {
    _Alignas(64) int8_t digits[2][GROUPS][PANEL_COLS / 4][TILE][4]; /* low and high; without scales the first alone */
    _Alignas(64) uint32_t minima[PANEL_BLOCKS][PANEL_ROWS];         /* of two runs of 32 columns, as words */
    _Alignas(64) uint16_t d[PANEL_BLOCKS][PANEL_ROWS];
    _Alignas(64) uint16_t dmin[PANEL_BLOCKS][PANEL_ROWS];
} panel;

/* Rows of one group before they are interleaved. */
typedef struct group {
    _Alignas(64) int8_t digits[2][TILE][PANEL_COLS];
} group;

/* The scales of a square's tokens beside their bytes. */
typedef struct tokens {
    tile_tokens rows;
    float scales[SQUARE][PANEL_BLOCKS];
    int32_t pairs[SQUARE][PANEL_BLOCKS]; /* sums of runs of 32 columns, in words */
    _Alignas(64) float y[SQUARE][PANEL_ROWS];
} tokens;

/* Pairs of runs of a block. */
INLINE uint32_t pairs_of(const form e)
{
    return e.elements < 64 ? 1 : e.elements / 64;
}

/* 32 columns, i of their block: code times scale as two digits. */
INLINE void store_digits(const form e, const unpacked *u, uint32_t i, int8_t *low, int8_t *high)
{
    const __m512i upper = _mm512_inserti64x4(_mm512_setzero_si512(), _mm256_set1_epi16(1), 1),
                  runs = _mm512_add_epi16(_mm512_set1_epi16((int16_t)(2 * i)), upper),
                  scales = _mm512_permutexvar_epi16(runs, _mm512_castsi256_si512((__m256i)u->scales)),
                  codes = _mm512_sub_epi16(_mm512_cvtepu8_epi16((__m256i)u->codes[i]),
                                           _mm512_set1_epi16((int16_t)e.offset)),
                  all = _mm512_mullo_epi16(codes, scales),
                  rounded = _mm512_srai_epi16(_mm512_add_epi16(all, _mm512_set1_epi16(128)), 8);
    _mm256_store_si256((void *)low, _mm512_cvtepi16_epi8(all));
    _mm256_store_si256((void *)high, _mm512_cvtepi16_epi8(rounded));
}

INLINE void store_codes(const form e, codes_32 codes, int8_t *out)
{
    codes -= (uint8_t)e.offset;
    memcpy(out, &codes, sizeof codes);
}

/* Minima of runs of 16 columns, of which two and two are the same, in pairs. */
INLINE uint32_t minima_pair(const unpacked *u, uint32_t i)
{
    return (uint16_t)u->minima[4 * i] | (uint32_t)(uint16_t)u->minima[4 * i + 2] << 16;
}

INLINE void fill_row(const form e, const uint8_t *in, uint32_t depth, uint32_t row, panel *p, group *out)
{
    int8_t *low = out->digits[0][row % TILE], *high = out->digits[1][row % TILE];
    for (uint32_t at = 0, b = 0; at < depth; at += e.elements, b++, in += e.bytes) {
        unpacked u;
        e.unpack(in, &u);
        p->d[b][row] = u.d;
        UNROLL
        for (uint32_t i = 0; i < e.elements / 32; i++) {
            if (e.scaled) store_digits(e, &u, i, low + at + 32 * i, high + at + 32 * i);
            else store_codes(e, u.codes[i], low + at + 32 * i);
        }
        if (!e.minima) continue;
        p->dmin[b][row] = u.dmin;
        for (uint32_t i = 0; e.scaled && i < pairs_of(e); i++) p->minima[b * pairs_of(e) + i][row] = minima_pair(&u, i);
    }
}

/* Prefetches `depth` columns of a row from `at` on. */
INLINE void prefetch_row(const form e, const product *p, uint32_t row, uint32_t at, uint32_t depth)
{
    const uint8_t *from = p->w + row * p->row_bytes + (size_t)(at / e.elements) * e.bytes;
    for (uint32_t i = 0; i < depth / e.elements * e.bytes; i += 64) __builtin_prefetch(from + i, 0, 2);
}

/* State of a row that is being unpacked: its next columns, of the next panel; and where no panel was before, the same
 * columns of a row below. Hardware that fetches ahead does not see such short pieces coming. */
INLINE void prefetch_next(const form e, const product *p, uint32_t row, uint32_t at, uint32_t depth)
{
    const uint32_t left = p->cols - at - depth, below = row + ROWS_AHEAD;
    prefetch_row(e, p, row, at + depth, left < PANEL_COLS ? left : PANEL_COLS);
    if (at == 0 && below < p->n_rows) prefetch_row(e, p, below, 0, depth);
}

/* Rows past the last are copies of it. */
INLINE void fill_panel(const form e, const product *p, uint32_t first, uint32_t at, uint32_t depth, panel *out)
{
    group rows;
    for (uint32_t g = 0; g < GROUPS; g++) {
        for (uint32_t r = 0; r < TILE; r++) {
            const uint32_t wanted = first + g * TILE + r, row = wanted < p->n_rows ? wanted : p->n_rows - 1;
            prefetch_next(e, p, row, at, depth);
            fill_row(e, p->w + row * p->row_bytes + (size_t)(at / e.elements) * e.bytes, depth, g * TILE + r, out,
                     &rows);
        }
        for (uint32_t digit = 0; digit <= e.scaled; digit++)
            for (uint32_t c = 0; c < depth; c += 16)
                tern_avx512__interleave(rows.digits[digit][0] + c, PANEL_COLS, out->digits[digit][g][c / 4], 4 * TILE);
    }
}

INLINE uint32_t rows_of_panel(const product *p, uint32_t first)
{
    return p->n_rows - first < PANEL_ROWS ? p->n_rows - first : PANEL_ROWS;
}

/* The lanes of vector i that n numbers fill. */
INLINE __mmask16 lanes_of(uint32_t n, uint32_t i)
{
    const uint32_t left = n > i * VEC ? n - i * VEC : 0;
    return left >= VEC ? 0xffff : (__mmask16)((1u << left) - 1);
}

/* The sums of a token's runs of 32 columns: pairs of words; or words that are alone, where blocks are not longer. */
INLINE void take_sums(const form e, const int32_t *sums, uint32_t depth, int32_t *pairs)
{
    for (uint32_t c = 0; c < depth; c += 256, sums += 16) {
        const __m512i runs = _mm512_maskz_loadu_epi32(lanes_of((depth - c) / TERN_BLOCKS_RUN, 0), sums),
                      twice = _mm512_add_epi32(runs, _mm512_srli_epi64(runs, 32));
        if (e.elements < 64) _mm256_storeu_si256((void *)(pairs + c / 32), _mm512_cvtepi64_epi32(twice));
        else _mm_storeu_si128((void *)(pairs + c / 64), _mm512_cvtepi64_epi16(twice));
    }
}

/* n tokens from t on; y so far. */
INLINE void take_tokens(const form e, const product *p, uint32_t t, uint32_t n, uint32_t first, uint32_t at,
                        uint32_t depth, tokens *out)
{
    const uint32_t n_rows = rows_of_panel(p, first);
    out->rows = (tile_tokens){p->x->x + t * p->x->stride + at, p->x->stride, n};
    for (uint32_t i = 0; i < n; i++) {
        const size_t place = (size_t)(t + i) * p->cols + at;
        const float *scales = p->x->scales + place / e.elements, *y = p->y + (t + i) * p->y_stride + first;
        UNROLL
        for (uint32_t v = 0; v * VEC * e.elements < PANEL_COLS; v++)
            vec_store(out->scales[i] + v * VEC,
                      _mm512_maskz_loadu_ps(lanes_of(depth / e.elements, v), scales + v * VEC));
        UNROLL
        for (uint32_t g = 0; g < GROUPS; g++)
            vec_store(out->y[i] + g * VEC, at ? _mm512_maskz_loadu_ps(lanes_of(n_rows, g), y + g * VEC) : vec_set(0));
        if (e.minima) take_sums(e, p->x->sums + place / TERN_BLOCKS_RUN, depth, out->pairs[i]);
    }
}

INLINE void give_tokens(const product *p, uint32_t t, uint32_t first, const tokens *in)
{
    for (uint32_t i = 0; i < in->rows.n; i++) {
        float *y = p->y + (t + i) * p->y_stride + first;
        UNROLL
        for (uint32_t g = 0; g < GROUPS; g++)
            _mm512_mask_storeu_ps(y + g * VEC, lanes_of(rows_of_panel(p, first), g), vec_load(in->y[i] + g * VEC));
    }
}

/* y - (dmin * dx) * M of a block whose first pair of minima and of sums these are. */
INLINE vec less_minima(const form e, const uint32_t *minima, const int32_t *pairs, vec dmin_dx, vec y)
{
    ivec m = ivec_zero();
    if (!e.scaled) return vec_sub(y, vec_mul(dmin_dx, _mm512_cvtepi32_ps(_mm512_set1_epi32(*pairs))));
    UNROLL
    for (uint32_t i = 0; i < pairs_of(e); i++)
        m = _mm512_dpwssd_epi32(m, _mm512_load_si512(minima + i * PANEL_ROWS), _mm512_set1_epi32(pairs[i]));
    return vec_sub(y, vec_mul(dmin_dx, _mm512_cvtepi32_ps(m)));
}

/* Adds block b of 16 rows and of n tokens from `first` on, whose integers the tiles have made: sums[n][SQUARE]. */
INLINE void add_block(const form e, const panel *p, uint32_t row, uint32_t b, const int32_t *sums, uint32_t first,
                      uint32_t n, tokens *io)
{
    const vec d = load_d(e, &p->d[b][row]), dmin = e.minima ? vec_load_f16(&p->dmin[b][row]) : vec_set(0);
    const float *scales = &io->scales[first][b];
    const int32_t *pairs = &io->pairs[first][b * pairs_of(e)];
    const uint32_t *minima = &p->minima[b * pairs_of(e)][row];
    float *to = &io->y[first][row];
    UNROLL
    for (uint32_t t = 0; t < n; t++, sums += SQUARE, scales += PANEL_BLOCKS, pairs += PANEL_BLOCKS) {
        ivec total = _mm512_load_si512(sums);
        if (e.scaled) total = ivec_add(total, _mm512_slli_epi32(_mm512_load_si512(sums + TILE), 8));
        const vec dx = vec_set(*scales), sum = vec_mul(vec_mul(d, dx), _mm512_cvtepi32_ps(total)),
                  y = vec_add(vec_load(to + t * PANEL_ROWS), sum);
        vec_store(to + t * PANEL_ROWS, e.minima ? less_minima(e, minima, pairs, vec_mul(dmin, dx), y) : y);
    }
}

/* Groups of rows that a square serves. */
INLINE uint32_t groups_of(const form e)
{
    return e.scaled ? 1 : 2;
}

INLINE uint32_t step_of(const form e)
{
    return e.elements < TILE_STEP ? e.elements : TILE_STEP;
}

/* A square of a panel: a block of one or two groups of rows. Those of a block follow one another, so that its columns
 * of the tokens stay in the first cache. */
typedef struct place {
    uint32_t group, block;
} place;

INLINE place place_of(const form e, uint32_t i, uint32_t n_groups)
{
    return (place){i % n_groups * groups_of(e), i / n_groups};
}

/* The tiles' part of step s of a square. */
INLINE void multiply_step(const form e, const panel *p, place at, uint32_t s, const tokens *in)
{
    const uint32_t column = at.block * e.elements + s * step_of(e);
    const int8_t *w0 = p->digits[0][at.group][column / 4][0],
                 *w1 = e.scaled ? p->digits[1][at.group][column / 4][0] : p->digits[0][at.group + 1][column / 4][0];
    tiles_step(&in->rows, column, w0, w1);
}

/* The floats' part of n tokens of a square, n at most TILE. */
INLINE void add_tokens(const form e, const panel *p, place at, const square *in, uint32_t first, uint32_t n, tokens *io)
{
    for (uint32_t j = 0; j < groups_of(e) && first < io->rows.n; j++)
        add_block(e, p, (at.group + j) * TILE, at.block, &in->sums[first][j * TILE], first, n, io);
}

/* All rows of a panel with the tokens of a square. The tiles are always a square ahead of the floats, and steps of
 * theirs alternate with tokens of the floats, so that both are among the instructions that the core has in hand. */
INLINE void multiply_squares(const form e, const panel *p, uint32_t n_rows, uint32_t depth, tokens *io)
{
    const uint32_t served = groups_of(e) * TILE, n_groups = (n_rows + served - 1) / served;
    const uint32_t n = n_groups * (depth / e.elements), n_steps = e.elements / step_of(e);
    const uint32_t n_parts = n_steps > 2 ? n_steps : 2, n_tokens = SQUARE / n_parts;
    square sums[2];
    if (io->rows.n < SQUARE) memset(sums, 0, sizeof sums); /* of tokens that are not there */
    for (uint32_t i = 0; i <= n; i++) {
        const place next = place_of(e, i, n_groups), done = place_of(e, i - (i > 0), n_groups);
        if (i < n) tiles_zero();
        UNROLL
        for (uint32_t part = 0; part < n_parts; part++) {
            if (i < n && part < n_steps) multiply_step(e, p, next, part, io);
            if (i) add_tokens(e, p, done, &sums[(i + 1) % 2], part * n_tokens, n_tokens, io);
        }
        if (i < n) tiles_store(&sums[i % 2]);
    }
}

INLINE void many_tokens(const form e, const product *p)
{
    panel memory;
    tokens io;
    uint32_t open = 0;
    memset(&io, 0, sizeof io);
    for (uint32_t first = 0; first < p->n_rows; first += PANEL_ROWS)
        for (uint32_t at = 0; at < p->cols; at += PANEL_COLS) {
            const uint32_t depth = p->cols - at < PANEL_COLS ? p->cols - at : PANEL_COLS;
            fill_panel(e, p, first, at, depth, &memory);
            for (uint32_t t = 0; t < p->x->n; t += SQUARE) {
                const uint32_t n = p->x->n - t < SQUARE ? p->x->n - t : SQUARE;
                if (n != open) tiles_open(open = n, step_of(e));
                take_tokens(e, p, t, n, first, at, depth, &io);
                multiply_squares(e, &memory, rows_of_panel(p, first), depth, &io);
                give_tokens(p, t, first, &io);
            }
        }
    tiles_close();
}

/* Defines the kernel of one encoding. */
#define BLOCKS(slot, ...)                                                                                              \
    void KERNEL_NAME(int8_##slot)(const uint8_t *w, size_t row_bytes, uint32_t n_rows, uint32_t cols,                  \
                                  const tern_q8_blocks *x, float *y, size_t y_stride)                                  \
    {                                                                                                                  \
        const form e = {read_##slot, __VA_ARGS__};                                                                     \
        const product p = {w, row_bytes, n_rows, cols, x, y, y_stride};                                                \
        if (x->n < (e.scaled ? MIN_TOKENS_SCALED : MIN_TOKENS))                                                        \
            tern_cpu__int8_##slot##_avx512(w, row_bytes, n_rows, cols, x, y, y_stride);                                \
        else many_tokens(e, &p);                                                                                       \
    }

BLOCKS_LIST(BLOCKS)
SMALL_BLOCKS_LIST(BLOCKS)
