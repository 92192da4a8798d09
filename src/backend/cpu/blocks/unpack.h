/* How each encoding's blocks are read for products with int8 activations: codes as bytes, scales and minima as small
 * integers. All levels use it; the layouts are those of ops/ref/ref_dense.c. */
#ifndef TERN_BACKEND_CPU_BLOCKS_UNPACK_H
#define TERN_BACKEND_CPU_BLOCKS_UNPACK_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/half.h"
#include "ops/ref/blocks.h"

#define INLINE_UNPACK static inline __attribute__((always_inline))

enum { MAX_RUNS = TERN_BLOCKS_MAX / TERN_BLOCKS_RUN };

/* The codes of 32 columns. Compilers split it where registers are narrower. */
typedef uint8_t codes_32 __attribute__((vector_size(32)));

/* A number of each run of 16 columns. */
typedef int16_t words_16 __attribute__((vector_size(32)));

/* One block: columns 32 i .. 32 i + 31 in codes[i]; scales of runs of 16 columns. */
typedef struct unpacked {
    codes_32 codes[TERN_BLOCKS_MAX / 32];
    uint16_t d, dmin; /* f16 bits; of scales that are powers of two: bf16 bits of 2 d, or 0 for 2^-127 */
    words_16 scales, minima;
} unpacked;

typedef void (*read_fn)(const uint8_t *block, unpacked *out);

/* An encoding. Codes are the stored numbers: unsigned and at most `largest`, each `offset` more than its value; or
 * signed bytes. `scaled`: runs have integer scales. `minima`: there is a dmin, and runs have integer minima, which are
 * 1 where there are no scales. `powers`: d is a power of two and no f16. */
typedef struct form {
    read_fn unpack;
    uint32_t elements, bytes, largest, offset;
    bool is_signed, scaled, minima, powers;
} form;

INLINE_UNPACK codes_32 load_32(const uint8_t *p)
{
    codes_32 v;
    memcpy(&v, p, sizeof v);
    return v;
}

typedef uint8_t bytes_16 __attribute__((vector_size(16)));

/* Never through memory: what is stored in halves and loaded whole waits for the stores. */
INLINE_UNPACK codes_32 join_halves(bytes_16 low, bytes_16 high)
{
    return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20,
                                   21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31);
}

/* 16 bytes to 32 codes, the low nibbles first. A level may have its own. */
INLINE_UNPACK codes_32 nibbles_32(const uint8_t *p)
{
#ifdef NIBBLES_32
    return NIBBLES_32(p);
#else
    bytes_16 q;
    memcpy(&q, p, sizeof q);
    return join_halves(q & 15, q >> 4);
#endif
}

INLINE_UNPACK void read_q8_0(const uint8_t *block, unpacked *out)
{
    memcpy(&out->d, block, 2);
    out->codes[0] = load_32(block + 2);
}

INLINE_UNPACK void read_q6_k(const uint8_t *block, unpacked *out)
{
    memcpy(&out->d, block + 208, 2);
    for (int half = 0; half < 2; half++) {
        const codes_32 a = load_32(block + 64 * half), b = load_32(block + 64 * half + 32),
                       high = load_32(block + 128 + 32 * half);
        out->codes[4 * half] = (a & 15) | (high << 4 & 0x30);
        out->codes[4 * half + 1] = (b & 15) | (high << 2 & 0x30);
        out->codes[4 * half + 2] = (a >> 4) | (high & 0x30);
        out->codes[4 * half + 3] = (b >> 4) | (high >> 2 & 0x30);
    }
    typedef int8_t signed_16 __attribute__((vector_size(16)));
    signed_16 scales;
    memcpy(&scales, block + 192, sizeof scales);
    out->scales = __builtin_convertvector(scales, words_16);
}

/* Eight bytes to the int16 of 16 runs, each twice. */
INLINE_UNPACK words_16 twice(uint64_t eight)
{
    typedef uint64_t two_quads __attribute__((vector_size(16)));
    const bytes_16 in = (bytes_16)(two_quads){eight};
    return __builtin_convertvector(__builtin_shufflevector(in, in, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7),
                                   words_16);
}

/* The eight scales and minima of 6 bits of a Q4_K or Q5_K block, as bytes. */
INLINE_UNPACK void k_scales(const uint8_t *block, uint64_t *scales, uint64_t *minima)
{
    const uint32_t low = 0x0f0f0f0f, six = 0x3f3f3f3f, top = 0x30303030;
    uint32_t a, b, c;
    memcpy(&a, block + 4, 4);
    memcpy(&b, block + 8, 4);
    memcpy(&c, block + 12, 4);
    *scales = (a & six) | (uint64_t)((c & low) | (a >> 2 & top)) << 32;
    *minima = (b & six) | (uint64_t)((c >> 4 & low) | (b >> 2 & top)) << 32;
}

/* d, dmin, scales and minima. */
INLINE_UNPACK void read_k_scales(const uint8_t *block, unpacked *out)
{
    uint64_t scales, minima;
    k_scales(block, &scales, &minima);
    memcpy(&out->d, block, 2);
    memcpy(&out->dmin, block + 2, 2);
    out->scales = twice(scales);
    out->minima = twice(minima);
}

INLINE_UNPACK void read_q4_k(const uint8_t *block, unpacked *out)
{
    read_k_scales(block, out);
    for (int pair = 0; pair < 4; pair++) {
        const codes_32 q = load_32(block + 16 + 32 * pair);
        out->codes[2 * pair] = q & 15;
        out->codes[2 * pair + 1] = q >> 4;
    }
}

INLINE_UNPACK void read_q5_k(const uint8_t *block, unpacked *out)
{
    const codes_32 high = load_32(block + 16);
    read_k_scales(block, out);
    for (int pair = 0; pair < 4; pair++) {
        const codes_32 q = load_32(block + 48 + 32 * pair), bits = high >> (uint8_t)(2 * pair);
        out->codes[2 * pair] = (q & 15) | (bits << 4 & 16);
        out->codes[2 * pair + 1] = (q >> 4) | (bits << 3 & 16);
    }
}

/* Encodings of these without integer scales and with few bits are read in unpack_small.h. X(name, elements, bytes,
 * largest, offset, is_signed, scaled, minima, powers) */
#define BLOCKS_LIST(X)                                                                                                 \
    X(q8_0, 32, 34, 255, 0, true, false, false, false)                                                                 \
    X(q6_k, 256, 210, 63, 32, false, true, false, false)                                                               \
    X(q5_k, 256, 176, 31, 0, false, true, true, false)                                                                 \
    X(q4_k, 256, 144, 15, 0, false, true, true, false)                                                                 \
    X(mxfp4, 32, 17, 24, 12, false, false, false, true)

#endif
