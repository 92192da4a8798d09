/* UPDATE and SUM_SQUARES (ops/ref/update.h) at one level. */
#ifndef TERN_BACKEND_CPU_UPDATE_BODY_H
#define TERN_BACKEND_CPU_UPDATE_BODY_H

#include "backend/cpu/update_blocks.h"

INLINE void load_m8(const int8_t *q, float scale, size_t n, float *restrict x)
{
    const float s = tern_held(scale);
    for (size_t i = 0; i < n; i++) {
        const float root = (float)q[i] * TERN_STATE_STEP;
        x[i] = settled(fabsf(root) * root * s);
    }
}

INLINE float square_of(float q)
{
    const float root = q * TERN_SQUARE_STEP, square = root * root;
    return square * square;
}

INLINE void load_v8(const uint8_t *q, float scale, size_t n, float *restrict x)
{
    const float s = tern_held(scale);
    for (size_t i = 0; i < n; i++) x[i] = settled(square_of((float)q[i]) * s);
}

INLINE void load_state(tern_dtype dtype, const void *from, const float *scales, size_t at, size_t n, float *restrict x)
{
    if (dtype == TERN_DTYPE_M8) load_m8((const int8_t *)from + at, scales[at / BLOCK], n, x);
    else if (dtype == TERN_DTYPE_V8) load_v8((const uint8_t *)from + at, scales[at / BLOCK], n, x);
    else load(dtype, from, at, n, x);
}

INLINE uint32_t mixed(uint32_t h)
{
    h ^= h >> 16;
    h *= 0x85ebca6bu;
    h ^= h >> 13;
    h *= 0xc2b2ae35u;
    return h ^ h >> 16;
}

INLINE void draw(uint32_t seed, uint32_t first, uint32_t down, size_t n, uint32_t *restrict random)
{
    const uint32_t key = mixed(seed + 0x7f4a7c15u), from = first + 0x9e3779b9u;
    for (size_t i = 0; i < n; i++) random[i] = mixed(mixed(from + (uint32_t)i) ^ key) >> down;
}

/* Held numbers are finite, and the last step to an infinity is not taken. */
INLINE void store_bf16(const float *restrict x, const uint32_t *restrict random, size_t n, uint16_t *to)
{
    for (size_t i = 0; i < n; i++) {
        const uint32_t bits = tern_f32_bits(x[i]), up = bits + (random[i] & 0xffffu);
        to[i] = (uint16_t)(((up & 0x7f800000u) == 0x7f800000u ? (bits & 0x80000000u) | 0x7f7f0000u : up) >> 16);
    }
}

