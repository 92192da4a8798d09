/* Numbers as one scale times whole levels: candidates for the scale, each refined by least squares. */
#include "quant/signed_fit.h"

#include <math.h>

#include "base/half.h"
#include "quant/fit.h"

/* Below this a scale vanishes in the f16 of a block. */
static const float TINY = 0x1p-40f;

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
    if (fabsf(most) < TINY) return 0;
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

static float error_of(const tern_signed_fit *f, const float *x, const float *w, float scale)
{
    float q[TERN_SIGNED_GROUP];
    tern_signed_fit__levels(f, x, scale, q);
    return tern_fit__weighted_error(w, x, q, f->n, scale, 0);
}

/* The multiple of d that serves the group best: the nearest to its scale, or a neighbour. */
static int multiple_of(const tern_signed_fit *f, int least, const float *x, const float *w, float d, float scale)
{
    float nearest = rintf(scale / d), best = INFINITY;
    int multiple = 0;
    for (int step = -1; step <= 1; step++) {
        float m = nearest + (float)step;
        if (!(m >= (float)least && m <= (float)(-least - 1))) continue;
        float error = error_of(f, x, w, d * m);
        if (error < best) best = error, multiple = (int)m;
    }
    return multiple;
}

/* Those of group g. */
static const float *part(const float *w, int g)
{
    return w ? w + g * TERN_SIGNED_GROUP : NULL;
}

uint16_t tern_signed_fit__groups(const tern_signed_fit *f, int least, const float *x, const float *w, int8_t *multiples,
                                 float *q)
{
    float scales[TERN_SIGNED_GROUPS], most = 0;
    for (int g = 0; g < TERN_SIGNED_GROUPS; g++) {
        scales[g] = tern_signed_fit__scale(f, x + g * TERN_SIGNED_GROUP, part(w, g));
        if (fabsf(scales[g]) > fabsf(most)) most = scales[g];
    }
    uint16_t half = tern_f32_to_f16(most / (float)least);
    float d = tern_f16_to_f32(half);
    for (int g = 0; g < TERN_SIGNED_GROUPS; g++) {
        const float *group = x + g * TERN_SIGNED_GROUP;
        multiples[g] = (int8_t)(d != 0 ? multiple_of(f, least, group, part(w, g), d, scales[g]) : 0);
        tern_signed_fit__levels(f, group, d * (float)multiples[g], q + g * TERN_SIGNED_GROUP);
    }
    return half;
}
