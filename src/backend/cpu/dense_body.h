/* Dense weights times f32 activations, for the level whose vectors are included before.
 *
 * One token: four streams of rows, each a quarter of all rows, so that prefetching ahead of a row always meets the next
 * row of the same stream; sixteen rows at a time where they are no longer than what is unpacked at once, as the second
 * matrix of an adapter has them. More tokens: eight rows by 512 columns are decoded to floats once for 64 tokens, and
 * tiles of TILE_ROWS rows by four tokens run over them from the first cache; sums wait in memory as 16 lanes. Both take
 * the lanes in the order of ref.h, so they give the same bits. */
#ifndef TERN_BACKEND_CPU_DENSE_BODY_H
#define TERN_BACKEND_CPU_DENSE_BODY_H

#include "backend/cpu/floats.h"

enum {
    PREFETCH_BYTES = 3072, /* measured: 2 to 4 KiB ahead read a mapped file as fast as memory allows */
    STREAMS = 4,
    ROWS = 8,    /* decoded together */
    DEPTH = 512, /* columns decoded together: a multiple of every block */
    TOKENS = 64, /* that share a decoding */
    TILE_TOKENS = 4,
    MAX_BLOCK = 256,
    MAX_PART = 64,
    MAX_SHORT = 128, /* elements, where a row may end with less than is unpacked at once */
    MAX_SHORT_BYTES = 136,
};

/* What a block is prepared to: factors of its groups, and where a level wants them its values as bytes. */
typedef struct block_state {
    _Alignas(64) float scales[32];
    int8_t values[MAX_BLOCK];
} block_state;

typedef void (*prepare_fn)(const uint8_t *block, block_state *state);
/* Elements part * n .. part * n + n - 1 to floats, n = elements / parts. */
typedef void (*unpack_fn)(const uint8_t *block, const block_state *state, uint32_t part, lanes *out);

/* What is unpacked at once, and the smallest piece that a row may end with (block_bytes for block_elements). */
typedef struct dense {
    prepare_fn prepare;
    unpack_fn unpack;
    uint32_t elements, bytes, parts, block_elements, block_bytes;
} dense;

/* The arguments of a tern_dense_fn. */
typedef struct product {
    const uint8_t *w;
    size_t row_bytes;
    uint32_t n_rows, cols;
    const float *x;
    size_t x_stride;
    uint32_t n;
    float *y;
    size_t y_stride;
} product;

INLINE void prefetch(const uint8_t *p, uint32_t bytes)
{
    UNROLL
    for (uint32_t at = 0; at < bytes; at += 64) __builtin_prefetch(p + PREFETCH_BYTES + at, 0, 3);
}

/* One block of each of n streams times the same x. Parts alternate between the streams: the additions to one sum wait
 * for each other, those of four do not. */
INLINE void blocks_dot(const dense e, const uint8_t *const *block, int n, const float *x, lanes *acc)
{
    block_state state[STREAMS];
    const uint32_t n_lanes = e.elements / e.parts / TERN_LANES;
    UNROLL
    for (int s = 0; s < n; s++) e.prepare(block[s], &state[s]);
    UNROLL
    for (uint32_t part = 0; part < e.parts; part++) {
        UNROLL
        for (int s = 0; s < n; s++) {
            lanes values[MAX_PART / TERN_LANES];
            e.unpack(block[s], &state[s], part, values);
            UNROLL
            for (uint32_t i = 0; i < n_lanes; i++)
                acc[s] = lanes_fma(values[i], x + (part * n_lanes + i) * TERN_LANES, acc[s]);
        }
    }
}

/* The `left` elements at the end of a row, less than are unpacked at once. */
INLINE void short_block_dot(const dense e, const uint8_t *block, const float *x, uint32_t left, lanes *acc)
{
    uint8_t padded[MAX_SHORT_BYTES] = {0};
    const uint8_t *const blocks[1] = {padded};
    float x_padded[MAX_SHORT] = {0};
    memcpy(padded, block, left / e.block_elements * e.block_bytes);
    memcpy(x_padded, x, left * sizeof *x);
    blocks_dot(e, blocks, 1, x_padded, acc);
}

