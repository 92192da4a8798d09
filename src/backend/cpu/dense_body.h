/* Dense weights times f32 activations, for the level whose vectors are included before.
 *
 * One token: four streams of rows, each a quarter of all rows, so that prefetching ahead of a row always meets the next
 * row of the same stream. More tokens: eight rows by 512 columns are decoded to floats once for 64 tokens, and tiles of
 * TILE_ROWS rows by four tokens run over them from the first cache; sums wait in memory as 16 lanes. Both take the
 * lanes in the order of ref.h, so they give the same bits. */
#ifndef TERN_BACKEND_CPU_DENSE_BODY_H
#define TERN_BACKEND_CPU_DENSE_BODY_H

#include "backend/cpu/floats.h"

enum {
    PREFETCH_BYTES = 3072, /* measured: 2 to 4 KiB ahead read a mapped file as fast as memory allows */
    STREAMS = 4,
    ROWS = 8,      /* decoded together */
    DEPTH = 512,   /* columns decoded together: a multiple of every block */
    TOKENS = 64,   /* that share a decoding */
    TILE_TOKENS = 4,
    MAX_BLOCK = 256,
};

/* One block of an encoding to floats. */
typedef void (*unpack_fn)(const uint8_t *block, lanes *out);

/* An encoding's block; the last block of a row may be short when elements may be any number (element_bytes > 0). */
typedef struct dense {
    unpack_fn unpack;
    uint32_t elements, bytes, element_bytes;
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

INLINE lanes block_dot(const dense e, const uint8_t *block, const float *x, lanes acc)
{
    lanes values[MAX_BLOCK / TERN_LANES];
    e.unpack(block, values);
    UNROLL
    for (uint32_t i = 0; i < e.elements / TERN_LANES; i++)
        acc = lanes_fma(values[i], x + i * TERN_LANES, acc);
    return acc;
}

INLINE void prefetch(const uint8_t *p, uint32_t bytes)
{
    UNROLL
    for (uint32_t at = 0; at < bytes; at += 64)
        __builtin_prefetch(p + PREFETCH_BYTES + at, 0, 3);
}

/* The block of `left` elements at the end of a row. */
INLINE lanes short_block_dot(const dense e, const uint8_t *block, const float *x, uint32_t left, lanes acc)
{
    uint8_t padded[128] = {0};
    float x_padded[32] = {0};
    memcpy(padded, block, left * e.element_bytes);
    memcpy(x_padded, x, left * sizeof *x);
    return block_dot(e, padded, x_padded, acc);
}

/* One row of each of n streams, `apart` bytes from each other, times x. */
INLINE void stream_rows(const dense e, const uint8_t *w, size_t apart, int n, uint32_t cols, const float *x, lanes *acc)
{
    uint32_t at = 0;
    UNROLL
    for (int s = 0; s < n; s++)
        acc[s] = lanes_zero();
    for (; cols - at >= e.elements; at += e.elements, w += e.bytes) {
        UNROLL
        for (int s = 0; s < n; s++) {
            const uint8_t *block = w + (size_t)s * apart;
            prefetch(block, e.bytes);
            acc[s] = block_dot(e, block, x + at, acc[s]);
        }
    }
    if (!e.element_bytes || at == cols) return;
    for (int s = 0; s < n; s++)
        acc[s] = short_block_dot(e, w + (size_t)s * apart, x + at, cols - at, acc[s]);
}

INLINE void one_token(const dense e, const product *p)
{
    const uint32_t rows = p->n_rows / STREAMS;
    const size_t apart = rows * p->row_bytes;
    lanes acc[STREAMS];
    for (uint32_t r = 0; r < rows; r++) {
        stream_rows(e, p->w + r * p->row_bytes, apart, STREAMS, p->cols, p->x, acc);
        UNROLL
        for (uint32_t s = 0; s < STREAMS; s++)
            p->y[s * rows + r] = lanes_sum(acc[s].v);
    }
    for (uint32_t r = rows * STREAMS; r < p->n_rows; r++) {
        stream_rows(e, p->w + r * p->row_bytes, 0, 1, p->cols, p->x, acc);
        p->y[r] = lanes_sum(acc[0].v);
    }
}

/* `depth` elements to out, zeros up to a multiple of the lanes. */
INLINE void decode_row(const dense e, const uint8_t *in, uint32_t depth, float *out)
{
    uint8_t padded[128] = {0};
    lanes values[MAX_BLOCK / TERN_LANES];
    for (uint32_t at = 0; at < depth; at += e.elements, in += e.bytes) {
        if (depth - at < e.elements) {
            memcpy(padded, in, (depth - at) * e.element_bytes);
            in = padded;
        } else {
            prefetch(in, e.bytes);
        }
        e.unpack(in, values);
        UNROLL
        for (uint32_t i = 0; i < e.elements / TERN_LANES; i++)
            lanes_store(out + at + i * TERN_LANES, values[i]);
    }
}

/* Columns [0, depth) of TILE_ROWS rows of w and of n tokens, added to their lanes. Columns past `depth` of w are zeros. */
INLINE void tile(const float *w, const float *const *x, uint32_t n, uint32_t depth, float *sums)
{
    float rest[TILE_TOKENS][TERN_LANES] = {0};
    const uint32_t whole = depth / TERN_LANES * TERN_LANES;
    for (uint32_t t = 0; whole < depth && t < n; t++)
        memcpy(rest[t], x[t] + whole, (depth - whole) * sizeof(float));
    for (uint32_t part = 0; part < TERN_LANES; part += VEC) {
        vec acc[TILE_TOKENS][TILE_ROWS];
        UNROLL
        for (uint32_t t = 0; t < n; t++) {
            UNROLL
            for (uint32_t r = 0; r < TILE_ROWS; r++)
                acc[t][r] = vec_load(sums + (t * ROWS + r) * TERN_LANES + part);
        }
        for (uint32_t at = part; at < whole; at += TERN_LANES) {
            vec row[TILE_ROWS];
            UNROLL
            for (uint32_t r = 0; r < TILE_ROWS; r++)
                row[r] = vec_load(w + r * DEPTH + at);
            UNROLL
            for (uint32_t t = 0; t < n; t++) {
                const vec xt = vec_load(x[t] + at);
                UNROLL
                for (uint32_t r = 0; r < TILE_ROWS; r++)
                    acc[t][r] = vec_fma(row[r], xt, acc[t][r]);
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

static void tile_of(const float *w, const float *const *x, uint32_t n, uint32_t depth, float *sums)
{
    switch (n) {
    case 1: tile(w, x, 1, depth, sums); break;
    case 2: tile(w, x, 2, depth, sums); break;
    case 3: tile(w, x, 3, depth, sums); break;
    default: tile(w, x, TILE_TOKENS, depth, sums); break;
    }
}

/* What eight rows and up to 64 tokens work in. */
typedef struct block_room {
    _Alignas(64) float w[ROWS][DEPTH];
    _Alignas(64) float sums[TOKENS][ROWS][TERN_LANES];
} block_room;

/* Tokens first .. first + n - 1 times the decoded columns [at, at + depth). */
static void tiles(block_room *room, const product *p, uint32_t first, uint32_t n, uint32_t at, uint32_t depth)
{
    for (uint32_t t = 0; t < n; t += TILE_TOKENS) {
        const float *x[TILE_TOKENS];
        const uint32_t n_tile = n - t < TILE_TOKENS ? n - t : TILE_TOKENS;
        for (uint32_t i = 0; i < n_tile; i++)
            x[i] = p->x + (first + t + i) * p->x_stride + at;
        for (uint32_t r = 0; r < ROWS; r += TILE_ROWS)
            tile_of(room->w[r], x, n_tile, depth, room->sums[t][r]);
    }
}

/* The sums of two tokens at a time to y. */
static void finish(block_room *room, const product *p, uint32_t row, uint32_t first, uint32_t n)
{
    const uint32_t n_rows = p->n_rows - row < ROWS ? p->n_rows - row : ROWS;
    float sums[2][ROWS];
    for (uint32_t t = 0; t < n; t++) {
        if (t % 2 == 0) lanes_sum_16(room->sums[t][0], sums[0]);
        memcpy(p->y + (first + t) * p->y_stride + row, sums[t % 2], n_rows * sizeof(float));
    }
}

INLINE void row_block(const dense e, block_room *room, const product *p, uint32_t row, uint32_t first, uint32_t n)
{
    memset(room->sums, 0, (n + n % 2) * sizeof room->sums[0]);
    for (uint32_t at = 0; at < p->cols; at += DEPTH) {
        const uint32_t depth = p->cols - at < DEPTH ? p->cols - at : DEPTH;
        for (uint32_t r = 0; r < ROWS; r++) {
            const uint32_t last = p->n_rows - 1, which = row + r < last ? row + r : last;
            decode_row(e, p->w + which * p->row_bytes + (size_t)at / e.elements * e.bytes, depth, room->w[r]);
        }
        tiles(room, p, first, n, at, depth);
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

/* Defines the kernel of one encoding. */
#define DENSE(slot, unpack, elements, bytes, element_bytes)                                                            \
    void KERNEL_NAME(slot)(const uint8_t *w, size_t row_bytes, uint32_t n_rows, uint32_t cols, const float *x,         \
                           size_t x_stride, uint32_t n, float *y, size_t y_stride)                                     \
    {                                                                                                                  \
        const dense e = {unpack, elements, bytes, element_bytes};                                                      \
        const product p = {w, row_bytes, n_rows, cols, x, x_stride, n, y, y_stride};                                   \
        if (n == 1)                                                                                                    \
            one_token(e, &p);                                                                                          \
        else                                                                                                           \
            many_tokens(e, &p);                                                                                        \
    }

#endif
