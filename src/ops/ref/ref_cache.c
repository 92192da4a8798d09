/* The stored numbers of a cache of keys and values, and the numbers that they stand for. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "base/half.h"
#include "ops/ref/ref.h"

#define BLOCK      ((size_t)TERN_CACHE_BLOCK)
#define NIBBLES    (BLOCK / 2)
#define HALF_BYTES ((size_t)2)

void tern_ref_kv_store_f16(const float *x, size_t n, void *out)
{
    for (size_t i = 0; i < n; i++) tern_store_u16((uint8_t *)out + 2 * i, tern_f32_to_f16(x[i]));
}

void tern_ref_kv_store_f32(const float *x, size_t n, void *out)
{
    memcpy(out, x, n * sizeof *x);
}

/* Stores a block's scale, one NaN for all of them; what numbers are multiplied with to become codes. */
static float store_scale(float scale, const float *x, uint8_t *out)
{
    uint16_t half = tern_f32_to_f16(scale);
    for (size_t i = 0; i < BLOCK; i++)
        if (isnan(x[i])) half = TERN_CACHE_NAN;
    tern_store_u16(out, half);
    const float stored = tern_f16_to_f32(half);
    return stored < 0 || stored > 0 ? 1 / stored : 0;
}

/* x / scale to the nearest integer, half to even, from low to high; 0 for NaN. */
static int code_of(float x, float inverse, float low, float high)
{
    const float finite = isnan(x) ? 0 : fmaxf(fminf(x, FLT_MAX), -FLT_MAX);
    return (int)rintf(fminf(fmaxf(finite * inverse, low), high));
}

void tern_ref_kv_store_q8_0(const float *x, size_t n, void *out)
{
    uint8_t *scales = out, *codes = scales + n / BLOCK * HALF_BYTES;
    for (size_t at = 0; at < n; at += BLOCK, scales += HALF_BYTES) {
        float most = 0;
        for (size_t i = 0; i < BLOCK; i++) most = fmaxf(most, fabsf(x[at + i]));
        const float inverse = store_scale(most / 127, x + at, scales);
        for (size_t i = 0; i < BLOCK; i++) codes[at + i] = (uint8_t)(int8_t)code_of(x[at + i], inverse, -127, 127);
    }
}

void tern_ref_kv_store_q4_0(const float *x, size_t n, void *out)
{
    uint8_t *scales = out, *codes = scales + n / BLOCK * HALF_BYTES;
    for (size_t at = 0; at < n; at += BLOCK, scales += HALF_BYTES, codes += NIBBLES) {
        float high = 0, low = 0;
        for (size_t i = 0; i < BLOCK; i++) high = fmaxf(high, x[at + i]), low = fminf(low, x[at + i]);
        const float inverse = store_scale((high >= -low ? high : low) / -8 + 0.0f, x + at, scales);
        for (size_t i = 0; i < NIBBLES; i++)
            codes[i] = (uint8_t)(code_of(x[at + i], inverse, -8, 7) + 8 +
                                 16 * (code_of(x[at + i + NIBBLES], inverse, -8, 7) + 8));
    }
}

tern_kv_store_fn tern_ref_kv_store(tern_dtype type)
{
#define STORE(X, name, NAME, elements, bytes) [TERN_DTYPE_##NAME] = tern_ref_kv_store_##name,
    static const tern_kv_store_fn stores[TERN_DTYPES] = {TERN_CACHE_TYPE_LIST(STORE, )};
#undef STORE
    return stores[type];
}

static void load_q8_0(const uint8_t *in, uint32_t n, float *out)
{
    const uint8_t *codes = in + n / BLOCK * HALF_BYTES;
    for (uint32_t i = 0; i < n; i++)
        out[i] = tern_f16_to_f32(tern_load_u16(in + i / BLOCK * HALF_BYTES)) * (float)(int8_t)codes[i];
}

static void load_q4_0(const uint8_t *in, uint32_t n, float *out)
{
    const uint8_t *codes = in + n / BLOCK * HALF_BYTES;
    for (uint32_t i = 0; i < n; i++) {
        const uint8_t both = codes[i / BLOCK * NIBBLES + i % NIBBLES];
        const int code = i % BLOCK < NIBBLES ? both & 15 : both >> 4;
        out[i] = tern_f16_to_f32(tern_load_u16(in + i / BLOCK * HALF_BYTES)) * (float)(code - 8);
    }
}

void tern_ref_kv_load(tern_dtype type, const uint8_t *in, uint32_t n, float *out)
{
    switch (type) {
    case TERN_DTYPE_F16:
        for (uint32_t i = 0; i < n; i++) out[i] = tern_f16_to_f32(tern_load_u16(in + 2 * i));
        break;
    case TERN_DTYPE_Q8_0: load_q8_0(in, n, out); break;
    case TERN_DTYPE_Q4_0: load_q4_0(in, n, out); break;
    default: memcpy(out, in, n * sizeof *out);
    }
}