/* One row of each of n streams, `apart` bytes from each other, times x. */
INLINE void stream_rows(const dense e, const uint8_t *w, size_t apart, int n, uint32_t cols, const float *x, lanes *acc)
{
    const uint8_t *block[STREAMS];
    uint32_t at = 0;
    UNROLL
    for (int s = 0; s < n; s++) {
        block[s] = w + (size_t)s * apart;
        acc[s] = lanes_zero();
    }
    for (; cols - at >= e.elements; at += e.elements) {
        UNROLL
        for (int s = 0; s < n; s++) prefetch(block[s], e.bytes);
        blocks_dot(e, block, n, x + at, acc);
        UNROLL
        for (int s = 0; s < n; s++) block[s] += e.bytes;
    }
    if (e.elements == e.block_elements || at == cols) return;
    for (int s = 0; s < n; s++) short_block_dot(e, block[s], x + at, cols - at, &acc[s]);
}

/* The start of every stream, which no earlier row prefetches. */
static void prefetch_starts(const uint8_t *w, size_t apart)
{
    for (uint32_t s = 0; s < STREAMS; s++)
        for (uint32_t at = 0; at < PREFETCH_BYTES; at += 64) __builtin_prefetch(w + s * apart + at, 0, 3);
}

/* Short rows of floats without gaps, sixteen at a time, so that their sums are made together; returns how many were.
 * What is read behind a row is of the next ones and meets zeros; the last rows, behind which there is nothing, are
 * left. */
INLINE uint32_t short_rows(const dense e, const product *p)
{
    _Alignas(64) float x[MAX_PART] = {0}, sums[TERN_LANES];
    const uint32_t n_lanes = e.elements / TERN_LANES, beyond = (uint32_t)((e.bytes - 1) / p->row_bytes);
    uint32_t r = 0;
    memcpy(x, p->x, p->cols * sizeof *x);
    for (; r + TERN_LANES + beyond <= p->n_rows; r += TERN_LANES) {
        vec rows[TERN_LANES * PARTS];
        UNROLL
        for (uint32_t i = 0; i < TERN_LANES; i++) {
            lanes values[MAX_PART / TERN_LANES], acc = lanes_zero();
            e.unpack(p->w + (r + i) * p->row_bytes, NULL, 0, values);
            UNROLL
            for (uint32_t k = 0; k < n_lanes; k++) acc = lanes_fma(values[k], x + k * TERN_LANES, acc);
            UNROLL
            for (uint32_t part = 0; part < PARTS; part++) rows[i * PARTS + part] = acc.v[part];
        }
        lanes_sum_16(rows, sums);
        memcpy(p->y + r, sums, sizeof sums);
    }
    return r;
}

INLINE void one_token(const dense e, const product *all)
{
    product rest = *all, *const p = &rest;
    if (e.block_elements == 1 && p->cols <= e.elements && p->row_bytes * e.elements == (size_t)p->cols * e.bytes) {
        const uint32_t done = short_rows(e, all);
        rest.w += done * rest.row_bytes;
        rest.y += done;
        rest.n_rows -= done;
    }
    const uint32_t rows = p->n_rows / STREAMS;
    const size_t apart = rows * p->row_bytes;
    lanes acc[STREAMS];
    prefetch_starts(p->w, apart);
    for (uint32_t r = 0; r < rows; r++) {
        stream_rows(e, p->w + r * p->row_bytes, apart, STREAMS, p->cols, p->x, acc);
        UNROLL
        for (uint32_t s = 0; s < STREAMS; s++) p->y[s * rows + r] = lanes_sum(acc[s].v);
    }
    for (uint32_t r = rows * STREAMS; r < p->n_rows; r++) {
        stream_rows(e, p->w + r * p->row_bytes, 0, 1, p->cols, p->x, acc);
        p->y[r] = lanes_sum(acc[0].v);
    }
}

INLINE void decode_block(const dense e, const uint8_t *in, float *out)
{
    block_state state;
    const uint32_t n_lanes = e.elements / e.parts / TERN_LANES;
    e.prepare(in, &state);
    UNROLL
    for (uint32_t part = 0; part < e.parts; part++) {
        lanes values[MAX_PART / TERN_LANES];
        e.unpack(in, &state, part, values);
        UNROLL
        for (uint32_t i = 0; i < n_lanes; i++) lanes_store(out + (part * n_lanes + i) * TERN_LANES, values[i]);
    }
}

