/* The backward of every op, in plain C: what each training kernel on each device must compute. Like ref.h these are
 * definitions, never optimised; no function allocates, and all are thread-safe on distinct outputs.
 *
 * A gradient that may have several contributions is added to (dx, dg, dw, dq, dk, dv, da, db: the caller starts at
 * zero, or goes on from the last batch); what has one producer is written (dgate, dup, dlogits). All sums are f32.
 * Three orders are used (training's forward ops at the end of this file included):
 *   chain  acc = fmaf(a[i], b[i], acc), i ascending, from +0 or from the gradient that is there
 *   row    the 16 lanes and the tree of ref.h (tern_ref_dot)
 *   plain  each product rounded, then the sum, as the formula is written
 * A chain over the rows of a batch may therefore be cut anywhere between two rows without changing a bit, and columns
 * are independent.
 *
 * Nothing is needed for three ops. ADD passes its gradient to both inputs unchanged. GATHER adds each row back where
 * it came from. QUANTIZE and the ternarisation of weights are straight-through: the gradient passes unchanged,
 * clamped elements included, and the scales count as constants (Bengio et al., arXiv:1308.3432; ActQuant and
 * WeightQuant of transformers' integrations/bitnet.py return grad_output.clone()). So in a ternary linear layer dx
 * uses the ternary weights, dw the quantised activations. */
#ifndef TERN_OPS_REF_BACKWARD_H
#define TERN_OPS_REF_BACKWARD_H

#include <stdbool.h>

#include "ops/ref/ref.h"

/* Backward of RMS_NORM of one row, y[c] = x[c] * r * g[c], r = 1 / sqrtf(mean(x^2) + eps) as in tern_ref_rms_norm.
 *
 *   s = row sum of (dy[c] * g[c]) * x[c];  k = ((r * r) * r) * (s / cols)
 *   dx[c] += (dy[c] * g[c]) * r - x[c] * k;   dg[c] += dy[c] * (x[c] * r)
 *
 *   x, g, dy  in  [cols] f32     dx, dg  in/out  [cols] f32; either may be NULL: not wanted
 * Returns r. Exact bits. */
typedef float (*tern_rms_norm_backward_fn)(const float *x, const float *g, float eps, uint32_t cols, const float *dy,
                                           float *dx, float *dg);
float tern_ref_rms_norm_backward(const float *x, const float *g, float eps, uint32_t cols, const float *dy, float *dx,
                                 float *dg);

/* dg of n rows whose r are known: dg[c] += dy[t][c] * (x[t][c] * r[t]), t ascending.
 *
 *   x, dy  in  x[t * x_stride + c], dy[t * dy_stride + c]      dg  in/out  [cols]      Exact bits. */
typedef struct tern_norm_weight_args {
    const float *x, *dy, *r;
    size_t x_stride, dy_stride;
    uint32_t n, cols;
} tern_norm_weight_args;

typedef void (*tern_norm_weight_backward_fn)(const tern_norm_weight_args *args, float *dg);
void tern_ref_norm_weight_backward(const tern_norm_weight_args *args, float *dg);

/* LINEAR_DX and LINEAR_DW in bf16 (tern_op.halves): both factors of each product below are rounded to bf16 first, to
 * nearest even. The factors are weights and x, of which ternary codes and int8 are exact, and dy times the scale of its
 * row of W or of x where there is one for each row. Products are then exact in f32. */

/* Input gradient of LINEAR, y[t] = W x[t], with dense weights.
 *
 *   dx[t][c] += chain over r of dy[t][r] * w[r][c], from +0
 *
 *   w   in      [n_rows][cols] f32
 *   dy  in      dy[t * dy_stride + r]        dx  in/out  dx[t * dx_stride + c] */
void tern_ref_linear_dx(const float *w, uint32_t n_rows, uint32_t cols, const float *dy, size_t dy_stride, uint32_t n,
                        float *dx, size_t dx_stride);

/* As above with ternary weights W = scale * code, straight from packed rows.
 *
 *   dx[t][c] += scale * chain over r of dy[t][r] * code(w[r][c]), from +0
 *
 *   w   in  n_rows rows of row_bytes bytes of i2_s groups (docs/reference/formats/encodings.md); cols a
 *          multiple of 128; code 11 counts as 0
 *
 * The other ternary encodings likewise. With a scale for each row the chain is of the values, scale_r * code rounded,
 * as with dense weights. */
void tern_ref_linear_dx_i2_s(const uint8_t *w, size_t row_bytes, uint32_t n_rows, uint32_t cols, float scale,
                             const float *dy, size_t dy_stride, uint32_t n, float *dx, size_t dx_stride);

