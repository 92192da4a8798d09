/* Backward of the root-mean-square norm. */
#include <math.h>

#include "ops/ref/backward.h"
#include "ops/ref/fma.h"

static float weighted_sum(const float *x, const float *g, const float *dy, uint32_t cols)
{
    float lanes[TERN_LANES] = {0};
    for (uint32_t c = 0; c < cols; c++) {
        float *lane = &lanes[c % TERN_LANES];
        *lane = tern_ref__fmaf(dy[c] * g[c], x[c], *lane);
    }
    for (size_t half = TERN_LANES / 2; half > 0; half /= 2)
        for (size_t l = 0; l < half; l++) lanes[l] += lanes[l + half];
    return lanes[0] + 0.0f;
}

float tern_ref_rms_norm_backward(const float *x, const float *g, float eps, uint32_t cols, const float *dy, float *dx,
                                 float *dg)
{
    float r = 1.0f / sqrtf(tern_ref_dot(x, x, cols) / (float)cols + eps);
    float k = r * r * r * (weighted_sum(x, g, dy, cols) / (float)cols);
    for (uint32_t c = 0; c < cols; c++) {
        float d = dy[c];
        if (dx) dx[c] += d * g[c] * r - x[c] * k;
        if (dg) dg[c] += d * (x[c] * r);
    }
    return r;
}

void tern_ref_norm_weight_backward(const tern_norm_weight_args *args, float *dg)
{
    for (uint32_t t = 0; t < args->n; t++) {
        const float *x = args->x + t * args->x_stride, *dy = args->dy + t * args->dy_stride;
        for (uint32_t c = 0; c < args->cols; c++) dg[c] += dy[c] * (x[c] * args->r[t]);
    }
}
