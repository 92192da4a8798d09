/* Q3_K and Q2_K rows on AVX-512: a table of four or eight floats for each group of 16 elements, looked up with its
 * codes. The layouts are those of ops/ref/ref_decode.c. */
#include "backend/cpu/floats/avx512.h"

#include "backend/cpu/dense/bytes_avx512.h"
#include "backend/cpu/dense/dense.inc"

/* The f16 number i of the four that end at p + 8, to all lanes. */
INLINE vec half_of_four(const uint8_t *p, int i)
{
    const vec four = _mm512_castps128_ps512(_mm_cvtph_ps(_mm_loadl_epi64((const __m128i *)p)));
    return _mm512_permutexvar_ps(_mm512_set1_epi32(i), four);
}

/* The scales d * sc of the 16 groups, then their minima dmin * m. All products are exact. */
INLINE void prepare_q2_k(const uint8_t *block, block_state *state)
{
    const __m512i both = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)block));
    const __m512i low = _mm512_and_si512(both, _mm512_set1_epi32(15)), high = _mm512_srli_epi32(both, 4);
    vec_store(state->scales, vec_mul(half_of_four(block + 76, 2), _mm512_cvtepi32_ps(low)));
    vec_store(state->scales + 16, vec_mul(half_of_four(block + 76, 3), _mm512_cvtepi32_ps(high)));
    IN_MEMORY(state->scales);
}

/* The scales d * (sc - 32) of the 16 groups; exact. */
INLINE void prepare_q3_k(const uint8_t *block, block_state *state)
{
    const uint64_t nibbles = 0x0f0f0f0f0f0f0f0f;
    const uint32_t two = 0x30303030;
    uint64_t low;
    uint32_t high;
    memcpy(&low, block + 96, sizeof low);
    memcpy(&high, block + 104, sizeof high);
    const uint64_t first = (low & nibbles) | (high << 4 & two) | (uint64_t)(high << 2 & two) << 32;
    const uint64_t last = (low >> 4 & nibbles) | (high & two) | (uint64_t)(high >> 2 & two) << 32;
    const __m512i scales = _mm512_cvtepu8_epi32(_mm_set_epi64x((long long)last, (long long)first));
    const vec values = _mm512_cvtepi32_ps(_mm512_sub_epi32(scales, _mm512_set1_epi32(32)));
    vec_store(state->scales, vec_mul(half_of_four(block + 102, 3), values));
    IN_MEMORY(state->scales);
}

/* 32 bytes twice, each byte of the second time and of the first shifted right by bits of their own. Bits of other bytes
 * lie above the bits that count. */
INLINE __m512i shifted_twice(const uint8_t *p, int first, int second)
{
    const __m512i v = _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)p));
    return _mm512_srlv_epi32(v, _mm512_inserti64x4(_mm512_set1_epi32(second), _mm256_set1_epi32(first), 0));
}

/* Groups 4 part .. 4 part + 3 have two pairs of bits of the same 32 bytes. */
INLINE __m512i pairs_of(const uint8_t *q, uint32_t part)
{
    const int at = (int)(part % 2 * 4);
    return shifted_twice(q + part / 2 * 32, at, at + 2);
}

/* Groups i of tables[i], with the codes that are the lowest bits of the bytes 16 i .. 16 i + 15. The look-up takes the
 * lowest four bits of a dword. */
INLINE void look_up_groups(__m512i codes, const vec *tables, lanes *out)
{
    const __m512i v = transpose_bytes(codes);
    out[0].v[0] = _mm512_permutexvar_ps(v, tables[0]);
    out[1].v[0] = _mm512_permutexvar_ps(_mm512_srli_epi32(v, 8), tables[1]);
    out[2].v[0] = _mm512_permutexvar_ps(_mm512_srli_epi32(v, 16), tables[2]);
    out[3].v[0] = _mm512_permutexvar_ps(_mm512_srli_epi32(v, 24), tables[3]);
}

/* d sc q is exact, so that one fma rounds as the difference does. */
INLINE void unpack_q2_k(const uint8_t *block, const block_state *state, uint32_t part, lanes *out)
{
    const vec levels = _mm512_setr_ps(0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3);
    const float *scales = state->scales + 4 * part;
    vec tables[4];
    UNROLL
    for (int i = 0; i < 4; i++) tables[i] = _mm512_fmsub_ps(vec_set(scales[i]), levels, vec_set(scales[16 + i]));
    look_up_groups(pairs_of(block + 16, part), tables, out);
}

/* The third bits of part i are the bits 2 i and 2 i + 1 of the same 32 bytes; they go to bit 2. */
INLINE __m512i thirds_of(const uint8_t *block, uint32_t part)
{
    if (part) return shifted_twice(block, (int)(2 * part) - 2, (int)(2 * part) - 1);
    const __m512i v = _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)block));
    return _mm512_sllv_epi32(v, _mm512_inserti64x4(_mm512_set1_epi32(1), _mm256_set1_epi32(2), 0));
}

INLINE void unpack_q3_k(const uint8_t *block, const block_state *state, uint32_t part, lanes *out)
{
    const vec levels = _mm512_setr_ps(-4, -3, -2, -1, 0, 1, 2, 3, -4, -3, -2, -1, 0, 1, 2, 3);
    const float *scales = state->scales + 4 * part;
    vec tables[4];
    UNROLL
    for (int i = 0; i < 4; i++) tables[i] = vec_mul(vec_set(scales[i]), levels);
    const __m512i codes = /* pair & 3 | third & ~3 */
        _mm512_ternarylogic_epi32(_mm512_set1_epi8(3), pairs_of(block + 32, part), thirds_of(block, part), 0xca);
    look_up_groups(codes, tables, out);
}

DENSE_DECODE(q2_k, 256, 84, 4, 256, 84)
DENSE_DECODE(q3_k, 256, 110, 4, 256, 110)
