/* Gradients of linear layers, dense and ternary. */
#include <math.h>

#include "ops/ref/backward.h"
#include "ops/ref/fma.h"

void tern_ref_linear_dx(const float *w, uint32_t n_rows, uint32_t cols, const float *dy, size_t dy_stride, uint32_t n,
                        float *dx, size_t dx_stride)
{
    for (uint32_t t = 0; t < n; t++)
        for (uint32_t c = 0; c < cols; c++) {
            float sum = 0;
            for (uint32_t r = 0; r < n_rows; r++)
                sum = tern_ref__fmaf(dy[t * dy_stride + r], w[(size_t)r * cols + c], sum);
            dx[t * dx_stride + c] += sum;
        }
}

/* The code of column c of a row of i2_s groups. */
static float code_at(const uint8_t *row, uint32_t c)
{
    static const float values[4] = {-1, 0, 1, 0};
    return values[row[c / 128 * 32 + c % 32] >> (6 - c % 128 / 32 * 2) & 3];
}

void tern_ref_linear_dx_i2_s(const uint8_t *w, size_t row_bytes, uint32_t n_rows, uint32_t cols, float scale,
                             const float *dy, size_t dy_stride, uint32_t n, float *dx, size_t dx_stride)
{
    for (uint32_t t = 0; t < n; t++)
        for (uint32_t c = 0; c < cols; c++) {
            float sum = 0;
            for (uint32_t r = 0; r < n_rows; r++)
                sum = tern_ref__fmaf(dy[t * dy_stride + r], code_at(w + r * row_bytes, c), sum);
            dx[t * dx_stride + c] += scale * sum;
        }
}

void tern_ref_linear_dw(const float *dy, size_t dy_stride, const float *x, size_t x_stride, uint32_t n, uint32_t n_rows,
                        uint32_t cols, float *dw)
{
    for (uint32_t t = 0; t < n; t++)
        for (uint32_t r = 0; r < n_rows; r++) {
            float d = dy[t * dy_stride + r], *row = dw + (size_t)r * cols;
            for (uint32_t c = 0; c < cols; c++) row[c] = tern_ref__fmaf(d, x[t * x_stride + c], row[c]);
        }
}

void tern_ref_linear_dw_q8(const float *dy, size_t dy_stride, const tern_q8_rows *q, const float *inv_scales,
                           uint32_t n_rows, uint32_t cols, float *dw)
{
    for (uint32_t t = 0; t < q->n; t++)
        for (uint32_t r = 0; r < n_rows; r++) {
            float d = dy[t * dy_stride + r] * inv_scales[t], *row = dw + (size_t)r * cols;
            for (uint32_t c = 0; c < cols; c++) row[c] = tern_ref__fmaf(d, (float)q->x[t * q->stride + c], row[c]);
        }
}

void tern_ref_bias_backward(const float *dy, size_t dy_stride, uint32_t n, uint32_t n_rows, float *db)
{
    for (uint32_t t = 0; t < n; t++)
        for (uint32_t r = 0; r < n_rows; r++) db[r] += dy[t * dy_stride + r];
}
