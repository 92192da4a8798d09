/* Ternary rows of two-bit codes times some tokens in the tiles of AMX.
 *
 * Weights are the left side: 64 packed bytes of a row are 64 codes of each of four fields, so that one mask makes a row
 * of a tile and nothing is moved. Fields are shifted down by 4 bits at most: those that stay 2 bits too high have sums
 * of their own, which are shifted once at the end, exactly. Tokens are the right side, 16 at a time, interleaved once
 * for all rows in the order that fields have. While tiles multiply 256 columns of 32 rows, the next ones are unpacked.
 */
#include <string.h>

#include "backend/cpu/ternary/few_amx.h"
#include "backend/cpu/tiles/interleave_avx512.h"
#include "backend/cpu/tiles/tiles_amx.h"

enum {
    ROWS = 2 * TILE,
    PAIR = 256, /* columns of 64 packed bytes */
    FIELDS = 4,
    FIELD_BYTES = 32, /* of a group of 128 columns */
    RUN = 4096,       /* columns whose tokens lie interleaved at once */
    GROUPS = TERN_AMX_FEW_MAX / TILE
};

typedef uint8_t codes[FIELDS][ROWS][TILE_STEP];

typedef struct few {
    _Alignas(64) int8_t tokens[GROUPS][RUN / 4][TILE][4];
    _Alignas(64) codes unpacked[2];
    _Alignas(64) int32_t sums[4][TILE][TILE]; /* [field's height * 2 + half of the rows][row][token] */
    uint32_t width;                           /* tokens of a group, a multiple of 4 */
} few;

/* Tiles 0 .. 3: sums of 16 rows by `width` tokens; 4, 5: 16 rows of 64 codes; 6: 64 columns of the tokens. */
static void open_tiles(uint32_t width)
{
    struct {
        uint8_t palette, start_row, none[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } shapes = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        shapes.rows[i] = TILE;
        shapes.row_bytes[i] = i == 4 || i == 5 ? TILE_STEP : (uint16_t)(4 * width);
    }
    __asm__ volatile("" ::"r"(&shapes) : "memory"); /* intrinsics do not say what memory they read */
    _tile_loadconfig(&shapes);
}

/* 16 columns of 4 * n_lanes tokens (a constant, 1 to 4), out four steps of 4 * n_lanes dwords. */
static inline __attribute__((always_inline)) void interleave_16(const int8_t *const x[TILE], size_t c,
                                                                const int n_lanes, int8_t *out)
{
    __m512i in[4], columns[4];
    for (int i = 0; i < 4; i++) {
        in[i] = _mm512_castsi128_si512(_mm_loadu_si128((const void *)(x[i] + c)));
        if (n_lanes > 1) in[i] = _mm512_inserti32x4(in[i], _mm_loadu_si128((const void *)(x[4 + i] + c)), 1);
        if (n_lanes > 2) in[i] = _mm512_inserti32x4(in[i], _mm_loadu_si128((const void *)(x[8 + i] + c)), 2);
        if (n_lanes > 3) in[i] = _mm512_inserti32x4(in[i], _mm_loadu_si128((const void *)(x[12 + i] + c)), 3);
    }
    tern_avx512__transpose_dwords(in, columns);
    const __mmask16 dwords = (__mmask16)((1u << 4 * n_lanes) - 1);
    for (int j = 0; j < 4; j++) _mm512_mask_storeu_epi32(out + 16 * n_lanes * j, dwords, columns[j]);
}

static inline void interleave(const int8_t *const x[TILE], size_t c, uint32_t width, int8_t *out)
{
    if (width == 4) interleave_16(x, c, 1, out);
    else if (width == 8) interleave_16(x, c, 2, out);
    else if (width == 12) interleave_16(x, c, 3, out);
    else interleave_16(x, c, 4, out);
}

/* Columns first .. first + n - 1, n a multiple of 128, of the tokens from t on, in the order of the fields: of each 256
 * columns the lowest field of both halves, then the next. Tokens past the last repeat it. */
