/* Ternary weights by columns on NEON. */
#define TERN_LEVEL neon
#include "backend/cpu/ternary/columns.inc"
