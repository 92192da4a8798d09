/* Blocks of 32 columns without integer scales, read as unpack.h reads the others: for levels whose
 * bvec_look_up is included before. */
#ifndef TERN_BACKEND_CPU_BLOCKS_UNPACK_SMALL_H
#define TERN_BACKEND_CPU_BLOCKS_UNPACK_SMALL_H

#include "backend/cpu/blocks/unpack_few.h"

INLINE_UNPACK void read_q4_0(const uint8_t *block, unpacked *out)
{
    memcpy(&out->d, block, 2);
    out->codes[0] = nibbles_32(block + 2);
}

/* The value m that is added is a minimum of -m that is taken away. */
INLINE_UNPACK void read_d_and_m(const uint8_t *block, unpacked *out)
{
    memcpy(&out->d, block, 2);
    memcpy(&out->dmin, block + 2, 2);
    out->dmin ^= 0x8000;
}

INLINE_UNPACK void read_q4_1(const uint8_t *block, unpacked *out)
{
    read_d_and_m(block, out);
    out->codes[0] = nibbles_32(block + 4);
}

INLINE_UNPACK void read_q5_0(const uint8_t *block, unpacked *out)
{
    memcpy(&out->d, block, 2);
    out->codes[0] = nibbles_32(block + 6) | (set_bits(block + 2) & 16);
}

INLINE_UNPACK void read_q5_1(const uint8_t *block, unpacked *out)
{
    read_d_and_m(block, out);
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
INLINE_UNPACK void read_iq4_nl(const uint8_t *block, unpacked *out)
{
    static const uint8_t values[16] = {129, 152, 173, 191, 207, 221, 234, 246, 1, 13, 25, 38, 53, 69, 89, 113};
    memcpy(&out->d, block, 2);
    out->codes[0] = look_up_32(block + 2, values);
}

/* 12 more than twice the numbers of eight magnitudes and a sign: 0, 1, 2, 3, 4, 6, 8, 12. */
INLINE_UNPACK void read_mxfp4(const uint8_t *block, unpacked *out)
{
    static const uint8_t values[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
    out->d = (uint16_t)(block[0] << 7);
    out->codes[0] = look_up_32(block + 1, values);
}

/* As BLOCKS_LIST. */
#define SMALL_BLOCKS_LIST(X)                                                                                           \
    X(q5_1, 32, 24, 31, 0, false, false, true, false)                                                                  \
    X(q5_0, 32, 22, 31, 16, false, false, false, false)                                                                \
    X(q4_1, 32, 20, 15, 0, false, false, true, false)                                                                  \
    X(q4_0, 32, 18, 15, 8, false, false, false, false)                                                                 \
    X(iq4_nl, 32, 18, 127, 0, true, false, false, false)                                                               \
    FEW_BITS_LIST(X)

#endif