static void take_tokens(const tern_q8_rows *x, uint32_t t, bool low_first, uint32_t first, uint32_t n, few *to)
{
    const int8_t *rows[TILE];
    int8_t *out = (int8_t *)to->tokens[t / TILE];
    for (uint32_t i = 0; i < TILE; i++) rows[i] = x->x + (t + i < x->n ? t + i : x->n - 1) * x->stride + first;
    for (uint32_t c = 0; c < n; c += PAIR)
        for (uint32_t f = 0; f < FIELDS; f++) {
            const uint32_t from = c + FIELD_BYTES * (low_first ? f : FIELDS - 1 - f);
            for (uint32_t at = 0; at < TILE_STEP; at += 16, out += 16 * to->width) {
                const uint32_t column = from + at % FIELD_BYTES + at / FIELD_BYTES * (PAIR / 2);
                if (column < n) interleave(rows, column, to->width, out);
                else memset(out, 0, 16 * to->width);
            }
        }
}

/* 32 rows, one pair of groups of each after the other. Rows past the last repeat it. */
typedef struct block {
    const uint8_t *rows;
    size_t row_bytes;
    uint32_t last, pair_bytes, n_cols;
} block;

static block place(const tern_cpu__product *p, uint32_t row, uint32_t pair_bytes, uint32_t first, uint32_t n)
{
    const uint32_t at = row < p->n_rows ? row : p->n_rows - 1, last = p->n_rows - 1 - at;
    return (block){.rows = p->w + at * p->row_bytes + (size_t)first / PAIR * pair_bytes,
                   .row_bytes = p->row_bytes,
                   .last = last < ROWS ? last : ROWS - 1,
                   .pair_bytes = pair_bytes,
                   .n_cols = n};
}

static inline __attribute__((always_inline)) const uint8_t *pair_of(const block *b, uint32_t c, uint32_t row)
{
    return b->rows + (row < b->last ? row : b->last) * b->row_bytes + (size_t)c / PAIR * b->pair_bytes;
}

/* Columns c .. c + 255 of eight rows from `row` on. */
static inline __attribute__((always_inline)) void unpack_8(const block *b, uint32_t c, uint32_t row, codes to)
{
    const __m512i low = _mm512_set1_epi8(0x03), high = _mm512_set1_epi8(0x0c);
    const __mmask8 there = b->n_cols - c < PAIR ? 0x0f : 0xff;
    for (uint32_t i = row; i < row + 8; i++) {
        const __m512i bytes = _mm512_maskz_loadu_epi64(there, pair_of(b, c, i)), upper = _mm512_srli_epi16(bytes, 4);
        _mm512_store_si512(to[0][i], _mm512_and_si512(bytes, low));
        _mm512_store_si512(to[1][i], _mm512_and_si512(bytes, high));
        _mm512_store_si512(to[2][i], _mm512_and_si512(upper, low));
        _mm512_store_si512(to[3][i], _mm512_and_si512(upper, high));
    }
}

/* The bytes of a block, row by row, asked for while another one is multiplied: memory is fastest in order. A block
 * behind the last row repeats that row. */
typedef struct fetch {
    const uint8_t *row;
    size_t at, bytes, row_bytes;
} fetch;

static fetch fetch_of(const block *b, bool any)
{
    const size_t bytes = (size_t)b->n_cols / PAIR * b->pair_bytes + (b->n_cols % PAIR ? FIELD_BYTES : 0);
    return (fetch){.row = b->rows, .bytes = bytes, .row_bytes = any ? b->row_bytes : 0};
}

static inline __attribute__((always_inline)) void fetch_8(fetch *f)
{
    for (uint32_t i = 0; i < 8; i++, f->at += TILE_STEP) {
        if (f->at >= f->bytes) {
            f->at = 0;
            f->row += f->row_bytes;
        }
        _mm_prefetch((const char *)f->row + f->at, _MM_HINT_T1);
    }
}

/* One field of 256 columns of 32 rows to the sums `a` (rows 0 .. 15) and `b`, and a quarter of what comes next. */
#define ADD_FIELD(f, a, b)                                                                                             \
    _tile_loadd(6, tokens + (f)*step, width);                                                                          \
    _tile_loadd(4, now[f][0], TILE_STEP);                                                                              \
    _tile_dpbusd(a, 4, 6);                                                                                             \
    if (more) unpack_8(rows, c + PAIR, 8 * (f), next);                                                                 \
    fetch_8(&ahead);                                                                                                   \
    _tile_loadd(5, now[f][TILE], TILE_STEP);                                                                           \
    _tile_dpbusd(b, 5, 6)

