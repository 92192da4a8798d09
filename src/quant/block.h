/* The row of an encoding table whose blocks are written and read one at a time. */
#ifndef TERN_QUANT_BLOCK_H
#define TERN_QUANT_BLOCK_H

#include "quant/table.h"

/* Defines the functions of TERN_BLOCK_FIELDS: blocks of `elements` numbers in `size` bytes, written by
 * pack_block(x, w, out) and read by unpack_block(in, x); w: weights, or NULL. */
#define TERN_BLOCK_FUNCTIONS(word, elements, size, pack_block, unpack_block)                                           \
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
    }

/* The fields of a row of the table; find: its find_nonfinite. */
#define TERN_BLOCK_FIELDS(word, WORD, elements, size, find)                                                            \
    .name = #word, .id = TERN_ENC_##WORD, .block_elements = (elements), .block_bytes = (size), .pack = pack_##word,    \
    .pack_weighted = pack_weighted_##word, .unpack = unpack_##word, .find_nonfinite = (find)

/* Defines tern_encoding__<word>. */
#define TERN_BLOCK_ENCODING_SCALED(word, WORD, elements, size, pack_block, unpack_block, find)                         \
    TERN_BLOCK_FUNCTIONS(word, elements, size, pack_block, unpack_block)                                               \
    const tern_encoding tern_encoding__##word = {TERN_BLOCK_FIELDS(word, WORD, elements, size, find)};

/* The scan for f16 scales at bytes `d_at` and `m_at`, which are the same where there is one. */
#define TERN_BLOCK_FIND(word, size, d_at, m_at)                                                                        \
    static size_t find_nonfinite_##word(const void *in, size_t n_blocks)                                               \
    {                                                                                                                  \
        size_t first = tern_f16__find_nonfinite((const uint8_t *)in + (d_at), size, n_blocks);                         \
        return (m_at) == (d_at) ? first : tern_f16__find_nonfinite((const uint8_t *)in + (m_at), size, first);         \
    }

/* Defines tern_encoding__<word> with such scales. */
#define TERN_BLOCK_ENCODING(word, WORD, elements, size, d_at, m_at, pack_block, unpack_block)                          \
    TERN_BLOCK_FIND(word, size, d_at, m_at)                                                                            \
    TERN_BLOCK_ENCODING_SCALED(word, WORD, elements, size, pack_block, unpack_block, find_nonfinite_##word)

#endif
