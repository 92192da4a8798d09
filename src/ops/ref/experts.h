/* The ops of layers with experts beside their products: the choice of experts and the sum of their results. Exact bits,
 * except for the weights on GPUs. */
#ifndef TERN_OPS_REF_EXPERTS_H
#define TERN_OPS_REF_EXPERTS_H

#include <stddef.h>
#include <stdint.h>

#include "ops/routing.h"

/* An expert of a token and its weight in the token's sum: a row of a value of routes, as two u32. */
typedef struct tern_route {
    uint32_t expert;
    float weight;
} tern_route;

/* The k experts of a token, highest logit first; of equal logits the lower index first; NaN after all numbers.
 * Weights, with m the highest logit, l[j] the j-th of the chosen, and exp tern_ref_exp:
 *   SOFTMAX_ALL         w[j] = exp(l[j] - m) / sum over all e, in order of e, of exp(logits[e] - m)
 *   SOFTMAX_ALL_NORMED  the same over their sum in order of j
 *   SOFTMAX_TOP         w[j] = exp(l[j] - m) / sum over j, in order, of exp(l[j] - m)
 *
 *   logits  in   [n_experts] f32, n_experts <= TERN_MAX_EXPERTS       routes  out  [k], 1 <= k <= n_experts */
void tern_ref_route(const float *logits, uint32_t n_experts, uint32_t k, tern_route_rule rule, tern_route *routes);

/* y[c] = ((w_0 * x_0[c]) + w_1 * x_1[c]) + ...: each product rounded, then the sum, in order of j; then
 * + residual[c] where there is one (NULL: none).
 *
 *   x  in  [k] rows of cols f32, x_stride apart       routes  in  [k]       y  out  [cols]; may be residual */
void tern_ref_combine(const float *x, size_t x_stride, const tern_route *routes, uint32_t k, const float *residual,
                      uint32_t cols, float *y);

/* Backward of tern_ref_route, through the weights: which experts are chosen has no gradient. With w the weights of the
 * routes, d the gradients of these, S = sum over j, in order, of w[j] * d[j]:
 *   SOFTMAX_ALL_NORMED, SOFTMAX_TOP  dlogits[chosen j] = w[j] * (d[j] - S), 0 elsewhere
 *   SOFTMAX_ALL                      dlogits[chosen j] = w[j] * (d[j] - S); elsewhere, with l the logit of route 0,
 *                                    dlogits[e] = -((w[0] * exp(logits[e] - l)) * S)
 * Plain. With SOFTMAX_ALL_NORMED a factor that all weights share is not part of them, so that both are one formula.
 *
 *   logits  in   [n_experts]     routes, d  in  [k]     dlogits  out  [n_experts] */
void tern_ref_route_backward(const float *logits, uint32_t n_experts, uint32_t k, tern_route_rule rule,
                             const tern_route *routes, const float *d, float *dlogits);

/* Backward of tern_ref_combine for one routed row: dx[c] = weight * dy[c]. Returns row dot(dy, x), the gradient of the
 * weight. dx may be NULL: not wanted. */
float tern_ref_combine_backward(const float *x, float weight, const float *dy, uint32_t cols, float *dx);

/* Gradients of LINEAR with a route: n routed rows, row r has the matrix w[e] of its expert e, [n_rows][cols] f32 each,
 * and x of row r / each.
 *   dx[r / each][c] += chain over i of dy[r][i] * w[e][i][c], from +0;   r ascending
 *   dw[e][i][c] = chain over the rows r of expert e, ascending, of dy[r][i] * x[r / each][c], from dw
 * With int8 rows of x both factors are those of tern_ref_linear_dw_q8. */
typedef struct tern_routed_rows {
    const tern_route *routes; /* [n] */
    uint32_t n, each;
    uint32_t n_rows, cols; /* of an expert's matrix */
    const float *dy;       /* dy[r * dy_stride + i] */
    size_t dy_stride;
} tern_routed_rows;

void tern_ref_routed_dx(const tern_routed_rows *rows, const float *w, float *dx, size_t dx_stride);
void tern_ref_routed_dw(const tern_routed_rows *rows, const float *x, size_t x_stride, float *dw);

#endif
