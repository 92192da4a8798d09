/* Dense weights times int8 activations on AVX2. */
enum { UNSIGNED_CODES = 0 };

#include "backend/cpu/blocks/dots_256.h"

/* Pairs of products do not pass 16 bits: unsigned codes are at most 63, the magnitude of signed ones is at most 128,
 * that of x 127. */
static inline ivec ivec_dot(ivec sum, ivec w, ivec x, bool is_signed)
{
    const ivec pairs =
        is_signed ? _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w)) : _mm256_maddubs_epi16(w, x);
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

#define BLOCK_START(e, x, offset) ((e).scaled ? pair_start(x, offset) : ROW_START(x, offset))
#define ROW_SCALED                row_scaled

/* Minus the pairs of products with the offset of codes. */
static inline ivec pair_start(ivec x, uint8_t offset)
{
    return _mm256_sub_epi16(_mm256_setzero_si256(), _mm256_maddubs_epi16(row_set(offset), x));
}

/* The scales of the two runs of 32 columns, each in eight words. */
static inline ivec scale_words(words_16 scales, uint32_t i)
{
    const ivec half = i < 4 ? _mm256_permute2x128_si256((__m256i)scales, (__m256i)scales, 0x00)
                            : _mm256_permute2x128_si256((__m256i)scales, (__m256i)scales, 0x11);
    const int first = (int)(i % 4) * 0x0404 + 0x0100, second = first + 0x0202;
    const int low = first | first << 16, high = second | second << 16;
    return _mm256_shuffle_epi8(half, _mm256_setr_epi32(low, low, low, low, high, high, high, high));
}

/* Pairs are at most 2 * 63 * 127 before the offset is taken away and after it. */
static inline ivec row_scaled(ivec total, ivec start, ivec w, ivec x, words_16 scales, uint32_t i, bool is_short)
{
    (void)is_short;
    const ivec pairs = _mm256_add_epi16(_mm256_maddubs_epi16(w, x), start);
    return _mm256_add_epi32(total, _mm256_madd_epi16(pairs, scale_words(scales, i)));
}

#include "backend/cpu/blocks/blocks.inc"
#include "backend/cpu/blocks/quantize.inc"
