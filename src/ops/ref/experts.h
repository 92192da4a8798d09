/* What layers with experts compute beside their products: the choice of experts and the sum of what they made. Exact
 * bits, but for the weights on GPUs. */
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

#endif