/* `depth` elements to out, zeros up to a multiple of the lanes. */
INLINE void decode_row(const dense e, const uint8_t *in, uint32_t depth, float *out)
{
    uint8_t padded[MAX_SHORT_BYTES] = {0};
    uint32_t at = 0;
    for (; depth - at >= e.elements; at += e.elements, in += e.bytes) {
        prefetch(in, e.bytes);
        decode_block(e, in, out + at);
    }
    if (e.elements == e.block_elements || at == depth) return;
    memcpy(padded, in, (depth - at) / e.block_elements * e.block_bytes);
    decode_block(e, padded, out + at);
}

/* Which columns of a row: the first ones start at zero, and after the last ones lanes become sums. */
typedef struct span {
    uint32_t at, depth;
    bool first, last;
} span;

/* Columns of TILE_ROWS rows of w and of n tokens, added to their lanes. Columns past the span's of w are zeros. */
INLINE void tile(const float *w, const float *const *x, uint32_t n, const span s, float *sums)
{
    const uint32_t depth = s.depth;
    float rest[TILE_TOKENS][TERN_LANES] = {0};
    const uint32_t whole = depth / TERN_LANES * TERN_LANES;
    for (uint32_t t = 0; whole < depth && t < n; t++) memcpy(rest[t], x[t] + whole, (depth - whole) * sizeof(float));
    for (uint32_t part = 0; part < TERN_LANES; part += VEC) {
        vec acc[TILE_TOKENS][TILE_ROWS];
        UNROLL
        for (uint32_t t = 0; t < n; t++) {
            UNROLL
            for (uint32_t r = 0; r < TILE_ROWS; r++)
                acc[t][r] = s.first ? vec_set(0) : vec_load(sums + (t * ROWS + r) * TERN_LANES + part);
        }
        for (uint32_t at = part; at < whole; at += TERN_LANES) {
            vec row[TILE_ROWS];
            UNROLL
            for (uint32_t r = 0; r < TILE_ROWS; r++) row[r] = vec_load(w + r * DEPTH + at);
            UNROLL
            for (uint32_t t = 0; t < n; t++) {
                const vec xt = vec_load(x[t] + at);
                UNROLL
                for (uint32_t r = 0; r < TILE_ROWS; r++) acc[t][r] = vec_fma(row[r], xt, acc[t][r]);
            }
        }
        UNROLL
        for (uint32_t t = 0; t < n; t++) {
            const vec xt = vec_load(rest[t] + part);
            UNROLL
            for (uint32_t r = 0; r < TILE_ROWS; r++) {
                if (whole < depth) acc[t][r] = vec_fma(vec_load(w + r * DEPTH + whole + part), xt, acc[t][r]);
                vec_store(sums + (t * ROWS + r) * TERN_LANES + part, acc[t][r]);
            }
        }
    }
}

static void tile_of(const float *w, const float *const *x, uint32_t n, const span s, float *sums)
{
    switch (n) {
    case 1: tile(w, x, 1, s, sums); break;
    case 2: tile(w, x, 2, s, sums); break;
    case 3: tile(w, x, 3, s, sums); break;
    default: tile(w, x, TILE_TOKENS, s, sums); break;
    }
}

/* What eight rows and up to 64 tokens work in. */
typedef struct block_room {
    _Alignas(64) float w[ROWS][DEPTH];
    _Alignas(64) float sums[TOKENS][ROWS][TERN_LANES];
} block_room;

/* Where sums will go is asked for while they are made: rows of y are far apart, so that no hardware looks ahead. */
INLINE void prefetch_sums(const float *y)
{
    __builtin_prefetch(y, 1, 3);
    __builtin_prefetch(y + ROWS - 1, 1, 3);
}

