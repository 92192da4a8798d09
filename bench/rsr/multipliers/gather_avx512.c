/* RSR on groups with AVX-512 gathers. */
#include <immintrin.h>

#include "rsr/multipliers/steps.h"

enum { LANES = 16 };
#define TAG(name) name##_avx512

typedef __m512i ints;
typedef __m512 floats;

static inline ints gather_ints(const uint16_t *perm, const int8_t *x)
{
    const __m512i at = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)perm));
    return _mm512_srai_epi32(_mm512_slli_epi32(_mm512_i32gather_epi32(at, x, 1), 24), 24);
}

static inline floats gather_floats(const uint16_t *perm, const float *x)
{
    return _mm512_i32gather_ps(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)perm)), x, 4);
}

#define add_ints     _mm512_add_epi32
#define add_floats   _mm512_add_ps
#define zero_ints    _mm512_setzero_si512
#define zero_floats  _mm512_setzero_ps
#define total_ints   _mm512_reduce_add_epi32
#define total_floats _mm512_reduce_add_ps
#include "rsr/multipliers/gather.inc"
