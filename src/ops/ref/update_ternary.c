/* Requantisation of shadow weights to packed ternary codes. */
#include <math.h>
#include <string.h>

#include "ops/ref/update.h"

enum { CHUNK = 4096, GROUP = 128 };

float tern_ref_absmean(const float *w, size_t n)
{
    double sum = 0;
    for (size_t at = 0; at < n; at += CHUNK) {
        double part = 0;
        for (size_t i = at; i < n && i < at + CHUNK; i++) part += (double)fabsf(w[i]);
        sum += part;
    }
    float mean = n ? (float)(sum / (double)n) : 0;
    return mean > 1e-5f ? mean : 1e-5f;
}

void tern_ref_requantize_i2_s(const float *w, size_t n, float scale, uint8_t *packed)
{
    float s = 1.0f / scale;
    memset(packed, 0, n / 4);
    for (size_t i = 0; i < n; i++) {
        float code = rintf(w[i] * s);
        unsigned raw = code >= 1 ? 2 : code <= -1 ? 0 : 1;
        packed[i / GROUP * 32 + i % 32] |= (uint8_t)(raw << (6 - i % GROUP / 32 * 2));
    }
}
