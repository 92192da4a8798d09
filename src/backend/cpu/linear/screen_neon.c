/* The screen of the output table on NEON. Sixteen products are at least -16 * 7 * 128, which fits 16 bits. */
#include <arm_neon.h>

#include "backend/cpu/kernels.h"

/* 16 columns of each vector of a group: their digits, and the sums in 16 bits. */
typedef struct part {
    const int8_t *high, *low; /* low: or NULL */
    uint32_t n;               /* columns of a vector */
    int16x8_t sums[2];
} part;

static inline int16x8_t dot(int16x8_t sum, int8x16_t u, const int8_t *x)
{
    const int8x16_t v = vld1q_s8(x);
    return vmlal_high_s8(vmlal_s8(sum, vget_low_s8(u), vget_low_s8(v)), u, v);
}

static inline void add(part *g, uint32_t v, uint8x16_t u)
{
    g->sums[0] = dot(g->sums[0], vreinterpretq_s8_u8(u), g->high + v * g->n);
    if (g->low) g->sums[1] = dot(g->sums[1], vreinterpretq_s8_u8(u), g->low + v * g->n);
}

/* Bits of each byte `shift` places lower. */
static inline uint8x16_t down(uint8x16_t bytes, int shift, uint8_t mask)
{
    return vandq_u8(vshlq_u8(bytes, vdupq_n_s8((int8_t)-shift)), vdupq_n_u8(mask));
}

static inline void add_3(part *g, const uint8_t *w)
{
    uint8x16_t bytes[3];
    for (uint32_t p = 0; p < 3; p++) {
        bytes[p] = vld1q_u8(w + p * g->n);
        add(g, p, down(bytes[p], 0, 7));
        add(g, 3 + p, down(bytes[p], 3, 7));
    }
    add(g, 6, vorrq_u8(down(bytes[0], 6, 3), down(bytes[2], 4, 4)));
    add(g, 7, vorrq_u8(down(bytes[1], 6, 3), down(bytes[2], 5, 4)));
}

static inline void add_2(part *g, const uint8_t *w)
{
    for (uint32_t p = 0; p < 2; p++) {
        const uint8x16_t bytes = vld1q_u8(w + p * g->n);
        for (uint32_t k = 0; k < 4; k++) add(g, 4 * p + k, down(bytes, 2 * (int)k, 3));
    }
}

static inline void add_1(part *g, const uint8_t *w)
{
    const uint8x16_t bytes = vld1q_u8(w);
    for (uint32_t v = 0; v < TERN_SCREEN_VECTORS; v++) add(g, v, down(bytes, (int)v, 1));
}

/* A group with vectors of n columns. */
static inline void add_group(int32x4_t sums[2], const uint8_t *w, uint32_t n, uint32_t bits, const int8_t *high,
                             const int8_t *low)
{
    for (uint32_t q = 0; q < n; q += 16) {
        part g = {high + q, bits == 3 ? low + q : NULL, n, {vdupq_n_s16(0), vdupq_n_s16(0)}};
        if (bits == 3) add_3(&g, w + q);
        else if (bits == 2) add_2(&g, w + q);
        else add_1(&g, w + q);
        for (int d = 0; d < (bits == 3 ? 2 : 1); d++) sums[d] = vpadalq_s16(sums[d], g.sums[d]);
    }
}

static inline void rows(const uint8_t *w, uint32_t n_rows, uint32_t halves, uint32_t bits, const int8_t *high,
                        const int8_t *low, int32_t *dots)
{
    for (uint32_t r = 0; r < n_rows; r++) {
        int32x4_t sums[2] = {vdupq_n_s32(0), vdupq_n_s32(0)};
        for (uint32_t i = 0; i < halves; i += 2) {
            const uint32_t n = halves - i < 2 ? 32 : 64, at = i * TERN_SCREEN_HALF;
            add_group(sums, w, n, bits, high + at, bits == 3 ? low + at : NULL);
            w += (size_t)n * bits;
        }
        dots[r] = vaddvq_s32(sums[0]);
        if (bits == 3) dots[n_rows + r] = vaddvq_s32(sums[1]);
    }
}

void tern_cpu__screen_neon(const uint8_t *w, uint32_t n_rows, uint32_t halves, uint32_t bits, const int8_t *high,
                           const int8_t *low, int32_t *dots)
{
    if (bits == 3) rows(w, n_rows, halves, 3, high, low, dots);
    else if (bits == 2) rows(w, n_rows, halves, 2, high, low, dots);
    else rows(w, n_rows, halves, 1, high, low, dots);
}
