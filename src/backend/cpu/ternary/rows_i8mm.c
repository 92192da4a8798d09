/* The ternary encodings on NEON with I8MM: one token by dot products, as its products are of two. */
#define TERN_LEVEL i8mm
#define TERN_GEMM  tern_cpu__ternary_gemm_i8mm
#include "backend/cpu/ternary/rows_dot.inc"
