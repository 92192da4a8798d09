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

static inline ivec ivec_add_words(ivec sum, ivec a, ivec b)
{
    return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
}

#include "backend/cpu/blocks/blocks.inc"
#include "backend/cpu/blocks/quantize.inc"
