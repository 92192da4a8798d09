/* Q4_K and Q5_K rows on AVX-512: a table of 16 or 32 floats for each part of 32 elements, looked up with its levels. */
#include "backend/cpu/floats/avx512.h"

#include "backend/cpu/dense/bytes_avx512.h"
#include "backend/cpu/dense/dense.inc"

/* A number for each quarter of 16 dwords. */
INLINE __m512i quarters(int a, int b, int c, int d)
{
    return _mm512_setr_epi32(a, a, a, a, b, b, b, b, c, c, c, c, d, d, d, d);
}

/* The scales d * sc of the eight parts, then their minima dmin * m. All products are exact. Behind d and dmin lie words
 * a, b and c, four numbers each: the lowest six bits of a's bytes, then c's low nibbles below a's highest two bits; and
 * so the minima from b and c's high nibbles. Vectors all the way: compilers make them of scalars, one at a time. */
INLINE void prepare_k_groups(const uint8_t *block, block_state *state)
{
    const __m512i head = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)block));
    const __m512i four = _mm512_set4_epi32(-253, -254, -255, -256); /* dwords of bytes */
    const __m512i from_ab = _mm512_shuffle_epi8(head, _mm512_add_epi32(four, quarters(4, 4, 8, 8)));
    const __m512i from_c = _mm512_shuffle_epi8(head, _mm512_add_epi32(four, quarters(12, 12, 12, 12)));
    const __m512i ab = _mm512_and_si512(_mm512_srlv_epi32(from_ab, quarters(0, 2, 0, 2)), quarters(63, 48, 63, 48));
    const __m512i bytes = _mm512_ternarylogic_epi32(ab, _mm512_srlv_epi32(from_c, quarters(0, 0, 0, 4)),
                                                    quarters(0, 15, 0, 15), 0xf8); /* ab | c & mask */
    const __m512i first_8 = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    const vec both = _mm512_castps128_ps512(_mm_cvtph_ps(_mm_loadl_epi64((const __m128i *)block)));
    vec_store(state->scales, vec_mul(_mm512_permutexvar_ps(first_8, both), _mm512_cvtepi32_ps(bytes)));
    IN_MEMORY(state->scales);
}

/* d sc q is exact, so that one fma rounds as the difference does. */
INLINE vec table_of(const float *scales, uint32_t part, float first)
{
    const vec levels = vec_add(vec_set(first), _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    return _mm512_fmsub_ps(vec_set(scales[part]), levels, vec_set(scales[8 + part]));
}

/* A pair of parts lies in the low and the high nibbles of 32 bytes. The look-up takes the lowest four bits of a dword
 * and ignores the rest. */
INLINE void unpack_q4_k(const uint8_t *block, const block_state *state, uint32_t pair, lanes *out)
{
    const vec low = table_of(state->scales, 2 * pair, 0), high = table_of(state->scales, 2 * pair + 1, 0);
    UNROLL
    for (int i = 0; i < 2; i++) {
        const __m512i q = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(block + 16 + 32 * pair + 16 * i)));
        out[i].v[0] = _mm512_permutexvar_ps(q, low);
        out[2 + i].v[0] = _mm512_permutexvar_ps(_mm512_srli_epi32(q, 4), high);
    }
}

/* 64 codes of five bits, those of the lower nibbles first: bits 2 pair and 2 pair + 1 of 32 bytes go to bit 4, and what
 * lies above them does not count. */
INLINE __m512i codes_q5_k(const uint8_t *block, uint32_t pair)
{
    const __m256i *const fifths = (const __m256i *)(block + 16), *const q = (const __m256i *)(block + 48 + 32 * pair);
    const __m512i to_4 =
        _mm512_inserti64x4(_mm512_set1_epi32(3 - 2 * (int)pair), _mm256_set1_epi32(4 - 2 * (int)pair), 0);
    const __m512i nibbles = _mm512_srlv_epi32(_mm512_broadcast_i64x4(_mm256_loadu_si256(q)),
                                              _mm512_inserti64x4(_mm512_set1_epi32(4), _mm256_setzero_si256(), 0));
    const __m512i fifth = _mm512_rolv_epi32(_mm512_broadcast_i64x4(_mm256_loadu_si256(fifths)), to_4);
    return _mm512_ternarylogic_epi32(_mm512_set1_epi8(15), nibbles, fifth, 0xca); /* nibbles & 15 | fifth & ~15 */
}

/* As above with two tables, of levels 0 to 15 and 16 to 31; the look-up takes the lowest five bits. */
INLINE void unpack_q5_k(const uint8_t *block, const block_state *state, uint32_t pair, lanes *out)
{
    const vec low = table_of(state->scales, 2 * pair, 0), low_16 = table_of(state->scales, 2 * pair, 16),
              high = table_of(state->scales, 2 * pair + 1, 0), high_16 = table_of(state->scales, 2 * pair + 1, 16);
    const __m512i codes = transpose_bytes(codes_q5_k(block, pair));
    out[0].v[0] = _mm512_permutex2var_ps(low, codes, low_16);
    out[1].v[0] = _mm512_permutex2var_ps(low, _mm512_srli_epi32(codes, 8), low_16);
    out[2].v[0] = _mm512_permutex2var_ps(high, _mm512_srli_epi32(codes, 16), high_16);
    out[3].v[0] = _mm512_permutex2var_ps(high, _mm512_srli_epi32(codes, 24), high_16);
}

#define prepare_q4_k prepare_k_groups
#define prepare_q5_k prepare_k_groups

DENSE_DECODE(q4_k, 256, 144, 4, 256, 144)
DENSE_DECODE(q5_k, 256, 176, 4, 256, 176)
