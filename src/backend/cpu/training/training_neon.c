/* The kernels of training on 64-bit ARM: the backward of rows, products of f32 matrices and weights as floats, the
 * optimiser. */
#include "backend/cpu/floats/neon.h"

enum { GEMM_ROWS = 8, GEMM_VECS = 3 };

#include "backend/cpu/training/backward.inc"
#include "backend/cpu/training/decode.inc"
#include "backend/cpu/training/gemm.inc"
#include "backend/cpu/training/requantize.inc"
#include "backend/cpu/training/update.inc"
