/* Ternary rows times many tokens on AVX2. Two products of at most 256 make a 16-bit sum; 64 of those reach -32768 at
 * worst, so sums are widened after 64 steps. */
#include "backend/cpu/ternary/gemm_256.h"

enum { TOKENS = 6, RUN = 64 };
#define TERN_GEMM     tern_cpu__ternary_gemm_avx2
#define TERN_TILES(X) X(1) X(2) X(3) X(4) X(5) X(6)

static inline sum add_step(sum s, vector codes, vector x)
{
    return _mm256_add_epi16(s, _mm256_maddubs_epi16(codes, x));
}

static inline void add_sums(int32_t *dots, uint32_t n, bool first, int32_t start, sum s)
{
    add_sums_32(dots, n, first, start, _mm256_madd_epi16(s, _mm256_set1_epi16(1)));
}

#include "backend/cpu/ternary/gemm.inc"
