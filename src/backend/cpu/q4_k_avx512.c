/* Q4_K rows on AVX-512: a table of 16 floats for each part of 32 elements, looked up with the nibbles. */
#include "backend/cpu/floats_avx512.h"

#include "backend/cpu/dense_body.h"
#include "backend/cpu/transpose_avx512.h"

/* The scales d * sc of the eight parts, then -(dmin * m) of the eight parts. All products are exact. */
INLINE void scales_of(const uint8_t *block, float out[16])
{
    uint32_t a, b, c;
    memcpy(&a, block + 4, 4);
    memcpy(&b, block + 8, 4);
    memcpy(&c, block + 12, 4);
    const uint32_t low = 0x0f0f0f0f, six = 0x3f3f3f3f, top = 0x30303030;
    const __m128i bytes = _mm_setr_epi32((int)(a & six), (int)((c & low) | (a >> 2 & top)), (int)(b & six),
                                         (int)((c >> 4 & low) | (b >> 2 & top)));
    const __m512i first_8 = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    const vec both = _mm512_castps128_ps512(_mm_cvtph_ps(_mm_loadl_epi64((const __m128i *)block)));
    const vec sign = _mm512_setr_ps(1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1);
    const vec d = _mm512_mul_ps(_mm512_permutexvar_ps(first_8, both), sign);
    vec_store(out, vec_mul(d, _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes))));
}

/* d sc q is exact, so that one fma rounds as the difference does. */
INLINE vec table_of(const float *scales, int part)
{
    const vec levels = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return vec_fma(vec_set(scales[part]), levels, vec_set(scales[8 + part]));
}

/* 64 bytes, two parts in each 32: low nibbles, then high ones. Byte b of dword j of the transpose is byte 16 b + j;
 * the look-up takes the lowest four bits of a dword and ignores the rest. */
INLINE void unpack_q4_k(const uint8_t *block, lanes *out)
{
    _Alignas(64) float scales[16];
    scales_of(block, scales);
    UNROLL
    for (int half = 0; half < 2; half++) {
        const __m512i bytes = transpose_bytes(_mm512_loadu_si512(block + 16 + 64 * half));
        UNROLL
        for (int part = 0; part < 4; part++) {
            const vec table = table_of(scales, 4 * half + part);
            const unsigned shift = (unsigned)(part / 2 * 16 + part % 2 * 4);
            lanes *to = out + 8 * half + 2 * part;
            to[0].v[0] = _mm512_permutexvar_ps(_mm512_srli_epi32(bytes, shift), table);
            to[1].v[0] = _mm512_permutexvar_ps(_mm512_srli_epi32(bytes, shift + 8), table);
        }
    }
}

DENSE(q4_k, unpack_q4_k, 256, 144, 0)
