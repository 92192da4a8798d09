/* Elementwise steps: gated activations, addition, and what the KV cache stores. */
#include <string.h>

#include "base/bytes.h"
#include "base/half.h"
#include "ops/ref/ref.h"

void tern_ref_relu2(const float *gate, const float *up, size_t n, float *y)
{
    for (size_t i = 0; i < n; i++) y[i] = gate[i] > 0 ? (gate[i] * gate[i]) * up[i] : 0;
}

void tern_ref_silu(const float *gate, const float *up, size_t n, float *y)
{
    for (size_t i = 0; i < n; i++) y[i] = (gate[i] / (1 + tern_ref_exp(-gate[i]))) * up[i];
}

void tern_ref_gelu(const float *gate, const float *up, size_t n, float *y)
{
    for (size_t i = 0; i < n; i++) {
        float g = gate[i], w = (g + g * g * g * TERN_GELU_CUBE) * TERN_GELU_SCALE;
        y[i] = (g / (1 + tern_ref_exp(-w))) * up[i];
    }
}

void tern_ref_sigmoid(const float *gate, const float *up, size_t n, float *y)
{
    for (size_t i = 0; i < n; i++) y[i] = (1 / (1 + tern_ref_exp(-gate[i]))) * up[i];
}

void tern_ref_swiglu_oai(const float *gate, const float *up, float limit, size_t n, float *y)
{
    for (size_t i = 0; i < n; i++) {
        float g = gate[i] > limit ? limit : gate[i], u = up[i] > limit ? limit : up[i] < -limit ? -limit : up[i];
        y[i] = (g / (1 + tern_ref_exp(-(g * TERN_SWIGLU_ALPHA)))) * (u + 1);
    }
}

void tern_ref_swiglu_clamped(const float *gate, const float *up, float limit, size_t n, float *y)
{
    for (size_t i = 0; i < n; i++) {
        float g = gate[i] > limit ? limit : gate[i], u = up[i] > limit ? limit : up[i] < -limit ? -limit : up[i];
        y[i] = (g / (1 + tern_ref_exp(-g))) * u;
    }
}

void tern_ref_add(const float *a, const float *b, size_t n, float *y)
{
    for (size_t i = 0; i < n; i++) y[i] = a[i] + b[i];
}

void tern_ref_softcap_row(const float *x, size_t n, float cap, float *y)
{
    for (size_t i = 0; i < n; i++) y[i] = tern_ref_softcap(x[i], cap);
}
