/* The elements of dense weights, block by block: the definition of each encoding's numbers. */
#include "ops/ref/decode.h"

#include "base/bytes.h"
#include "base/half.h"

void tern_ref__decode_f32(const uint8_t *in, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++) out[i] = tern_load_f32(in + 4 * i);
}

void tern_ref__decode_f16(const uint8_t *in, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++) out[i] = tern_f16_to_f32(tern_load_u16(in + 2 * i));
}

void tern_ref__decode_bf16(const uint8_t *in, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++) out[i] = tern_bf16_to_f32(tern_load_u16(in + 2 * i));
}

/* Blocks of 32 in 34 bytes: f16 d, then int8 q; value d * q. */
void tern_ref__decode_q8_0(const uint8_t *in, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++) {
        const uint8_t *block = in + i / 32 * 34;
        out[i] = tern_f16_to_f32(tern_load_u16(block)) * (float)(int8_t)block[2 + i % 32];
    }
}

/* Blocks of 256 in 210 bytes: low nibbles [2][64], high pairs [2][32], int8 scales of 16 elements [16], f16 d; value (d
 * * sc) * (q - 32). Half h, quarter k of 32: the low bits are nibble k / 2 of byte k % 2 * 32 + i, the high bits are
 * pair k of byte i. */
void tern_ref__decode_q6_k(const uint8_t *in, size_t n, float *out)
{
    (void)n;
    const uint8_t *high = in + 128;
    const int8_t *scales = (const int8_t *)in + 192;
    float d = tern_f16_to_f32(tern_load_u16(in + 208));
    for (unsigned e = 0; e < 256; e++) {
        unsigned half = e / 128, quarter = e % 128 / 32, i = e % 32;
        int low = in[half * 64 + quarter % 2 * 32 + i] >> (quarter / 2 * 4) & 15;
        int pair = high[half * 32 + i] >> (2 * quarter) & 3;
        out[e] = (d * (float)scales[e / 16]) * (float)((low | pair << 4) - 32);
    }
}

/* The 6-bit scale sc and minimum m of part j (32 elements) from the 12 bytes at `in`. Parts 0 to 3: the low six bits
 * of bytes j and j + 4. Parts 4 to 7: the nibbles of byte j + 4 below the top two bits of bytes j - 4 and j. */
static void k_part(const uint8_t *in, unsigned j, float *sc, float *m)
{
    if (j < 4) {
        *sc = (float)(in[j] & 63);
        *m = (float)(in[j + 4] & 63);
        return;
    }
    *sc = (float)((in[j + 4] & 15) | in[j - 4] >> 6 << 4);
    *m = (float)(in[j + 4] >> 4 | in[j] >> 6 << 4);
}

/* Blocks of 256 in 144 bytes: f16 d, f16 dmin, 12 bytes of scales, nibbles [4][32] (elements 64k + i low, 64k + 32 + i
 * high); value (d * sc) * q - (dmin * m). */
void tern_ref__decode_q4_k(const uint8_t *in, size_t n, float *out)
{
    (void)n;
    float d = tern_f16_to_f32(tern_load_u16(in)), dmin = tern_f16_to_f32(tern_load_u16(in + 2));
    for (unsigned e = 0; e < 256; e++) {
        unsigned part = e / 32;
        int q = in[16 + e / 64 * 32 + e % 32] >> (part % 2 * 4) & 15;
        float sc, m;
        k_part(in + 4, part, &sc, &m);
        out[e] = (d * sc) * (float)q - dmin * m;
    }
}

/* Blocks of 256 in 176 bytes: as Q4_K, with 32 bytes before the nibbles, in which bit p of byte i is the fifth bit of
 * element i of part p. */
void tern_ref__decode_q5_k(const uint8_t *in, size_t n, float *out)
{
    (void)n;
    float d = tern_f16_to_f32(tern_load_u16(in)), dmin = tern_f16_to_f32(tern_load_u16(in + 2));
    for (unsigned e = 0; e < 256; e++) {
        unsigned part = e / 32;
        int q = (in[48 + e / 64 * 32 + e % 32] >> (part % 2 * 4) & 15) | (in[16 + e % 32] >> part & 1) << 4;
        float sc, m;
        k_part(in + 4, part, &sc, &m);
        out[e] = (d * sc) * (float)q - dmin * m;
    }
}

