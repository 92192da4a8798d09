/* Q8_0, Q6_K, Q4_K and Q5_K rows on AVX2: codes are joined 32 at a time and widen to dwords, and where
 * there are minima one fma makes a number of each. */
#include "backend/cpu/floats/avx2.h"

#include "backend/cpu/dense/bytes.inc"
#include "backend/cpu/dense/halves_f16c.h"

INLINE __m256i load_32(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

INLINE void keep_32(block_state *state, int i, __m256i v)
{
    _mm256_storeu_si256((__m256i *)(state->values + i), v);
}

/* Each byte shifted and cut to the bits of `mask`, which come from no other byte. */
INLINE __m256i down(__m256i v, int bits, int mask)
{
    return _mm256_and_si256(_mm256_srli_epi16(v, bits), _mm256_set1_epi8((char)mask));
}

INLINE __m256i up(__m256i v, int bits, int mask)
{
    return _mm256_and_si256(_mm256_slli_epi16(v, bits), _mm256_set1_epi8((char)mask));
}

/* Four blocks at once. */
INLINE void prepare_q8_0(const uint8_t *blocks, block_state *state)
{
    four_halves(blocks, 34, state->scales);
    IN_MEMORY(state->scales);
}

INLINE void unpack_q8_0(const uint8_t *blocks, const block_state *state, uint32_t part, lanes *out)
{
    const vec d = vec_set(state->scales[part]);
    UNROLL
    for (uint32_t i = 0; i < 4; i++) out[i / 2].v[i % 2] = vec_mul(d, vec_load_i8(blocks + 34 * part + 2 + 8 * i));
}

/* 32 bytes in an order in which unpacking bytes and then words in each half gives vectors of eight neighbours. */
INLINE __m256i load_dealt(const uint8_t *p)
{
    return _mm256_permutevar8x32_epi32(load_32(p), _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7));
}

/* The 256 values of a block, dealt: see ref_decode.c for the layout. s = d * sc of the 16 groups, then -160 s; all
 * exact. */
INLINE void prepare_q6_k(const uint8_t *block, block_state *state)
{
    scales_of(load_16(block + 192), half_at(block + 208), state->scales);
    UNROLL
    for (int i = 0; i < 16; i += VEC)
        vec_store(state->scales + 16 + i, vec_mul(vec_load(state->scales + i), vec_set(-160)));
    IN_MEMORY(state->scales);
    UNROLL
    for (int half = 0; half < 2; half++) {
        const __m256i a = load_dealt(block + 64 * half), b = load_dealt(block + 64 * half + 32),
                      high = load_dealt(block + 128 + 32 * half);
        keep_32(state, 128 * half, _mm256_or_si256(down(a, 0, 15), up(high, 4, 0x30)));
        keep_32(state, 128 * half + 32, _mm256_or_si256(down(b, 0, 15), up(high, 2, 0x30)));
        keep_32(state, 128 * half + 64, _mm256_or_si256(down(a, 4, 15), down(high, 0, 0x30)));
        keep_32(state, 128 * half + 96, _mm256_or_si256(down(b, 4, 15), down(high, 2, 0x30)));
    }
}

/* Words of a value and the top of a float to two vectors: u in the mantissa is 128 + u, and s (128 + u) - 160 s =
 * s (u - 32), which is exact. */
INLINE void spread_words(__m256i words, const float *scales, lanes *out)
{
    const vec s = vec_set(scales[0]), low = vec_set(scales[16]);
    const __m256i zero = _mm256_setzero_si256();
    out->v[0] = vec_fma(_mm256_castsi256_ps(_mm256_unpacklo_epi16(zero, words)), s, low);
    out->v[1] = vec_fma(_mm256_castsi256_ps(_mm256_unpackhi_epi16(zero, words)), s, low);
}

INLINE void unpack_q6_k(const uint8_t *block, const block_state *state, uint32_t part, lanes *out)
{
    (void)block;
    UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        const __m256i u = load_32((const uint8_t *)state->values + 64 * part + 32 * i), top = _mm256_set1_epi8(0x43);
        spread_words(_mm256_unpacklo_epi8(u, top), state->scales + 4 * part + 2 * i, out + 2 * i);
        spread_words(_mm256_unpackhi_epi8(u, top), state->scales + 4 * part + 2 * i + 1, out + 2 * i + 1);
    }
}

