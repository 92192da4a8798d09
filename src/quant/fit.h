/* The inner loops of the searching quantisers, four lanes wide in the compilers' portable vectors: the same bits
 * everywhere. */
#ifndef TERN_QUANT_FIT_H
#define TERN_QUANT_FIT_H

#include <stdint.h>
#include <string.h>

typedef float tern_f32x4 __attribute__((vector_size(16)));
typedef int32_t tern_i32x4 __attribute__((vector_size(16)));

static inline tern_f32x4 tern_f32x4_load(const float *x)
{
    tern_f32x4 v;
    memcpy(&v, x, sizeof v);
    return v;
}

static inline tern_f32x4 tern_f32x4_pick(tern_i32x4 mask, tern_f32x4 a, tern_f32x4 b)
{
    return (tern_f32x4)((mask & (tern_i32x4)a) | (~mask & (tern_i32x4)b));
}

/* q[i] = (x[i] + add) * inverse, rounded half to even and clamped to low .. high (NaN gives low); n is a multiple of 4.
 * Adding 1.5 * 2^23 leaves no fraction bits: right for products below 2^22, and larger ones are clamped anyway. */
static inline void tern_fit__levels(const float *x, int n, float add, float inverse, float low, float high, float *q)
{
    const float shift = 12582912.0f;
    tern_f32x4 lows = {low, low, low, low}, highs = {high, high, high, high};
    for (int i = 0; i < n; i += 4) {
        tern_f32x4 v = (tern_f32x4_load(x + i) + add) * inverse;
        v = (v + shift) - shift;
        v = tern_f32x4_pick((tern_i32x4)(v > lows), v, lows);
        v = tern_f32x4_pick((tern_i32x4)(v < highs), v, highs);
        memcpy(q + i, &v, sizeof v);
    }
}

/* Sum of a[i] * b[i], in four lanes; n is a multiple of 4. */
static inline float tern_fit__dot(const float *a, const float *b, int n)
{
    tern_f32x4 lanes = {0};
    for (int i = 0; i < n; i += 4) lanes += tern_f32x4_load(a + i) * tern_f32x4_load(b + i);
    return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
}

static inline float tern_fit__sum(const float *a, int n)
{
    tern_f32x4 lanes = {0};
    for (int i = 0; i < n; i += 4) lanes += tern_f32x4_load(a + i);
    return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
}

/* Sum of (x[i] - (scale * q[i] - min))^2, in four lanes; n is a multiple of 4. */
static inline float tern_fit__error(const float *x, const float *q, int n, float scale, float min)
{
    tern_f32x4 lanes = {0};
    for (int i = 0; i < n; i += 4) {
        tern_f32x4 left = tern_f32x4_load(x + i) - (tern_f32x4_load(q + i) * scale - min);
        lanes += left * left;
    }
    return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
}

/* The same with weights w[n]; NULL: all 1, and the same bits as above. */
static inline float tern_fit__weighted_dot(const float *w, const float *a, const float *b, int n)
{
    tern_f32x4 lanes = {0};
    if (!w) return tern_fit__dot(a, b, n);
    for (int i = 0; i < n; i += 4) lanes += tern_f32x4_load(w + i) * (tern_f32x4_load(a + i) * tern_f32x4_load(b + i));
    return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
}

static inline float tern_fit__weighted_sum(const float *w, const float *a, int n)
{
    return w ? tern_fit__dot(w, a, n) : tern_fit__sum(a, n);
}

static inline float tern_fit__weighted_error(const float *w, const float *x, const float *q, int n, float scale,
                                             float min)
{
    tern_f32x4 lanes = {0};
    if (!w) return tern_fit__error(x, q, n, scale, min);
    for (int i = 0; i < n; i += 4) {
        tern_f32x4 left = tern_f32x4_load(x + i) - (tern_f32x4_load(q + i) * scale - min);
        lanes += tern_f32x4_load(w + i) * (left * left);
    }
    return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
}

#endif