/* Blocks of 256 in 110 bytes: high bits [32] (bit e / 32 of byte e % 32), low pairs [2][32], 12 bytes of scales, f16 d;
 * value (d * (sc - 32)) * (q - 4). The scale of 16 elements has its low four bits in a nibble of the first eight bytes,
 * its high two in the last four. */
void tern_ref__decode_q3_k(const uint8_t *in, size_t n, float *out)
{
    (void)n;
    const uint8_t *low = in + 32, *scales = in + 96;
    float d = tern_f16_to_f32(tern_load_u16(in + 108));
    for (unsigned e = 0; e < 256; e++) {
        unsigned g = e / 16, quarter = e % 128 / 32;
        int sc = (scales[g % 8] >> (g / 8 * 4) & 15) | (scales[8 + g % 4] >> (2 * (g / 4)) & 3) << 4;
        int q = (low[e / 128 * 32 + e % 32] >> (2 * quarter) & 3) | (in[e % 32] >> (e / 32) & 1) << 2;
        out[e] = (d * (float)(sc - 32)) * (float)(q - 4);
    }
}

/* Blocks of 256 in 84 bytes: a byte for each 16 elements (scale low, minimum high), pairs [2][32], f16 d, f16 dmin;
 * value (d * sc) * q - dmin * m. */
void tern_ref__decode_q2_k(const uint8_t *in, size_t n, float *out)
{
    (void)n;
    float d = tern_f16_to_f32(tern_load_u16(in + 80)), dmin = tern_f16_to_f32(tern_load_u16(in + 82));
    for (unsigned e = 0; e < 256; e++) {
        unsigned both = in[e / 16];
        int q = in[16 + e / 128 * 32 + e % 32] >> (2 * (e % 128 / 32)) & 3;
        out[e] = (d * (float)(both & 15)) * (float)q - dmin * (float)(both >> 4);
    }
}

/* Blocks of 32 in 18 bytes: f16 d, 16 bytes of nibbles (elements i low, i + 16 high); value d * (q - 8). */
void tern_ref__decode_q4_0(const uint8_t *in, size_t n, float *out)
{
    for (; n; n -= 32, in += 18, out += 32) {
        const float d = tern_f16_to_f32(tern_load_u16(in));
        for (unsigned i = 0; i < 16; i++) {
            out[i] = d * (float)((in[2 + i] & 15) - 8);
            out[i + 16] = d * (float)((in[2 + i] >> 4) - 8);
        }
    }
}

/* Blocks of 32 in 20 bytes: f16 d, f16 m, nibbles as in Q4_0; value d * q + m. */
void tern_ref__decode_q4_1(const uint8_t *in, size_t n, float *out)
{
    for (; n; n -= 32, in += 20, out += 32) {
        const float d = tern_f16_to_f32(tern_load_u16(in)), m = tern_f16_to_f32(tern_load_u16(in + 2));
        for (unsigned i = 0; i < 16; i++) {
            out[i] = d * (float)(in[4 + i] & 15) + m;
            out[i + 16] = d * (float)(in[4 + i] >> 4) + m;
        }
    }
}

/* Blocks of 32 in 22 bytes: f16 d, a word whose bit i is the fifth of element i, nibbles; value d * (q - 16). */
void tern_ref__decode_q5_0(const uint8_t *in, size_t n, float *out)
{
    for (; n; n -= 32, in += 22, out += 32) {
        const float d = tern_f16_to_f32(tern_load_u16(in));
        const uint32_t high = tern_load_u32(in + 2);
        for (unsigned i = 0; i < 16; i++) {
            out[i] = d * (float)((int)((in[6 + i] & 15) | (high >> i & 1) << 4) - 16);
            out[i + 16] = d * (float)((int)((uint32_t)(in[6 + i] >> 4) | (high >> (i + 16) & 1) << 4) - 16);
        }
    }
}

