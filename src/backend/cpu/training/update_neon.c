/* The optimiser on NEON. */
#define LEVEL neon

#include "backend/cpu/training/requantize.inc"
#include "backend/cpu/training/update.inc"
