/* Dense rows of every encoding on 64-bit ARM. */
#include "backend/cpu/floats_neon.h"

#include "backend/cpu/floats_plain.h"
#include "backend/cpu/quants_plain.h"
