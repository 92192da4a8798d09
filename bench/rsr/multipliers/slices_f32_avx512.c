/* RSR slices with f32 inputs on AVX-512: a step gathers the inputs of 16 groups. */
#include <immintrin.h>
#include <string.h>

#include "rsr/multipliers/slices_f32.h"

enum { AHEAD = 2048 }; /* bytes of the index array */

#define INLINE static inline __attribute__((always_inline))

extern __typeof__(*(rsr_f32_fn)0) rsr_f32_avx512;

INLINE __m512 add_step_f32(__m512 sums, const uint16_t *index, const float *x)
{
    const __m512i at = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)index));
    return _mm512_add_ps(sums, _mm512_i32gather_ps(at, x, 4));
}

/* The tree of ops/ref/lanes.h. */
INLINE float tree(__m512 v)
{
    const __m256 a = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    const __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_shuffle_ps(c, c, 1))) + 0.0f;
}

INLINE void unit_f32(const tern_rsr_unit *u, uint32_t k, const float *x, float *y)
{
    const uint16_t *masks = u->masks, *index = u->index;
    __m512 rows[16];
    _Pragma("GCC unroll 16") for (uint32_t r = 0; r < k; r++) rows[r] = _mm512_setzero_ps();
    for (uint32_t slice = 0; slice < u->n_slices; slice++, masks += 2 * k) {
        __m512 sums = _mm512_setzero_ps();
        for (uint32_t s = u->lengths[slice]; s; s--, index += 16) {
            __builtin_prefetch((const char *)index + AHEAD);
            sums = add_step_f32(sums, index, x);
        }
        _Pragma("GCC unroll 16") for (uint32_t r = 0; r < k; r++)
        {
            rows[r] = _mm512_mask_add_ps(rows[r], masks[r], rows[r], sums);
            rows[r] = _mm512_mask_sub_ps(rows[r], masks[k + r], rows[r], sums);
        }
    }
    _Pragma("GCC unroll 16") for (uint32_t r = 0; r < k; r++) y[r] += tree(rows[r]);
}

#define BY_K(unit)                                                                                                     \
    switch (u->k) {                                                                                                    \
    case 2: unit(u, 2, x, y); break;                                                                                   \
    case 3: unit(u, 3, x, y); break;                                                                                   \
    case 4: unit(u, 4, x, y); break;                                                                                   \
    case 5: unit(u, 5, x, y); break;                                                                                   \
    case 6: unit(u, 6, x, y); break;                                                                                   \
    case 7: unit(u, 7, x, y); break;                                                                                   \
    case 8: unit(u, 8, x, y); break;                                                                                   \
    default: unit(u, u->k, x, y); break;                                                                               \
    }

void rsr_f32_avx512(const tern_rsr_unit *u, const float *x, float *y)
{
    BY_K(unit_f32)
}
