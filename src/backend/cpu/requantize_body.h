/* REQUANTIZE (ops/ref/update.h) at one level. */
#ifndef TERN_BACKEND_CPU_REQUANTIZE_BODY_H
#define TERN_BACKEND_CPU_REQUANTIZE_BODY_H

#include "backend/cpu/update_blocks.h"

enum { GROUP = 128, QUARTER = 32 };

INLINE void cut(float *restrict x, size_t n, float most)
{
    for (size_t i = 0; i < n; i++) x[i] = x[i] > most ? most : x[i] < -most ? -most : x[i];
}

INLINE uint32_t exponent_of_block(tern_dtype dtype, void *w, size_t at, size_t n, float most)
{
    _Alignas(64) float x[BLOCK];
    load(dtype, w, at, n, x);
    if (most > 0) {
        cut(x, n, most);
        if (dtype == TERN_DTYPE_BF16) store_nearest(x, n, (uint16_t *)w + at);
        else memcpy((float *)w + at, x, n * sizeof(float));
        load(dtype, w, at, n, x);
    }
    return tern_f32_bits(largest(x, n)) >> 23;
}

uint32_t KERNEL_NAME(requantize_exponent)(tern_dtype dtype, void *w, size_t n, float most)
{
    uint32_t exponent = 0;
    for (size_t at = 0; at < n; at += BLOCK) {
        const uint32_t e = exponent_of_block(dtype, w, at, n - at < BLOCK ? n - at : BLOCK, most);
        exponent = e > exponent ? e : exponent;
    }
    return exponent;
}

/* A shift by 31 and then by the rest may be by more than 31 in all. */
INLINE uint64_t units_of_block(const float *restrict x, size_t n, uint32_t exponent)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        const uint32_t bits = tern_f32_bits(x[i]) & 0x7fffffffu, down = exponent - (bits >> 23);
        const uint32_t digits = ((bits & 0x7fffffu) | 0x800000u) << 8, near = (down > 31 ? 31 : down);
        const uint32_t half = digits >> ((down - 1) & 31u) & 1u, whole = down > 31 ? 0 : digits >> near;
        const uint32_t rounded = whole + (down == 0 ? 0 : half);
        sum += bits == 0 || down > 32 ? 0 : rounded;
    }
    return sum;
}

uint64_t KERNEL_NAME(requantize_units)(tern_dtype dtype, const void *w, size_t n, uint32_t exponent)
{
    _Alignas(64) float x[BLOCK];
    uint64_t sum = 0;
    for (size_t at = 0; at < n; at += BLOCK) {
        const size_t length = n - at < BLOCK ? n - at : BLOCK;
        load(dtype, w, at, length, x);
        sum += units_of_block(x, length, exponent);
    }
    return sum;
}

INLINE void codes_of_group(const float *restrict x, tern_ternary_rule rule, uint8_t *restrict packed)
{
    uint8_t raw[GROUP];
    for (int i = 0; i < GROUP; i++) {
        const float v = x[i] * rule.factor;
        raw[i] = (uint8_t)(1 + (v > rule.bound) - (v < -rule.bound));
    }
    for (int b = 0; b < QUARTER; b++)
        packed[b] = (uint8_t)(raw[b] << 6 | raw[b + QUARTER] << 4 | raw[b + 2 * QUARTER] << 2 | raw[b + 3 * QUARTER]);
}

void KERNEL_NAME(requantize_codes)(tern_dtype dtype, const void *w, size_t n, tern_ternary_rule rule, uint8_t *packed)
{
    _Alignas(64) float x[GROUP];
    size_t at = 0;
    for (; at + GROUP <= n; at += GROUP) {
        load(dtype, w, at, GROUP, x);
        codes_of_group(x, rule, packed + at / 4);
    }
    if (at == n) return;
    memset(x, 0, sizeof x);
    load(dtype, w, at, n - at, x);
    codes_of_group(x, rule, packed + at / 4);
}

void KERNEL_NAME(requantize_blend)(tern_dtype dtype, const void *w, size_t n, tern_ternary_rule rule, float blend,
                                   float *out)
{
    _Alignas(64) float x[BLOCK];
    blend = tern_held(blend);
    for (size_t at = 0; at < n; at += BLOCK) {
        const size_t length = n - at < BLOCK ? n - at : BLOCK;
        load(dtype, w, at, length, x);
        for (size_t i = 0; i < length; i++) {
            const float v = x[i] * rule.factor;
            const float ternary = (float)((v > rule.bound) - (v < -rule.bound)) * rule.scale;
            const float moved = settled(x[i] + settled(blend * settled(ternary - x[i])));
            out[at + i] = blend >= 1 ? ternary : moved;
        }
    }
}

#endif
