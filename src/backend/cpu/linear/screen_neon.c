/* The screen of the output table on NEON. Two products are at least -62 * 128 * 2, which fits 16 bits. */
#include <arm_neon.h>

#include "backend/cpu/kernels.h"

typedef struct sums {
    int32x4_t high, low;
} sums;

static inline int32x4_t dot(int32x4_t sum, int8x16_t u, const int8_t *x)
{
    const int8x16_t v = vld1q_s8(x);
    const int16x8_t pairs = vmlal_high_s8(vmull_s8(vget_low_s8(u), vget_low_s8(v)), u, v);
    return vpadalq_s16(sum, pairs);
}

static inline void add(sums *s, uint8x16_t u, const int8_t *high, const int8_t *low)
{
    s->high = dot(s->high, vreinterpretq_s8_u8(u), high);
    s->low = dot(s->low, vreinterpretq_s8_u8(u), low);
}

/* One quarter (16 columns of each plane) of a group. */
static inline void add_quarter(sums *s, const uint8_t *w, const int8_t *high, const int8_t *low)
{
    uint8x16_t bytes[3];
    for (int p = 0; p < 3; p++) {
        bytes[p] = vld1q_u8(w + p * 64);
        add(s, vandq_u8(bytes[p], vdupq_n_u8(0x3f)), high + p * 64, low + p * 64);
    }
    const uint8x16_t last = vorrq_u8(vshrq_n_u8(bytes[0], 6), vshlq_n_u8(vshrq_n_u8(bytes[1], 6), 2));
    add(s, vorrq_u8(last, vshlq_n_u8(vshrq_n_u8(bytes[2], 6), 4)), high + 192, low + 192);
}

void tern_cpu__screen_neon(const uint8_t *w, uint32_t n_rows, uint32_t groups, const int8_t *high, const int8_t *low,
                           int32_t *dots)
{
    for (uint32_t r = 0; r < n_rows; r++) {
        sums s = {vdupq_n_s32(0), vdupq_n_s32(0)};
        for (uint32_t g = 0; g < groups; g++, w += TERN_SCREEN_BYTES)
            for (uint32_t q = 0; q < 64; q += 16)
                add_quarter(&s, w + q, high + g * TERN_SCREEN_GROUP + q, low + g * TERN_SCREEN_GROUP + q);
        dots[r] = vaddvq_s32(s.high);
        dots[n_rows + r] = vaddvq_s32(s.low);
    }
}
