/* Dense rows of every encoding on 64-bit ARM. */
#include "backend/cpu/floats_neon.h"

#include "backend/cpu/dense_plain.h"
#include "backend/cpu/k_quants_plain.h"
