/* The row of an encoding table whose blocks are written and read one at a time. */
#ifndef TERN_QUANT_BLOCK_H
#define TERN_QUANT_BLOCK_H

#include "quant/table.h"

/* Defines tern_encoding__<word>: blocks of `elements` numbers in `size` bytes, written by pack_block(x, w, out) and
 * read by unpack_block(in, x); w: weights, or NULL. find: its find_nonfinite. */
#define TERN_BLOCK_ENCODING_SCALED(word, WORD, elements, size, pack_block, unpack_block, find)                         \
    static void pack_weighted_##word(const float *x, const float *w, size_t n_blocks, void *out)                       \
    {                                                                                                                  \
        for (size_t b = 0; b < n_blocks; b++)                                                                          \
            pack_block(x + b * (elements), w ? w + b * (elements) : NULL, (uint8_t *)out + b * (size));                \
    }                                                                                                                  \
    static void pack_##word(const float *x, size_t n_blocks, void *out)                                                \
    {                                                                                                                  \
        pack_weighted_##word(x, NULL, n_blocks, out);                                                                  \
    }                                                                                                                  \
    static void unpack_##word(const void *in, size_t n_blocks, float *x)                                               \
    {                                                                                                                  \
        for (size_t b = 0; b < n_blocks; b++) unpack_block((const uint8_t *)in + b * (size), x + b * (elements));      \
    }                                                                                                                  \
    const tern_encoding tern_encoding__##word = {                                                                      \
        .name = #word,                                                                                                 \
        .id = TERN_ENC_##WORD,                                                                                         \
        .block_elements = (elements),                                                                                  \
        .block_bytes = (size),                                                                                         \
        .pack = pack_##word,                                                                                           \
        .pack_weighted = pack_weighted_##word,                                                                         \
        .unpack = unpack_##word,                                                                                       \
        .find_nonfinite = find,                                                                                        \
    };

/* As above for blocks with f16 scales at bytes `d_at` and `m_at`, which are equal where there is one. */
#define TERN_BLOCK_ENCODING(word, WORD, elements, size, d_at, m_at, pack_block, unpack_block)                          \
    static size_t find_nonfinite_##word(const void *in, size_t n_blocks)                                               \
    {                                                                                                                  \
        size_t first = tern_f16__find_nonfinite((const uint8_t *)in + (d_at), size, n_blocks);                         \
        return (m_at) == (d_at) ? first : tern_f16__find_nonfinite((const uint8_t *)in + (m_at), size, first);         \
    }                                                                                                                  \
    TERN_BLOCK_ENCODING_SCALED(word, WORD, elements, size, pack_block, unpack_block, find_nonfinite_##word)

#endif
