/* Blocks of 64 and 128 columns of few bits and one scale, read as unpack.h reads the others. */
#ifndef TERN_BACKEND_CPU_BLOCKS_UNPACK_FEW_H
#define TERN_BACKEND_CPU_BLOCKS_UNPACK_FEW_H

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

INLINE_UNPACK void read_q2_0(const uint8_t *block, unpacked *out)
{
    memcpy(&out->d, block, 2);
    for (int i = 0; i < 2; i++) out->codes[i] = pairs_32(block + 2 + 8 * i);
}

INLINE_UNPACK void read_pq2_0(const uint8_t *block, unpacked *out)
{
    memcpy(&out->d, block, 2);
    for (int i = 0; i < 4; i++) out->codes[i] = pairs_32(block + 2 + 8 * i);
}

/* 1 where the bit is set, else -1. */
INLINE_UNPACK void read_q1_0(const uint8_t *block, unpacked *out)
{
    memcpy(&out->d, block, 2);
    for (int i = 0; i < 4; i++) out->codes[i] = (set_bits(block + 2 + 4 * i) & 2) - 1;
}

/* Columns 16 i .. 16 i + 15 of a block as the bytes of which those columns are the first of five base-3 digits: a byte
 * times 3^k has its digit k first. */
INLINE_UNPACK void lead_digits(const uint8_t *block, bytes_16 out[8])
{
    bytes_16 a[5], b[5]; /* bytes 0 .. 15, and 12 .. 27: the runs of 8 and 2 bytes are in lanes 4 .. 13 */
    memcpy(&a[0], block, sizeof a[0]);
    memcpy(&b[0], block + 12, sizeof b[0]);
    for (int k = 1; k < 5; k++) a[k] = a[k - 1] + a[k - 1] + a[k - 1], b[k] = b[k - 1] + b[k - 1] + b[k - 1];
    for (int k = 0; k < 5; k++) out[k] = a[k];
#define EIGHTS(x, y) __builtin_shufflevector(x, y, 4, 5, 6, 7, 8, 9, 10, 11, 20, 21, 22, 23, 24, 25, 26, 27)
#define TWOS(x, y)   __builtin_shufflevector(x, y, 0, 0, 0, 0, 12, 13, 28, 29, 0, 0, 0, 0, 0, 0, 0, 0)
    const bytes_16 first = TWOS(b[0], b[1]), last = TWOS(b[2], b[3]);
    const bytes_16 twos = __builtin_shufflevector(first, last, 0, 0, 0, 0, 4, 5, 6, 7, 20, 21, 22, 23, 0, 0, 0, 0);
    out[5] = EIGHTS(b[0], b[1]);
    out[6] = EIGHTS(b[2], b[3]);
    out[7] = EIGHTS(b[4], twos);
#undef EIGHTS
#undef TWOS
}

/* 3 v / 256: the first digit of each byte. A level may have a shorter way. */
INLINE_UNPACK codes_32 first_digits(codes_32 v)
{
#ifdef FIRST_DIGITS
    return FIRST_DIGITS(v);
#else
    return -((codes_32)(v > 85) + (codes_32)(v > 170));
#endif
}

INLINE_UNPACK void read_ptq1_0(const uint8_t *block, unpacked *out)
{
    bytes_16 lead[8];
    lead_digits(block, lead);
    memcpy(&out->d, block + 26, 2);
    for (int i = 0; i < 4; i++) out->codes[i] = first_digits(join_halves(lead[2 * i], lead[2 * i + 1]));
}

/* As BLOCKS_LIST. Encodings of READ_FIRST_LIST have no f32 kernels of their own: dense/read_first.inc makes them. */
#define FEW_BITS_LIST(X)                                                                                               \
    X(q2_0, 64, 18, 3, 1, false, false, false, false)                                                                  \
    X(pq2_0, 128, 34, 3, 1, false, false, false, false)                                                                \
    X(q1_0, 128, 18, 1, 0, true, false, false, false)                                                                  \
    READ_FIRST_LIST(X)
#define READ_FIRST_LIST(X) X(ptq1_0, 128, 28, 2, 1, false, false, false, false)

#endif