/* Blocks of 32 in 24 bytes: f16 d, f16 m, the word, nibbles; value d * q + m. */
void tern_ref__decode_q5_1(const uint8_t *in, size_t n, float *out)
{
    for (; n; n -= 32, in += 24, out += 32) {
        const float d = tern_f16_to_f32(tern_load_u16(in)), m = tern_f16_to_f32(tern_load_u16(in + 2));
        const uint32_t high = tern_load_u32(in + 4);
        for (unsigned i = 0; i < 16; i++) {
            out[i] = d * (float)((in[8 + i] & 15) | (high >> i & 1) << 4) + m;
            out[i + 16] = d * (float)((uint32_t)(in[8 + i] >> 4) | (high >> (i + 16) & 1) << 4) + m;
        }
    }
}

/* Blocks of 32 in 18 bytes: as Q4_0; value d * the number at place q of a table. */
void tern_ref__decode_iq4_nl(const uint8_t *in, size_t n, float *out)
{
    static const float values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    for (; n; n -= 32, in += 18, out += 32) {
        const float d = tern_f16_to_f32(tern_load_u16(in));
        for (unsigned i = 0; i < 16; i++) {
            out[i] = d * values[in[2 + i] & 15];
            out[i + 16] = d * values[in[2 + i] >> 4];
        }
    }
}

/* Blocks of 32 in 17 bytes: e, then nibbles as in Q4_0; value 2^(e - 127) * the number at place q of a table. */
void tern_ref__decode_mxfp4(const uint8_t *in, size_t n, float *out)
{
    static const float values[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, 0, -0.5f, -1, -1.5f, -2, -3, -4, -6};
    for (; n; n -= 32, in += 17, out += 32) {
        const float d = tern_e8m0_to_f32(in[0]);
        for (unsigned i = 0; i < 16; i++) {
            out[i] = d * values[in[1 + i] & 15];
            out[i + 16] = d * values[in[1 + i] >> 4];
        }
    }
}

/* Pairs of bits behind an f16 d, the first in the lowest bits; value d * (q - 1). */
static void decode_pairs(const uint8_t *in, size_t n, size_t elements, float *out)
{
    for (; n; n -= elements, in += 2 + elements / 4, out += elements) {
        const float d = tern_f16_to_f32(tern_load_u16(in));
        for (size_t i = 0; i < elements; i++) out[i] = d * (float)((in[2 + i / 4] >> (2 * (i % 4)) & 3) - 1);
    }
}

/* Blocks of 64 in 18 bytes. */
void tern_ref__decode_q2_0(const uint8_t *in, size_t n, float *out)
{
    decode_pairs(in, n, 64, out);
}

/* Blocks of 128 in 34 bytes. */
void tern_ref__decode_pq2_0(const uint8_t *in, size_t n, float *out)
{
    decode_pairs(in, n, 128, out);
}

/* Blocks of 128 in 28 bytes: 24 of five base-3 digits, 2 of four, f16 d; value d * (digit - 1). Digit k of byte b of
 * the first 16 is element 16 k + b, of the next 8 element 80 + 8 k + b, of the last 2 element 120 + 2 k + b. */
void tern_ref__decode_ptq1_0(const uint8_t *in, size_t n, float *out)
{
    static const unsigned powers[5] = {1, 3, 9, 27, 81};
    for (; n; n -= 128, in += 28, out += 128) {
        const float d = tern_f16_to_f32(tern_load_u16(in + 26));
        for (size_t i = 0; i < 128; i++) {
            const size_t stride = i < 80 ? 16 : i < 120 ? 8 : 2, first = i < 80 ? 0 : i < 120 ? 80 : 120;
            const size_t byte = (i < 80 ? 0 : i < 120 ? 16 : 24) + (i - first) % stride;
            out[i] = d * (float)((int)((in[byte] * powers[(i - first) / stride] & 255) * 3 >> 8) - 1);
        }
    }
}

/* Blocks of 128 in 18 bytes: f16 d, bits, the first the lowest; value d where the bit is set, else -d. */
void tern_ref__decode_q1_0(const uint8_t *in, size_t n, float *out)
{
    for (; n; n -= 128, in += 18, out += 128) {
        const float d = tern_f16_to_f32(tern_load_u16(in));
        for (size_t i = 0; i < 128; i++) out[i] = in[2 + i / 8] >> (i % 8) & 1 ? d : -d;
    }
}
