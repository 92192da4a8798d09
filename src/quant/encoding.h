/* How weights are stored: one table of encodings, and conversions between bytes and numbers.
 *
 * A matrix is [rows][cols] row-major, fastest index last (the order of GGUF and HF files). The bytes of a file never
 * depend on the CPU or on the build. Layouts: docs/reference/formats/encodings.md. */
#ifndef TERN_QUANT_ENCODING_H
#define TERN_QUANT_ENCODING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "quant/encoding_id.h"

typedef struct tern_pool tern_pool; /* base/pool.h */

typedef struct tern_encoding tern_encoding;
struct tern_ternary; /* quant/ternary.h: how one block of codes is stored; private to this folder */

struct tern_encoding {
    const char *name;        /* as in --type: "i2_s" */
    tern_encoding_id id;     /* GGUF type id */
    uint32_t block_elements; /* columns must be a multiple of this unless `linear` or `ragged` */
    uint32_t block_bytes;
    uint32_t tail_bytes; /* once, after the blocks of the whole tensor (i2_s: 32) */
    bool linear;         /* blocks run on across row ends: only rows * cols must be a multiple (i2_s) */
    bool ragged;         /* any number of columns: a row may end in a shorter block (t160) */
    bool ternary;        /* codes -1, 0, +1 times a scale */

    /* n_blocks blocks of f32 in x to bytes, and back. For a ternary encoding pack takes values that are already
     * -s, 0 or +s (s the largest magnitude in the block, or 0); i2_s and t160 keep s outside the blocks: see codes
     * below. */
    void (*pack)(const float *x, size_t n_blocks, void *out);
    void (*unpack)(const void *in, size_t n_blocks, float *x);
    /* pack with what each value's squared error counts for, w[n_blocks * block_elements]; NULL for encodings without
     * blocks of their own scales. w NULL: as pack. */
    void (*pack_weighted)(const float *x, const float *w, size_t n_blocks, void *out);

    /* Ternary encodings only (else NULL): n_blocks blocks of codes -1, 0, +1, and back. Encodings with
     * block scales (tq1_0, tq2_0: as f16) write `scale` to each block, others ignore it. The code that unpack_codes
     * yields comes with the block's scale in scales[block] (1 for encodings without them); the unused code 11 (and a
     * base-3 byte out of range) yields 0 and is counted in the result (no packer writes them). */
    void (*pack_codes)(const int8_t *codes, size_t n_blocks, float scale, void *out);
    size_t (*unpack_codes)(const void *in, size_t n_blocks, int8_t *codes, float *scales);

    /* The first of n_blocks blocks with a NaN or infinite scale (f32, f16, bf16: value), n_blocks when there is none.
     * NULL for encodings without block scales. */
    size_t (*find_nonfinite)(const void *in, size_t n_blocks);

    /* n_blocks blocks as blocks of `rewritten`, which has as many elements in each and holds the same numbers: what
     * devices that have no reader of this encoding take. NULL where there is none. */
    void (*rewrite)(const void *in, size_t n_blocks, void *out);
    tern_encoding_id rewritten;
    const struct tern_ternary *codec; /* ternary encodings only */
};

/* NULL when there is none. Names are matched without regard to case. */
const tern_encoding *tern_encoding_find(uint32_t gguf_type);
const tern_encoding *tern_encoding_by_name(const char *name);
/* The encoding that a person named as the value of `what`; NULL for NULL. Errors: INVALID_ARGUMENT, with all names. */
tern_status tern_encoding_parse(const char *what, const char *name, const tern_encoding **encoding, tern_error *err);
/* The i-th encoding of the table, NULL past the end. */
const tern_encoding *tern_encoding_at(size_t i);

/* Bytes of a [rows][cols] tensor, tail included. Errors: INVALID_ARGUMENT (shape does not fit the block; the message
 * says found and expected), LIMIT (overflow). */
tern_status tern_encoding_bytes(const tern_encoding *e, uint64_t rows, uint64_t cols, size_t *bytes, tern_error *err);

/* The encoding itself where its blocks fit rows of `cols` columns, or it is ternary; else its sibling of smaller
 * blocks, as llama.cpp chooses it (q6_k: q8_0, ...), in the end f16. quant/mix.c. */
const tern_encoding *tern_encoding_fitting(const tern_encoding *e, uint64_t cols);

/* Bytes from one row to the next, for encodings that are not linear. Errors: as tern_encoding_bytes. For i2_s it holds
 * (cols / 4) only when cols is a multiple of 128; otherwise INVALID_ARGUMENT. */
tern_status tern_encoding_row_bytes(const tern_encoding *e, uint64_t cols, size_t *bytes, tern_error *err);