/* Weight gradient of LINEAR, summed over a batch.
 *
 *   dw[r][c] = chain over t of dy[t][r] * x[t][c], from dw[r][c]
 *
 *   x   in      x[t * x_stride + c] f32          dw  in/out  [n_rows][cols] f32, contiguous */
void tern_ref_linear_dw(const float *dy, size_t dy_stride, const float *x, size_t x_stride, uint32_t n, uint32_t n_rows,
                        uint32_t cols, float *dw);

/* As above where the layer's input was quantised: x[t][c] = q[t][c] * inv_scales[t].
 *
 *   dw[r][c] = chain over t of (dy[t][r] * inv_scales[t]) * q[t][c], from dw[r][c] */
void tern_ref_linear_dw_q8(const float *dy, size_t dy_stride, const tern_q8_rows *q, const float *inv_scales,
                           uint32_t n_rows, uint32_t cols, float *dw);

/* Gradient of a bias of LINEAR, y[t] = W x[t] + b: db[r] += dy[t * dy_stride + r], t ascending. */
void tern_ref_bias_backward(const float *dy, size_t dy_stride, uint32_t n, uint32_t n_rows, float *db);

/* Backward of ROPE, in place on the gradient: rotation by the negative angle, shapes as tern_rope_fn.
 *   a' = a * cos + b * sin;  b' = b * cos - a * sin   (plain) */
void tern_ref_rope_halves_backward(float *dx, uint32_t n_heads, uint32_t head_dim, const float *cs);
void tern_ref_rope_adjacent_backward(float *dx, uint32_t n_heads, uint32_t head_dim, const float *cs);

/* Causal attention over the contiguous rows of one packed batch. Query head h reads KV head h / (n_heads /
 * n_kv_heads). Token t sees the tokens starts[t] .. t: starts[t] is the first token of its document (starts NULL: 0
 * for all), starts[t] <= t. With a window it sees the last `window` of them alone, itself included. */
typedef struct tern_varlen_attention {
    uint32_t n; /* tokens */
    uint32_t n_heads, n_kv_heads, head_dim;
    const float *q;     /* q[t * q_stride + h * head_dim + d] */
    const float *k, *v; /* k[t * kv_stride + h * head_dim + d] */
    size_t q_stride, kv_stride;
    const uint32_t *starts; /* [n] or NULL */
    float scale;            /* usually 1 / sqrt(head_dim) */
    float softcap;          /* 0: none */
    uint32_t window;        /* 0: none */
    const float *sinks;     /* [n_heads] or NULL */
    bool bf16;              /* both factors of all products of rows are rounded to bf16 first; sums, l and delta not */
} tern_varlen_attention;

/* Forward, and what the backward needs of it. For token t, head h and its visible j in ascending order:
 *
 *   s_j = (chain over d of q[d] * k_j[d]) * scale;  with a soft cap s_j = tern_ref_softcap(s_j, softcap);
 *   m = max s_j, a NaN ignored, + (+0);
 *   l = sum of exp(s_j - m), j in lane j mod 16, by the tree of ref.h; with sinks l = tern_ref_sink(sinks[h], m, l);
 *   out = (chain over j of exp(s_j - m) * v_j) / l
 *
 *   out   out  out[t * q_stride + h * head_dim + d]         m, l  out  [n][n_heads]
 * exp is tern_ref_exp. The paged op of ref.h gives the same within rounding (its scores are sums in lanes), and its m
 * and l serve the backward as well. Chains instead of lanes, so that all five products of attention are
 * tern_ref_product. */
void tern_ref_varlen_attention(const tern_varlen_attention *rows, float *out, float *m, float *l);

/* Backward; the probabilities are computed again from m and l, so memory is linear in n (Dao et al.,
 * arXiv:2205.14135, B.4).
 *
 *   delta = row dot(dout, out);  r = 1 / l;   for each visible j:
 *   p = exp(s_j - m) * r;  ds = (p * ((chain over d of dout[d] * v_j[d]) - delta)) * scale, with a soft cap
 *   ds = ((p * ((chain) - delta)) * (1 - u * u)) * scale, u = s_j * (1 / softcap), for s = softcap * tanh(x / softcap);
 *   dv_j[d] = fmaf(p, dout[d], dv_j[d]);  dq[d] = fmaf(ds, k_j[d], dq[d]);  dk_j[d] = fmaf(ds, q[d], dk_j[d])
 *
 * so dq is a chain over j; dk and dv are chains over t, and for one t over the query heads of the group, all ascending.
 * The sink of head h has no value: dsinks[h] -= (exp(sinks[h] - m) * r) * delta, t ascending.
 *   out, dout, dq  strides as q      dk, dv  strides as k      dsinks  [n_heads], or NULL: not wanted */
