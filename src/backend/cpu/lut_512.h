/* Look-up kernels on 512-bit registers, for the levels that differ in how bytes are looked up.
 *
 * Included at the end of one file for each, which defines before
 *
 *   #define TERN_LUT_NAME, TERN_LUT_TABLE (bytes of a group's tables), TERN_LUT_SHORT_GROUPS
 *   typedef struct tables;  static inline tables load_tables(const int8_t *table);
 *   static inline void look_up(const tables *t, __m512i codes, __m512i bytes[2]);   adds 64 rows to sums of low and of
 * high digits
 *
 * A strip is two registers of rows. */
#include <immintrin.h>
#include <string.h>

#include "backend/cpu/kernels.h"
#include "backend/cpu/ternary.h"

/* A strip is read in two places at a time, which keeps more of memory busy, above all with small pages; and how many
 * bytes prefetching runs ahead of each. */
enum {
    STREAMS = 2,
    AHEAD = 1024,
    STEP_GROUPS = STREAMS * TERN_LUT_BYTE_GROUPS,
    MOST_STEPS = TERN_LUT_SHORT_GROUPS / STEP_GROUPS
};

/* Adds bytes to 16-bit sums: low + 16 high, rows 0-7 of each 16 to the first register, 8-15 to the second. */
static inline __attribute__((always_inline)) void add_bytes(const __m512i bytes[2], __m512i sums[2])
{
    const __m512i weights = _mm512_set1_epi16(0x1001);
    sums[0] = _mm512_add_epi16(sums[0], _mm512_maddubs_epi16(weights, _mm512_unpacklo_epi8(bytes[0], bytes[1])));
    sums[1] = _mm512_add_epi16(sums[1], _mm512_maddubs_epi16(weights, _mm512_unpackhi_epi8(bytes[0], bytes[1])));
}

/* Adds 64 rows. */
static void add_shorts(const __m512i sums[2], int32_t *dots)
{
    _Alignas(64) int16_t rows[2][32];
    _mm512_store_si512(rows[0], sums[0]);
    _mm512_store_si512(rows[1], sums[1]);
    for (int q = 0; q < 4; q++, dots += 16) {
        const __m256i sixteen = _mm256_set_m128i(_mm_load_si128((const void *)(rows[1] + 8 * q)),
                                                 _mm_load_si128((const void *)(rows[0] + 8 * q)));
        _mm512_store_si512(dots, _mm512_add_epi32(_mm512_load_si512(dots), _mm512_cvtepi16_epi32(sixteen)));
    }
}

/* Adds n groups (a constant, at most TERN_LUT_BYTE_GROUPS) to the 16-bit sums. */
static inline __attribute__((always_inline)) void add_groups(const uint8_t *codes, const int8_t *table, uint32_t n,
                                                             __m512i sums[2][2])
{
    __m512i bytes[2][2];
    TERN_UNROLL for (int i = 0; i < 4; i++) bytes[i / 2][i % 2] = _mm512_setzero_si512();
    TERN_UNROLL for (uint32_t g = 0; g < n; g++)
    {
        const tables t = load_tables(table + g * TERN_LUT_TABLE);
        TERN_UNROLL for (uint32_t i = 0; i < 2; i++)
        {
            const uint8_t *rows = codes + g * TERN_LUT_ROWS + i * 64;
            _mm_prefetch((const char *)rows + AHEAD, _MM_HINT_T0);
            look_up(&t, _mm512_load_si512(rows), bytes[i]);
        }
    }
    TERN_UNROLL for (int i = 0; i < 2; i++) add_bytes(bytes[i], sums[i]);
}

/* Adds n steps of `step` groups in each of n_streams places that are `apart` groups apart (step and n_streams:
 * constants). */
static inline __attribute__((always_inline)) void add_steps(const uint8_t *codes, const int8_t *table, uint32_t n,
                                                            uint32_t step, uint32_t n_streams, size_t apart,
                                                            int32_t *dots)
{
    __m512i sums[2][2];
    TERN_UNROLL for (int i = 0; i < 4; i++) sums[i / 2][i % 2] = _mm512_setzero_si512();
    for (; n; n--, codes += step * TERN_LUT_ROWS, table += step * TERN_LUT_TABLE)
        TERN_UNROLL for (uint32_t s = 0; s < n_streams; s++)
            add_groups(codes + s * apart * TERN_LUT_ROWS, table + s * apart * TERN_LUT_TABLE, step, sums);
    for (int i = 0; i < 2; i++) add_shorts(sums[i], dots + 64 * i);
}

void TERN_LUT_NAME(const uint8_t *codes, const int8_t *table, uint32_t n_groups, int32_t *dots)
{
    const uint32_t n_steps = n_groups / STEP_GROUPS, apart = n_steps * TERN_LUT_BYTE_GROUPS;
    memset(dots, 0, TERN_LUT_ROWS * sizeof *dots);
    for (uint32_t done = 0, n; done < n_steps; done += n) {
        const size_t at = (size_t)done * TERN_LUT_BYTE_GROUPS;
        n = n_steps - done < MOST_STEPS ? n_steps - done : MOST_STEPS;
        add_steps(codes + at * TERN_LUT_ROWS, table + at * TERN_LUT_TABLE, n, TERN_LUT_BYTE_GROUPS, STREAMS, apart,
                  dots);
    }
    const size_t at = (size_t)apart * STREAMS;
    add_steps(codes + at * TERN_LUT_ROWS, table + at * TERN_LUT_TABLE, n_groups - n_steps * STEP_GROUPS, 1, 1, 0, dots);
}
