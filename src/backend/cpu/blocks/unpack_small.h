/* Blocks of 32 to 128 columns with few bits and no integer scales, read as unpack.h reads the others: for levels whose
 * bvec_look_up is included before. */
#ifndef TERN_BACKEND_CPU_BLOCKS_UNPACK_SMALL_H
#define TERN_BACKEND_CPU_BLOCKS_UNPACK_SMALL_H

#include "backend/cpu/blocks/unpack.h"

/* A bit of each of 32 columns, the first the lowest: 255 where it is set. A level may have masks for it. */
#ifdef SET_BITS
INLINE_UNPACK codes_32 set_bits(const uint8_t *p)
{
    uint32_t word;
    memcpy(&word, p, sizeof word);
    return SET_BITS(word);
}
#else
INLINE_UNPACK codes_32 set_bits(const uint8_t *p)
{
    typedef uint32_t dwords_8 __attribute__((vector_size(32)));
    typedef uint64_t quads_4 __attribute__((vector_size(32)));
    uint32_t word;
    memcpy(&word, p, sizeof word);
    const codes_32 words = (codes_32)((dwords_8){0} + word), bits = (codes_32)((quads_4){0} + 0x8040201008040201u);
    const codes_32 all = __builtin_shufflevector(words, words, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 18, 18,
                                                 18, 18, 18, 18, 18, 18, 19, 19, 19, 19, 19, 19, 19, 19);
    return (codes_32)((all & bits) != 0);
}
#endif

/* Two bits of each of 32 columns, the first the lowest. */
INLINE_UNPACK codes_32 pairs_32(const uint8_t *p)
{
    typedef uint8_t bytes_8 __attribute__((vector_size(8)));
    typedef uint32_t dwords_8 __attribute__((vector_size(32)));
    bytes_8 bytes;
    memcpy(&bytes, p, sizeof bytes);
    const dwords_8 all = __builtin_convertvector(bytes, dwords_8);
    return (codes_32)((all | all << 6 | all << 12 | all << 18) & 0x03030303u);
}

INLINE_UNPACK void unpack_q4_0(const uint8_t *block, unpacked *out)
{
    memcpy(&out->d, block, 2);
    out->codes[0] = nibbles_32(block + 2);
}

/* The value m that is added is a minimum of -m that is taken away. */
INLINE_UNPACK void unpack_d_and_m(const uint8_t *block, unpacked *out)
{
    memcpy(&out->d, block, 2);
    memcpy(&out->dmin, block + 2, 2);
    out->dmin ^= 0x8000;
}

INLINE_UNPACK void unpack_q4_1(const uint8_t *block, unpacked *out)
{
    unpack_d_and_m(block, out);
    out->codes[0] = nibbles_32(block + 4);
}

INLINE_UNPACK void unpack_q5_0(const uint8_t *block, unpacked *out)
{
    memcpy(&out->d, block, 2);
    out->codes[0] = nibbles_32(block + 6) | (set_bits(block + 2) & 16);
}

INLINE_UNPACK void unpack_q5_1(const uint8_t *block, unpacked *out)
{
    unpack_d_and_m(block, out);
    out->codes[0] = nibbles_32(block + 8) | (set_bits(block + 4) & 16);
}

/* The numbers of a table at the nibbles of 16 bytes. */
INLINE_UNPACK codes_32 look_up_32(const uint8_t *p, const uint8_t *values)
{
#ifdef LOOK_UP_32
    return LOOK_UP_32(p, values);
#else
    bytes_16 q;
    bvec table;
    memcpy(&q, p, sizeof q);
    memcpy(&table, values, sizeof table);
    return join_halves((bytes_16)bvec_look_up(table, (bvec)(q & 15)), (bytes_16)bvec_look_up(table, (bvec)(q >> 4)));
#endif
}

/* Its numbers as signed bytes: -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113. */
INLINE_UNPACK void unpack_iq4_nl(const uint8_t *block, unpacked *out)
{
    static const uint8_t values[16] = {129, 152, 173, 191, 207, 221, 234, 246, 1, 13, 25, 38, 53, 69, 89, 113};
    memcpy(&out->d, block, 2);
    out->codes[0] = look_up_32(block + 2, values);
}

/* 12 more than twice the numbers of eight magnitudes and a sign: 0, 1, 2, 3, 4, 6, 8, 12. */
INLINE_UNPACK void unpack_mxfp4(const uint8_t *block, unpacked *out)
{
    static const uint8_t values[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
    out->d = (uint16_t)(block[0] << 7);
    out->codes[0] = look_up_32(block + 1, values);
}

INLINE_UNPACK void unpack_q2_0(const uint8_t *block, unpacked *out)
{
    memcpy(&out->d, block, 2);
    for (int i = 0; i < 2; i++) out->codes[i] = pairs_32(block + 2 + 8 * i);
}

INLINE_UNPACK void unpack_pq2_0(const uint8_t *block, unpacked *out)
{
    memcpy(&out->d, block, 2);
    for (int i = 0; i < 4; i++) out->codes[i] = pairs_32(block + 2 + 8 * i);
}

/* 1 where the bit is set, else -1. */
INLINE_UNPACK void unpack_q1_0(const uint8_t *block, unpacked *out)
{
    memcpy(&out->d, block, 2);
    for (int i = 0; i < 4; i++) out->codes[i] = (set_bits(block + 2 + 4 * i) & 2) - 1;
}

/* As BLOCKS_LIST. */
#define SMALL_BLOCKS_LIST(X)                                                                                           \
    X(q5_1, 32, 24, 31, 0, false, false, true, false)                                                                  \
    X(q5_0, 32, 22, 31, 16, false, false, false, false)                                                                \
    X(q4_1, 32, 20, 15, 0, false, false, true, false)                                                                  \
    X(q4_0, 32, 18, 15, 8, false, false, false, false)                                                                 \
    X(iq4_nl, 32, 18, 127, 0, true, false, false, false)                                                               \
    X(q2_0, 64, 18, 3, 1, false, false, false, false)                                                                  \
    X(pq2_0, 128, 34, 3, 1, false, false, false, false)                                                                \
    X(q1_0, 128, 18, 1, 0, true, false, false, false)

#endif
