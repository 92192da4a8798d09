/* Q6_K rows on AVX-512, with and without VBMI: six-bit values are put into the mantissa of 128.0, and one fma scales
 * them.
 *
 * The file that includes this defines spread_groups: group i of 16 bytes to the floats 128 + u. */
#ifndef TERN_BACKEND_CPU_Q6_K_AVX512_H
#define TERN_BACKEND_CPU_Q6_K_AVX512_H

#include "backend/cpu/dense_body.h"

/* s = d * sc of the 16 groups, then -160 s; all exact. d is the last of the four f16 that end the block. */
INLINE void prepare_q6_k(const uint8_t *block, block_state *state)
{
    const vec last = _mm512_castps128_ps512(_mm_cvtph_ps(_mm_loadl_epi64((const __m128i *)(block + 202))));
    const vec s = vec_mul(_mm512_permutexvar_ps(_mm512_set1_epi32(3), last), vec_load_i8(block + 192));
    vec_store(state->scales, s);
    vec_store(state->scales + 16, vec_mul(s, vec_set(-160)));
    IN_MEMORY(state->scales);
}

/* 64 values 0 .. 63 as bytes: low bits from the nibbles at the bottom of `low`, high ones from bits 4 and 5 of `high`.
 */
INLINE __m512i join(__m512i low, __m512i high)
{
    const __m512i two = _mm512_and_si512(high, _mm512_set1_epi8(0x30));
    return _mm512_ternarylogic_epi32(two, low, _mm512_set1_epi8(0x0f), 0xf8); /* two | (low & 0x0f) */
}

/* Each half: 64 bytes of low nibbles (elements 0-63 at the bottom, 64-127 on top), 32 bytes of high pairs (elements
 * 0-31 in the lowest). */
INLINE __m512i values_of(const uint8_t *block, uint32_t part)
{
    const __m512i low = _mm512_loadu_si512(block + 64 * (part / 2));
    const __m512i high = _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)(block + 128 + 32 * (part / 2))));
    if (part % 2 == 0)
        return join(low, _mm512_sllv_epi32(high, _mm512_inserti64x4(_mm512_set1_epi32(2), _mm256_set1_epi32(4), 0)));
    return join(_mm512_srli_epi16(low, 4),
                _mm512_srlv_epi32(high, _mm512_inserti64x4(_mm512_set1_epi32(2), _mm256_setzero_si256(), 0)));
}

/* Four groups of 16: u in the mantissa is 128 + u, and s (128 + u) - 160 s = s (u - 32), which is exact. */
INLINE void unpack_q6_k(const uint8_t *block, const block_state *state, uint32_t part, lanes *out)
{
    const float *scales = state->scales + 4 * part;
    vec spread[4];
    spread_groups(values_of(block, part), spread);
    UNROLL
    for (int i = 0; i < 4; i++) out[i].v[0] = vec_fma(spread[i], vec_set(scales[i]), vec_set(scales[16 + i]));
}

DENSE_DECODE(q6_k, 256, 210, 4, 256, 210)

#endif
