/* Gradient norm, clipping, and learning-rate schedules. */
#include <math.h>

#include "ops/ref/ref.h"
#include "ops/ref/update.h"

double tern_ref_sum_squares(const float *g, size_t n)
{
    double sum = 0;
    for (size_t at = 0; at < n; at += TERN_NORM_CHUNK) {
        size_t length = n - at < TERN_NORM_CHUNK ? n - at : TERN_NORM_CHUNK;
        sum += (double)tern_ref_dot(g + at, g + at, length);
    }
    return sum;
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
