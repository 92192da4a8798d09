/* The f16 scales of blocks on levels with F16C. */
#ifndef TERN_BACKEND_CPU_DENSE_HALVES_F16C_H
#define TERN_BACKEND_CPU_DENSE_HALVES_F16C_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

/* The f16 that four blocks of `bytes` bytes have at `blocks`: converting one alone costs as much as four. */
static inline void four_halves(const uint8_t *blocks, uint32_t bytes, float *out)
{
    uint16_t d[4];
    for (uint32_t i = 0; i < 4; i++) memcpy(&d[i], blocks + bytes * i, 2);
    const uint64_t all = d[0] | (uint64_t)d[1] << 16 | (uint64_t)d[2] << 32 | (uint64_t)d[3] << 48;
    _mm_storeu_ps(out, _mm_cvtph_ps(_mm_cvtsi64_si128((long long)all)));
}

#endif