/* The scales d * sc * odd of the eight parts, odd for those of odd numbers alone, then their minima dmin * m. All
 * products are exact. */
INLINE void prepare_k_groups(const uint8_t *block, float odd, block_state *state)
{
    const __m128i head = _mm_loadu_si128((const __m128i *)block); /* d and dmin; then three words a, b and c */
    const __m128i ab = _mm_shuffle_epi32(head, 0xa5), c = _mm_shuffle_epi32(head, 0xff);
    const int six = 0x3f3f3f3f, top = 0x30303030, low = 0x0f0f0f0f;
    const __m128i from_ab =
        _mm_and_si128(_mm_srlv_epi32(ab, _mm_setr_epi32(0, 2, 0, 2)), _mm_setr_epi32(six, top, six, top));
    const __m128i from_c = _mm_and_si128(_mm_srlv_epi32(c, _mm_setr_epi32(0, 0, 0, 4)), _mm_setr_epi32(0, low, 0, low));
    const __m128i all = _mm_or_si128(from_ab, from_c);
    const __m128 both = _mm_cvtph_ps(head);
    const vec d = vec_mul(_mm256_broadcastss_ps(both), _mm256_setr_ps(1, odd, 1, odd, 1, odd, 1, odd)),
              dmin = _mm256_broadcastss_ps(_mm_movehdup_ps(both));
    const __m256i scales = _mm256_cvtepu8_epi32(all), minima = _mm256_cvtepu8_epi32(_mm_unpackhi_epi64(all, all));
    vec_store(state->scales, vec_mul(d, _mm256_cvtepi32_ps(scales)));
    vec_store(state->scales + 8, vec_mul(dmin, _mm256_cvtepi32_ps(minima)));
    IN_MEMORY(state->scales);
}

/* d sc q is exact, so that one fma rounds as the difference does. */
INLINE vec number(__m256i q, const float *scales)
{
    return _mm256_fmsub_ps(_mm256_cvtepi32_ps(q), vec_set(scales[0]), vec_set(scales[8]));
}

INLINE __m256i widen(const void *p)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(p));
}

/* High nibbles are multiplied where they lie: a mask may run where a shift would wait for the ports of products. */
INLINE void prepare_q4_k(const uint8_t *block, block_state *state)
{
    prepare_k_groups(block, 1 / 16.0f, state);
}

/* A pair of parts lies in the low and the high nibbles of 32 bytes. */
INLINE void unpack_q4_k(const uint8_t *block, const block_state *state, uint32_t pair, lanes *out)
{
    const float *scales = state->scales + 2 * pair;
    UNROLL
    for (int i = 0; i < 4; i++) {
        const __m256i q = widen(block + 16 + 32 * pair + 8 * i);
        out[i / 2].v[i % 2] = number(_mm256_and_si256(q, _mm256_set1_epi32(15)), scales);
        out[2 + i / 2].v[i % 2] = number(_mm256_and_si256(q, _mm256_set1_epi32(240)), scales + 1);
    }
}

/* The nibbles with their fifth bits. */
INLINE void prepare_q5_k(const uint8_t *block, block_state *state)
{
    const __m256i high = load_32(block + 16);
    prepare_k_groups(block, 1, state);
    UNROLL
    for (int pair = 0; pair < 4; pair++) {
        const __m256i q = load_32(block + 48 + 32 * pair), bits = _mm256_srli_epi16(high, 2 * pair);
        keep_32(state, 64 * pair, _mm256_or_si256(down(q, 0, 15), up(bits, 4, 16)));
        keep_32(state, 64 * pair + 32, _mm256_or_si256(down(q, 4, 15), up(bits, 3, 16)));
    }
}

INLINE void unpack_q5_k(const uint8_t *block, const block_state *state, uint32_t pair, lanes *out)
{
    (void)block;
    UNROLL
    for (uint32_t i = 0; i < 8; i++)
        out[i / 2].v[i % 2] = number(widen(state->values + 64 * pair + 8 * i), state->scales + 2 * pair + i / 4);
}

DENSE_DECODE(q8_0, 128, 136, 4, 32, 34)
DENSE_DECODE(q6_k, 256, 210, 4, 256, 210)
DENSE_DECODE(q4_k, 256, 144, 4, 256, 144)
DENSE_DECODE(q5_k, 256, 176, 4, 256, 176)
