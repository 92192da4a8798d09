/* ik_llama.cpp's ternary layouts, and rows with four neighbours in a byte. Sources: ik_llama.cpp's
 * ggml/src/iqk/iqk_quantize.cpp (IQ1BNQuantizer, repack_iq2_bn); pack_bitnet_weights of BitNet tutorials. */
#include "base/bytes.h"
#include "base/half.h"
#include "quant/foreign_internal.h"

enum { BLOCK = 64, IQ1_BYTES = 13, IQ2_BYTES = 16 };

static void note(size_t *bad, size_t at)
{
    if (at < *bad) *bad = at;
}

static int8_t two_bits(unsigned raw, size_t at, size_t *bad)
{
    if (raw == 3) note(bad, at);
    return (int8_t)(raw == 3 ? 0 : (int)raw - 1);
}

/* A byte is 256 / 243 of a number of five digits to the base 3, rounded up; the first code is its lowest digit. */
static void put_digits(uint8_t byte, int8_t *codes, size_t stride, unsigned n, size_t at, size_t *bad)
{
    unsigned number = byte * 243u >> 8;
    if ((number * 256 + 242) / 243 != byte) note(bad, at);
    for (unsigned i = 0; i < n; i++, number /= 3) codes[i * stride] = (int8_t)((int)(number % 3) - 1);
    if (number) note(bad, at);
}

/* Four times fifteen codes in three bytes, and the sixteenth of each in the last byte. */
static void unpack_iq1(const uint8_t *in, size_t at, int8_t *codes, size_t *bad)
{
    for (unsigned i = 0; i < 12; i++) put_digits(in[at + i], codes + i / 3 * 16 + i % 3 * 5, 1, 5, at + i, bad);
    put_digits(in[at + 12], codes + 15, 16, 4, at + 12, bad);
}

void tern_foreign__iq1_bn(const uint8_t *in, size_t rows, size_t cols, int8_t *codes, float *scales, size_t *bad)
{
    size_t at = 0;
    for (size_t r = 0; r < rows; r++) {
        scales[r] = tern_f16_to_f32(tern_load_u16(in + at));
        at += 2;
        for (size_t c = 0; c < cols; c += BLOCK, at += IQ1_BYTES) unpack_iq1(in, at, codes + r * cols + c, bad);
    }
}

void tern_foreign__iq2_bn(const uint8_t *in, size_t rows, size_t cols, int8_t *codes, float *scales, size_t *bad)
{
    size_t at = 0;
    for (size_t r = 0; r < rows; r++) {
        scales[r] = tern_load_f32(in + at);
        at += 4;
        for (size_t c = 0; c < cols; c += BLOCK, at += IQ2_BYTES)
            for (size_t i = 0; i < BLOCK; i++) {
                const size_t byte = at + i % IQ2_BYTES;
                codes[r * cols + c + i] = two_bits(in[byte] >> (i / IQ2_BYTES * 2) & 3u, byte, bad);
            }
    }
}

/* Four rows: their scales, then for each block of 64 columns 64 bytes. Byte 16 l + 4 k + i has of row k the columns
 * 16 l + i + 0, 4, 8, 12, the first in the lowest bits. */
void tern_foreign__iq2_bn_r4(const uint8_t *in, size_t rows, size_t cols, int8_t *codes, float *scales, size_t *bad)
{
    size_t at = 0;
    for (size_t r = 0; r < rows; r += 4) {
        for (size_t k = 0; k < 4; k++) scales[r + k] = tern_load_f32(in + at + 4 * k);
        at += 16;
        for (size_t c = 0; c < cols; c += BLOCK, at += BLOCK)
            for (size_t n = 0; n < 4u * BLOCK; n++) {
                const size_t k = n / BLOCK, i = n % BLOCK, byte = at + i / 16 * 16 + 4 * k + i % 4;
                codes[(r + k) * cols + c + i] = two_bits(in[byte] >> (i % 16 / 4 * 2) & 3u, byte, bad);
            }
    }
}

size_t tern_lsb_unpack(const uint8_t *in, uint64_t rows, uint64_t cols, uint64_t stride, int8_t *codes)
{
    size_t n_bad = 0;
    for (uint64_t r = 0; r < rows; r++)
        for (uint64_t c = 0; c < cols; c++) {
            size_t bad = SIZE_MAX;
            *codes++ = two_bits(in[r * stride + c / 4] >> (c % 4 * 2) & 3u, 0, &bad);
            n_bad += bad == 0;
        }
    return n_bad;
}
