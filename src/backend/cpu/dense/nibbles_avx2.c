/* Rows of Q4_0 to Q5_1, IQ4_NL and MXFP4 on AVX2: values as bytes, 32 at a time, of four blocks at once; then scaled.
 * The layouts are those of ops/ref/ref_decode.c. */
#include "backend/cpu/floats/avx2.h"

#include "backend/cpu/blocks/nibbles_avx2.h"
#include "backend/cpu/dense/dense.inc"
#include "backend/cpu/dense/halves_f16c.h"

enum { BLOCKS = 4 };

INLINE void keep_32(block_state *state, uint32_t i, __m256i v)
{
    _mm256_storeu_si256((__m256i *)(state->values + 32 * i), v);
}

/* Nibbles less `offset`. */
INLINE __m256i nibbles_less(const uint8_t *q, int offset)
{
    return _mm256_sub_epi8(two_nibbles(q), _mm256_set1_epi8((char)offset));
}

/* As above, with a bit of the word at `fifth` above each nibble. */
INLINE __m256i five_bits_less(const uint8_t *fifth, const uint8_t *q, int offset)
{
    int word;
    memcpy(&word, fifth, sizeof word);
    const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201u);
    const __m256i bytes = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i masked = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(word), bytes), bit);
    const __m256i sixteen = _mm256_and_si256(_mm256_cmpeq_epi8(masked, bit), _mm256_set1_epi8(16));
    return _mm256_sub_epi8(_mm256_or_si256(two_nibbles(q), sixteen), _mm256_set1_epi8((char)offset));
}

/* Scales, then where there are minima those, then values of BLOCKS blocks. */
#define PREPARE(name, bytes, minima, values)                                                                           \
    INLINE void prepare_##name(const uint8_t *blocks, block_state *state)                                              \
    {                                                                                                                  \
        four_halves(blocks, bytes, state->scales);                                                                     \
        if (minima) four_halves(blocks + 2, bytes, state->scales + BLOCKS);                                            \
        IN_MEMORY(state->scales);                                                                                      \
        UNROLL                                                                                                         \
        for (uint32_t i = 0; i < BLOCKS; i++) {                                                                        \
            const uint8_t *block = blocks + (bytes)*i;                                                                 \
            keep_32(state, i, values);                                                                                 \
        }                                                                                                              \
    }

PREPARE(q4_0, 18, false, nibbles_less(block + 2, 8))
PREPARE(q4_1, 20, true, two_nibbles(block + 4))
PREPARE(q5_0, 22, false, five_bits_less(block + 2, block + 6, 16))
PREPARE(q5_1, 24, true, five_bits_less(block + 4, block + 8, 0))

static const int8_t iq4_nl_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
PREPARE(iq4_nl, 18, false, numbers_of_nibbles(block + 2, iq4_nl_values))

/* Half of the scales (tern_e8m0_to_f32) of BLOCKS blocks. */
INLINE void four_powers(const uint8_t *blocks, uint32_t bytes, float *out)
{
    const __m128i e = _mm_setr_epi32(blocks[0], blocks[bytes], blocks[2 * bytes], blocks[3 * bytes]);
    const __m128i least = _mm_and_si128(_mm_cmpeq_epi32(e, _mm_setzero_si128()), _mm_set1_epi32(0x00400000));
    _mm_storeu_ps(out, _mm_mul_ps(_mm_set1_ps(0.5f), _mm_castsi128_ps(_mm_or_si128(_mm_slli_epi32(e, 23), least))));
}

/* Twice the numbers are whole. */
INLINE void prepare_mxfp4(const uint8_t *blocks, block_state *state)
{
    static const int8_t values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    four_powers(blocks, 17, state->scales);
    IN_MEMORY(state->scales);
    UNROLL
    for (uint32_t i = 0; i < BLOCKS; i++) keep_32(state, i, numbers_of_nibbles(blocks + 17 * i + 1, values));
}

/* The 32 values of a block times its scale, plus its minimum where there is one. */
INLINE void scale_block(const block_state *state, uint32_t which, bool minima, lanes *out)
{
    const vec scale = vec_set(state->scales[which]), low = vec_set(state->scales[BLOCKS + which]);
    UNROLL
    for (uint32_t i = 0; i < 2 * PARTS; i++) {
        const vec v = vec_mul(scale, vec_load_i8(state->values + 32 * which + i * VEC));
        out[i / PARTS].v[i % PARTS] = minima ? vec_add(v, low) : v;
    }
}

#define NIBBLES(name, bytes, minima)                                                                                   \
    INLINE void unpack_##name(const uint8_t *blocks, const block_state *state, uint32_t part, lanes *out)              \
    {                                                                                                                  \
        (void)blocks;                                                                                                  \
        scale_block(state, part, minima, out);                                                                         \
    }                                                                                                                  \
    DENSE_DECODE(name, 32 * BLOCKS, (bytes)*BLOCKS, BLOCKS, 32, bytes)

NIBBLES(q4_0, 18, false)
NIBBLES(q4_1, 20, true)
NIBBLES(q5_0, 22, false)
NIBBLES(q5_1, 24, true)
NIBBLES(iq4_nl, 18, false)
NIBBLES(mxfp4, 17, false)
