/* Look-ups of five columns on AVX-512 with VBMI: one instruction looks 64 bytes up in a table of 128, by their low
 * seven bits. */
#include <immintrin.h>

#include "ops/ref/lut.h"

typedef struct tables {
    __m512i low[2], high[2]; /* entries 0-63, 64-127 */
} tables;

static inline tables load_tables(const int8_t *p)
{
    return (tables){.low = {_mm512_load_si512(p), _mm512_load_si512(p + 64)},
                    .high = {_mm512_load_si512(p + 128), _mm512_load_si512(p + 192)}};
}

static inline __attribute__((always_inline)) __m512i add_signed(__m512i sum, __mmask64 negative, __m512i x)
{
    return _mm512_add_epi8(sum, _mm512_mask_sub_epi8(x, negative, _mm512_setzero_si512(), x));
}

static inline __attribute__((always_inline)) void look_up(const tables *t, __m512i codes, __m512i bytes[2])
{
    const __mmask64 negative = _mm512_movepi8_mask(codes);
    bytes[0] = add_signed(bytes[0], negative, _mm512_permutex2var_epi8(t->low[0], codes, t->low[1]));
    bytes[1] = add_signed(bytes[1], negative, _mm512_permutex2var_epi8(t->high[0], codes, t->high[1]));
}

#define TERN_LUT_NAME         tern_cpu__lut5_avx512vbmi
#define TERN_LUT_TABLE        TERN_LUT5_TABLE
#define TERN_LUT_SHORT_GROUPS TERN_LUT5_SHORT_GROUPS
#include "backend/cpu/candidates/lut_512.inc"

/* The terms of entry i of a table: digits 0-2 and 3-4 of i in balanced ternary, as indices of 27 and 9 sums. */
static const uint8_t lower_of[128] = {
#define LOWER(i)   (uint8_t)((i) > TERN_LUT_MAX_INDEX ? 13 : ((i) + 13) % 27)
#define LOWER_4(i) LOWER(i), LOWER((i) + 1), LOWER((i) + 2), LOWER((i) + 3)
#define LOWER_32(i)                                                                                                    \
    LOWER_4(i), LOWER_4((i) + 4), LOWER_4((i) + 8), LOWER_4((i) + 12), LOWER_4((i) + 16), LOWER_4((i) + 20),           \
        LOWER_4((i) + 24), LOWER_4((i) + 28)
    LOWER_32(0), LOWER_32(32), LOWER_32(64), LOWER_32(96)};
static const uint8_t upper_of[128] = {
#define UPPER(i)   (uint8_t)((i) > TERN_LUT_MAX_INDEX ? 4 : ((i) + 13) / 27 + 4)
#define UPPER_4(i) UPPER(i), UPPER((i) + 1), UPPER((i) + 2), UPPER((i) + 3)
#define UPPER_32(i)                                                                                                    \
    UPPER_4(i), UPPER_4((i) + 4), UPPER_4((i) + 8), UPPER_4((i) + 12), UPPER_4((i) + 16), UPPER_4((i) + 20),           \
        UPPER_4((i) + 24), UPPER_4((i) + 28)
    UPPER_32(0), UPPER_32(32), UPPER_32(64), UPPER_32(96)};

/* Masks for 27 entries in a row, and the same in the upper half: where digit i is +1, and where it is -1. The 9 sums of
 * two digits are the first 9. */
static const uint64_t plus[3] = {0x4924924ull * 0x100000001ull, 0x70381c0ull * 0x100000001ull,
                                 0x7fc0000ull * 0x100000001ull};
static const uint64_t minus[3] = {0x1249249ull * 0x100000001ull, 0x01c0e07ull * 0x100000001ull,
                                  0x00001ffull * 0x100000001ull};

/* Digits of 32 inputs: low ones in the lower half, high ones in the upper. */
static inline __m512i digits(__m256i x)
{
    const __m256i eighths =
        _mm256_and_si256(_mm256_srli_epi16(_mm256_xor_si256(x, _mm256_set1_epi8((char)128)), 3), _mm256_set1_epi8(31));
    const __m256i high = _mm256_sub_epi8(_mm256_avg_epu8(eighths, _mm256_setzero_si256()), _mm256_set1_epi8(8));
    const __m256i sixteen = _mm256_and_si256(_mm256_slli_epi16(high, 4), _mm256_set1_epi8((char)0xf0));
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_sub_epi8(x, sixteen)), high, 1);
}

/* Sums of n inputs, from number `first` of d on. */
static inline __attribute__((always_inline)) __m512i sums_of(__m512i d, __m512i halves, int first, int n)
{
    __m512i sums = _mm512_setzero_si512();
    TERN_UNROLL for (int i = 0; i < n; i++)
    {
        const __m512i x = _mm512_permutexvar_epi8(_mm512_add_epi8(halves, _mm512_set1_epi8((char)(first + i))), d);
        sums = _mm512_mask_add_epi8(sums, plus[i], sums, x);
        sums = _mm512_mask_sub_epi8(sums, minus[i], sums, x);
    }
    return sums;
}

static inline __attribute__((always_inline)) void make_table(__m512i d, __m512i halves, int first, int8_t *out)
{
    const __m512i lower = sums_of(d, halves, first, 3), upper = sums_of(d, halves, first + 3, 2),
                  half = _mm512_set1_epi8(32);
    TERN_UNROLL for (int i = 0; i < 2; i++)
    {
        const __m512i a = _mm512_loadu_si512(lower_of + 64 * i), b = _mm512_loadu_si512(upper_of + 64 * i);
        _mm512_store_si512(out + 64 * i,
                           _mm512_add_epi8(_mm512_permutexvar_epi8(a, lower), _mm512_permutexvar_epi8(b, upper)));
        _mm512_store_si512(out + 128 + 64 * i,
                           _mm512_add_epi8(_mm512_permutexvar_epi8(_mm512_add_epi8(a, half), lower),
                                           _mm512_permutexvar_epi8(_mm512_add_epi8(b, half), upper)));
    }
}

void tern_cpu__lut5_tables_avx512vbmi(const int8_t *x, uint32_t n, int8_t *out)
{
    const __m512i halves = _mm512_inserti64x4(_mm512_setzero_si512(), _mm256_set1_epi8(32), 1);
    for (uint32_t c = 0; c < n; c += 30) {
        const uint32_t left = n - c < 30 ? n - c : 30;
        const __m512i d = digits(_mm256_maskz_loadu_epi8((__mmask32)((1u << left) - 1), x + c));
        for (uint32_t i = 0; i < left; i += 5, out += TERN_LUT5_TABLE) make_table(d, halves, (int)i, out);
    }
}
