/* Look-ups of three columns on AVX2: tables of 16 bytes in both halves of a register. (With two columns they were a
 * quarter slower or more; the tables of two serve AVX-512.) */
#include <immintrin.h>
#include <string.h>

#include "backend/cpu/kernels.h"
#include "backend/cpu/ternary/ternary.h"

/* A strip is read in two places at a time, which keeps more of memory busy; and how many bytes prefetching runs ahead
 * of each. */
enum {
    WIDTH = 32,
    VECTORS = TERN_LUT_ROWS / WIDTH,
    GROUP = TERN_LUT_MAX_BYTES * TERN_LUT_ROWS,
    TRIPLE = TERN_LUT3_TABLE / TERN_LUT3_TRIPLES,
    STREAMS = 2,
    AHEAD = GROUP,
    MOST_STEPS = TERN_LUT3_SHORT_GROUPS / STREAMS
};

/* Sums of low and of high digits. */
typedef struct bytes {
    __m256i low, high;
} bytes;

static inline __m256i half(const int8_t *p)
{
    return _mm256_broadcastsi128_si256(_mm_load_si128((const void *)p));
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

static inline __m256i load(const uint8_t *p)
{
    return _mm256_load_si256((const void *)p);
}

/* Adds bytes to 16-bit sums: low + 16 high, rows 0-7 of each 16 to the first register, 8-15 to the second. */
static inline void add_bytes(const bytes *b, __m256i sums[2])
{
    const __m256i weights = _mm256_set1_epi16(0x1001);
    sums[0] = _mm256_add_epi16(sums[0], _mm256_maddubs_epi16(weights, _mm256_unpacklo_epi8(b->low, b->high)));
    sums[1] = _mm256_add_epi16(sums[1], _mm256_maddubs_epi16(weights, _mm256_unpackhi_epi8(b->low, b->high)));
}

/* (Without the attribute gcc finds that it does nothing, and drops it.) */
static inline __attribute__((always_inline)) void fetch_ahead(const uint8_t *p)
{
    _mm_prefetch((const char *)p + AHEAD, _MM_HINT_T0);
}

/* Adds a group of 32 rows. The sign of the next triple is always bit 7: adding a byte of signs to itself brings the
 * next there. Its bit 0, which is 1, keeps the byte from being 0: vpsignb gives 0 for that.
 * Inlined into a loop over rows, it would have its tables copied to the stack first, which took a tenth longer. */
static __attribute__((noinline)) void add_triples(const uint8_t *codes, const int8_t *table, bool ahead,
                                                  __m256i sums[2])
{
    const __m256i four = _mm256_set1_epi8(15), none = _mm256_setzero_si256();
    const uint8_t *indices = codes + TERN_LUT3_SIGNS * TERN_LUT3_ROWS;
    __m256i signs = none, pair = none;
    bytes b = {none, none};
    TERN_UNROLL for (int t = 0; t < TERN_LUT3_TRIPLES; t++, table += TRIPLE)
    {
        if (ahead && t % 7 == 0) fetch_ahead(codes + t / 7 * TERN_LUT3_ROWS);
        if (ahead && t % 2 == 0) fetch_ahead(indices + t / 2 * TERN_LUT3_ROWS);
        signs = t % 7 == 0 ? load(codes + t / 7 * TERN_LUT3_ROWS) : _mm256_add_epi8(signs, signs);
        if (t % 2 == 0) pair = load(indices + t / 2 * TERN_LUT3_ROWS);
        const __m256i index = _mm256_and_si256(t % 2 ? _mm256_srli_epi16(pair, 4) : pair, four);
        b.low = _mm256_add_epi8(b.low, _mm256_sign_epi8(_mm256_shuffle_epi8(half(table), index), signs));
        b.high = _mm256_add_epi8(b.high, _mm256_sign_epi8(_mm256_shuffle_epi8(half(table + 16), index), signs));
        if (t % TERN_LUT3_BYTE_TRIPLES == TERN_LUT3_BYTE_TRIPLES - 1 || t == TERN_LUT3_TRIPLES - 1) {
            add_bytes(&b, sums);
            b = (bytes){none, none};
        }
    }
}

/* Adds n groups in each of n_streams places that are `apart` groups apart. */
static void add_steps(const uint8_t *codes, const int8_t *table, uint32_t n, uint32_t n_streams, size_t apart,
                      int32_t *dots)
{
    __m256i sums[2 * VECTORS];
    TERN_UNROLL for (int i = 0; i < 2 * VECTORS; i++) sums[i] = _mm256_setzero_si256();
    for (; n; n--, codes += GROUP, table += TERN_LUT3_TABLE)
        for (uint32_t s = 0; s < n_streams; s++)
            for (int v = 0; v < VECTORS; v += 2) {
                const uint8_t *rows = codes + s * apart * GROUP + v / 2 * TERN_LUT3_ROWS * TERN_LUT_MAX_BYTES;
                const int8_t *sums_of = table + s * apart * TERN_LUT3_TABLE;
                add_triples(rows, sums_of, true, sums + 2 * v);
                add_triples(rows + WIDTH, sums_of, false, sums + 2 * v + 2);
            }
    add_shorts(sums, dots);
}

void tern_cpu__lut3_avx2(const uint8_t *codes, const int8_t *table, uint32_t n_groups, int32_t *dots)
{
    const uint32_t n_steps = n_groups / STREAMS;
    memset(dots, 0, TERN_LUT_ROWS * sizeof *dots);
    for (uint32_t done = 0, n; done < n_steps; done += n) {
        n = n_steps - done < MOST_STEPS ? n_steps - done : MOST_STEPS;
        add_steps(codes + (size_t)done * GROUP, table + (size_t)done * TERN_LUT3_TABLE, n, STREAMS, n_steps, dots);
    }
    const size_t at = (size_t)n_steps * STREAMS;
    if (n_groups > at) add_steps(codes + at * GROUP, table + at * TERN_LUT3_TABLE, n_groups - (uint32_t)at, 1, 0, dots);
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

static inline __m256i times(__m256i d, int at, __m256i codes)
{
    return _mm256_sign_epi8(_mm256_shuffle_epi8(d, _mm256_set1_epi8((char)at)), codes);
}

/* Tables of three inputs, from number `first` of d on: digits of 0 .. 13 in balanced ternary. */
static inline __m256i triple_table(__m256i d, int first)
{
    const __m256i a = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, -1, 0, 1, -1, 0, 1, -1, 0, 1, -1, 0, 1, 0, 0));
    const __m256i b = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 0, 1, 1, 1, -1, -1, -1, 0, 0, 0, 1, 1, 1, 0, 0));
    const __m256i c = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0));
    return _mm256_add_epi8(_mm256_add_epi8(times(d, first, a), times(d, first + 1, b)), times(d, first + 2, c));
}

void tern_cpu__lut3_tables_avx2(const int8_t *x, uint32_t n, int8_t *out)
{
    const uint32_t cols = tern_lut_groups(3, n) * tern_lut_group_cols(3);
    for (uint32_t c = 0; c < cols; c += 15) {
        const uint32_t left = n < c ? 0 : n - c < 15 ? n - c : 15;
        int8_t some[16] = {0};
        memcpy(some, x + (left ? c : 0), left);
        const __m256i d = digits(_mm_loadu_si128((const void *)some));
        for (uint32_t i = 0; i < 15 && c + i < cols; i += 3, out += TRIPLE)
            _mm256_store_si256((void *)out, triple_table(d, (int)i));
    }
}