/* f32 [rows][cols] to the whole tensor's bytes (tern_encoding_bytes of them). For ternary encodings: `x` is ternarised
 * first (tern_ternarise over the whole tensor) and the scale stored where the encoding keeps it (i2_s: f32 in the tail;
 * t160: f32 in the tail; tq*: f16 in each block).
 * Rows of the other encodings are independent: a tensor may be encoded in slices of rows.
 * Errors: INVALID_ARGUMENT (shape; NaN or infinity in x, or a value too large for the encoding, with the element's
 * index; `out` is then zeroed or untouched), OUT_OF_MEMORY. */
tern_status tern_encode(const tern_encoding *e, const float *x, uint64_t rows, uint64_t cols, void *out,
                        tern_error *err);
/* As above with the mean squared input of each column, importance[cols] (at least 0, finite). Encodings that search for
 * their scales weigh element (r, c) by importance[c] * sqrt(mean of x[r]^2 + x[r][c]^2), as in llama.cpp. A column
 * whose importance is below a 10,000th of the mean counts for that. NULL: as tern_encode. Errors: those, and
 * OUT_OF_MEMORY. */
tern_status tern_encode_weighted(const tern_encoding *e, const float *x, const float *importance, uint64_t rows,
                                 uint64_t cols, void *out, tern_error *err);
/* As above from codes [rows][cols] and one scale. Errors: INVALID_ARGUMENT (shape, not a ternary encoding, a code
 * outside -1..1 with its index, a scale that is not finite in the encoding). */
tern_status tern_encode_codes(const tern_encoding *e, const int8_t *codes, float scale, uint64_t rows, uint64_t cols,
                              void *out, tern_error *err);

/* Rows first .. first + n - 1 of a tensor to f32 [n][cols], scale applied. `in` is the whole tensor (tail included).
 * Errors: INVALID_ARGUMENT (shape), OUT_OF_MEMORY. */
tern_status tern_decode_rows(const tern_encoding *e, const void *in, uint64_t rows, uint64_t cols, uint64_t first,
                             uint64_t n, float *out, tern_error *err);
/* The codes of rows first .. first + n - 1 of a ternary tensor, [n][cols], and *n_bad = how many had no valid code
 * (those read as 0). When row_scales is not NULL (f32 [n]) it gets each row's scale (tail or block scale); *uniform
 * tells whether every row had one scale throughout (blocks with scale 0 match any scale, and read as codes 0). n_bad,
 * uniform and row_scales may be NULL. */
tern_status tern_decode_codes(const tern_encoding *e, const void *in, uint64_t rows, uint64_t cols, uint64_t first,
                              uint64_t n, int8_t *codes, float *row_scales, bool *uniform, size_t *n_bad,
                              tern_error *err);

/* Looks at every code (and block scale) of a tensor. MALFORMED with the element's index when a code is invalid
 * ("code 11 at element 1234 (row 4, column 210)"), or when a scale is NaN or infinite. For non-ternary encodings only
 * scales and, for f32/f16/bf16, the values are checked for NaN and infinity. Reads the whole tensor. */
tern_status tern_encoding_check(const tern_encoding *e, const void *in, uint64_t rows, uint64_t cols, tern_error *err);
/* As above for rows first .. first + rows - 1 of a tensor, which lie at `in` as a tensor of their own; messages count
 * from the whole tensor's start. The rows are shared out over a pool (NULL: the caller alone); the error is that of the
 * first bad element, with any number of threads. */
tern_status tern_encoding_check_part(const tern_encoding *e, const void *in, uint64_t first, uint64_t rows,
                                     uint64_t cols, tern_pool *pool, tern_error *err);

/* Ternary quantisation of n weights: scale = max(mean |w|, 1e-5); code = clamp(round_half_even(w / scale), -1, 1),
 * computed as in the public BitNet code: s = 1 / max(mean, 1e-5); code = clamp(round(w * s)). The mean is an exact sum
 * of integers (quant/absmean.h), so the same everywhere. Weights are flushed first (base/flush.h): NaN gives code 0, an
 * infinity counts as the largest float. n is below 2^32. Source: microsoft/BitNet weight_quant; transformers bitnet.py.
 */
void tern_ternarise(const float *w, size_t n, int8_t *codes, float *scale);

/* HF packed BitNet weights: uint8 [rows / 4][cols], row block i (of rows / 4 rows) in bits 2i, value = code - 1
 * (transformers integrations/bitnet.py unpack_weights; rows are padded up to a multiple of 4 by the packer).
 * in: [(rows + 3) / 4][cols]; codes out: [rows][cols]. Returns how many codes were 11 (read as 0). */
size_t tern_hf_unpack(const uint8_t *in, uint64_t rows, uint64_t cols, int8_t *codes);
void tern_hf_pack(const int8_t *codes, uint64_t rows, uint64_t cols, uint8_t *out);

#endif
