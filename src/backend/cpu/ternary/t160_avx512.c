/* T160 on AVX-512 without VBMI: the pairs of codes are looked up in 16-entry tables, by three or four bits of the byte.
 */
#include <immintrin.h>

#include "backend/cpu/ternary/vectors_avx512.h"
#include "quant/t160.h"

/* pair: two codes by p (bits 0-2) or q (bits 3-5); escape: four codes by the low nibble of 0xc0 .. 0xef; last,
 * last_fifth: by that of 0xf0 .. 0xff. */
typedef struct tables {
    __m512i pair, escape, last, last_fifth;
} tables;

static inline __m512i table_16(const uint8_t *entries)
{
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)entries));
}

static inline tables load_tables(void)
{
    return (tables){
        .pair = table_16(tern_t160_low),
        .escape = table_16(tern_t160_high),
        .last = table_16(tern_t160_high + 48),
        .last_fifth = table_16(tern_t160_high_fifth + 48),
    };
}

static inline tern_avx512__t160 look_up(const tables *t, __m512i bytes)
{
    const __m512i seven = _mm512_set1_epi8(7), top = _mm512_set1_epi8((char)0xc0);
    const __m512i nibble = _mm512_and_si512(bytes, _mm512_set1_epi8(15));
    const __mmask64 high = _mm512_cmpge_epu8_mask(bytes, top);
    const __mmask64 last = _mm512_cmpge_epu8_mask(bytes, _mm512_set1_epi8((char)0xf0));
    const __m512i p = _mm512_shuffle_epi8(t->pair, _mm512_and_si512(bytes, seven));
    const __m512i q = _mm512_shuffle_epi8(t->pair, _mm512_and_si512(_mm512_srli_epi16(bytes, 3), seven));
    __m512i four = _mm512_or_si512(p, _mm512_slli_epi16(q, 4));
    four = _mm512_mask_shuffle_epi8(four, high, t->escape, nibble);
    four = _mm512_mask_shuffle_epi8(four, last, t->last, nibble);
    __m512i fifth = _mm512_mask_mov_epi8(bytes, high, _mm512_slli_epi16(bytes, 2));
    fifth = _mm512_mask_mov_epi8(fifth, last, _mm512_slli_epi16(_mm512_shuffle_epi8(t->last_fifth, nibble), 6));
    return (tern_avx512__t160){.four = four, .fifth_64 = _mm512_and_si512(fifth, top)};
}

#define TERN_LEVEL avx512
#include "backend/cpu/ternary/t160_512.inc"
