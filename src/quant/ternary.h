/* One ternary encoding's description of its blocks; the rest (floats, tensors, counts) is shared. */
#ifndef TERN_QUANT_TERNARY_H
#define TERN_QUANT_TERNARY_H

#include "quant/encoding.h"

#define TERN_TERNARY_MAX_BLOCK 320
#define TERN_RAW_INVALID       3

/* Raw codes are as stored: 0, 1, 2 for -1, 0, +1, and 3 (TERN_RAW_INVALID) where the bytes hold no code. */
typedef struct tern_ternary {
    void (*pack)(const int8_t *codes, float scale, void *block);
    void (*unpack)(const void *block, uint8_t *raw);
    /* The block's scale; NULL when the tensor's tail holds the only one. */
    float (*scale)(const void *block);
    /* Whether any of n_blocks blocks holds an invalid code; NULL when every byte is a code. */
    bool (*any_invalid)(const void *in, size_t n_blocks);

    /* Ragged encodings only: the last block of a row, with n < block_elements elements. short_capacity is how many
     * codes its bytes hold; those from n on are padding and must be code 0. */
    size_t (*short_bytes)(size_t n);
    size_t (*short_capacity)(size_t n);
    void (*pack_short)(const int8_t *codes, size_t n, void *block);
    void (*unpack_short)(const void *block, size_t n, uint8_t *raw);
} tern_ternary;

/* Raw codes to codes; how many were invalid (they become 0). raw and codes may not overlap. */
size_t tern_ternary__codes(const uint8_t *raw, size_t n, int8_t *codes);

/* tern_encoding's pack, unpack, pack_codes and unpack_codes, from its codec. */
void tern_ternary__pack(const tern_encoding *e, const float *x, size_t n_blocks, void *out);
void tern_ternary__unpack(const tern_encoding *e, const void *in, size_t n_blocks, float *x);
void tern_ternary__pack_codes(const tern_encoding *e, const int8_t *codes, size_t n_blocks, float scale, void *out);
size_t tern_ternary__unpack_codes(const tern_encoding *e, const void *in, size_t n_blocks, int8_t *codes,
                                  float *scales);

/* Defines those four as static functions for the encoding `e`. */
#define TERN_TERNARY_FUNCTIONS(e)                                                                                      \
    static void pack(const float *x, size_t n_blocks, void *out)                                                       \
    {                                                                                                                  \
        tern_ternary__pack(&(e), x, n_blocks, out);                                                                    \
    }                                                                                                                  \
    static void unpack(const void *in, size_t n_blocks, float *x)                                                      \
    {                                                                                                                  \
        tern_ternary__unpack(&(e), in, n_blocks, x);                                                                   \
    }                                                                                                                  \
    static void pack_codes(const int8_t *codes, size_t n_blocks, float scale, void *out)                               \
    {                                                                                                                  \
        tern_ternary__pack_codes(&(e), codes, n_blocks, scale, out);                                                   \
    }                                                                                                                  \
    static size_t unpack_codes(const void *in, size_t n_blocks, int8_t *codes, float *scales)                          \
    {                                                                                                                  \
        return tern_ternary__unpack_codes(&(e), in, n_blocks, codes, scales);                                          \
    }

#endif
