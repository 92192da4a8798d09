/* Rows of Q4_0 to Q5_1, IQ4_NL, MXFP4, Q2_0, PQ2_0 and Q1_0 on AVX-512: a table of a block's numbers, looked up with
 * its codes. The layouts are those of ops/ref/ref_decode.c. */
#include "backend/cpu/floats/avx512.h"

#include "backend/cpu/dense/dense.inc"
#include "backend/cpu/dense/halves_f16c.h"
#include "backend/cpu/dense/read_first.inc"
#include "base/half.h"

/* The scales of four blocks, and the minima that follow them. */
#define PREPARE_4(name, bytes)                                                                                         \
    INLINE void prepare_##name(const uint8_t *blocks, block_state *state)                                              \
    {                                                                                                                  \
        four_halves(blocks, bytes, state->scales);                                                                     \
        IN_MEMORY(state->scales);                                                                                      \
    }
#define PREPARE_4_MINIMA(name, bytes)                                                                                  \
    INLINE void prepare_##name(const uint8_t *blocks, block_state *state)                                              \
    {                                                                                                                  \
        four_halves(blocks, bytes, state->scales);                                                                     \
        four_halves(blocks + 2, bytes, state->scales + 4);                                                             \
        IN_MEMORY(state->scales);                                                                                      \
    }

/* d times the numbers first .. first + 15; exact. */
INLINE vec table_of(float d, float first)
{
    const vec levels = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return vec_mul(vec_set(d), vec_add(levels, vec_set(first)));
}

INLINE __m512i load_codes(const uint8_t *q)
{
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)q));
}

/* Bits of `set` where the mask has them, else of `clear`. */
INLINE __m512i choose(__m512i mask, __m512i set, __m512i clear)
{
    return _mm512_ternarylogic_epi32(mask, set, clear, 0xca);
}

/* The nibbles of 16 bytes, the low ones first. The look-up takes the lowest four bits of a dword. */
INLINE void look_up_nibbles(const uint8_t *q, vec table, lanes *out)
{
    const __m512i codes = load_codes(q);
    out[0].v[0] = _mm512_permutexvar_ps(codes, table);
    out[1].v[0] = _mm512_permutexvar_ps(_mm512_srli_epi32(codes, 4), table);
}

/* As above, with a bit of the word at `fifth` above each nibble. The look-up in two tables takes the lowest five bits.
 */
