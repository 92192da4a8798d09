/* The optimiser on NEON. */
#define LEVEL neon

#include "backend/cpu/requantize_body.h"
#include "backend/cpu/update_body.h"