INLINE void store_m8(const float *restrict x, size_t n, int8_t *q, float *scale)
{
    const float s = *scale = largest(x, n);
    if (s == 0) {
        memset(q, 0, n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const float code = rintf(127 * sqrtf(settled_size(fabsf(x[i]) / s)));
        q[i] = (int8_t)(int32_t)(x[i] < 0 ? -code : code);
    }
}

INLINE void store_v8(const float *restrict x, const uint32_t *restrict random, size_t n, uint8_t *q, float *scale)
{
    const float s = *scale = largest(x, n);
    if (s == 0) {
        memset(q, 0, n);
        return;
    }
    int32_t codes[BLOCK]; /* in two loops: compilers do not narrow what they have compared as floats */
    for (size_t i = 0; i < n; i++) {
        const float y = settled_size(x[i] / s), draws = (float)(int32_t)(random[i] >> 16) * 0x1p-16f;
        const int32_t code = (int32_t)(255 * sqrtf(sqrtf(y)));
        const float a = square_of((float)code), gap = settled(square_of((float)(code + 1)) - a);
        codes[i] = settled(draws * gap) < settled(y - a) ? code + 1 : code;
    }
    for (size_t i = 0; i < n; i++) {
        const int32_t code = codes[i] < 1 ? 1 : codes[i] > 255 ? 255 : codes[i];
        q[i] = (uint8_t)((int32_t)tern_f32_bits(x[i]) > 0 ? code : 0);
    }
}

typedef struct block {
    _Alignas(64) float w[BLOCK], g[BLOCK], m[BLOCK], v[BLOCK];
    _Alignas(64) uint32_t random[BLOCK];
} block;

INLINE void adamw(const tern_train_params *p, float keep, size_t n, block *restrict b)
{
    const float blend1 = tern_held(p->blend1), beta2 = tern_held(p->beta2), blend2 = tern_held(p->blend2),
                root = tern_held(p->root), eps = tern_held(p->eps), pace = tern_held(p->pace),
                clip = tern_held(p->clip);
    for (size_t i = 0; i < n; i++) {
        const float g = settled(b->g[i] * clip), was = b->m[i];
        const float m = settled(was + settled(blend1 * settled(g - was)));
        const float v = settled(settled(b->v[i] * beta2) + settled(settled(blend2 * g) * g));
        const float size = tern_held(tern_held(sqrtf(v) / root) + eps);
        const float step = settled(pace * tern_held(m / size));
        b->w[i] = settled(settled(b->w[i] * keep) - step);
        b->m[i] = m;
        b->v[i] = v;
    }
}

INLINE void sgd(const tern_train_params *p, float decay, bool has_m, size_t n, block *restrict b)
{
    const float lr = tern_held(p->lr), momentum = tern_held(p->momentum), clip = tern_held(p->clip);
    for (size_t i = 0; i < n; i++) {
        const float w = b->w[i], d = settled(settled(b->g[i] * clip) + settled(decay * w));
        const float m = has_m ? settled(settled(momentum * b->m[i]) + d) : d;
        b->m[i] = m;
        b->w[i] = settled(w - settled(lr * m));
    }
}

INLINE void store_block(const tern_update_args *a, block *b, size_t at, size_t n)
{
    const uint32_t index = a->first + (uint32_t)at;
    if (a->w_dtype == TERN_DTYPE_BF16) {
        draw(a->seed, index, 0, n, b->random);
        store_bf16(b->w, b->random, n, (uint16_t *)a->w + at);
    } else {
        memcpy((float *)a->w + at, b->w, n * sizeof(float));
    }
    if (a->m && a->m_dtype == TERN_DTYPE_M8) store_m8(b->m, n, (int8_t *)a->m + at, a->m_scales + at / BLOCK);
    else if (a->m && a->m_dtype == TERN_DTYPE_BF16) store_nearest(b->m, n, (uint16_t *)a->m + at);
    else if (a->m) memcpy((float *)a->m + at, b->m, n * sizeof(float));
    if (!a->v) return;
    if (a->v_dtype != TERN_DTYPE_F32) draw(~a->seed, index, a->v_dtype == TERN_DTYPE_BF16 ? 16 : 0, n, b->random);
    if (a->v_dtype == TERN_DTYPE_V8) store_v8(b->v, b->random, n, (uint8_t *)a->v + at, a->v_scales + at / BLOCK);
    else if (a->v_dtype == TERN_DTYPE_BF16) store_bf16(b->v, b->random, n, (uint16_t *)a->v + at);
    else memcpy((float *)a->v + at, b->v, n * sizeof(float));
}

INLINE void update_block(const tern_update_args *a, size_t at, size_t n)
{
    block b;
    const tern_train_params *p = a->params;
    load(a->w_dtype, a->w, at, n, b.w);
    load_floats(a->g + at, n, b.g);
    if (a->m) load_state(a->m_dtype, a->m, a->m_scales, at, n, b.m);
    if (a->v) load_state(a->v_dtype, a->v, a->v_scales, at, n, b.v);
    if (a->optimizer == TERN_OPTIMIZER_ADAMW) adamw(p, a->decays ? tern_held(p->keep) : 1, n, &b);
    else if (a->m) sgd(p, a->decays ? tern_held(p->decay) : 0, true, n, &b);
    else sgd(p, a->decays ? tern_held(p->decay) : 0, false, n, &b);
    memset(a->g + at, 0, n * sizeof(float));
    store_block(a, &b, at, n);
}

void KERNEL_NAME(update)(const tern_update_args *args)
{
    size_t at = 0;
    for (; at + BLOCK <= args->n; at += BLOCK) update_block(args, at, BLOCK);
    if (at < args->n) update_block(args, at, args->n - at);
}

INLINE float square(float x)
{
    const uint32_t infinite = 0x7f800000u, size = tern_f32_bits(x) & 0x7fffffffu, bits = tern_f32_bits(x * x);
    const uint32_t low = bits < 0x01000000u ? 0 : bits;
    return tern_f32_from_bits(size >= infinite ? infinite : low);
}

/* Infinities stay in a sum of what is not negative. */
float KERNEL_NAME(sum_run)(const float *x, size_t n, bool squares)
{
    float lanes[TERN_NORM_LANES] = {0};
    size_t at = 0;
    for (; at + TERN_NORM_LANES <= n; at += TERN_NORM_LANES)
        if (squares)
            for (size_t l = 0; l < TERN_NORM_LANES; l++) lanes[l] += square(x[at + l]);
        else
            for (size_t l = 0; l < TERN_NORM_LANES; l++) lanes[l] += x[at + l];
    for (size_t l = 0; at + l < n; l++) lanes[l] += squares ? square(x[at + l]) : x[at + l];
    for (size_t half = TERN_NORM_LANES / 2; half > 0; half /= 2)
        for (size_t l = 0; l < half; l++) lanes[l] += lanes[l + half];
    return lanes[0];
}

#endif
