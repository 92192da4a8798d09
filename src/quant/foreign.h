/* Ternary layouts of other programs that Tern converts but does not compute with. docs/reference/formats/encodings.md.
 * */
#ifndef TERN_QUANT_FOREIGN_H
#define TERN_QUANT_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* How bitnet.cpp cuts a matrix of one shape for its look-up kernels; a file does not say it. Its names: m, k, BM, BK
 * (bk in kernel_config.ini) and bm (bmm). */
typedef struct tern_tl_tile {
    uint32_t rows, cols;           /* the shape */
    uint32_t tile_rows, tile_cols; /* BM, BK */
    uint32_t strip_rows;           /* bm */
} tern_tl_tile;

/* Zero-initialised: only what the table of presets has. */
typedef struct tern_tl_tiles {
    tern_tl_tile items[64];
    uint32_t n;
} tern_tl_tiles;

/* Sections of bitnet.cpp's include/kernel_config.ini: m, k, bm, bk, bmm. Errors: MALFORMED (a line, a value or a
 * missing one, with its line), LIMIT (more sections than there is room for). */
tern_status tern_tl_tiles_parse(tern_tl_tiles *tiles, const char *text, size_t n, tern_error *err);

/* In files tl2 has the number 39, which means mxfp4 in others, or 42, q2_0; the reader tells them apart and gives tl2
 * this one. */
enum { TERN_FOREIGN_TL2 = 0x10000 + 39 };

typedef struct tern_foreign {
    const char *name;  /* "iq2_bn" */
    const char *whose; /* the program that writes it */
    uint32_t id;       /* GGUF type */
    bool tiled;        /* its bytes depend on a tern_tl_tile */
} tern_foreign;

/* NULL when there is none. */
const tern_foreign *tern_foreign_find(uint32_t gguf_type);
/* The i-th, NULL past the end. */
const tern_foreign *tern_foreign_at(size_t i);

/* Bytes of a [rows][cols] tensor. Errors: INVALID_ARGUMENT (a shape that the layout does not fit), LIMIT. */
tern_status tern_foreign_bytes(const tern_foreign *f, uint64_t rows, uint64_t cols, size_t *bytes, tern_error *err);

/* All codes [rows][cols] and the scale of each row, from tern_foreign_bytes of them. `tiles` may be NULL. Errors:
 * INVALID_ARGUMENT (shape), MALFORMED (a byte that stands for no codes, with its place), UNSUPPORTED (a tiled layout of
 * a shape whose tile is not known). A scale may be anything: the caller looks at it. */
tern_status tern_foreign_decode(const tern_foreign *f, const uint8_t *in, uint64_t rows, uint64_t cols,
                                const tern_tl_tiles *tiles, int8_t *codes, float *row_scales, tern_error *err);

/* Weights [rows][cols] with four neighbours of a row in a byte, the first in the lowest bits, value = code - 1, rows of
 * `stride` bytes (at least cols / 4 rounded up). Returns how many codes were 11 (read as 0). */
size_t tern_lsb_unpack(const uint8_t *in, uint64_t rows, uint64_t cols, uint64_t stride, int8_t *codes);

#endif
