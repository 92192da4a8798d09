/* RSR on groups with AVX2 gathers. */
#include <immintrin.h>

#include "rsr/multipliers/steps.h"

enum { LANES = 8 };
#define TAG(name) name##_avx2

typedef __m256i ints;
typedef __m256 floats;

static inline ints gather_ints(const uint16_t *perm, const int8_t *x)
{
    const __m256i at = _mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)perm));
    return _mm256_srai_epi32(_mm256_slli_epi32(_mm256_i32gather_epi32((const int *)(const void *)x, at, 1), 24), 24);
}

static inline floats gather_floats(const uint16_t *perm, const float *x)
{
    return _mm256_i32gather_ps(x, _mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)perm)), 4);
}

static inline int32_t total_ints(ints v)
{
    __m128i b = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    b = _mm_add_epi32(b, _mm_shuffle_epi32(b, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(b, _mm_shuffle_epi32(b, 0xb1)));
}

static inline float total_floats(floats v)
{
    const __m128 b = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_shuffle_ps(c, c, 1)));
}

#define add_ints    _mm256_add_epi32
#define add_floats  _mm256_add_ps
#define zero_ints   _mm256_setzero_si256
#define zero_floats _mm256_setzero_ps
#include "rsr/multipliers/gather.inc"
