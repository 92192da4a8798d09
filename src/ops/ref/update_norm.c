/* Gradient norm, clipping, and learning-rate schedules. */
#include <math.h>

#include "base/flush.h"
#include "ops/ref/update.h"

/* +infinity for whatever is not finite. */
static float open_ended(float x)
{
    return (tern_f32_bits(x) & 0x7f800000u) == 0x7f800000u ? HUGE_VALF : x;
}

static float square(float g)
{
    const float x = open_ended(g);
    return isinf(x) ? x : open_ended(x * x) == HUGE_VALF ? HUGE_VALF : tern_flush(x * x);
}

static float tree(float lanes[TERN_NORM_LANES])
{
    for (size_t half = TERN_NORM_LANES / 2; half > 0; half /= 2)
        for (size_t l = 0; l < half; l++) lanes[l] = open_ended(lanes[l] + lanes[l + half]);
    return lanes[0];
}

/* The sum of the `span` elements from `at`; those from n on are 0. */
static float sum_run(const float *g, size_t n, size_t at, size_t span)
{
    if (span == 1) return square(g[at]);
    const size_t part = span / TERN_NORM_CHUNK;
    float lanes[TERN_NORM_LANES] = {0};
    for (size_t i = 0; i < TERN_NORM_CHUNK && at + i * part < n; i++) {
        float *lane = &lanes[i % TERN_NORM_LANES];
        *lane = open_ended(*lane + sum_run(g, n, at + i * part, part));
    }
    return tree(lanes);
}

float tern_ref_sum_run(const float *x, size_t n, bool squares)
{
    float lanes[TERN_NORM_LANES] = {0};
    for (size_t i = 0; i < n; i++) {
        float *lane = &lanes[i % TERN_NORM_LANES];
        *lane = open_ended(*lane + (squares ? square(x[i]) : x[i]));
    }
    return tree(lanes);
}

float tern_ref_sum_squares(const float *g, size_t n)
{
    size_t span = TERN_NORM_CHUNK;
    while (span < n) span *= TERN_NORM_CHUNK;
    return sum_run(g, n, 0, span);
}

float tern_ref_clip_factor(double norm, double max_norm)
{
    double factor = max_norm / (norm + 1e-6);
    return max_norm == 0 || factor > 1 ? 1 : (float)factor;
}

void tern_ref_scale(float factor, size_t n, float *g)
{
    for (size_t i = 0; i < n; i++) g[i] *= factor;
}

double tern_ref_schedule(tern_schedule schedule, uint64_t step, uint64_t n_warmup, uint64_t n_steps)
{
    const double pi = 3.14159265358979323846;
    if (step < n_warmup) return (double)step / (double)n_warmup;
    if (schedule == TERN_SCHEDULE_CONSTANT) return 1;
    if (step >= n_steps) return 0;
    double done = (double)(step - n_warmup) / (double)(n_steps - n_warmup);
    return schedule == TERN_SCHEDULE_LINEAR ? 1 - done : (1 + cos(pi * done)) / 2;
}
