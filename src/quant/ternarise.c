/* Ternary quantisation of master weights by their mean magnitude. */
#include "quant/absmean.h"
#include "quant/encoding.h"

void tern_ternarise(const float *w, size_t n, int8_t *codes, float *scale)
{
    *scale = tern_absmean(w, n);
    const float s = tern_flush(1.0f / *scale);
    for (size_t i = 0; i < n; i++) { /* a half rounds to even, so exactly +-0.5 is 0 */
        const float v = tern_flush(w[i]) * s;
        codes[i] = (int8_t)((v > 0.5f) - (v < -0.5f));
    }
}
