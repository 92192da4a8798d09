/* Ternary weights by columns on SSE4.1. */
#define TERN_LEVEL sse41
#include "backend/cpu/ternary/columns.inc"
