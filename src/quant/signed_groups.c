/* Sixteen groups as one scale times a multiple each times whole levels: four groups side by side, a lane each. Every
 * lane does what signed_fit.c does for one group, in the same order, so that both find the same scales to the bit. */
#include <math.h>
#include <stdbool.h>

#include "base/half.h"
#include "quant/fit.h"
#include "quant/signed_fit.h"

enum { N = TERN_SIGNED_GROUP, LANES = 4 };

#define ALWAYS static inline __attribute__((always_inline))

/* Number i of each of four groups, and their weights. */
typedef struct four_groups {
    tern_f32x4 x[N], w[N];
} four_groups;

ALWAYS tern_f32x4 all(float v)
{
    return (tern_f32x4){v, v, v, v};
}

ALWAYS tern_f32x4 magnitude(tern_f32x4 v)
{
    return (tern_f32x4)((tern_i32x4)v & 0x7fffffff);
}

/* See TERN_FIT_SHIFT. */
ALWAYS tern_f32x4 nearest(tern_f32x4 v)
{
    return (v + TERN_FIT_SHIFT) - TERN_FIT_SHIFT;
}

/* 1 / scale, 0 where scale is 0. */
ALWAYS tern_f32x4 inverse_of(tern_f32x4 scale)
{
    return tern_f32x4_pick((tern_i32x4)(scale != all(0)), all(1) / scale, all(0));
}

ALWAYS tern_f32x4 level_of(const tern_signed_fit *f, tern_f32x4 x, tern_f32x4 inverse)
{
    return tern_f32x4_clamp(nearest(x * inverse), f->low, f->high);
}

/* The sum of what the four lanes of a dot product of one group are (quant/fit.h). */
ALWAYS tern_f32x4 sum_of(const tern_f32x4 *parts)
{
    return (parts[0] + parts[2]) + (parts[1] + parts[3]);
}

static void load(const float *x, tern_f32x4 *v)
{
    for (int i = 0; i < N; i++) v[i] = (tern_f32x4){x[i], x[N + i], x[2 * N + i], x[3 * N + i]};
}

static void store(const tern_f32x4 *v, float *x)
{
    for (int i = 0; i < N; i++)
        for (int lane = 0; lane < LANES; lane++) x[lane * N + i] = v[i][lane];
}

static tern_f32x4 largest(const four_groups *g)
{
    tern_f32x4 most = all(0);
    for (int i = 0; i < N; i++)
        most = tern_f32x4_pick((tern_i32x4)(magnitude(g->x[i]) > magnitude(most)), g->x[i], most);
    return most;
}

/* xq = sum(x q) and qq = sum(q q) for the levels of x in steps of 1 / inverse. */
ALWAYS void sums_of(const tern_signed_fit *f, const four_groups *g, const bool weighted, tern_f32x4 inverse,
                    tern_f32x4 *xq, tern_f32x4 *qq)
{
    tern_f32x4 xqs[LANES] = {0}, qqs[LANES] = {0};
    for (int i = 0; i < N; i += LANES)
        for (int lane = 0; lane < LANES; lane++) {
            const tern_f32x4 x = g->x[i + lane], q = level_of(f, x, inverse);
            xqs[lane] += weighted ? g->w[i + lane] * (x * q) : x * q;
            qqs[lane] += weighted ? g->w[i + lane] * (q * q) : q * q;
        }
    *xq = sum_of(xqs);
    *qq = sum_of(qqs);
}

ALWAYS tern_f32x4 scales_of(const tern_signed_fit *f, const four_groups *g, const bool weighted)
{
    const tern_f32x4 most = largest(g);
    tern_f32x4 best_scale = all(0), best = all(0);
    for (int c = 0; c < f->candidates; c++) {
        tern_f32x4 xq, qq;
        sums_of(f, g, weighted, all(f->first + f->step * (float)c) / most, &xq, &qq);
        const tern_f32x4 scale = xq / qq;
        const tern_i32x4 better = (tern_i32x4)(scale * xq > best);
        best = tern_f32x4_pick(better, scale * xq, best);
        best_scale = tern_f32x4_pick(better, scale, best_scale);
    }
    return tern_f32x4_pick((tern_i32x4)(magnitude(most) < all(TERN_FIT_TINY)), all(0), best_scale);
}

ALWAYS tern_f32x4 errors_of(const tern_signed_fit *f, const four_groups *g, const bool weighted, tern_f32x4 scale)
{
    const tern_f32x4 inverse = inverse_of(scale);
    tern_f32x4 parts[LANES] = {0};
    for (int i = 0; i < N; i += LANES)
        for (int lane = 0; lane < LANES; lane++) {
            const tern_f32x4 x = g->x[i + lane], left = x - level_of(f, x, inverse) * scale;
            parts[lane] += weighted ? g->w[i + lane] * (left * left) : left * left;
        }
    return sum_of(parts);
}

/* The multiples of d that serve the groups best: the nearest to their scales, or neighbours. */
ALWAYS tern_f32x4 multiples_of(const tern_signed_fit *f, int least, const four_groups *g, const bool weighted, float d,
                               tern_f32x4 scales)
{
    const tern_f32x4 middle = nearest(scales / d);
    tern_f32x4 best = all(INFINITY), multiples = all(0);
    for (int step = -1; step <= 1; step++) {
        const tern_f32x4 m = middle + (float)step, errors = errors_of(f, g, weighted, d * m);
        const tern_i32x4 better =
            (tern_i32x4)(m >= all((float)least)) & (tern_i32x4)(m <= all((float)(-least - 1))) & (errors < best);
        best = tern_f32x4_pick(better, errors, best);
        multiples = tern_f32x4_pick(better, m, multiples);
    }
    return multiples;
}

ALWAYS uint16_t fit_groups(const tern_signed_fit *f, int least, const float *x, const float *w, int8_t *multiples,
                           float *q)
{
    four_groups fours[TERN_SIGNED_GROUPS / LANES];
    tern_f32x4 scales[TERN_SIGNED_GROUPS / LANES], levels[N];
    float most = 0;
    for (int n = 0; n < TERN_SIGNED_GROUPS / LANES; n++) {
        load(x + n * LANES * N, fours[n].x);
        if (w) load(w + n * LANES * N, fours[n].w);
        scales[n] = scales_of(f, &fours[n], w);
        for (int lane = 0; lane < LANES; lane++)
            if (fabsf(scales[n][lane]) > fabsf(most)) most = scales[n][lane];
    }
    const uint16_t half = tern_f32_to_f16(most / (float)least);
    const float d = tern_f16_to_f32(half);
    for (int n = 0; n < TERN_SIGNED_GROUPS / LANES; n++) {
        const tern_f32x4 m = d != 0 ? multiples_of(f, least, &fours[n], w, d, scales[n]) : all(0),
                         inverse = inverse_of(d * m);
        for (int lane = 0; lane < LANES; lane++) multiples[n * LANES + lane] = (int8_t)m[lane];
        for (int i = 0; i < N; i++) levels[i] = level_of(f, fours[n].x[i], inverse);
        store(levels, q + n * LANES * N);
    }
    return half;
}

uint16_t tern_signed_fit__groups(const tern_signed_fit *f, int least, const float *x, const float *w, int8_t *multiples,
                                 float *q)
{
    return w ? fit_groups(f, least, x, w, multiples, q) : fit_groups(f, least, x, NULL, multiples, q);
}
