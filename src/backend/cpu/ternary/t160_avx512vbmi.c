/* T160 on AVX-512 with VBMI: one instruction looks 64 bytes up in a 64-entry table, by their low six bits. */
#include <immintrin.h>

#include "backend/cpu/ternary/vectors_avx512.h"
#include "quant/t160.h"

typedef struct tables {
    __m512i low, high, high_fifth_64;
} tables;

static inline tables load_tables(void)
{
    return (tables){
        .low = _mm512_loadu_si512(tern_t160_low),
        .high = _mm512_loadu_si512(tern_t160_high),
        .high_fifth_64 = _mm512_slli_epi16(_mm512_loadu_si512(tern_t160_high_fifth), 6),
    };
}

static inline tern_avx512__t160 look_up(const tables *t, __m512i bytes)
{
    const __m512i top = _mm512_set1_epi8((char)0xc0);
    const __mmask64 high = _mm512_cmpge_epu8_mask(bytes, top);
    const __m512i low_four = _mm512_permutexvar_epi8(bytes, t->low);
    return (tern_avx512__t160){
        .four = _mm512_mask_permutexvar_epi8(low_four, high, bytes, t->high),
        .fifth_64 = _mm512_mask_permutexvar_epi8(_mm512_and_si512(bytes, top), high, bytes, t->high_fifth_64),
    };
}

#define TERN_LEVEL avx512vbmi
#include "backend/cpu/ternary/t160_512.inc"

void tern_avx512vbmi__codes_t160(const uint8_t *row, uint32_t cols, uint32_t first, uint32_t n, uint8_t *out)
{
    codes(row, cols, first, n, out);
}
