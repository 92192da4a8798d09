/* Backward of the norm, the gates and the rotary embedding, and dropout, for the level whose vectors are included
 * before. */
#ifndef TERN_BACKEND_CPU_BACKWARD_BODY_H
#define TERN_BACKEND_CPU_BACKWARD_BODY_H

#include "backend/cpu/floats.h"

/* n < TERN_LANES floats, zeros after them. */
INLINE void zero_padded(float out[TERN_LANES], const float *x, size_t n)
{
    memset(out, 0, TERN_LANES * sizeof *out);
    memcpy(out, x, n * sizeof *out);
}

/* Of a row: the sum of x^2, and that of (dy g) x. */
typedef struct norm_sums {
    lanes squares, products;
} norm_sums;

INLINE void add_to_sums(norm_sums *s, const float *x, const float *g, const float *dy)
{
    UNROLL
    for (int i = 0; i < PARTS; i++) {
        const vec v = vec_load(x + i * VEC);
        s->squares.v[i] = vec_fma(v, v, s->squares.v[i]);
        s->products.v[i] = vec_fma(vec_mul(vec_load(dy + i * VEC), vec_load(g + i * VEC)), v, s->products.v[i]);
    }
}

static norm_sums sums_of(const float *x, const float *g, const float *dy, uint32_t cols)
{
    norm_sums s = {.squares = lanes_zero(), .products = lanes_zero()};
    float x_rest[TERN_LANES], g_rest[TERN_LANES], dy_rest[TERN_LANES];
    uint32_t at = 0;
    for (; cols - at >= TERN_LANES; at += TERN_LANES) add_to_sums(&s, x + at, g + at, dy + at);
    zero_padded(x_rest, x + at, cols - at);
    zero_padded(g_rest, g + at, cols - at);
    zero_padded(dy_rest, dy + at, cols - at);
    add_to_sums(&s, x_rest, g_rest, dy_rest);
    return s;
}

float KERNEL_NAME(rms_norm_backward)(const float *x, const float *g, float eps, uint32_t cols, const float *dy,
                                     float *dx, float *dg)
{
    const norm_sums s = sums_of(x, g, dy, cols);
    const float r = 1.0f / sqrtf(lanes_sum(s.squares.v) / (float)cols + eps);
    const float k = r * r * r * (lanes_sum(s.products.v) / (float)cols);
    uint32_t at = 0;
    for (; dx && cols - at >= VEC; at += VEC) {
        const vec d = vec_mul(vec_mul(vec_load(dy + at), vec_load(g + at)), vec_set(r));
        vec_store(dx + at, vec_add(vec_load(dx + at), vec_sub(d, vec_mul(vec_load(x + at), vec_set(k)))));
    }
    for (; dx && at < cols; at++) dx[at] += dy[at] * g[at] * r - x[at] * k;
    for (uint32_t c = 0; dg && c < cols; c++) dg[c] += dy[c] * (x[c] * r);
    return r;
}

/* Columns at .. at + n_vecs * VEC - 1 through all rows. */
INLINE void norm_weight_strip(const tern_norm_weight_args *args, uint32_t at, uint32_t n_vecs, float *dg)
{
    const float *x = args->x + at, *dy = args->dy + at;
    vec sums[VALUE_VECS];
    UNROLL
    for (uint32_t v = 0; v < n_vecs; v++) sums[v] = vec_load(dg + at + v * VEC);
    for (uint32_t t = 0; t < args->n; t++, x += args->x_stride, dy += args->dy_stride) {
        const vec r = vec_set(args->r[t]);
        UNROLL
        for (uint32_t v = 0; v < n_vecs; v++)
            sums[v] = vec_add(sums[v], vec_mul(vec_load(dy + v * VEC), vec_mul(vec_load(x + v * VEC), r)));
    }
    UNROLL
    for (uint32_t v = 0; v < n_vecs; v++) vec_store(dg + at + v * VEC, sums[v]);
}

