/* Backward of convolutions and of the gated delta rule. */
#include "ops/ref/lanes.h"
#include "ops/ref/recurrent/recurrent.h"

static void conv_channel(const tern_conv_backward_args *args, size_t c)
{
    float s = 0;
    for (uint32_t k = 0; k < args->n_taps; k++) s = tern_ref__fmaf(args->weight[k * args->n + c], args->taps[k][c], s);
    const float g = 1 / (1 + tern_ref_exp(-s)), ds = args->dy[c] * (g * (1 + s * (1 - g)));
    for (uint32_t k = 0; k < args->n_taps; k++) {
        float *dx = args->dtaps[k], *dweight = args->dweight ? args->dweight + k * args->n : NULL;
        if (dx) dx[c] = tern_ref__fmaf(args->weight[k * args->n + c], ds, dx[c]);
        if (dweight) dweight[c] = tern_ref__fmaf(ds, args->taps[k][c], dweight[c]);
    }
}

void tern_ref_conv_backward_from(const tern_conv_backward_args *args, size_t first)
{
    for (size_t c = first; c < args->n; c++) conv_channel(args, c);
}

void tern_ref_conv_backward(const tern_conv_backward_args *args)
{
    tern_ref_conv_backward_from(args, 0);
}

/* Element `at` of the state, after its decay. */
static float decayed(const tern_delta_backward_args *a, size_t at)
{
    return (a->state ? a->state[at] : 0) * a->decay;
}

/* Sums of each column: the names of the contract. */
typedef struct columns {
    float m[TERN_DELTA_MAX_VALUES], r[TERN_DELTA_MAX_VALUES], d[TERN_DELTA_MAX_VALUES], e[TERN_DELTA_MAX_VALUES],
        x[TERN_DELTA_MAX_VALUES], w[TERN_DELTA_MAX_VALUES];
} columns;

static void find_column(const tern_delta_backward_args *a, uint32_t j, columns *c)
{
    float m = 0, e = 0, x = 0;
    for (uint32_t i = 0; i < a->keys; i++) {
        const size_t at = (size_t)i * a->values + j;
        const float u = decayed(a, at), dn = tern_ref__fmaf(a->q[i], a->dy[j], a->dstate[at]);
        m = tern_ref__fmaf(a->k[i], u, m);
        e = tern_ref__fmaf(a->k[i], dn, e);
        x = tern_ref__fmaf(dn, u, x);
    }
    a->dv[j] = e * a->beta;
    c->m[j] = m;
    c->r[j] = a->v[j] - m;
    c->d[j] = c->r[j] * a->beta;
    c->e[j] = e;
    c->w[j] = -a->dv[j];
    c->x[j] = tern_ref__fmaf(c->w[j], m, x);
}

static void finish_row(const tern_delta_backward_args *a, uint32_t i, const columns *c)
{
    float to_q[TERN_LANES] = {0}, to_k[TERN_LANES] = {0};
    for (uint32_t j = 0; j < a->values; j++) {
        const size_t at = (size_t)i * a->values + j, lane = j % TERN_LANES;
        const float u = decayed(a, at), dn = tern_ref__fmaf(a->q[i], a->dy[j], a->dstate[at]);
        to_q[lane] = tern_ref__fmaf(tern_ref__fmaf(a->k[i], c->d[j], u), a->dy[j], to_q[lane]);
        to_k[lane] = tern_ref__fmaf(dn, c->d[j], to_k[lane]);
        to_k[lane] = tern_ref__fmaf(u, c->w[j], to_k[lane]);
        a->dstate[at] = tern_ref__fmaf(a->k[i], c->w[j], dn) * a->decay;
    }
    a->dq[i] += tern_ref__lanes_sum(to_q);
    a->dk[i] += tern_ref__lanes_sum(to_k);
}

void tern_ref_delta_backward(const tern_delta_backward_args *args)
{
    columns c;
    float logs[TERN_LANES] = {0}, betas[TERN_LANES] = {0};
    for (uint32_t j = 0; j < args->values; j++) find_column(args, j, &c);
    for (uint32_t i = 0; i < args->keys; i++) finish_row(args, i, &c);
    for (uint32_t j = 0; j < args->values; j++) logs[j % TERN_LANES] += c.x[j];
    tern_ref__lanes_add(betas, c.e, c.r, args->values);
    *args->dlog = tern_ref__lanes_sum(logs);
    *args->dbeta = tern_ref__lanes_sum(betas);
}

float tern_ref_delta_decay_backward(float a, float dt, tern_delta_rate rate, float dlog, float *dweight, float *ddt)
{
    const float x = a + dt, da = dlog * rate.decay * tern_ref_logistic(x);
    if (dweight) *dweight += dlog * tern_ref_softplus(x) * rate.slope;
    if (ddt) *ddt += da;
    return da;
}
