/* Scales of rows in lanes, for the level whose vectors are included before. */
#ifndef TERN_BACKEND_CPU_BLOCKS_SCALES_H
#define TERN_BACKEND_CPU_BLOCKS_SCALES_H

#include "backend/cpu/blocks/unpack.h"
#include "backend/cpu/floats/floats.h"

/* The scales d of VEC rows, as unpacked.d has them. */
INLINE vec load_d(const form e, const uint16_t *d)
{
    return e.powers ? vec_mul(vec_set(0.5f), vec_max(vec_load_bf16(d), vec_set(0x1p-127f))) : vec_load_f16(d);
}

#endif