void tern_ref_varlen_attention_backward(const tern_varlen_attention *rows, const float *out, const float *m,
                                        const float *l, const float *dout, float *dq, float *dk, float *dv,
                                        float *dsinks);

/* The parts of attention over rows.
 *
 * A product of matrices: c[i][j] = chain over s of a(i, s) * b[s][j], from +0 or, with `add`, from c[i][j];
 *   a(i, s) = a[i * a_row + s * a_step];  b[s][j] = b[s * b_step + j];  c[i][j] = c[i * c_row + j]
 * i < m, j < n, s < steps. c overlaps neither a nor b. Exact bits. */
typedef struct tern_product_args {
    const float *a;
    size_t a_row, a_step;
    const float *b;
    size_t b_step;
    float *c;
    size_t c_row;
    uint32_t m, n, steps;
    bool add;
} tern_product_args;

typedef void (*tern_product_fn)(const tern_product_args *args);
void tern_ref_product(const tern_product_args *args);

/* One row of scores: what the softmax is given, what it finds, and what its backward needs besides. */
typedef struct tern_softmax_row {
    float scale, softcap; /* softcap 0: none */
    float m, l;
    float delta; /* backward */
} tern_softmax_row;

/* Softmax of one row of products, columns first .. end - 1 of s, in place: s_j * scale, soft-capped where the row says
 * so, to p_j = exp(s_j - m); fills m and l as above (no sink), lanes by column. Exact bits.
 *
 *   s  in/out  the columns from the multiple of 16 at or below first to the one at or above end are the kernel's; what
 *              it leaves outside first .. end - 1 is not defined */
typedef void (*tern_softmax_fn)(float *s, uint32_t first, uint32_t end, tern_softmax_row *row);
void tern_ref_softmax(float *s, uint32_t first, uint32_t end, tern_softmax_row *row);

/* Its backward: s_j to p_j = exp(s_j - m) * (1 / l), dp_j to ds_j as above; columns as above, of s and of dp. */
typedef void (*tern_softmax_backward_fn)(float *s, float *dp, uint32_t first, uint32_t end,
                                         const tern_softmax_row *row);
void tern_ref_softmax_backward(float *s, float *dp, uint32_t first, uint32_t end, const tern_softmax_row *row);

/* Backward of GATE on n values; dgate and dup are written and may alias gate, up or dy.
 *   relu2:  r = g > 0 ? g : 0;         dgate = (dy * u) * (r + r);                    dup = dy * (r * r)
 *   silu:   s = 1 / (1 + exp(-g));     dgate = (dy * u) * (s * (1 + g * (1 - s)));    dup = dy * (g * s)
 *   gelu:   s = 1 / (1 + exp(-w)), w as in tern_gate_fn;  w' = SCALE * (1 + 3 CUBE * (g * g));
 *           dgate = (dy * u) * (s + ((s * (1 - s)) * g) * w');                        dup = dy * (g * s)
 * Plain. Exact bits. */
typedef void (*tern_gate_backward_fn)(const float *gate, const float *up, const float *dy, size_t n, float *dgate,
                                      float *dup);
void tern_ref_relu2_backward(const float *gate, const float *up, const float *dy, size_t n, float *dgate, float *dup);
void tern_ref_silu_backward(const float *gate, const float *up, const float *dy, size_t n, float *dgate, float *dup);
void tern_ref_gelu_backward(const float *gate, const float *up, const float *dy, size_t n, float *dgate, float *dup);

/* Backward of activations with a limit, with g', u' as in tern_limited_gate_fn; of SWIGLU_OAI w = g' * ALPHA and
 * v = u' + 1, of SWIGLU_CLAMPED w = g' and v = u'; s = 1 / (1 + exp(-w)):
 *   dgate = g > limit ? 0 : (dy * v) * (s * (1 + w * (1 - s)))
 *   dup = u > limit or u < -limit ? 0 : dy * (g' * s)
 * Otherwise as tern_gate_backward_fn. */
typedef void (*tern_limited_gate_backward_fn)(const float *gate, const float *up, const float *dy, float limit,
                                              size_t n, float *dgate, float *dup);
void tern_ref_swiglu_oai_backward(const float *gate, const float *up, const float *dy, float limit, size_t n,
                                  float *dgate, float *dup);
