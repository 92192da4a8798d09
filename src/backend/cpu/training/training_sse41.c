/* The kernels of training on SSE4.1: the backward of rows, products of f32 matrices and weights as floats, the
 * optimiser. */
#include "backend/cpu/floats/sse41.h"

enum { GEMM_ROWS = 4, GEMM_VECS = 2 };

#include "backend/cpu/training/backward.inc"
#include "backend/cpu/training/decode.inc"
#include "backend/cpu/training/gemm.inc"
#include "backend/cpu/training/requantize.inc"
#include "backend/cpu/training/update.inc"
