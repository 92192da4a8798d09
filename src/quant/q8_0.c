/* Q8_0: blocks of 32 int8 values behind one f16 scale. */
#include <math.h>

#include "base/bytes.h"
#include "base/half.h"
#include "quant/block.h"

enum { ELEMENTS = 32, BYTES = 34 };

/* d = max |x| / 127, q = round(x / d), halves away from zero. Source: GGML's Q8_0. */
static void pack_block(const float *x, uint8_t *out)
{
    float most = 0;
    for (int i = 0; i < ELEMENTS; i++) most = fmaxf(most, fabsf(x[i]));
    float d = most / 127.0f;
    float inverse = d > 0 ? 1.0f / d : 0;
    if (!isfinite(inverse)) d = inverse = 0; /* d is so small that f16 holds 0 anyway */
    tern_store_u16(out, tern_f32_to_f16(d));
    for (int i = 0; i < ELEMENTS; i++) out[2 + i] = (uint8_t)(int8_t)roundf(x[i] * inverse);
}

static void unpack_block(const uint8_t *in, float *x)
{
    float d = tern_f16_to_f32(tern_load_u16(in));
    for (int i = 0; i < ELEMENTS; i++) x[i] = (float)(int8_t)in[2 + i] * d;
}

/* The largest number decides the scale: there is nothing to weigh. */
#define PACK(x, w, out) ((void)(w), pack_block(x, out))

TERN_BLOCK_ENCODING(q8_0, Q8_0, ELEMENTS, BYTES, 0, 0, PACK, unpack_block)
