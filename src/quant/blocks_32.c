/* Q4_0, Q4_1, Q5_0, Q5_1 and IQ4_NL: 32 values of four or five bits with one f16 scale, and a minimum in some. */
#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "base/half.h"
#include "quant/block.h"
#include "quant/fit.h"
#include "quant/line_fit.h"
#include "quant/signed_fit.h"

enum { ELEMENTS = 32, D_AT = 0, M_AT = 2, HALF_BYTES = 2, HIGH_BYTES = 4, LOW_BYTES = 16 };
enum {
    Q4_0_BYTES = HALF_BYTES + LOW_BYTES,
    Q4_1_BYTES = 2 * HALF_BYTES + LOW_BYTES,
    Q5_0_BYTES = HALF_BYTES + HIGH_BYTES + LOW_BYTES,
    Q5_1_BYTES = 2 * HALF_BYTES + HIGH_BYTES + LOW_BYTES,
    IQ4_NL_BYTES = Q4_0_BYTES
};

/* Byte j has the low four bits of element j in its low nibble, of element j + 16 in its high one. */
static void put_low(uint8_t *out, const unsigned *q)
{
    for (unsigned j = 0; j < LOW_BYTES; j++) out[j] = (uint8_t)((q[j] & 15) | (q[j + 16] & 15) << 4);
}

static unsigned get_low(const uint8_t *in, unsigned i)
{
    return in[i % 16] >> (i / 16 * 4) & 15;
}

/* Bit i of the word before them is the fifth bit of element i. */
static void put_five(uint8_t *out, const unsigned *q)
{
    uint32_t high = 0;
    for (unsigned i = 0; i < ELEMENTS; i++) high |= (uint32_t)(q[i] >> 4) << i;
    tern_store_u32(out, high);
    put_low(out + HIGH_BYTES, q);
}

static unsigned get_five(const uint8_t *in, unsigned i)
{
    return get_low(in + HIGH_BYTES, i) | (tern_load_u32(in) >> i & 1) << 4;
}

/* ---- one scale: x = d * (level - zero) */

static const tern_signed_fit levels_4_0 = {
    .n = ELEMENTS, .low = -8, .high = 7, .first = -7.1f, .step = -0.1f, .candidates = 19};
static const tern_signed_fit levels_5_0 = {
    .n = ELEMENTS, .low = -16, .high = 15, .first = -15, .step = -0.25f, .candidates = 9};

static void fit_signed(const tern_signed_fit *f, const float *x, const float *w, uint8_t *out, unsigned *levels)
{
    float q[ELEMENTS];
    tern_store_u16(out + D_AT, tern_signed_fit__half(f, x, w, q));
    for (int i = 0; i < ELEMENTS; i++) levels[i] = (unsigned)(int)(q[i] - f->low);
}

static void pack_4_0(const float *x, const float *w, uint8_t *out)
{
    unsigned levels[ELEMENTS];
    fit_signed(&levels_4_0, x, w, out, levels);
    put_low(out + HALF_BYTES, levels);
}

static void unpack_4_0(const uint8_t *in, float *x)
{
    float d = tern_f16_to_f32(tern_load_u16(in));
    for (unsigned i = 0; i < ELEMENTS; i++) x[i] = d * (float)((int)get_low(in + HALF_BYTES, i) - 8);
}

static void pack_5_0(const float *x, const float *w, uint8_t *out)
{
    unsigned levels[ELEMENTS];
    fit_signed(&levels_5_0, x, w, out, levels);
    put_five(out + HALF_BYTES, levels);
}

static void unpack_5_0(const uint8_t *in, float *x)
{
    float d = tern_f16_to_f32(tern_load_u16(in));
    for (unsigned i = 0; i < ELEMENTS; i++) x[i] = d * (float)((int)get_five(in + HALF_BYTES, i) - 16);
}

TERN_BLOCK_ENCODING(q4_0, Q4_0, ELEMENTS, Q4_0_BYTES, D_AT, D_AT, pack_4_0, unpack_4_0)
TERN_BLOCK_ENCODING(q5_0, Q5_0, ELEMENTS, Q5_0_BYTES, D_AT, D_AT, pack_5_0, unpack_5_0)

/* ---- scale and minimum: x = d * level + m */

static const tern_line_fit levels_4_1 = {.n = ELEMENTS, .top = 15, .first = 14, .step = 0.25f, .candidates = 9};
static const tern_line_fit levels_5_1 = {.n = ELEMENTS, .top = 31, .first = 30, .step = 0.25f, .candidates = 9};

