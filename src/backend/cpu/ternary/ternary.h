/* The frame of the ternary kernels: how a product over many rows and tokens is cut up, and the functions that an
 * encoding gives to it.
 *
 * All kernels multiply raw codes (0, 1, 2 for -1, 0, +1) and take the sum of the activations away at the end:
 * sum (raw - 1) * x = sum raw * x - sum x. With one token, or a few, rows are multiplied straight from their packed
 * bytes; with more, a panel of rows is decoded once for all tokens. */
#ifndef TERN_BACKEND_CPU_TERNARY_TERNARY_H
#define TERN_BACKEND_CPU_TERNARY_TERNARY_H

#include <stdbool.h>

#include "backend/cpu/kernels.h"

/* How far ahead to prefetch when `n_rows` rows at a time are read side by side: the same rows of the next such group,
 * or of a later one for short rows. (A fixed distance would often hit rows of the same group that were read already.)
 */
static inline size_t tern_cpu__prefetch_bytes(size_t row_bytes, uint32_t n_rows)
{
    enum { NEAREST = 4096 };
    const size_t group = row_bytes * n_rows;
    return (NEAREST + group - 1) / group * group;
}

/* Before a loop over the registers of a tile: only unrolled do they stay registers. (With a sanitizer they do not, and
 * clang takes minutes for it.) */
#if !defined(__clang__)
#define TERN_UNROLL _Pragma("GCC unroll 16")
#elif __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TERN_UNROLL
#else
#define TERN_UNROLL _Pragma("unroll")
#endif

/* Arguments of tern_ternary_fn. */
typedef struct tern_cpu__product {
    const uint8_t *w;
    size_t row_bytes;
    uint32_t n_rows, cols;
    const tern_q8_rows *x;
    int32_t *dots;
    size_t dots_stride;
} tern_cpu__product;

/* Raw codes of columns first .. first + n - 1 of a row of `cols` columns to codes[0 .. n - 1]; may write on to the next
 * multiple of 64. first is a multiple of the panel_cols of the gemm it is given to, n at most that. */
typedef void (*tern_cpu__codes_fn)(const uint8_t *row, uint32_t cols, uint32_t first, uint32_t n, uint8_t *codes);

/* dots[r] = sum_c code(w[r][c]) * x[c] for all rows of p and one token. */
typedef void (*tern_cpu__gemv_fn)(const tern_cpu__product *p, const int8_t *x, int32_t sum, int32_t *dots);

/* Columns decoded at a time into a panel, a multiple of the encoding's block: what fits the first cache beside the
 * tokens. */
enum { TERN_PANEL_COLS = 512, TERN_PANEL_COLS_T160 = 640, TERN_PANEL_COLS_MAX = 640 };

/* The product for many tokens (any number is right), on rows decoded by `codes`, panel_cols columns at a time. */
typedef void tern_cpu__gemm(const tern_cpu__product *p, tern_cpu__codes_fn codes, uint32_t panel_cols);
extern tern_cpu__gemm tern_cpu__ternary_gemm_sse41, tern_cpu__ternary_gemm_avx2, tern_cpu__ternary_gemm_avxvnni,
    tern_cpu__ternary_gemm_avx512, tern_cpu__ternary_gemm_neon, tern_cpu__ternary_gemm_dotprod,
    tern_cpu__ternary_gemm_i8mm, tern_cpu__ternary_gemm_simd128;

/* Defines the kernel of a slot at a level: `gemv` below min_tokens tokens, the level's gemm from there. */
#define TERN_TERNARY_KERNEL(...) TERN_TERNARY_KERNEL_(__VA_ARGS__)
#define TERN_TERNARY_KERNEL_(slot, level, gemm, gemv, codes, panel_cols, min_tokens)                                   \
    void tern_cpu__##slot##_##level(const uint8_t *w, size_t row_bytes, uint32_t n_rows, uint32_t cols,                \
                                    const tern_q8_rows *x, int32_t *dots, size_t dots_stride)                          \
    {                                                                                                                  \
        const tern_cpu__product p = {w, row_bytes, n_rows, cols, x, dots, dots_stride};                                \
        if (x->n < (min_tokens)) tern_cpu__gemv_tokens(gemv, &p);                                                      \
        else gemm(&p, codes, panel_cols);                                                                              \
    }

/* Rows that stay in the first caches while one token after the other is multiplied with them. */
enum { TERN_GEMV_ROWS = 32 };

/* A few tokens: every token with a few rows, then the next rows, so that weights come from memory once. */
static inline void tern_cpu__gemv_tokens(tern_cpu__gemv_fn gemv, const tern_cpu__product *p)
{
    for (uint32_t r = 0; r < p->n_rows; r += TERN_GEMV_ROWS) {
        tern_cpu__product part = *p;
        part.w += r * p->row_bytes;
        part.n_rows = p->n_rows - r < TERN_GEMV_ROWS ? p->n_rows - r : TERN_GEMV_ROWS;
        for (uint32_t t = 0; t < p->x->n; t++)
            gemv(&part, p->x->x + t * p->x->stride, p->x->sums[t], p->dots + t * p->dots_stride + r);
    }
}

#endif
