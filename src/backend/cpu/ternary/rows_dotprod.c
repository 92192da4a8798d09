/* The ternary encodings on NEON with dot products. */
#define TERN_LEVEL dotprod
#define TERN_GEMM  tern_cpu__ternary_gemm_dotprod
#include "backend/cpu/ternary/rows_dot.inc"
