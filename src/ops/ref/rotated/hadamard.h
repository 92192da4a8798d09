/* Rows in a rotated basis: signs and a Hadamard transform of blocks. */
#ifndef TERN_OPS_REF_ROTATED_HADAMARD_H
#define TERN_OPS_REF_ROTATED_HADAMARD_H

#include <stdint.h>

/* Each block of n = `block` numbers of a row by the Sylvester matrix H, H[i][j] = (-1)^(bits that i and j share), which
 * is symmetric and, divided by sqrt(n), its own inverse.
 *
 *   forward:  v[c] = signs[c] * x[c];  v = H v;  y[c] = v[c] * s
 *   inverse:  v = H x;  y[c] = signs[c] * (v[c] * s)         s = (float)(1 / sqrt(n)), of the f64 quotient
 *
 * H v in stages of stride d = 1, 2, 4, .. n / 2, one after the other. Each pair a = v[i], b = v[i + d], with bit d of i
 * clear, becomes v[i] = a + b and v[i + d] = a - b in f32. A product with 1 or -1 is exact.
 *
 *   x      in   [cols] f32
 *   signs  in   [cols], each 1 or -1; NULL: all are 1
 *   cols        a multiple of block
 *   block       a power of two, at least 1
 *   y      out  [cols]; it may be x
 *
 * Exact bits: the same for every level and number of threads. */
typedef void (*tern_hadamard_fn)(const float *x, const float *signs, uint32_t cols, uint32_t block, float *y);

void tern_ref_hadamard(const float *x, const float *signs, uint32_t cols, uint32_t block, float *y);
void tern_ref_hadamard_inverse(const float *x, const float *signs, uint32_t cols, uint32_t block, float *y);

#endif
