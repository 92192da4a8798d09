/* Numbers as one scale times whole levels: candidates for the scale, each refined by least squares. */
#include "quant/signed_fit.h"

#include <math.h>

#include "base/half.h"
#include "quant/fit.h"

/* x in steps of 1 / inverse. */
static void levels_of(const tern_signed_fit *f, const float *x, float inverse, float *q)
{
    tern_fit__levels(x, f->n, 0, inverse, f->low, f->high, q);
}

void tern_signed_fit__levels(const tern_signed_fit *f, const float *x, float scale, float *q)
{
    levels_of(f, x, scale != 0 ? 1 / scale : 0, q);
}

static float largest(const float *x, int n)
{
    float most = 0;
    for (int i = 0; i < n; i++)
        if (fabsf(x[i]) > fabsf(most)) most = x[i];
    return most;
}

/* For fixed levels q the best scale is s = sum(x q) / sum(q q), and the error then falls with sum(x q)^2 / sum(q q). */
float tern_signed_fit__scale(const tern_signed_fit *f, const float *x, const float *w)
{
    float most = largest(x, f->n), best_scale = 0, best = 0, q[256];
    if (fabsf(most) < TERN_FIT_TINY) return 0;
    for (int c = 0; c < f->candidates; c++) {
        levels_of(f, x, (f->first + f->step * (float)c) / most, q);
        float xq = tern_fit__weighted_dot(w, x, q, f->n), qq = tern_fit__weighted_dot(w, q, q, f->n), scale = xq / qq;
        if (scale * xq > best) best = scale * xq, best_scale = scale;
    }
    return best_scale;
}

uint16_t tern_signed_fit__half(const tern_signed_fit *f, const float *x, const float *w, float *q)
{
    uint16_t d = tern_f32_to_f16(tern_signed_fit__scale(f, x, w));
    tern_signed_fit__levels(f, x, tern_f16_to_f32(d), q);
    return d;
}
