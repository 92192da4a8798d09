/* Ternary weights by columns on AVX2. */
#define TERN_LEVEL avx2
#include "backend/cpu/ternary/columns.inc"