/* All columns of a block of rows, times a group of tokens, to tiles 0 .. 3. */
static void add_block(few *f, uint32_t group, const block *rows, fetch ahead)
{
    const size_t step = (size_t)f->width * TILE_STEP, width = 4 * (size_t)f->width;
    const int8_t *tokens = (const int8_t *)f->tokens[group];
    for (uint32_t i = 0; i < ROWS; i += 8) unpack_8(rows, 0, i, f->unpacked[0]);
    for (uint32_t c = 0; c < rows->n_cols; c += PAIR, tokens += FIELDS * step) {
        const bool more = c + PAIR < rows->n_cols;
        uint8_t(*now)[ROWS][TILE_STEP] = f->unpacked[c / PAIR % 2],
        (*next)[ROWS][TILE_STEP] = f->unpacked[(c / PAIR + 1) % 2];
        __asm__ volatile("" ::: "memory");
        ADD_FIELD(0, 0, 1);
        ADD_FIELD(1, 2, 3);
        ADD_FIELD(2, 0, 1);
        ADD_FIELD(3, 2, 3);
        __asm__ volatile("" ::: "memory");
    }
}

/* Adds the tiles' sums to the dots of the rows from `row` on and the tokens from `token` on; the first run starts from
 * minus the sum of the token's activations, for raw codes are one more than their values. */
static void give_sums(const tern_cpu__product *p, uint32_t row, uint32_t token, bool first, few *f)
{
    const uint32_t left = p->x->n - token, n_tokens = left < TILE ? left : TILE;
    _Alignas(64) int32_t columns[TILE][TILE]; /* [token][row] */
    _tile_stored(0, f->sums[0], sizeof **f->sums);
    _tile_stored(1, f->sums[1], sizeof **f->sums);
    _tile_stored(2, f->sums[2], sizeof **f->sums);
    _tile_stored(3, f->sums[3], sizeof **f->sums);
    __asm__ volatile("" ::: "memory");
    for (uint32_t g = 0; g < 2 && row + g * TILE < p->n_rows; g++) {
        const uint32_t at = row + g * TILE, n = p->n_rows - at;
        const __mmask16 rows = n >= TILE ? 0xffff : (__mmask16)((1u << n) - 1);
        for (uint32_t r = 0; r < TILE; r++) {
            const __m512i low = _mm512_load_si512(f->sums[g][r]), high = _mm512_load_si512(f->sums[2 + g][r]);
            _mm512_store_si512(f->sums[g][r], _mm512_add_epi32(low, _mm512_srai_epi32(high, 2)));
        }
        for (uint32_t t = 0; t < n_tokens; t += 4)
            tern_avx512__interleave(f->sums[g][0] + t, sizeof **f->sums, columns[t], sizeof *columns);
        for (uint32_t t = 0; t < n_tokens; t++) {
            int32_t *dots = p->dots + (token + t) * p->dots_stride + at;
            const __m512i before =
                first ? _mm512_set1_epi32(-p->x->sums[token + t]) : _mm512_maskz_loadu_epi32(rows, dots);
            _mm512_mask_storeu_epi32(dots, rows, _mm512_add_epi32(before, _mm512_load_si512(columns[t])));
        }
    }
}

/* 32 rows times all tokens: the rows come from memory for the first group of tokens. */
static void multiply_rows(const tern_cpu__product *p, uint32_t row, const block *now, const block *next, bool first,
                          few *f)
{
    for (uint32_t t = 0; t < p->x->n; t += TILE) {
        const bool fetches = t + TILE >= p->x->n && row + ROWS < p->n_rows;
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
        add_block(f, t / TILE, now, fetch_of(next, fetches));
        give_sums(p, row, t, first, f);
    }
}

void tern_amx__few(const tern_cpu__product *p, uint32_t pair_bytes, bool low_first)
{
    few f;
    memset(f.sums, 0, sizeof f.sums);
    f.width = p->x->n < TILE ? (p->x->n + 3) / 4 * 4 : TILE;
    open_tiles(f.width);
    for (uint32_t first = 0; first < p->cols; first += RUN) {
        const uint32_t n = p->cols - first < RUN ? p->cols - first : RUN;
        for (uint32_t t = 0; t < p->x->n; t += TILE) take_tokens(p->x, t, low_first, first, n, &f);
        for (uint32_t row = 0; row < p->n_rows; row += ROWS) {
            const block now = place(p, row, pair_bytes, first, n), next = place(p, row + ROWS, pair_bytes, first, n);
            multiply_rows(p, row, &now, &next, first == 0, &f);
        }
    }
    tiles_close();
}
