/* Backward of the choice of experts, of the sum of what they made, and of their matrices. */
#include "ops/ref/backward.h"
#include "ops/ref/experts.h"

void tern_ref_route_backward(const float *logits, uint32_t n_experts, uint32_t k, tern_route_rule rule,
                             const tern_route *routes, const float *d, float *dlogits)
{
    const float first = logits[routes[0].expert];
    float sum = 0;
    for (uint32_t j = 0; j < k; j++) sum += routes[j].weight * d[j];
    for (uint32_t e = 0; e < n_experts; e++)
        dlogits[e] = rule == TERN_ROUTE_SOFTMAX_ALL ? -(routes[0].weight * tern_ref_exp(logits[e] - first) * sum) : 0;
    for (uint32_t j = 0; j < k; j++) dlogits[routes[j].expert] = routes[j].weight * (d[j] - sum);
}

float tern_ref_combine_backward(const float *x, float weight, const float *dy, uint32_t cols, float *dx)
{
    for (uint32_t c = 0; dx && c < cols; c++) dx[c] = weight * dy[c];
    return tern_ref_dot(dy, x, cols);
}

void tern_ref_routed_dx(const tern_routed_rows *rows, const float *w, float *dx, size_t dx_stride)
{
    const size_t matrix = (size_t)rows->n_rows * rows->cols;
    for (uint32_t r = 0; r < rows->n; r++)
        tern_ref_linear_dx(w + rows->routes[r].expert * matrix, rows->n_rows, rows->cols,
                           rows->dy + r * rows->dy_stride, rows->dy_stride, 1, dx + r / rows->each * dx_stride,
                           dx_stride);
}

void tern_ref_routed_dw(const tern_routed_rows *rows, const float *x, size_t x_stride, float *dw)
{
    const size_t matrix = (size_t)rows->n_rows * rows->cols;
    for (uint32_t r = 0; r < rows->n; r++)
        tern_ref_linear_dw(rows->dy + r * rows->dy_stride, rows->dy_stride, x + r / rows->each * x_stride, x_stride, 1,
                           rows->n_rows, rows->cols, dw + rows->routes[r].expert * matrix);
}
