/* MXFP4: 32 numbers of four bits (a sign, two bits of exponent, one of mantissa) with one scale, a power of two. */
#include "quant/mxfp4.h"

#include <math.h>
#include <string.h>

#include "base/half.h"
#include "quant/block.h"
#include "quant/fit.h"

/* 6 * 2^(252 - 127) is the largest number that f32 holds. */
enum { ELEMENTS = TERN_MXFP4_ELEMENTS, LARGEST_EXPONENT = 2, LARGEST_SCALE = 252, NAN_SCALE = 255 };

/* Source: OCP Microscaling Formats v1.0, table of E2M1. */
static const float magnitudes[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};

/* Byte j has the code of element j in its low nibble, of element j + 16 in its high one. */
static unsigned get_code(const uint8_t *in, unsigned i)
{
    return in[1 + i % 16] >> (i / 16 * 4) & 15;
}

static void put_code(uint8_t *out, unsigned i, unsigned code)
{
    uint8_t *byte = out + 1 + i % 16;
    *byte = (uint8_t)(i < 16 ? (*byte & 0xf0) | code : (*byte & 15) | code << 4);
}

/* The place in `magnitudes` that is nearest to v, at least 0; of two the even one; 7 for all above. */
static unsigned nearest(float v)
{
    return (unsigned)((v > 0.25f) + (v >= 0.75f) + (v > 1.25f) + (v >= 1.75f) + (v > 2.5f) + (v >= 3.5f) + (v > 5));
}

/* The magnitudes that x has with the scale 2^(e - 127), e <= LARGEST_SCALE. */
static void magnitudes_of(const float *x, unsigned e, unsigned *m)
{
    const float inverse = tern_f32_from_bits((254 - e) << 23);
    for (unsigned i = 0; i < ELEMENTS; i++) m[i] = nearest(fabsf(x[i]) * inverse);
}

static float squared_error(const float *x, const float *w, unsigned e)
{
    float q[ELEMENTS];
    unsigned m[ELEMENTS];
    magnitudes_of(x, e, m);
    for (unsigned i = 0; i < ELEMENTS; i++) q[i] = x[i] < 0 ? -magnitudes[m[i]] : magnitudes[m[i]];
    return tern_fit__weighted_error(w, x, q, ELEMENTS, tern_e8m0_to_f32((uint8_t)e), 0);
}

/* OCP's scale, which puts the largest magnitude into 4 .. 8, where all above 6 becomes 6; or twice that, where the
 * squared error is less. */
static unsigned scale_of(const float *x, const float *w)
{
    float most = 0;
    for (unsigned i = 0; i < ELEMENTS; i++) most = fmaxf(most, fabsf(x[i]));
    const unsigned exponent = tern_f32_bits(most) >> 23;
    const unsigned e = exponent > LARGEST_EXPONENT ? exponent - LARGEST_EXPONENT : 0;
    return e < LARGEST_SCALE && squared_error(x, w, e + 1) < squared_error(x, w, e) ? e + 1 : e;
}

static void pack_block(const float *x, const float *w, uint8_t *out)
{
    unsigned m[ELEMENTS];
    const unsigned e = scale_of(x, w);
    magnitudes_of(x, e, m);
    out[0] = (uint8_t)e;
    for (unsigned i = 0; i < ELEMENTS; i++) put_code(out, i, x[i] < 0 && m[i] ? 8 | m[i] : m[i]);
}

/* Code 8 is -0 in the format and reads as 0, as in llama.cpp. */
static void unpack_block(const uint8_t *in, float *x)
{
    const float d = tern_e8m0_to_f32(in[0]);
    for (unsigned i = 0; i < ELEMENTS; i++) {
        const unsigned code = get_code(in, i);
        x[i] = d * (code > 8 ? -magnitudes[code & 7] : magnitudes[code & 7]);
    }
}

static size_t find_nonfinite(const void *in, size_t n_blocks)
{
    for (size_t b = 0; b < n_blocks; b++)
        if (((const uint8_t *)in)[b * TERN_MXFP4_BYTES] == NAN_SCALE) return b;
    return n_blocks;
}

TERN_BLOCK_ENCODING_SCALED(mxfp4, MXFP4, ELEMENTS, TERN_MXFP4_BYTES, pack_block, unpack_block, find_nonfinite)

void tern_mxfp4_join(const uint8_t *codes, const uint8_t *scales, size_t n_blocks, uint8_t *blocks)
{
    for (size_t b = 0; b < n_blocks; b++, codes += TERN_MXFP4_CODE_BYTES, blocks += TERN_MXFP4_BYTES) {
        blocks[0] = scales[b];
        for (unsigned j = 0; j < 8; j++) {
            const unsigned low = codes[j], high = codes[j + 8];
            blocks[1 + 2 * j] = (uint8_t)((low & 15) | high << 4);
            blocks[2 + 2 * j] = (uint8_t)(low >> 4 | (high & 0xf0));
        }
    }
}

void tern_mxfp4_split(const uint8_t *blocks, size_t n_blocks, uint8_t *codes, uint8_t *scales)
{
    for (size_t b = 0; b < n_blocks; b++, codes += TERN_MXFP4_CODE_BYTES, blocks += TERN_MXFP4_BYTES) {
        scales[b] = blocks[0];
        for (unsigned j = 0; j < 8; j++) {
            const unsigned even = blocks[1 + 2 * j], odd = blocks[2 + 2 * j];
            codes[j] = (uint8_t)((even & 15) | (odd & 15) << 4);
            codes[j + 8] = (uint8_t)(even >> 4 | (odd & 0xf0));
        }
    }
}
