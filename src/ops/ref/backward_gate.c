/* Backward of the gated activations. */
#include "ops/ref/backward.h"

void tern_ref_relu2_backward(const float *gate, const float *up, const float *dy, size_t n, float *dgate, float *dup)
{
    for (size_t i = 0; i < n; i++) {
        float r = gate[i] > 0 ? gate[i] : 0, u = up[i], d = dy[i];
        dgate[i] = d * u * (r + r);
        dup[i] = d * (r * r);
    }
}

void tern_ref_silu_backward(const float *gate, const float *up, const float *dy, size_t n, float *dgate, float *dup)
{
    for (size_t i = 0; i < n; i++) {
        float g = gate[i], u = up[i], d = dy[i];
        float s = 1 / (1 + tern_ref_exp(-g));
        dgate[i] = d * u * (s * (1 + g * (1 - s)));
        dup[i] = d * (g * s);
    }
}

void tern_ref_gelu_backward(const float *gate, const float *up, const float *dy, size_t n, float *dgate, float *dup)
{
    for (size_t i = 0; i < n; i++) {
        float g = gate[i], u = up[i], d = dy[i], w = (g + g * g * g * TERN_GELU_CUBE) * TERN_GELU_SCALE;
        float s = 1 / (1 + tern_ref_exp(-w)), slope = TERN_GELU_SCALE * (1 + 3 * TERN_GELU_CUBE * (g * g));
        dgate[i] = d * u * (s + s * (1 - s) * g * slope);
        dup[i] = d * (g * s);
    }
}

void tern_ref_sigmoid_backward(const float *gate, const float *up, const float *dy, size_t n, float *dgate, float *dup)
{
    for (size_t i = 0; i < n; i++) {
        const float s = 1 / (1 + tern_ref_exp(-gate[i]));
        dgate[i] = dy[i] * up[i] * (s * (1 - s));
        dup[i] = dy[i] * s;
    }
}

static void limited_backward(const float *gate, const float *up, const float *dy, float limit, float alpha, float plus,
                             size_t n, float *dgate, float *dup)
{
    for (size_t i = 0; i < n; i++) {
        float g = gate[i], u = up[i], d = dy[i], most = g > limit ? limit : g;
        float near = u > limit ? limit : u < -limit ? -limit : u;
        float w = most * alpha, s = 1 / (1 + tern_ref_exp(-w));
        dgate[i] = g > limit ? 0 : d * (near + plus) * (s * (1 + w * (1 - s)));
        dup[i] = u > limit || u < -limit ? 0 : d * (most * s);
    }
}

void tern_ref_swiglu_oai_backward(const float *gate, const float *up, const float *dy, float limit, size_t n,
                                  float *dgate, float *dup)
{
    limited_backward(gate, up, dy, limit, TERN_SWIGLU_ALPHA, 1, n, dgate, dup);
}

void tern_ref_swiglu_clamped_backward(const float *gate, const float *up, const float *dy, float limit, size_t n,
                                      float *dgate, float *dup)
{
    limited_backward(gate, up, dy, limit, 1, 0, n, dgate, dup);
}
