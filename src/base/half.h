/* Conversions between f32 and narrower float formats, in plain C: the same bits everywhere. */
#ifndef TERN_BASE_HALF_H
#define TERN_BASE_HALF_H

#include <stdint.h>
#include <string.h>

static inline float tern_f32_from_bits(uint32_t bits)
{
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static inline uint32_t tern_f32_bits(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

/* IEEE binary16 to f32, exact; NaN keeps its payload's top bits and becomes quiet. */
float tern_f16_to_f32(uint16_t h);
/* f32 to binary16, round to nearest even; overflow gives infinity, NaN stays NaN. */
uint16_t tern_f32_to_f16(float v);

static inline float tern_bf16_to_f32(uint16_t h)
{
    return tern_f32_from_bits((uint32_t)h << 16);
}

/* f32 to bfloat16, round to nearest even; NaN stays NaN. */
static inline uint16_t tern_f32_to_bf16(float v)
{
    uint32_t bits = tern_f32_bits(v);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((bits >> 16) | 0x40u);
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/* E8M0, the scales of OCP's MX formats: 2^(e - 127), exact (e = 0 is below the normal floats). 255 stands for NaN there
 * and gives an infinity here, which makes every product with it infinite or NaN. */
static inline float tern_e8m0_to_f32(uint8_t e)
{
    return tern_f32_from_bits(e ? (uint32_t)e << 23 : 0x00400000u);
}

#endif
