/* Low-rank adapters: forward and backward. */
#include <math.h>

#include "ops/ref/backward.h"
#include "ops/ref/fma.h"

void tern_ref_lora(const tern_lora_rows *lora, float *u, float *y, size_t y_stride)
{
    for (uint32_t t = 0; t < lora->n; t++) {
        float *low = u + (size_t)t * lora->rank;
        for (uint32_t i = 0; i < lora->rank; i++)
            low[i] = tern_ref_dot(lora->a + (size_t)i * lora->cols, lora->x + t * lora->x_stride, lora->cols);
        for (uint32_t r = 0; r < lora->n_rows; r++)
            y[t * y_stride + r] += lora->scale * tern_ref_dot(lora->b + (size_t)r * lora->rank, low, lora->rank);
    }
}

/* du[i] of one token. */
static void through_b(const tern_lora_rows *lora, const float *dy, float *du)
{
    for (uint32_t i = 0; i < lora->rank; i++) {
        float sum = 0;
        for (uint32_t r = 0; r < lora->n_rows; r++)
            sum = tern_ref__fmaf(dy[r], lora->b[(size_t)r * lora->rank + i], sum);
        du[i] = lora->scale * sum;
    }
}

void tern_ref_lora_backward(const tern_lora_rows *lora, const float *u, const float *dy, size_t dy_stride, float *du,
                            float *da, float *db, float *dx, size_t dx_stride)
{
    uint32_t rank = lora->rank;
    for (uint32_t t = 0; t < lora->n; t++) {
        const float *d = dy + t * dy_stride;
        through_b(lora, d, du + (size_t)t * rank);
        for (uint32_t r = 0; r < lora->n_rows; r++)
            for (uint32_t i = 0; i < rank; i++) {
                float *to = &db[(size_t)r * rank + i];
                *to = tern_ref__fmaf(lora->scale * d[r], u[(size_t)t * rank + i], *to);
            }
    }
    tern_ref_linear_dw(du, rank, lora->x, lora->x_stride, lora->n, rank, lora->cols, da);
    if (dx) tern_ref_linear_dx(lora->a, rank, lora->cols, du, rank, lora->n, dx, dx_stride);
}
