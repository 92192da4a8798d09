/* Kernels over the floats of one row, for the level whose vectors are included before. */
#ifndef TERN_BACKEND_CPU_VECTOR_BODY_H
#define TERN_BACKEND_CPU_VECTOR_BODY_H

#include "base/half.h"

#include "backend/cpu/floats.h"

/* n < TERN_LANES floats, zeros after them. */
INLINE void pad(float out[TERN_LANES], const float *x, size_t n)
{
    memset(out, 0, TERN_LANES * sizeof *out);
    memcpy(out, x, n * sizeof *out);
}

static float sum_of_squares(const float *x, uint32_t cols)
{
    lanes acc = lanes_zero();
    float rest[TERN_LANES];
    uint32_t at = 0;
    for (; cols - at >= TERN_LANES; at += TERN_LANES)
        for (int i = 0; i < PARTS; i++) {
            const vec v = vec_load(x + at + i * VEC);
            acc.v[i] = vec_fma(v, v, acc.v[i]);
        }
    pad(rest, x + at, cols - at);
    for (int i = 0; i < PARTS; i++) {
        const vec v = vec_load(rest + i * VEC);
        acc.v[i] = vec_fma(v, v, acc.v[i]);
    }
    return lanes_sum(acc.v);
}

void KERNEL_NAME(rms_norm)(const float *x, const float *g, float eps, uint32_t cols, float *y)
{
    const float r = 1.0f / sqrtf(sum_of_squares(x, cols) / (float)cols + eps);
    uint32_t at = 0;
    for (; cols - at >= VEC; at += VEC)
        vec_store(y + at, vec_mul(vec_mul(vec_load(x + at), vec_set(r)), vec_load(g + at)));
    for (; at < cols; at++) y[at] = x[at] * r * g[at];
}

static float absmax(const float *x, uint32_t cols)
{
    vec most = vec_set(1e-5f);
    float rest[TERN_LANES];
    uint32_t at = 0;
    for (; cols - at >= VEC; at += VEC) most = vec_max(vec_abs(vec_finite(vec_load(x + at))), most);
    pad(rest, x + at, cols - at);
    return vec_largest(vec_max(vec_abs(vec_finite(vec_load(rest))), most));
}

/* Rounded and stored, returned for the sum. No product passes 127 by more than a rounding. */
INLINE ivec quantize_vec(const float *x, float scale, int8_t *q)
{
    const ivec rounded = vec_round(vec_mul(vec_finite(vec_load(x)), vec_set(scale)));
    ivec_store_i8(q, rounded);
    return rounded;
}

void KERNEL_NAME(quantize)(const float *x, uint32_t cols, int8_t *q, size_t stride, float *inv_scale, int32_t *sum)
{
    const float scale = 127.0f / absmax(x, cols);
    ivec total = ivec_zero();
    float rest[TERN_LANES];
    int8_t q_rest[VEC];
    uint32_t at = 0;
    for (; cols - at >= VEC; at += VEC) total = ivec_add(total, quantize_vec(x + at, scale, q + at));
    pad(rest, x + at, cols - at);
    total = ivec_add(total, quantize_vec(rest, scale, q_rest));
    memcpy(q + at, q_rest, cols - at);
    memset(q + cols, 0, stride - cols);
    *inv_scale = 1.0f / scale;
    *sum = ivec_sum(total);
}

INLINE vec blended(vec x, float scale, float inv_scale, float blend)
{
    int8_t q[TERN_LANES] = {0};
    ivec_store_i8(q, vec_round(vec_mul(vec_finite(x), vec_set(scale))));
    return vec_add(x, vec_mul(vec_set(blend), vec_sub(vec_mul(vec_load_i8(q), vec_set(inv_scale)), x)));
}

void KERNEL_NAME(fake_quantize)(const float *x, uint32_t cols, float blend, float *y)
{
    const float scale = 127.0f / absmax(x, cols), inv_scale = 1.0f / scale;
    float rest[TERN_LANES];
    uint32_t at = 0;
    for (; cols - at >= VEC; at += VEC) vec_store(y + at, blended(vec_load(x + at), scale, inv_scale, blend));
    pad(rest, x + at, cols - at);
    vec_store(rest, blended(vec_load(rest), scale, inv_scale, blend));
    memcpy(y + at, rest, (cols - at) * sizeof *y);
}

/* One vector of each kind of gate. */
INLINE vec relu2_vec(vec g, vec u)
{
    const vec r = vec_max(g, vec_set(0));
    return vec_mul(vec_mul(r, r), u);
}

