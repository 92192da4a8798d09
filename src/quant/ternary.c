/* The part of the ternary encodings that they share: floats to codes and back, block after block. */
#include "quant/ternary.h"

#include <math.h>

size_t tern_ternary__codes(const uint8_t *raw, size_t n, int8_t *codes)
{
    size_t n_bad = 0;
    for (size_t i = 0; i < n; i++) {
        bool bad = raw[i] == TERN_RAW_INVALID;
        codes[i] = (int8_t)(bad ? 0 : raw[i] - 1);
        n_bad += bad;
    }
    return n_bad;
}

static float absmax(const float *x, size_t n)
{
    float most = 0;
    for (size_t i = 0; i < n; i++)
        if (fabsf(x[i]) > most) most = fabsf(x[i]);
    return most;
}

void tern_ternary__pack(const tern_encoding *e, const float *x, size_t n_blocks, void *out)
{
    int8_t codes[TERN_TERNARY_MAX_BLOCK];
    for (size_t b = 0; b < n_blocks; b++, x += e->block_elements) {
        float s = absmax(x, e->block_elements);
        for (size_t i = 0; i < e->block_elements; i++) codes[i] = (int8_t)((x[i] > s / 2) - (x[i] < -s / 2));
        e->codec->pack(codes, s, (uint8_t *)out + b * e->block_bytes);
    }
}

void tern_ternary__unpack(const tern_encoding *e, const void *in, size_t n_blocks, float *x)
{
    int8_t codes[TERN_TERNARY_MAX_BLOCK];
    for (size_t b = 0; b < n_blocks; b++, x += e->block_elements) {
        float s;
        tern_ternary__unpack_codes(e, (const uint8_t *)in + b * e->block_bytes, 1, codes, &s);
        for (size_t i = 0; i < e->block_elements; i++) x[i] = (float)codes[i] * s;
    }
}

void tern_ternary__pack_codes(const tern_encoding *e, const int8_t *codes, size_t n_blocks, float scale, void *out)
{
    for (size_t b = 0; b < n_blocks; b++)
        e->codec->pack(codes + b * e->block_elements, scale, (uint8_t *)out + b * e->block_bytes);
}

size_t tern_ternary__unpack_codes(const tern_encoding *e, const void *in, size_t n_blocks, int8_t *codes, float *scales)
{
    uint8_t raw[TERN_TERNARY_MAX_BLOCK];
    size_t n_bad = 0;
    for (size_t b = 0; b < n_blocks; b++) {
        const uint8_t *block = (const uint8_t *)in + b * e->block_bytes;
        e->codec->unpack(block, raw);
        n_bad += tern_ternary__codes(raw, e->block_elements, codes + b * e->block_elements);
        if (scales) scales[b] = e->codec->scale ? e->codec->scale(block) : 1.0f;
    }
    return n_bad;
}
