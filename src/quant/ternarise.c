/* Ternary quantisation of master weights by their mean magnitude. */
#include <math.h>

#include "quant/encoding.h"

enum { CHUNK = 4096 };

static double sum_magnitudes(const float *w, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)fabsf(w[i]);
    return sum;
}

void tern_ternarise(const float *w, size_t n, int8_t *codes, float *scale)
{
    double sum = 0;
    for (size_t at = 0; at < n; at += CHUNK)
        sum += sum_magnitudes(w + at, n - at < CHUNK ? n - at : CHUNK);
    float mean = n ? (float)(sum / (double)n) : 0;
    *scale = mean > 1e-5f ? mean : 1e-5f;
    float s = 1.0f / *scale;
    for (size_t i = 0; i < n; i++) { /* a half rounds to even, so exactly +-0.5 is 0 */
        float v = w[i] * s;
        codes[i] = (int8_t)((v > 0.5f) - (v < -0.5f));
    }
}
