/* Root-mean-square norm and the absmax quantiser of one row. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "ops/ref/ref.h"

void tern_ref_rms_norm(const float *x, const float *g, float eps, uint32_t cols, float *y)
{
    float r = 1.0f / sqrtf(tern_ref_dot(x, x, cols) / (float)cols + eps);
    for (uint32_t c = 0; c < cols; c++) y[c] = x[c] * r * g[c];
}

/* NaN to 0, infinities to the largest finite values. */
static float made_finite(float v)
{
    if (v != v) return 0;
    return v > FLT_MAX ? FLT_MAX : v < -FLT_MAX ? -FLT_MAX : v;
}

void tern_ref_quantize(const float *x, uint32_t cols, int8_t *q, size_t stride, float *inv_scale, int32_t *sum)
{
    float most = 1e-5f;
    for (uint32_t c = 0; c < cols; c++) most = fmaxf(most, fabsf(made_finite(x[c])));
    float scale = 127.0f / most;
    int32_t total = 0;
    for (uint32_t c = 0; c < cols; c++) {
        float v = rintf(made_finite(x[c]) * scale); /* the library never changes the rounding mode: half to even */
        q[c] = (int8_t)(v > 127 ? 127 : v < -128 ? -128 : v);
        total += q[c];
    }
    memset(q + cols, 0, stride - cols);
    *inv_scale = 1.0f / scale;
    *sum = total;
}