void tern_ref_swiglu_clamped_backward(const float *gate, const float *up, const float *dy, float limit, size_t n,
                                      float *dgate, float *dup);

/* Backward of an output gate:
 *   s = 1 / (1 + tern_ref_exp(-g));  dgate = dy * u * (s * (1 - s));  dup = dy * s */
void tern_ref_sigmoid_backward(const float *gate, const float *up, const float *dy, size_t n, float *dgate, float *dup);

/* Backward of EMBED: dtable[ids[t]][c] += dy[t * dy_stride + c], t ascending; ids in 0 .. rows of the table - 1. With
 * a tied head the same dtable gets the head's tern_ref_linear_dw as well. */
void tern_ref_embed_backward(const int32_t *ids, uint32_t n, uint32_t cols, const float *dy, size_t dy_stride,
                             float *dtable);

/* Cross-entropy of one row of logits, and its gradient in their place. A label below 0 is masked (PyTorch's
 * ignore_index is -100), and so is one that is not a row of the vocabulary: callers check their labels.
 *
 *   m = max z;  p_i = exp(z_i - m);  l = row sum of p_i;  loss = log(l) + m - z[label]
 *   z[i] = weight * (p_i * (1 / l) - (i == label))
 *
 * Returns the loss, not weighted; a masked row has loss 0 and all gradients 0. For the mean over the unmasked rows of
 * a batch weight is 1 / their number (tern_ref_count_labels), and the losses are added in f64. A NaN among the logits
 * gives NaN. Exact bits. */
typedef float (*tern_cross_entropy_fn)(float *z, uint32_t n_vocab, int32_t label, float weight);
float tern_ref_cross_entropy(float *z, uint32_t n_vocab, int32_t label, float weight);
/* How many labels are not masked. */
uint32_t tern_ref_count_labels(const int32_t *labels, uint32_t n);

/* Low-rank adapter beside a frozen linear layer: y += scale * B A x, scale = alpha / rank (Hu et al.,
 * arXiv:2106.09685; PEFT). Its x is the layer's input before the quantiser. */
typedef struct tern_lora_rows {
    uint32_t rank, n_rows, cols;
    const float *a; /* [rank][cols] */
    const float *b; /* [n_rows][rank] */
    float scale;
    const float *x; /* x[t * x_stride + c] */
    size_t x_stride;
    uint32_t n;
} tern_lora_rows;

/* u[t][i] = row dot(A_i, x[t]);  y[t * y_stride + r] += scale * row dot(B_r, u[t]);   u  out  [n][rank], kept for the
 * backward */
void tern_ref_lora(const tern_lora_rows *lora, float *u, float *y, size_t y_stride);

/*   du[t][i] = scale * chain over r of dy[t][r] * B[r][i], from +0
 *   dB[r][i] = chain over t of (scale * dy[t][r]) * u[t][i], from dB
 *   dA[i][c] = chain over t of du[t][i] * x[t][c], from dA
 *   dx[t][c] += chain over i of du[t][i] * A[i][c], from +0
 *
 *   u   in   [n][rank], from the forward        du  out  [n][rank], scratch of the caller
 *   da  in/out  [rank][cols]     db  in/out  [n_rows][rank]     dx  in/out, or NULL: not wanted */
void tern_ref_lora_backward(const tern_lora_rows *lora, const float *u, const float *dy, size_t dy_stride, float *du,
                            float *da, float *db, float *dx, size_t dx_stride);

/* Forward ops that only training has. */

/* Dropout of n elements, `index` that of the first in its tensor, row by row: y = x * (1 / (1 - p)) where
 * tern_ref_random_bits(seed, index + i) >= (uint32_t)(p * 2^32), else +0. Its own backward. y may be x. 0 <= p < 1. */
typedef void (*tern_dropout_fn)(const float *x, size_t n, float p, uint32_t seed, uint32_t index, float *y);
void tern_ref_dropout(const float *x, size_t n, float p, uint32_t seed, uint32_t index, float *y);

/* How dropout is applied: made once on the host. */
static inline uint32_t tern_ref_dropout_threshold(float p)
{
    return (uint32_t)((double)p * 4294967296.0);
}

/* Gradual quantisation of one row: with q and inv_scale of tern_ref_quantize,
 *   y[c] = x[c] + blend * (q[c] * inv_scale - x[c])     plain; y may be x. Exact bits. */
typedef void (*tern_fake_quantize_fn)(const float *x, uint32_t cols, float blend, float *y);
void tern_ref_fake_quantize(const float *x, uint32_t cols, float blend, float *y);

#endif
