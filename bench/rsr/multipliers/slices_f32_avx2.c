/* RSR slices with f32 inputs on AVX2: two gathers for the 16 groups of a step. */
#include <immintrin.h>
#include <string.h>

#include "rsr/multipliers/slices_f32.h"

enum { AHEAD = 2048 }; /* bytes of the index array */

#define INLINE static inline __attribute__((always_inline))

extern __typeof__(*(rsr_f32_fn)0) rsr_f32_avx2;

typedef struct halves_f32 {
    __m256 low, high;
} halves_f32;

INLINE __m256 gather_f32(const uint16_t *index, const float *x)
{
    return _mm256_i32gather_ps(x, _mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)index)), 4);
}

/* All ones in the lanes of bits first .. first + 7. */
INLINE __m256i spread(uint16_t mask, int first)
{
    const __m256i bits = _mm256_slli_epi32(_mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128), first);
    return _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(mask), bits), bits);
}

/* Lanes that are not masked keep their bits. */
INLINE __m256 signed_f32(__m256 row, uint16_t pos, uint16_t neg, int first, __m256 sums)
{
    row = _mm256_blendv_ps(row, _mm256_add_ps(row, sums), _mm256_castsi256_ps(spread(pos, first)));
    return _mm256_blendv_ps(row, _mm256_sub_ps(row, sums), _mm256_castsi256_ps(spread(neg, first)));
}

/* The tree of ops/ref/lanes.h. */
INLINE float tree(halves_f32 v)
{
    const __m256 a = _mm256_add_ps(v.low, v.high);
    const __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_shuffle_ps(c, c, 1))) + 0.0f;
}

void rsr_f32_avx2(const tern_rsr_unit *u, const float *x, float *y)
{
    const uint32_t k = u->k;
    const uint16_t *masks = u->masks, *index = u->index;
    halves_f32 rows[16];
    memset(rows, 0, sizeof rows);
    for (uint32_t slice = 0; slice < u->n_slices; slice++, masks += 2 * k) {
        halves_f32 sums = {_mm256_setzero_ps(), _mm256_setzero_ps()};
        for (uint32_t s = u->lengths[slice]; s; s--, index += 16) {
            __builtin_prefetch((const char *)index + AHEAD);
            sums.low = _mm256_add_ps(sums.low, gather_f32(index, x));
            sums.high = _mm256_add_ps(sums.high, gather_f32(index + 8, x));
        }
        for (uint32_t r = 0; r < k; r++) {
            rows[r].low = signed_f32(rows[r].low, masks[r], masks[k + r], 0, sums.low);
            rows[r].high = signed_f32(rows[r].high, masks[r], masks[k + r], 8, sums.high);
        }
    }
    for (uint32_t r = 0; r < k; r++) y[r] += tree(rows[r]);
}