/* Tokens first .. first + n - 1 times the decoded columns of the rows from `row` on. */
static void tiles(block_room *room, const product *p, uint32_t row, uint32_t first, uint32_t n, const span s)
{
    for (uint32_t t = 0; t < n; t += TILE_TOKENS) {
        const float *x[TILE_TOKENS];
        const uint32_t n_tile = n - t < TILE_TOKENS ? n - t : TILE_TOKENS;
        for (uint32_t i = 0; i < n_tile; i++) {
            x[i] = p->x + (first + t + i) * p->x_stride + s.at;
            if (s.last) prefetch_sums(p->y + (first + t + i) * p->y_stride + row);
        }
        for (uint32_t r = 0; r < ROWS; r += TILE_ROWS) tile_of(room->w[r], x, n_tile, s, room->sums[t][r]);
    }
}

/* The sums of two tokens. */
INLINE void sum_two(float sums[2][ROWS], const float *memory)
{
    vec rows[2 * ROWS * PARTS];
    UNROLL
    for (int i = 0; i < 2 * ROWS * PARTS; i++) rows[i] = vec_load(memory + i * VEC);
    lanes_sum_16(rows, sums[0]);
}

/* The sums of two tokens at a time to y. */
static void finish(block_room *room, const product *p, uint32_t row, uint32_t first, uint32_t n)
{
    const uint32_t n_rows = p->n_rows - row < ROWS ? p->n_rows - row : ROWS;
    float sums[2][ROWS];
    for (uint32_t t = 0; t < n; t++) {
        if (t % 2 == 0) sum_two(sums, room->sums[t][0]);
        memcpy(p->y + (first + t) * p->y_stride + row, sums[t % 2], n_rows * sizeof(float));
    }
}

INLINE void row_block(const dense e, block_room *room, const product *p, uint32_t row, uint32_t first, uint32_t n)
{
    if (n % 2) memset(room->sums[n], 0, sizeof room->sums[n]); /* summed with the last token's, to no use */
    for (uint32_t at = 0; at < p->cols; at += DEPTH) {
        const uint32_t depth = p->cols - at < DEPTH ? p->cols - at : DEPTH;
        for (uint32_t r = 0; r < ROWS; r++) {
            const uint32_t last = p->n_rows - 1, which = row + r < last ? row + r : last;
            decode_row(e, p->w + which * p->row_bytes + (size_t)at / e.elements * e.bytes, depth, room->w[r]);
        }
        tiles(room, p, row, first, n, (span){at, depth, at == 0, at + depth == p->cols});
    }
    finish(room, p, row, first, n);
}

INLINE void many_tokens(const dense e, const product *p)
{
    block_room room;
    for (uint32_t first = 0; first < p->n; first += TOKENS)
        for (uint32_t row = 0; row < p->n_rows; row += ROWS)
            row_block(e, &room, p, row, first, p->n - first < TOKENS ? p->n - first : TOKENS);
}

/* Defines the kernel of one encoding from the numbers of `dense`. */
#define DENSE(slot, ...)                                                                                               \
    void KERNEL_NAME(slot)(const uint8_t *w, size_t row_bytes, uint32_t n_rows, uint32_t cols, const float *x,         \
                           size_t x_stride, uint32_t n, float *y, size_t y_stride)                                     \
    {                                                                                                                  \
        const dense e = {prepare_##slot, unpack_##slot, __VA_ARGS__};                                                  \
        const product p = {w, row_bytes, n_rows, cols, x, x_stride, n, y, y_stride};                                   \
        if (n == 1) one_token(e, &p);                                                                                  \
        else many_tokens(e, &p);                                                                                       \
    }

/* Rows as floats (tern_decode_fn). */
#define DECODE(slot, ...)                                                                                              \
    void KERNEL_NAME(decode_##slot)(const uint8_t *w, size_t row_bytes, uint32_t n_rows, uint32_t cols, float *out,    \
                                    size_t out_stride)                                                                 \
    {                                                                                                                  \
        const dense e = {prepare_##slot, unpack_##slot, __VA_ARGS__};                                                  \
        for (uint32_t r = 0; r < n_rows; r++) decode_row(e, w + r * row_bytes, cols, out + r * out_stride);            \
    }

#define DENSE_DECODE(slot, ...)                                                                                        \
    DENSE(slot, __VA_ARGS__)                                                                                           \
    DECODE(slot, __VA_ARGS__)

#endif
