/* Look-ups of two columns on AVX2: tables of 16 bytes in both halves of a register. */
#include <immintrin.h>
#include <string.h>

#include "backend/cpu/kernels.h"
#include "backend/cpu/ternary.h"

enum { WIDTH = 32, VECTORS = TERN_LUT_ROWS / WIDTH, AHEAD = 2048 /* bytes that prefetching runs ahead */ };

/* Sums of low and of high digits. */
typedef struct bytes {
    __m256i low, high;
} bytes;

static inline __m256i half(const int8_t *p)
{
    return _mm256_broadcastsi128_si256(_mm_load_si128((const void *)p));
}

static inline __attribute__((always_inline)) void look_up(const int8_t *table, __m256i codes, bytes *b)
{
    const __m256i four = _mm256_set1_epi8(15);
    const __m256i first = _mm256_and_si256(codes, four), second = _mm256_and_si256(_mm256_srli_epi16(codes, 4), four);
    b->low = _mm256_add_epi8(b->low, _mm256_shuffle_epi8(half(table), first));
    b->high = _mm256_add_epi8(b->high, _mm256_shuffle_epi8(half(table + 16), first));
    b->low = _mm256_add_epi8(b->low, _mm256_shuffle_epi8(half(table + 32), second));
    b->high = _mm256_add_epi8(b->high, _mm256_shuffle_epi8(half(table + 48), second));
}

/* Adds n groups (a constant, at most TERN_LUT_BYTE_GROUPS) to 16-bit sums: of each 16 rows 0-7, then, in another
 * register, 8-15. */
static inline __attribute__((always_inline)) void add_groups(const uint8_t *codes, const int8_t *table, uint32_t n,
                                                             __m256i sums[2 * VECTORS])
{
    const __m256i weights = _mm256_set1_epi16(0x1001);
    TERN_UNROLL for (int v = 0; v < VECTORS; v++)
    {
        bytes b = {_mm256_setzero_si256(), _mm256_setzero_si256()};
        TERN_UNROLL for (uint32_t g = 0; g < n; g++)
        {
            const uint8_t *rows = codes + g * TERN_LUT_ROWS + v * WIDTH;
            if (v % 2 == 0) _mm_prefetch((const char *)rows + AHEAD, _MM_HINT_T0);
            look_up(table + g * TERN_LUT2_TABLE, _mm256_load_si256((const void *)rows), &b);
        }
        sums[2 * v] = _mm256_add_epi16(sums[2 * v], _mm256_maddubs_epi16(weights, _mm256_unpacklo_epi8(b.low, b.high)));
        sums[2 * v + 1] =
            _mm256_add_epi16(sums[2 * v + 1], _mm256_maddubs_epi16(weights, _mm256_unpackhi_epi8(b.low, b.high)));
    }
}

static inline void add_eight(__m128i rows, int32_t *dots)
{
    _mm256_store_si256((void *)dots,
                       _mm256_add_epi32(_mm256_load_si256((const void *)dots), _mm256_cvtepi16_epi32(rows)));
}

static void add_shorts(const __m256i sums[2 * VECTORS], int32_t *dots)
{
    for (int i = 0; i < 2 * VECTORS; i++) {
        int32_t *rows = dots + i / 2 * WIDTH + i % 2 * 8;
        add_eight(_mm256_castsi256_si128(sums[i]), rows);
        add_eight(_mm256_extracti128_si256(sums[i], 1), rows + 16);
    }
}

void tern_cpu__lut2_avx2(const uint8_t *codes, const int8_t *table, uint32_t n_groups, int32_t *dots)
{
    memset(dots, 0, TERN_LUT_ROWS * sizeof *dots);
    while (n_groups) {
        uint32_t n = n_groups < TERN_LUT2_SHORT_GROUPS ? n_groups : TERN_LUT2_SHORT_GROUPS;
        __m256i sums[2 * VECTORS];
        TERN_UNROLL for (int i = 0; i < 2 * VECTORS; i++) sums[i] = _mm256_setzero_si256();
        n_groups -= n;
        for (; n >= 3; n -= 3, codes += 3 * TERN_LUT_ROWS, table += 3 * TERN_LUT2_TABLE)
            add_groups(codes, table, 3, sums);
        for (; n; n--, codes += TERN_LUT_ROWS, table += TERN_LUT2_TABLE) add_groups(codes, table, 1, sums);
        add_shorts(sums, dots);
    }
}

/* Digits of 16 inputs: low ones in the lower half, high ones in the upper. */
static inline __m256i digits(__m128i x)
{
    const __m128i eighths =
        _mm_and_si128(_mm_srli_epi16(_mm_xor_si128(x, _mm_set1_epi8((char)128)), 3), _mm_set1_epi8(31));
    const __m128i high = _mm_sub_epi8(_mm_avg_epu8(eighths, _mm_setzero_si128()), _mm_set1_epi8(8));
    const __m128i sixteen = _mm_and_si128(_mm_slli_epi16(high, 4), _mm_set1_epi8((char)0xf0));
    return _mm256_set_m128i(high, _mm_sub_epi8(x, sixteen));
}

/* Tables of a pair: digit `first` with the first code of each index, the next one with the second. */
static inline __m256i pair_table(__m256i d, int first)
{
    const __m256i a = _mm256_broadcastsi128_si256(_mm_setr_epi8(-1, -1, -1, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0));
    const __m256i b = _mm256_broadcastsi128_si256(_mm_setr_epi8(-1, 0, 1, -1, 0, 1, -1, 0, 1, 0, 0, 0, 0, 0, 0, 0));
    const __m256i x = _mm256_shuffle_epi8(d, _mm256_set1_epi8((char)first)),
                  y = _mm256_shuffle_epi8(d, _mm256_set1_epi8((char)(first + 1)));
    return _mm256_add_epi8(_mm256_sign_epi8(x, a), _mm256_sign_epi8(y, b));
}

void tern_cpu__lut2_tables_avx2(const int8_t *x, uint32_t n, int8_t *out)
{
    for (uint32_t c = 0; c < n; c += 16) {
        const uint32_t left = n - c < 16 ? n - c : 16;
        int8_t some[16] = {0};
        if (left < 16) memcpy(some, x + c, left);
        const __m256i d = digits(_mm_loadu_si128((const void *)(left < 16 ? some : x + c)));
        for (uint32_t i = 0; i < left; i += 4, out += TERN_LUT2_TABLE) {
            _mm256_store_si256((void *)out, pair_table(d, (int)i));
            _mm256_store_si256((void *)(out + 32), pair_table(d, (int)i + 2));
        }
    }
}
