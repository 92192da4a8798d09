/* The product of two-bit codes with some tokens on AVX-512. */
#ifndef TERN_BACKEND_CPU_TERNARY_FEW_AVX512_H
#define TERN_BACKEND_CPU_TERNARY_FEW_AVX512_H

#include "backend/cpu/ternary/ternary.h"

/* Tokens for which it is faster than one after another, and than panels. */
enum { TERN_AVX512_FEW_MIN = 2, TERN_AVX512_FEW_MAX = 48 };

/* dots[t][r] = sum_c code(w[r][c]) * x[t][c] for all rows and tokens of p. Groups of 128 codes are 32 bytes, of which
 * bits of one significance are 32 elements in a row; two of them lie pair_bytes from the next two. shift[i]: where
 * elements 32 i .. 32 i + 31 of a group begin in its bytes. Exact. Thread-safe on distinct dots. */
void tern_avx512__few(const tern_cpu__product *p, uint32_t pair_bytes, const uint8_t shift[4]);

#endif
