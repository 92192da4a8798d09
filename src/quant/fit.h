/* The inner loops of the searching quantisers, four lanes wide in the compilers' portable vectors: the same bits
 * everywhere. */
#ifndef TERN_QUANT_FIT_H
#define TERN_QUANT_FIT_H

#include <stdint.h>
#include <string.h>

/* v + shift - shift leaves no fraction bits, half to even: right for |v| below 2^22. */
#define TERN_FIT_SHIFT 12582912.0f /* 1.5 * 2^23 */
/* Numbers below this have scale 0: one would vanish in the f16 of a block. */
#define TERN_FIT_TINY 0x1p-40f

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

/* v cut to low .. high, low where it is NaN; written so that compilers find the instructions for it. */
static inline tern_f32x4 tern_f32x4_clamp(tern_f32x4 v, float low, float high)
{
    for (int lane = 0; lane < 4; lane++) v[lane] = v[lane] > low ? v[lane] : low;
    for (int lane = 0; lane < 4; lane++) v[lane] = v[lane] < high ? v[lane] : high;
    return v;
}

/* q[i] = (x[i] + add) * inverse, rounded half to even and clamped to low .. high (NaN gives low); n is a multiple of 4.
 * Products above 2^22 are not rounded, but clamped anyway. */
static inline void tern_fit__levels(const float *x, int n, float add, float inverse, float low, float high, float *q)
{
    for (int i = 0; i < n; i += 4) {
        tern_f32x4 v = (tern_f32x4_load(x + i) + add) * inverse;
        v = tern_f32x4_clamp((v + TERN_FIT_SHIFT) - TERN_FIT_SHIFT, low, high);
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

/* As above with weights w[n]; NULL: all 1, and the same bits as above. */
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
