/* Ternary weights by columns on WebAssembly SIMD128. */
#define TERN_LEVEL simd128
#include "backend/cpu/ternary/columns.inc"
