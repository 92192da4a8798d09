/* Choosing experts and adding up what they made. */
#include "ops/ref/experts.h"

#include <stdbool.h>

#include "ops/ref/ref.h"

/* Whether logit a comes before logit b of a higher index. */
static bool precedes(float a, float b)
{
    return a >= b || b != b;
}

/* Keeps the k first ones in order while the logits go by. */
static void choose(const float *logits, uint32_t n_experts, uint32_t k, tern_route *routes)
{
    for (uint32_t e = 0, n = 0; e < n_experts; e++) {
        uint32_t at = n;
        while (at > 0 && !precedes(logits[routes[at - 1].expert], logits[e])) at--;
        if (at >= k) continue;
        if (n < k) n++;
        for (uint32_t i = n - 1; i > at; i--) routes[i] = routes[i - 1];
        routes[at].expert = e;
    }
}

void tern_ref_route(const float *logits, uint32_t n_experts, uint32_t k, tern_route_rule rule, tern_route *routes)
{
    float sum = 0, chosen = 0;
    choose(logits, n_experts, k, routes);
    const float most = logits[routes[0].expert];
    for (uint32_t e = 0; e < n_experts && rule != TERN_ROUTE_SOFTMAX_TOP; e++) sum += tern_ref_exp(logits[e] - most);
    for (uint32_t j = 0; j < k; j++) routes[j].weight = tern_ref_exp(logits[routes[j].expert] - most);
    for (uint32_t j = 0; j < k && rule == TERN_ROUTE_SOFTMAX_TOP; j++) sum += routes[j].weight;
    for (uint32_t j = 0; j < k; j++) chosen += routes[j].weight /= sum;
    for (uint32_t j = 0; j < k && rule == TERN_ROUTE_SOFTMAX_ALL_NORMED; j++) routes[j].weight /= chosen;
}

void tern_ref_combine(const float *x, size_t x_stride, const tern_route *routes, uint32_t k, const float *residual,
                      uint32_t cols, float *y)
{
    for (uint32_t c = 0; c < cols; c++) {
        float sum = routes[0].weight * x[c];
        for (uint32_t j = 1; j < k; j++) sum += routes[j].weight * x[j * x_stride + c];
        y[c] = residual ? sum + residual[c] : sum;
    }
}
