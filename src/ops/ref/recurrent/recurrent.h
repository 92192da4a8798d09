/* The definitions of ops with a state that goes from token to token, and their backward: convolutions over a kept tail,
 * and the gated delta rule (Gated DeltaNet, arXiv:2412.06464). Floats are exact as ref.h says. */
#ifndef TERN_OPS_REF_RECURRENT_H
#define TERN_OPS_REF_RECURRENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TERN_DELTA_CHUNK = 64, TERN_CONV_MAX_TAPS = 8 };

/* A causal depthwise convolution of one token, then SiLU.
 *
 *   s[c] = fmaf(weight[k][c], taps[k][c], s[c]) for k = 0, 1, ..., n_taps - 1, starting from +0
 *   y[c] = s[c] / (1 + tern_ref_exp(-s[c]))
 *
 *   taps    in   [n_taps] rows of n floats: the inputs of the token and of those before it, the oldest first
 *   weight  in   [n_taps][n]: the file's [n][n_taps], transposed        y  out  [n]; no tap     Exact bits. */
typedef struct tern_conv_args {
    const float *const *taps;
    const float *weight;
    uint32_t n_taps;
    size_t n;
    float *y;
} tern_conv_args;

typedef void (*tern_conv_fn)(const tern_conv_args *args);

/* One token of one head of the gated delta rule.
 *
 *   u[i][j] = state[i][j] * decay
 *   m[j] = fmaf(k[i], u[i][j], m[j]) for i = 0, 1, ..., from +0;   d[j] = (v[j] - m[j]) * beta
 *   next[i][j] = fmaf(k[i], d[j], u[i][j])
 *   y[j] = fmaf(q[i], next[i][j], y[j]) for i = 0, 1, ..., from +0
 *
 *   state  in   [keys][values]            next  out  the same; may be `state`
 *   q, k   in   [keys], normed, and q scaled, before
 *   v      in   [values]                  y     out  [values]
 *
 * NULL as the state: zeros. values is a multiple of 8, at most 512. Exact bits. No allocation. */
typedef struct tern_delta_args {
    const float *state;
    float *next;
    const float *q, *k, *v;
    float decay, beta;
    uint32_t keys, values;
    float *y;
} tern_delta_args;

typedef void (*tern_delta_fn)(const tern_delta_args *args);

/* ln(1 + e^x) as max(x, 0) + 2 atanh(e / (2 + e)), e = tern_ref_exp(-|x|): the series of atanh to the 21st power by
 * Horner in f64, then one rounding to f32. NaN stays one. */
float tern_ref_softplus(float x);

/* 1 / (1 + tern_ref_exp(-x)). */
float tern_ref_logistic(float x);

/* A token's effect on a head's state: tern_ref_exp(decay * softplus(a + dt)). decay: below 0, -e^A_log of Hugging
 * Face's files (transformers modeling_qwen3_next). */
float tern_ref_delta_decay(float a, float dt, float decay);

/* The decay of a head, and its derivative by the weight. */
typedef struct tern_delta_rate {
    float decay, slope;
} tern_delta_rate;

/* is_log: the weight is A_log, so that no update takes the decay above 0; decay = slope = -tern_ref_exp(weight). Else
 * the weight itself, with the slope 1. */
tern_delta_rate tern_ref_delta_rate(float weight, bool is_log);

void tern_ref_conv(const tern_conv_args *args);
void tern_ref_delta(const tern_delta_args *args);
/* The columns of values from `first` on alone. */
void tern_ref_delta_from(const tern_delta_args *args, uint32_t first);

/* Backward of a convolution, for one token:
 *
 *   s[c] as above;  g = 1 / (1 + tern_ref_exp(-s[c]));  ds = dy[c] * (g * (1 + s[c] * (1 - g)))
 *   dtaps[k][c] = fmaf(weight[k][c], ds, dtaps[k][c]);  dweight[k][c] = fmaf(ds, taps[k][c], dweight[k][c])
 *
 * so both are chains over the tokens of a document.
 *   taps, weight  as of tern_conv_args       dy  in  [n]
 *   dtaps    in/out  [n_taps] rows of n floats; a row may be NULL: before the document
 *   dweight  in/out  [n_taps][n], or NULL: not wanted                 Exact bits. */
typedef struct tern_conv_backward_args {
    const float *const *taps;
    const float *weight;
    uint32_t n_taps;
    size_t n;
    const float *dy;
    float *const *dtaps;
    float *dweight;
} tern_conv_backward_args;

typedef void (*tern_conv_backward_fn)(const tern_conv_backward_args *args);
void tern_ref_conv_backward(const tern_conv_backward_args *args);
/* The channels from `first` on alone. */
void tern_ref_conv_backward_from(const tern_conv_backward_args *args, size_t first);

/* Backward of one token of one head of the gated delta rule, whose tokens are walked from the last to the first.
 *
 *   u[i][j] = state[i][j] * decay;  m[j] = chain over i of k[i] * u[i][j], from +0
 *   r[j] = v[j] - m[j];  d[j] = r[j] * beta
 *   dn[i][j] = fmaf(q[i], dy[j], dstate[i][j])
 *   e[j] = chain over i of k[i] * dn[i][j], from +0;  x[j] = chain over i of dn[i][j] * u[i][j], from +0
 *   dv[j] = e[j] * beta;  dbeta = row sum of e[j] * r[j];  w[j] = -dv[j];  dlog = row sum of fmaf(w[j], m[j], x[j])
 *   dq[i] += row sum of fmaf(k[i], d[j], u[i][j]) * dy[j]
 *   dk[i] += row sum of dn[i][j] * d[j] and u[i][j] * w[j]: both of a column go into its lane, in this order
 *   dstate[i][j] = fmaf(k[i], w[j], dn[i][j]) * decay
 *
 *   state   in      [keys][values], before the token; NULL: zeros
 *   dstate  in/out  [keys][values]: the gradient of the state after the token becomes that of the one before
 *   dy      in      [values]           dq, dk  in/out  [keys]           dv  out  [values]
 *   dlog    out     the gradient of ln(decay)                            dbeta  out
 *
 * Row sums: the 16 lanes and the tree of ref.h (of dlog: sums instead of fmaf). values is a multiple of 8, at most 512.
 * Exact bits. No allocation. */
typedef struct tern_delta_backward_args {
    const float *state, *q, *k, *v, *dy;
    float decay, beta;
    uint32_t keys, values;
    float *dstate, *dq, *dk, *dv;
    float *dlog, *dbeta;
} tern_delta_backward_args;

enum { TERN_DELTA_MAX_VALUES = 512 };

typedef void (*tern_delta_backward_fn)(const tern_delta_backward_args *args);
void tern_ref_delta_backward(const tern_delta_backward_args *args);

/* Backward of tern_ref_delta_decay, from the gradient of its logarithm: x = a + dt;
 * dweight += (dlog * softplus(x)) * slope;  da = (dlog * decay) * logistic(x), which is returned;  ddt += da. NULL: not
 * wanted. */
float tern_ref_delta_decay_backward(float a, float dt, tern_delta_rate rate, float dlog, float *dweight, float *ddt);

/* Backward of beta = tern_ref_logistic(b): dbeta * (beta * (1 - beta)). */
static inline float tern_ref_delta_beta_backward(float beta, float dbeta)
{
    return dbeta * (beta * (1 - beta));
}

/* The head of keys that a head of values has. */
static inline uint32_t tern_delta_key_head(uint32_t head, uint32_t n_heads, uint32_t n_key_heads, int tiled)
{
    return tiled ? head % n_key_heads : head / (n_heads / n_key_heads);
}

#endif