INLINE void look_up_five_bits(const uint8_t *fifth, const uint8_t *q, vec table, vec table_16, lanes *out)
{
    int word;
    memcpy(&word, fifth, sizeof word);
    const __m512i codes = load_codes(q), bits = _mm512_set1_epi32(word), nibble = _mm512_set1_epi32(15);
    const __m512i to_4 = _mm512_setr_epi32(28, 29, 30, 31, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
    const __m512i low = _mm512_rorv_epi32(bits, to_4),
                  high = _mm512_rorv_epi32(bits, _mm512_add_epi32(to_4, _mm512_set1_epi32(16)));
    out[0].v[0] = _mm512_permutex2var_ps(table, choose(nibble, codes, low), table_16);
    out[1].v[0] = _mm512_permutex2var_ps(table, choose(nibble, _mm512_srli_epi32(codes, 4), high), table_16);
}

/* 64 pairs of bits in 16 bytes, the lowest first; d times the pair less one. */
INLINE void look_up_pairs(const uint8_t *q, float d, lanes *out)
{
    const vec levels = _mm512_setr_ps(-1, 0, 1, 2, -1, 0, 1, 2, -1, 0, 1, 2, -1, 0, 1, 2);
    const vec table = vec_mul(vec_set(d), levels);
    const __m512i places = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    UNROLL
    for (int i = 0; i < 4; i++) {
        int four;
        memcpy(&four, q + 4 * i, sizeof four);
        out[i].v[0] = _mm512_permutexvar_ps(_mm512_srlv_epi32(_mm512_set1_epi32(four), places), table);
    }
}

#define UNPACK(name)                                                                                                   \
    INLINE void unpack_##name(const uint8_t *block, const block_state *state, uint32_t part, lanes *out)

PREPARE_4(q4_0, 18)
UNPACK(q4_0)
{
    look_up_nibbles(block + 18 * part + 2, table_of(state->scales[part], -8), out);
}

PREPARE_4_MINIMA(q4_1, 20)
UNPACK(q4_1)
{
    const vec table = vec_add(table_of(state->scales[part], 0), vec_set(state->scales[4 + part]));
    look_up_nibbles(block + 20 * part + 4, table, out);
}

PREPARE_4(q5_0, 22)
UNPACK(q5_0)
{
    const float d = state->scales[part];
    look_up_five_bits(block + 22 * part + 2, block + 22 * part + 6, table_of(d, -16), table_of(d, 0), out);
}

PREPARE_4_MINIMA(q5_1, 24)
UNPACK(q5_1)
{
    const float d = state->scales[part];
    const vec low = vec_set(state->scales[4 + part]);
    look_up_five_bits(block + 24 * part + 4, block + 24 * part + 8, vec_add(table_of(d, 0), low),
                      vec_add(table_of(d, 16), low), out);
}

PREPARE_4(iq4_nl, 18)
UNPACK(iq4_nl)
{
    const vec levels = _mm512_setr_ps(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);
    look_up_nibbles(block + 18 * part + 2, vec_mul(vec_set(state->scales[part]), levels), out);
}

INLINE void prepare_mxfp4(const uint8_t *blocks, block_state *state)
{
    const uint32_t bytes =
        blocks[0] | (uint32_t)blocks[17] << 8 | (uint32_t)blocks[34] << 16 | (uint32_t)blocks[51] << 24;
    const __m128i e = _mm_slli_epi32(_mm_cvtepu8_epi32(_mm_cvtsi32_si128((int)bytes)), 23);
    _mm_storeu_si128((__m128i *)state->scales, _mm_max_epi32(e, _mm_set1_epi32(0x00400000))); /* tern_e8m0_to_f32 */
    IN_MEMORY(state->scales);
}

UNPACK(mxfp4)
{
    const vec levels = _mm512_setr_ps(0, 0.5f, 1, 1.5f, 2, 3, 4, 6, 0, -0.5f, -1, -1.5f, -2, -3, -4, -6);
    look_up_nibbles(block + 17 * part + 1, vec_mul(vec_set(state->scales[part]), levels), out);
}

INLINE void prepare_q2_0(const uint8_t *blocks, block_state *state)
{
    state->scales[0] = half_at(blocks);
    state->scales[1] = half_at(blocks + 18);
}

UNPACK(q2_0)
{
    look_up_pairs(block + 18 * part + 2, state->scales[part], out);
}

INLINE void prepare_pq2_0(const uint8_t *block, block_state *state)
{
    state->scales[0] = half_at(block);
}

UNPACK(pq2_0)
{
    look_up_pairs(block + 16 * part + 2, state->scales[0], out);
}

#define prepare_q1_0 prepare_pq2_0
UNPACK(q1_0)
{
    const vec set = vec_set(state->scales[0]), clear = vec_set(-state->scales[0]);
    uint16_t bits[4];
    memcpy(bits, block + 8 * part + 2, sizeof bits);
    UNROLL
    for (int i = 0; i < 4; i++) out[i].v[0] = _mm512_mask_blend_ps(bits[i], clear, set);
}

DENSE_DECODE(q4_0, 128, 72, 4, 32, 18)
DENSE_DECODE(q4_1, 128, 80, 4, 32, 20)
DENSE_DECODE(q5_0, 128, 88, 4, 32, 22)
DENSE_DECODE(q5_1, 128, 96, 4, 32, 24)
DENSE_DECODE(iq4_nl, 128, 72, 4, 32, 18)
DENSE_DECODE(mxfp4, 128, 68, 4, 32, 17)
DENSE_DECODE(q2_0, 128, 36, 2, 64, 18)
DENSE_DECODE(pq2_0, 128, 34, 2, 128, 34)
DENSE_DECODE(q1_0, 128, 18, 2, 128, 18)
