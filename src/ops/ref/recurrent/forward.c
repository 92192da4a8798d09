/* Convolution over a kept tail, and the gated delta rule. */
#include "ops/ref/recurrent/recurrent.h"

#include <math.h>

#include "ops/ref/fma.h"
#include "ops/ref/ref.h"

float tern_ref_softplus(float x)
{
    const double e = (double)tern_ref_exp(-fabsf(x)), s = e / (2 + e), t = s * s;
    double sum = 1.0 / 21;
    for (int n = 19; n > 0; n -= 2) sum = sum * t + 1.0 / n;
    const double above = x > 0 ? (double)x : 0;
    return x != x ? x : (float)(above + 2 * (sum * s));
}

float tern_ref_logistic(float x)
{
    return 1 / (1 + tern_ref_exp(-x));
}

tern_delta_rate tern_ref_delta_rate(float weight, bool is_log)
{
    const float decay = is_log ? -tern_ref_exp(weight) : weight;
    return (tern_delta_rate){.decay = decay, .slope = is_log ? decay : 1};
}

float tern_ref_delta_decay(float a, float dt, float decay)
{
    return tern_ref_exp(decay * tern_ref_softplus(a + dt));
}

void tern_ref_conv(const tern_conv_args *args)
{
    for (size_t c = 0; c < args->n; c++) {
        float sum = 0;
        for (uint32_t k = 0; k < args->n_taps; k++)
            sum = tern_ref__fmaf(args->weight[k * args->n + c], args->taps[k][c], sum);
        args->y[c] = sum / (1 + tern_ref_exp(-sum));
    }
}

/* One column of the state. */
static void delta_column(const tern_delta_args *args, uint32_t j)
{
    float m = 0, y = 0;
    for (uint32_t i = 0; i < args->keys; i++) {
        const size_t at = (size_t)i * args->values + j;
        args->next[at] = (args->state ? args->state[at] : 0) * args->decay;
        m = tern_ref__fmaf(args->k[i], args->next[at], m);
    }
    const float d = (args->v[j] - m) * args->beta;
    for (uint32_t i = 0; i < args->keys; i++) {
        float *at = &args->next[(size_t)i * args->values + j];
        *at = tern_ref__fmaf(args->k[i], d, *at);
        y = tern_ref__fmaf(args->q[i], *at, y);
    }
    args->y[j] = y;
}

void tern_ref_delta_from(const tern_delta_args *args, uint32_t first)
{
    for (uint32_t j = first; j < args->values; j++) delta_column(args, j);
}

void tern_ref_delta(const tern_delta_args *args)
{
    tern_ref_delta_from(args, 0);
}
