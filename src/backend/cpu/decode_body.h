/* Rows of ternary codes as floats, for the level whose vectors are included before: loops over bytes that compilers
 * turn into vectors, then int8 to f32. The layouts: docs/formats/encodings.md. */
#ifndef TERN_BACKEND_CPU_DECODE_BODY_H
#define TERN_BACKEND_CPU_DECODE_BODY_H

#include "backend/cpu/floats.h"
#include "quant/t160.h"

enum { MAX_CODES = 320 }; /* of a block: a multiple of VEC */

/* n codes, or up to VEC - 1 more. */
INLINE void widen(const int8_t *codes, uint32_t n, float *out)
{
    for (uint32_t i = 0; i < n; i += VEC) vec_store(out + i, vec_load_i8(codes + i));
}

/* A 2-bit field; 11 is 0. */
INLINE int8_t code_of(uint32_t raw)
{
    return (int8_t)(raw == 3 ? 0 : (int)raw - 1);
}

/* 32 bytes of four codes, 32 elements apart. */
INLINE void group_i2_s(const uint8_t *in, int8_t *codes)
{
    for (int part = 0; part < 4; part++)
        for (int b = 0; b < 32; b++) codes[32 * part + b] = code_of(in[b] >> (6 - 2 * part) & 3u);
}

INLINE void group_tq2_0(const uint8_t *in, int8_t *codes)
{
    for (int part = 0; part < 4; part++)
        for (int b = 0; b < 32; b++) codes[32 * part + b] = code_of(in[b] >> (2 * part) & 3u);
}

INLINE void block_tq2_0(const uint8_t *in, int8_t *codes)
{
    group_tq2_0(in, codes);
    group_tq2_0(in + 32, codes + 128);
}

/* Digit after digit of n bytes that stand for fractions in base 3. */
INLINE void digits_tq1_0(const uint8_t *in, int n, int n_digits, int8_t *codes)
{
    static const uint8_t power[5] = {1, 3, 9, 27, 81};
    for (int digit = 0; digit < n_digits; digit++)
        for (int b = 0; b < n; b++) {
            const uint8_t shifted = (uint8_t)(in[b] * power[digit]);
            codes[digit * n + b] = (int8_t)((shifted * 3 >> 8) - 1);
        }
}

INLINE void block_tq1_0(const uint8_t *in, int8_t *codes)
{
    digits_tq1_0(in, 32, 5, codes);
    digits_tq1_0(in + 32, 16, 5, codes + 160);
    digits_tq1_0(in + 48, 4, 4, codes + 240);
}

/* The first and the second code of a pair 0 .. 8. */
INLINE void pair_of(uint32_t pair, int8_t *first, int8_t *second)
{
    const int threes = (pair >= 3) + (pair >= 6);
    *first = (int8_t)((int)pair - 3 * threes - 1);
    *second = (int8_t)(threes - 1);
}

/* Code k of byte j becomes element k * apart + j. Escapes (quant/t160.h) are chosen, not branched to. */
INLINE void bytes_t160(const uint8_t *in, uint32_t n, uint32_t apart, int8_t *codes)
{
    for (uint32_t j = 0; j < n; j++) {
        const uint32_t b = in[j], low = b & 15;
        const bool escape = b >= 0xc0, both = b >= 0xf0;
        const uint32_t p = !escape ? b & 7 : both || low < 8 ? 8 : low & 7;
        const uint32_t q = !escape ? b >> 3 & 7 : both || low >= 8 ? 8 : low;
        const uint32_t last = !escape ? b >> 6 : both ? b & 3 : b >> 4 & 3;
        int8_t c[5];
        pair_of(p, &c[0], &c[1]);
        pair_of(q, &c[2], &c[3]);
        c[4] = (int8_t)((int)last - 1);
        for (uint32_t k = 0; k < 5; k++) codes[k * apart + j] = b >= TERN_T160_FIRST_INVALID ? 0 : c[k];
    }
}

INLINE void block_t160(const uint8_t *in, int8_t *codes)
{
    bytes_t160(in, TERN_T160_BYTES, TERN_T160_BYTES, codes);
}

/* A row of whole blocks. */
#define DECODE_BLOCKS(slot, unpack, elements, bytes)                                                                   \
    void KERNEL_NAME(decode_##slot)(const uint8_t *w, size_t row_bytes, uint32_t n_rows, uint32_t cols, float *out,    \
                                    size_t out_stride)                                                                 \
    {                                                                                                                  \
        int8_t codes[elements];                                                                                        \
        for (size_t r = 0; r < n_rows; r++)                                                                            \
            for (size_t block = 0; block < cols / (elements); block++) {                                               \
                unpack(w + r * row_bytes + block * (bytes), codes);                                                    \
                widen(codes, elements, out + r * out_stride + block * (elements));                                     \
            }                                                                                                          \
    }

DECODE_BLOCKS(i2_s, group_i2_s, 128, 32)
DECODE_BLOCKS(tq2_0, block_tq2_0, 256, 66)
DECODE_BLOCKS(tq1_0, block_tq1_0, 256, 54)

/* What is left after whole blocks is a shorter one. */
void KERNEL_NAME(decode_t160)(const uint8_t *w, size_t row_bytes, uint32_t n_rows, uint32_t cols, float *out,
                              size_t out_stride)
{
    const uint32_t blocks = cols / MAX_CODES, left = cols % MAX_CODES, apart = (uint32_t)tern_t160_lanes(left);
    int8_t codes[MAX_CODES + 16] = {0};
    for (size_t r = 0; r < n_rows; r++) {
        const uint8_t *in = w + r * row_bytes;
        float *to = out + r * out_stride;
        for (uint32_t block = 0; block < blocks; block++, in += TERN_T160_BYTES, to += MAX_CODES) {
            block_t160(in, codes);
            widen(codes, MAX_CODES, to);
        }
        bytes_t160(in, apart, apart, codes);
        widen(codes, left, to);
    }
}

#endif