static void fit_line(const tern_line_fit *f, const float *x, const float *w, uint8_t *out, unsigned *levels)
{
    float q[ELEMENTS];
    uint16_t d, m;
    tern_line_fit__halves(f, x, w, &d, &m, q);
    tern_store_u16(out + D_AT, d);
    tern_store_u16(out + M_AT, m);
    for (int i = 0; i < ELEMENTS; i++) levels[i] = (unsigned)q[i];
}

static void pack_4_1(const float *x, const float *w, uint8_t *out)
{
    unsigned levels[ELEMENTS];
    fit_line(&levels_4_1, x, w, out, levels);
    put_low(out + 2 * HALF_BYTES, levels);
}

static void unpack_4_1(const uint8_t *in, float *x)
{
    float d = tern_f16_to_f32(tern_load_u16(in)), m = tern_f16_to_f32(tern_load_u16(in + M_AT));
    for (unsigned i = 0; i < ELEMENTS; i++) x[i] = d * (float)get_low(in + 2 * HALF_BYTES, i) + m;
}

static void pack_5_1(const float *x, const float *w, uint8_t *out)
{
    unsigned levels[ELEMENTS];
    fit_line(&levels_5_1, x, w, out, levels);
    put_five(out + 2 * HALF_BYTES, levels);
}

static void unpack_5_1(const uint8_t *in, float *x)
{
    float d = tern_f16_to_f32(tern_load_u16(in)), m = tern_f16_to_f32(tern_load_u16(in + M_AT));
    for (unsigned i = 0; i < ELEMENTS; i++) x[i] = d * (float)get_five(in + 2 * HALF_BYTES, i) + m;
}

TERN_BLOCK_ENCODING(q4_1, Q4_1, ELEMENTS, Q4_1_BYTES, D_AT, M_AT, pack_4_1, unpack_4_1)
TERN_BLOCK_ENCODING(q5_1, Q5_1, ELEMENTS, Q5_1_BYTES, D_AT, M_AT, pack_5_1, unpack_5_1)

/* ---- one scale, and levels that lie closer around 0: x = d * steps[level] */

/* Source: kvalues_iq4nl of llama.cpp's ggml-common.h; part of the format. */
static const int8_t steps[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

static unsigned nearest_step(float v)
{
    unsigned level = 0;
    while (level < 15 && v > 0.5f * (float)(steps[level] + steps[level + 1])) level++;
    return level;
}

static void step_levels(const float *x, float inverse, unsigned *levels, float *values)
{
    for (int i = 0; i < ELEMENTS; i++) {
        levels[i] = nearest_step(x[i] * inverse);
        values[i] = (float)steps[levels[i]];
    }
}

/* The scale of least squared error, searched around those that put the largest number on an end of the table. */
static float step_scale(const float *x, const float *w)
{
    float most = 0, best_scale = 0, best = 0, values[ELEMENTS];
    unsigned levels[ELEMENTS];
    for (int i = 0; i < ELEMENTS; i++)
        if (fabsf(x[i]) > fabsf(most)) most = x[i];
    if (fabsf(most) < 0x1p-32f) return 0;
    for (int c = 0; c < 15; c++)
        for (int end = 0; end < 2; end++) {
            step_levels(x, (float)(end ? steps[15] : steps[0]) * (0.86f + 0.02f * (float)c) / most, levels, values);
            float xv = tern_fit__weighted_dot(w, x, values, ELEMENTS),
                  vv = tern_fit__weighted_dot(w, values, values, ELEMENTS);
            if (xv / vv * xv > best) best = xv / vv * xv, best_scale = xv / vv;
        }
    return best_scale;
}

static void pack_4_nl(const float *x, const float *w, uint8_t *out)
{
    float values[ELEMENTS];
    unsigned levels[ELEMENTS];
    uint16_t half = tern_f32_to_f16(step_scale(x, w));
    float d = tern_f16_to_f32(half);
    step_levels(x, d != 0 ? 1 / d : 0, levels, values);
    tern_store_u16(out + D_AT, half);
    put_low(out + HALF_BYTES, levels);
}

static void unpack_4_nl(const uint8_t *in, float *x)
{
    float d = tern_f16_to_f32(tern_load_u16(in));
    for (unsigned i = 0; i < ELEMENTS; i++) x[i] = d * (float)steps[get_low(in + HALF_BYTES, i)];
}

TERN_BLOCK_ENCODING(iq4_nl, IQ4_NL, ELEMENTS, IQ4_NL_BYTES, D_AT, D_AT, pack_4_nl, unpack_4_nl)