INLINE vec silu_vec(vec g, vec u)
{
    return vec_mul(vec_div(g, vec_add(vec_set(1), vec_exp(vec_sub(vec_set(0), g)))), u);
}

INLINE vec gelu_vec(vec g, vec u)
{
    const vec cube = vec_mul(vec_mul(vec_mul(g, g), g), vec_set(TERN_GELU_CUBE));
    const vec w = vec_mul(vec_add(g, cube), vec_set(TERN_GELU_SCALE));
    return vec_mul(vec_div(g, vec_add(vec_set(1), vec_exp(vec_sub(vec_set(0), w)))), u);
}

/* y = op(a, b) elementwise; the short end goes through padded copies. */
#define ELEMENTWISE(slot, op)                                                                                          \
    void KERNEL_NAME(slot)(const float *a, const float *b, size_t n, float *y)                                         \
    {                                                                                                                  \
        float a_rest[TERN_LANES], b_rest[TERN_LANES];                                                                  \
        size_t at = 0;                                                                                                 \
        for (; n - at >= VEC; at += VEC) vec_store(y + at, op(vec_load(a + at), vec_load(b + at)));                    \
        if (at == n) return;                                                                                           \
        pad(a_rest, a + at, n - at);                                                                                   \
        pad(b_rest, b + at, n - at);                                                                                   \
        vec_store(a_rest, op(vec_load(a_rest), vec_load(b_rest)));                                                     \
        memcpy(y + at, a_rest, (n - at) * sizeof *y);                                                                  \
    }

ELEMENTWISE(relu2, relu2_vec)
ELEMENTWISE(silu, silu_vec)
ELEMENTWISE(gelu, gelu_vec)
ELEMENTWISE(add, vec_add)

/* (a, b) turned by (c, s), each product rounded. */
INLINE void rotate(vec *a, vec *b, vec c, vec s)
{
    const vec x = *a, y = *b;
    *a = vec_sub(vec_mul(x, c), vec_mul(y, s));
    *b = vec_add(vec_mul(y, c), vec_mul(x, s));
}

static void rotate_one(float *a, float *b, const float *cs)
{
    const float x = *a, y = *b;
    *a = x * cs[0] - y * cs[1];
    *b = y * cs[0] + x * cs[1];
}

static void rope_halves_head(float *x, uint32_t half, const float *cs)
{
    uint32_t i = 0;
    for (; half - i >= VEC; i += VEC) {
        vec a = vec_load(x + i), b = vec_load(x + half + i), c, s;
        vec_load_pairs(cs + 2 * i, &c, &s);
        rotate(&a, &b, c, s);
        vec_store(x + i, a);
        vec_store(x + half + i, b);
    }
    for (; i < half; i++) rotate_one(x + i, x + half + i, cs + 2 * i);
}

static void rope_adjacent_head(float *x, uint32_t half, const float *cs)
{
    uint32_t i = 0;
    for (; half - i >= VEC; i += VEC) {
        vec a, b, c, s;
        vec_load_pairs(x + 2 * i, &a, &b);
        vec_load_pairs(cs + 2 * i, &c, &s);
        rotate(&a, &b, c, s);
        vec_store_pairs(x + 2 * i, a, b);
    }
    for (; i < half; i++) rotate_one(x + 2 * i, x + 2 * i + 1, cs + 2 * i);
}

void KERNEL_NAME(rope_halves)(float *x, uint32_t n_heads, uint32_t head_dim, const float *cs)
{
    for (uint32_t h = 0; h < n_heads; h++) rope_halves_head(x + (size_t)h * head_dim, head_dim / 2, cs);
}

void KERNEL_NAME(rope_adjacent)(float *x, uint32_t n_heads, uint32_t head_dim, const float *cs)
{
    for (uint32_t h = 0; h < n_heads; h++) rope_adjacent_head(x + (size_t)h * head_dim, head_dim / 2, cs);
}

void KERNEL_NAME(kv_store_f16)(const float *x, size_t n, void *out)
{
    uint8_t *to = out;
    size_t at = 0;
    for (; n - at >= VEC; at += VEC) vec_store_f16(to + 2 * at, vec_load(x + at));
    for (; at < n; at++) {
        const uint16_t h = tern_f32_to_f16(x[at]);
        memcpy(to + 2 * at, &h, sizeof h);
    }
}

#endif
