/* Numbers as a scale times levels from 0 up, less a minimum: ranges a little narrower and wider than the numbers', each
 * refined by a line fit. */
#include "quant/line_fit.h"

#include <math.h>
#include <string.h>

#include "base/half.h"
#include "quant/fit.h"

enum { ELEMENTS = 256, MAX_GROUP = 32, MAX_GROUPS = 16 };

/* Below this a group's scale vanishes in the f16 of the block. */
static const float TINY = 0x1p-40f;

static void levels_of(const tern_line_fit *f, const float *x, tern_line l, float *q)
{
    tern_fit__levels(x, f->n, l.min, l.scale > TINY ? 1 / l.scale : 0, 0, f->top, q);
}

static float error_of(const tern_line_fit *f, const float *x, const float *w, tern_line l, const float *q)
{
    return tern_fit__weighted_error(w, x, q, f->n, l.scale, l.min);
}

/* The least-squares line through (q, x); with its offset held at 0 where it would be above and must not be. */
static tern_line line_through(const tern_line_fit *f, const float *x, const float *w, const float *q)
{
    float n = w ? tern_fit__sum(w, f->n) : (float)f->n;
    float sq = tern_fit__weighted_sum(w, q, f->n), sx = tern_fit__weighted_sum(w, x, f->n);
    float sqq = tern_fit__weighted_dot(w, q, q, f->n), sxq = tern_fit__weighted_dot(w, x, q, f->n);
    float det = n * sqq - sq * sq;
    if (det > 0) {
        tern_line l = {(n * sxq - sq * sx) / det, (sq * sxq - sqq * sx) / det};
        if (l.scale > 0 && (!f->positive || l.min >= 0)) return l;
    }
    return (tern_line){sqq > 0 && sxq > 0 ? sxq / sqq : 0, 0};
}

static void range_of(const tern_line_fit *f, const float *x, float *low, float *high)
{
    *low = f->positive ? fminf(x[0], 0) : x[0];
    *high = x[0];
    for (int i = 1; i < f->n; i++) {
        *low = fminf(*low, x[i]);
        *high = fmaxf(*high, x[i]);
    }
}

tern_line tern_line_fit__group(const tern_line_fit *f, const float *x, const float *w)
{
    float low, high, q[MAX_GROUP];
    range_of(f, x, &low, &high);
    tern_line best = {0, -low};
    if (!(high - low > TINY)) return best;
    levels_of(f, x, best, q);
    float least = error_of(f, x, w, best, q);
    for (int c = 0; c < f->candidates; c++) {
        tern_line l = {(high - low) / (f->first + f->step * (float)c), -low};
        levels_of(f, x, l, q);
        l = line_through(f, x, w, q);
        float error = error_of(f, x, w, l, q);
        if (error < least) least = error, best = l;
    }
    return best;
}

void tern_line_fit__halves(const tern_line_fit *f, const float *x, const float *w, uint16_t *scale, uint16_t *least,
                           float *q)
{
    tern_line l = tern_line_fit__group(f, x, w);
    *scale = tern_f32_to_f16(l.scale);
    *least = tern_f32_to_f16(-l.min);
    levels_of(f, x, (tern_line){tern_f16_to_f32(*scale), -tern_f16_to_f32(*least)}, q);
}

static int near_multiple(const tern_line_fit *f, float v, float unit)
{
    float m = unit > 0 ? rintf(v / unit) : 0;
    return !(m > 0) ? 0 : m > (float)f->most_multiple ? f->most_multiple : (int)m;
}

/* The multiples of `unit` that serve the group best: those nearest to its line, or neighbours; with their levels. */
static void multiples_of(const tern_line_fit *f, const float *x, const float *w, tern_line l, tern_line unit,
                         uint8_t *scale, uint8_t *min, float *q)
{
    int near_scale = near_multiple(f, l.scale, unit.scale), near_min = near_multiple(f, l.min, unit.min);
    float least = INFINITY, trial[MAX_GROUP];
    *scale = (uint8_t)near_scale;
    *min = (uint8_t)near_min;
    memset(q, 0, (size_t)f->n * sizeof *q);
    for (int s = near_scale - 1; s <= near_scale + 1; s++)
        for (int m = near_min - 1; m <= near_min + 1; m++) {
            if (s < 0 || s > f->most_multiple || m < 0 || m > f->most_multiple) continue;
            tern_line stored = {unit.scale * (float)s, unit.min * (float)m};
            levels_of(f, x, stored, trial);
            float error = error_of(f, x, w, stored, trial);
            if (!(error < least)) continue;
            least = error, *scale = (uint8_t)s, *min = (uint8_t)m;
            memcpy(q, trial, (size_t)f->n * sizeof *q);
        }
}

/* Those of the numbers from `at` on. */
static const float *part(const float *w, int at)
{
    return w ? w + at : NULL;
}

void tern_line_fit__block(const tern_line_fit *f, const float *x, const float *w, uint16_t *halves, uint8_t *scales,
                          uint8_t *mins, float *q)
{
    tern_line lines[MAX_GROUPS], most = {0, 0};
    const int n_groups = ELEMENTS / f->n;
    for (int g = 0; g < n_groups; g++) {
        lines[g] = tern_line_fit__group(f, x + g * f->n, part(w, g * f->n));
        most.scale = fmaxf(most.scale, lines[g].scale);
        most.min = fmaxf(most.min, lines[g].min);
    }
    halves[0] = tern_f32_to_f16(most.scale / (float)f->most_multiple);
    halves[1] = tern_f32_to_f16(most.min / (float)f->most_multiple);
    const tern_line unit = {tern_f16_to_f32(halves[0]), tern_f16_to_f32(halves[1])};
    for (int g = 0; g < n_groups; g++)
        multiples_of(f, x + g * f->n, part(w, g * f->n), lines[g], unit, scales + g, mins + g, q + g * f->n);
}
