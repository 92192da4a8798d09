/* T160, Tern's 1.6-bit ternary encoding: the byte code and its look-up tables, for kernels.
 *
 * A byte holds five raw codes c0 .. c4 (0, 1, 2 for -1, 0, +1). With p = c0 + 3 c1 and q = c2 + 3 c3 (0 .. 8 each):
 *
 *   p < 8 and q < 8    c4 << 6 | q << 3 | p               bytes 0x00 .. 0xbf
 *   p = 8 and q < 8    0xc0 | c4 << 4 | q                 bytes 0xc0 .. 0xef, low nibble 0 .. 7
 *   p < 8 and q = 8    0xc0 | c4 << 4 | 8 | p             bytes 0xc0 .. 0xef, low nibble 8 .. 15
 *   p = 8 and q = 8    0xf0 | c4                          bytes 0xf0 .. 0xf2
 *
 * Bytes above 0xf2 hold no codes: five invalid ones, read as 0. So for a byte b, with L = b & 63:
 * the first four codes, as four 2-bit fields with c0 lowest, are low[L] (b < 0xc0) or high[L]; c4 is b >> 6 or
 * high_fifth[L]. p and q are 3-bit fields where b < 0xc0, and the escapes differ only in the low nibble, so 16-entry
 * tables do as well.
 *
 * A block is 64 bytes = 320 elements: byte j holds elements j, j + 64, j + 128, j + 192, j + 256 (c0 .. c4). A row is
 * cols / 320 such blocks; the n = cols % 320 elements that are left are one block of tern_t160_lanes(n) bytes, whose
 * byte j holds elements j + k * lanes, those past the row's end code 0 (raw 1). */
#ifndef TERN_QUANT_T160_H
#define TERN_QUANT_T160_H

#include <stddef.h>
#include <stdint.h>

enum { TERN_T160_ELEMENTS = 320, TERN_T160_BYTES = 64, TERN_T160_FIRST_INVALID = 0xf3 };

/* Where no code is valid the tables say 0: fields 01, raw code 1. */
extern const uint8_t tern_t160_low[64];
extern const uint8_t tern_t160_high[64];
extern const uint8_t tern_t160_high_fifth[64];

/* Bytes of a block of n elements, 0 <= n <= 320: ceil(n / 5), rounded up to whole 32-bit words. */
static inline size_t tern_t160_lanes(size_t n)
{
    return ((n + 4) / 5 + 3) & ~(size_t)3;
}

/* The raw codes of a byte: five 2-bit fields, c0 lowest. */
static inline uint32_t tern_t160_fields(uint8_t b)
{
    uint32_t index = b & 63u;
    if (b < 0xc0) return tern_t160_low[index] | (uint32_t)(b >> 6) << 8;
    return tern_t160_high[index] | (uint32_t)tern_t160_high_fifth[index] << 8;
}

#endif