void KERNEL_NAME(norm_weight_backward)(const tern_norm_weight_args *args, float *dg)
{
    uint32_t at = 0;
    for (; args->cols - at >= VALUE_VECS * VEC; at += VALUE_VECS * VEC) norm_weight_strip(args, at, VALUE_VECS, dg);
    for (; args->cols - at >= VEC; at += VEC) norm_weight_strip(args, at, 1, dg);
    for (; at < args->cols; at++)
        for (uint32_t t = 0; t < args->n; t++)
            dg[at] += args->dy[t * args->dy_stride + at] * (args->x[t * args->x_stride + at] * args->r[t]);
}

/* The gradients of one vector of each kind of gate: first those of the gate, then of up. */
typedef struct gate_vec {
    vec gate, up;
} gate_vec;

INLINE gate_vec relu2_back(vec g, vec u, vec d)
{
    const vec r = vec_max(g, vec_set(0));
    return (gate_vec){vec_mul(vec_mul(d, u), vec_add(r, r)), vec_mul(d, vec_mul(r, r))};
}

/* 1 / (1 + e^-w) */
INLINE vec sigmoid(vec w)
{
    return vec_div(vec_set(1), vec_add(vec_set(1), vec_exp(vec_sub(vec_set(0), w))));
}

INLINE gate_vec silu_back(vec g, vec u, vec d)
{
    const vec s = sigmoid(g), one = vec_set(1);
    const vec slope = vec_mul(s, vec_add(one, vec_mul(g, vec_sub(one, s))));
    return (gate_vec){vec_mul(vec_mul(d, u), slope), vec_mul(d, vec_mul(g, s))};
}

INLINE gate_vec gelu_back(vec g, vec u, vec d)
{
    const vec one = vec_set(1), square = vec_mul(g, g), cube = vec_mul(vec_mul(square, g), vec_set(TERN_GELU_CUBE));
    const vec s = sigmoid(vec_mul(vec_add(g, cube), vec_set(TERN_GELU_SCALE)));
    const vec inner = vec_add(one, vec_mul(vec_set(3 * TERN_GELU_CUBE), square));
    const vec tail = vec_mul(vec_mul(vec_mul(s, vec_sub(one, s)), g), vec_mul(vec_set(TERN_GELU_SCALE), inner));
    return (gate_vec){vec_mul(vec_mul(d, u), vec_add(s, tail)), vec_mul(d, vec_mul(g, s))};
}

/* Outputs may lie where inputs are: a vector is read before it is written. */
#define GATE_BACKWARD(slot, op)                                                                                        \
    void KERNEL_NAME(slot)(const float *gate, const float *up, const float *dy, size_t n, float *dgate, float *dup)    \
    {                                                                                                                  \
        float g[TERN_LANES], u[TERN_LANES], d[TERN_LANES];                                                             \
        size_t at = 0;                                                                                                 \
        for (; n - at >= VEC; at += VEC) {                                                                             \
            const gate_vec out = op(vec_load(gate + at), vec_load(up + at), vec_load(dy + at));                        \
            vec_store(dgate + at, out.gate);                                                                           \
            vec_store(dup + at, out.up);                                                                               \
        }                                                                                                              \
        if (at == n) return;                                                                                           \
        zero_padded(g, gate + at, n - at);                                                                             \
        zero_padded(u, up + at, n - at);                                                                               \
        zero_padded(d, dy + at, n - at);                                                                               \
        const gate_vec out = op(vec_load(g), vec_load(u), vec_load(d));                                                \
        vec_store(g, out.gate);                                                                                        \
        vec_store(u, out.up);                                                                                          \
        memcpy(dgate + at, g, (n - at) * sizeof *dgate);                                                               \
        memcpy(dup + at, u, (n - at) * sizeof *dup);                                                                   \
    }

GATE_BACKWARD(relu2_backward, relu2_back)
GATE_BACKWARD(silu_backward, silu_back)
GATE_BACKWARD(gelu_backward, gelu_back)

