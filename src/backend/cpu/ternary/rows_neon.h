/* Pieces of the NEON ternary kernels: sums, and blocks of the encodings to vectors of 16 raw codes. */
#ifndef TERN_BACKEND_CPU_TERNARY_ROWS_NEON_H
#define TERN_BACKEND_CPU_TERNARY_ROWS_NEON_H

#include <arm_neon.h>

#include "backend/cpu/ternary/tq1_0.h"
#include "quant/t160.h"

enum { WIDTH = 16 };

typedef uint8x16_t codes;
typedef int32x4_t sums;

static inline void store(uint8_t *to, codes c)
{
    vst1q_u8(to, c);
}

static inline sums zero(void)
{
    return vdupq_n_s32(0);
}

static inline int32_t total(sums s)
{
    return vaddvq_s32(s);
}

static inline void decode_i2_s(const uint8_t *block, codes *out)
{
    const uint8x16_t three = vdupq_n_u8(3);
    for (int half = 0; half < 2; half++, block += WIDTH, out++) {
        const uint8x16_t bytes = vld1q_u8(block);
        out[0] = vshrq_n_u8(bytes, 6);
        out[2] = vandq_u8(vshrq_n_u8(bytes, 4), three);
        out[4] = vandq_u8(vshrq_n_u8(bytes, 2), three);
        out[6] = vandq_u8(bytes, three);
    }
}

static inline void decode_tq2_0(const uint8_t *block, codes *out)
{
    const uint8x16_t three = vdupq_n_u8(3);
    for (int i = 0; i < 4; i++, block += WIDTH) {
        const uint8x16_t bytes = vld1q_u8(block);
        codes *to = out + i / 2 * 8 + i % 2;
        to[0] = vandq_u8(bytes, three);
        to[2] = vandq_u8(vshrq_n_u8(bytes, 2), three);
        to[4] = vandq_u8(vshrq_n_u8(bytes, 4), three);
        to[6] = vshrq_n_u8(bytes, 6);
    }
}

/* The next digit of each byte: the top two bits of floor(3 * byte / 4) = byte - ceil(byte / 4). */
static inline uint8x16_t digit(uint8x16_t bytes)
{
    const uint8x16_t none = vdupq_n_u8(0);
    return vshrq_n_u8(vsubq_u8(bytes, vrhaddq_u8(vrhaddq_u8(bytes, none), none)), 6);
}

static inline uint8x16_t times_3(uint8x16_t bytes)
{
    return vaddq_u8(vaddq_u8(bytes, bytes), bytes);
}

static inline void decode_tq1_0(const uint8_t *block, codes *out)
{
    static const uint8_t power[WIDTH] = {1, 1, 1, 1, 3, 3, 3, 3, 9, 9, 9, 9, 27, 27, 27, 27};
    uint8x16_t a = vld1q_u8(block), b = vld1q_u8(block + 16), c = vld1q_u8(block + TERN_TQ1_0_FIVES_16);
    for (int i = 0; i < 5; i++) {
        out[2 * i] = digit(a);
        out[2 * i + 1] = digit(b);
        out[10 + i] = digit(c);
        a = times_3(a);
        b = times_3(b);
        c = times_3(c);
    }
    const uint8x16_t last = vreinterpretq_u8_u32(vld1q_dup_u32((const void *)(block + TERN_TQ1_0_FOURS)));
    out[15] = digit(vmulq_u8(last, vld1q_u8(power)));
}

/* 16 bytes of t160, looked up in the 64-entry tables by their low six bits. out[4 k]: the k-th codes. */
static inline void decode_t160_quarter(uint8x16_t bytes, codes *out)
{
    const uint8x16_t three = vdupq_n_u8(3), index = vandq_u8(bytes, vdupq_n_u8(63));
    const uint8x16_t high = vcgeq_u8(bytes, vdupq_n_u8(0xc0));
    const uint8x16_t low_four = vqtbl4q_u8(vld1q_u8_x4(tern_t160_low), index);
    const uint8x16_t high_four = vqtbl4q_u8(vld1q_u8_x4(tern_t160_high), index);
    const uint8x16_t high_fifth = vqtbl4q_u8(vld1q_u8_x4(tern_t160_high_fifth), index);
    const uint8x16_t four = vbslq_u8(high, high_four, low_four);
    out[0] = vandq_u8(four, three);
    out[4] = vandq_u8(vshrq_n_u8(four, 2), three);
    out[8] = vandq_u8(vshrq_n_u8(four, 4), three);
    out[12] = vshrq_n_u8(four, 6);
    out[16] = vbslq_u8(high, high_fifth, vshrq_n_u8(bytes, 6));
}

static inline void decode_t160(const uint8_t *block, codes *out)
{
    for (int i = 0; i < 4; i++) decode_t160_quarter(vld1q_u8(block + WIDTH * i), out + i);
}

#endif
