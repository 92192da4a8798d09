/* Dense weights times int8 activations on AVX-VNNI. */
enum { UNSIGNED_CODES = 1 };

#include "backend/cpu/blocks/dots_256.h"

#undef LEVEL
#define LEVEL avxvnni

static inline ivec ivec_dot(ivec sum, ivec w, ivec x, bool is_signed)
{
    (void)is_signed;
    return _mm256_dpbusd_avx_epi32(sum, w, x);
}

static inline ivec ivec_add_words(ivec sum, ivec a, ivec b)
{
    return _mm256_dpwssd_avx_epi32(sum, a, b);
}

#include "backend/cpu/blocks/blocks.inc"
