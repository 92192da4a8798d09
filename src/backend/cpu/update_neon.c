/* The optimiser on NEON. */
#define LEVEL neon

#include "backend/cpu/update_body.h"