/* (a, b) turned back by (c, s), each product rounded. */
INLINE void rotate_back(vec *a, vec *b, vec c, vec s)
{
    const vec x = *a, y = *b;
    *a = vec_add(vec_mul(x, c), vec_mul(y, s));
    *b = vec_sub(vec_mul(y, c), vec_mul(x, s));
}

static void rotate_one_back(float *a, float *b, const float *cs)
{
    const float x = *a, y = *b;
    *a = x * cs[0] + y * cs[1];
    *b = y * cs[0] - x * cs[1];
}

static void halves_back(float *x, uint32_t half, const float *cs)
{
    uint32_t i = 0;
    for (; half - i >= VEC; i += VEC) {
        vec a = vec_load(x + i), b = vec_load(x + half + i), c, s;
        vec_load_pairs(cs + 2 * i, &c, &s);
        rotate_back(&a, &b, c, s);
        vec_store(x + i, a);
        vec_store(x + half + i, b);
    }
    for (; i < half; i++) rotate_one_back(x + i, x + half + i, cs + 2 * i);
}

static void adjacent_back(float *x, uint32_t half, const float *cs)
{
    uint32_t i = 0;
    for (; half - i >= VEC; i += VEC) {
        vec a, b, c, s;
        vec_load_pairs(x + 2 * i, &a, &b);
        vec_load_pairs(cs + 2 * i, &c, &s);
        rotate_back(&a, &b, c, s);
        vec_store_pairs(x + 2 * i, a, b);
    }
    for (; i < half; i++) rotate_one_back(x + 2 * i, x + 2 * i + 1, cs + 2 * i);
}

void KERNEL_NAME(rope_halves_backward)(float *x, uint32_t n_heads, uint32_t head_dim, const float *cs)
{
    for (uint32_t h = 0; h < n_heads; h++) halves_back(x + (size_t)h * head_dim, head_dim / 2, cs);
}

void KERNEL_NAME(rope_adjacent_backward)(float *x, uint32_t n_heads, uint32_t head_dim, const float *cs)
{
    for (uint32_t h = 0; h < n_heads; h++) adjacent_back(x + (size_t)h * head_dim, head_dim / 2, cs);
}

/* tern_ref_random_bits, in loops that compilers make vectors of. */
INLINE uint32_t mix(uint32_t h)
{
    h ^= h >> 16;
    h *= 0x85ebca6bu;
    h ^= h >> 13;
    h *= 0xc2b2ae35u;
    return h ^ h >> 16;
}

enum { DROPOUT_PIECE = 64 };

/* n <= DROPOUT_PIECE elements, in arrays of its own, as x may be y. */
INLINE void dropout_piece(const float *x, size_t n, float factor, uint32_t threshold, uint32_t key, uint32_t index,
                          float *y)
{
    float scaled[DROPOUT_PIECE] = {0};
    uint32_t bits[DROPOUT_PIECE];
    memcpy(scaled, x, n * sizeof *x);
    for (int i = 0; i < DROPOUT_PIECE; i++) scaled[i] *= factor;
    memcpy(bits, scaled, sizeof bits);
    for (uint32_t i = 0; i < DROPOUT_PIECE; i++)
        bits[i] &= 0u - (uint32_t)(mix(mix(index + i + 0x9e3779b9u) ^ key) >= threshold);
    memcpy(y, bits, n * sizeof *y);
}

void KERNEL_NAME(dropout)(const float *x, size_t n, float p, uint32_t seed, uint32_t index, float *y)
{
    const uint32_t threshold = tern_ref_dropout_threshold(p), key = mix(seed + 0x7f4a7c15u);
    const float factor = 1 / (1 - p);
    size_t at = 0;
    for (; n - at >= DROPOUT_PIECE; at += DROPOUT_PIECE)
        dropout_piece(x + at, DROPOUT_PIECE, factor, threshold, key, index + (uint32_t)at, y + at);
    if (at < n) dropout_piece(x + at, n - at, factor, threshold, key, index + (uint32_t)at, y + at);
}

#endif
