/* Q6_K rows on AVX-512: six-bit values are put into the mantissa of 128.0, and one fma scales them. */
#include "backend/cpu/floats_avx512.h"

#include "backend/cpu/dense_body.h"
#include "backend/cpu/transpose_avx512.h"

/* s = d * sc of the 16 groups, then -160 s; all exact. d is the last of the four f16 that end the block. */
INLINE void scales_of(const uint8_t *block, float out[32])
{
    const vec last = _mm512_castps128_ps512(_mm_cvtph_ps(_mm_loadl_epi64((const __m128i *)(block + 202))));
    const vec s = vec_mul(_mm512_permutexvar_ps(_mm512_set1_epi32(3), last), vec_load_i8(block + 192));
    vec_store(out, s);
    vec_store(out + 16, vec_mul(s, vec_set(-160)));
}

/* 64 values 0 .. 63 as bytes: low bits from the nibbles at the bottom of `low`, high ones from bits 4 and 5 of `high`. */
INLINE __m512i join(__m512i low, __m512i high)
{
    const __m512i two = _mm512_and_si512(high, _mm512_set1_epi8(0x30));
    return _mm512_ternarylogic_epi32(two, low, _mm512_set1_epi8(0x0f), 0xf8); /* two | (low & 0x0f) */
}

/* Four groups of 16: u in the mantissa is 128 + u, and s (128 + u) - 160 s = s (u - 32), which is exact. */
INLINE void four_groups(__m512i values, const float *scales, lanes *out)
{
    const __m512i v = transpose_bytes(values);
    const __m512i third[4] = {_mm512_slli_epi32(v, 16), _mm512_slli_epi32(v, 8), v, _mm512_srli_epi32(v, 8)};
    UNROLL
    for (int i = 0; i < 4; i++) {
        const __m512i bits = _mm512_ternarylogic_epi32(_mm512_set1_epi32(0x43000000), third[i],
                                                       _mm512_set1_epi32(0x003f0000), 0xf8);
        out[i].v[0] = vec_fma(_mm512_castsi512_ps(bits), vec_set(scales[i]), vec_set(scales[16 + i]));
    }
}

/* Each half: 64 bytes of low nibbles (elements 0-63 at the bottom, 64-127 on top), 32 bytes of high pairs (elements 0-31
 * in the lowest). */
INLINE void unpack_q6_k(const uint8_t *block, lanes *out)
{
    _Alignas(64) float scales[32];
    const __m512i left = _mm512_inserti64x4(_mm512_set1_epi32(2), _mm256_set1_epi32(4), 0);
    const __m512i right = _mm512_inserti64x4(_mm512_set1_epi32(2), _mm256_setzero_si256(), 0);
    scales_of(block, scales);
    UNROLL
    for (int half = 0; half < 2; half++) {
        const __m512i low = _mm512_loadu_si512(block + 64 * half);
        const __m512i high = _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)(block + 128 + 32 * half)));
        const float *s = scales + 8 * half;
        four_groups(join(low, _mm512_sllv_epi32(high, left)), s, out + 8 * half);
        four_groups(join(_mm512_srli_epi16(low, 4), _mm512_srlv_epi32(high, right)), s + 4, out + 8 * half + 4);
    }
}

DENSE(q6_k, unpack_q6_k, 256, 210, 0)
