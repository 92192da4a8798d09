/* RSR slices on AVX-512: a step gathers the inputs of 16 groups, whose sums are one register. */
#include <immintrin.h>
#include <string.h>

#include "backend/cpu/kernels.h"

enum { AHEAD = 2048 }; /* bytes of the index array */

#define INLINE static inline __attribute__((always_inline))

/* Sums of 16 groups of int8 inputs: a gathered dword holds the input in its lowest byte, which is all that is
 * multiplied by 1. */
INLINE __m512i add_step_i8(__m512i sums, const uint16_t *index, const int8_t *x)
{
    const __m512i at = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)index));
    return _mm512_dpbusd_epi32(sums, _mm512_set1_epi32(1), _mm512_i32gather_epi32(at, x, 1));
}

/* k is a constant where rows are to stay in registers. */
INLINE void unit_i8(const tern_rsr_unit *u, uint32_t k, const int8_t *x, int32_t *y)
{
    const uint16_t *masks = u->masks, *index = u->index;
    __m512i rows[16];
    _Pragma("GCC unroll 16") for (uint32_t r = 0; r < k; r++) rows[r] = _mm512_setzero_si512();
    for (uint32_t slice = 0; slice < u->n_slices; slice++, masks += 2 * k) {
        __m512i sums = _mm512_setzero_si512();
        for (uint32_t s = u->lengths[slice]; s; s--, index += 16) {
            __builtin_prefetch((const char *)index + AHEAD);
            sums = add_step_i8(sums, index, x);
        }
        _Pragma("GCC unroll 16") for (uint32_t r = 0; r < k; r++)
        {
            rows[r] = _mm512_mask_add_epi32(rows[r], masks[r], rows[r], sums);
            rows[r] = _mm512_mask_sub_epi32(rows[r], masks[k + r], rows[r], sums);
        }
    }
    _Pragma("GCC unroll 16") for (uint32_t r = 0; r < k; r++) y[r] += _mm512_reduce_add_epi32(rows[r]);
}

enum { RUN = 255 }; /* steps whose sums of int8 fit 16 bits */

/* The sums of 4 tokens over `steps` steps, token 0 in the lowest byte of a gathered dword. */
INLINE void sums_i8x4(const uint16_t *index, uint32_t steps, const int8_t *x, __m512i sums[4])
{
    for (uint32_t left = steps; left;) {
        const uint32_t n = left < RUN ? left : RUN;
        __m512i even = _mm512_setzero_si512(), odd = even;
        for (uint32_t s = 0; s < n; s++, index += 16) {
            __builtin_prefetch((const char *)index + AHEAD);
            const __m512i v =
                _mm512_i32gather_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)index)), x, 4);
            even = _mm512_add_epi16(even, _mm512_srai_epi16(_mm512_slli_epi16(v, 8), 8));
            odd = _mm512_add_epi16(odd, _mm512_srai_epi16(v, 8));
        }
        sums[0] = _mm512_add_epi32(sums[0], _mm512_srai_epi32(_mm512_slli_epi32(even, 16), 16));
        sums[1] = _mm512_add_epi32(sums[1], _mm512_srai_epi32(_mm512_slli_epi32(odd, 16), 16));
        sums[2] = _mm512_add_epi32(sums[2], _mm512_srai_epi32(even, 16));
        sums[3] = _mm512_add_epi32(sums[3], _mm512_srai_epi32(odd, 16));
        left -= n;
    }
}

INLINE void unit_i8x4(const tern_rsr_unit *u, uint32_t k, const int8_t *x, int32_t *y)
{
    const uint16_t *masks = u->masks, *index = u->index;
    __m512i rows[16][4];
    _Pragma("GCC unroll 16") for (uint32_t r = 0; r < k; r++) for (int t = 0; t < 4; t++) rows[r][t] =
        _mm512_setzero_si512();
    for (uint32_t slice = 0; slice < u->n_slices; slice++, masks += 2 * k) {
        __m512i sums[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(),
                           _mm512_setzero_si512()};
        sums_i8x4(index, u->lengths[slice], x, sums);
        index += (size_t)u->lengths[slice] * 16;
        _Pragma("GCC unroll 16") for (uint32_t r = 0; r < k; r++)
        {
            const __mmask16 pos = masks[r], neg = masks[k + r];
            _Pragma("GCC unroll 4") for (int t = 0; t < 4; t++)
            {
                rows[r][t] = _mm512_mask_add_epi32(rows[r][t], pos, rows[r][t], sums[t]);
                rows[r][t] = _mm512_mask_sub_epi32(rows[r][t], neg, rows[r][t], sums[t]);
            }
        }
    }
    _Pragma("GCC unroll 16") for (uint32_t r = 0; r < k; r++) for (uint32_t t = 0; t < 4; t++) y[t * TERN_RSR_Y + r] +=
        _mm512_reduce_add_epi32(rows[r][t]);
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

void tern_cpu__rsr_i8_avx512(const tern_rsr_unit *u, const int8_t *x, int32_t *y)
{
    BY_K(unit_i8)
}

void tern_cpu__rsr_i8x4_avx512(const tern_rsr_unit *u, const int8_t *x, int32_t *y)
{
    BY_K(unit_i8x4)
}
