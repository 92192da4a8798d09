/* Multiplying with RSR matrices: what a kernel for one unit of slices must compute. */
#ifndef TERN_OPS_REF_RSR_H
#define TERN_OPS_REF_RSR_H

#include <stdint.h>

#include "quant/rsr.h"

/* One unit of tern_rsr_slices: its slices and their vectors, from its first on. */
typedef struct tern_rsr_unit {
    const uint16_t *lengths, *masks, *index;
    uint32_t n_slices, k;
} tern_rsr_unit;

static inline tern_rsr_unit tern_rsr_unit_of(const tern_rsr_slices *s, uint32_t unit)
{
    const uint32_t slice = s->first_slice[unit];
    return (tern_rsr_unit){.lengths = s->lengths + slice,
                           .masks = s->masks + (size_t)slice * 2 * s->k,
                           .index = s->index + (size_t)s->first_vector[unit] * TERN_RSR_LANES,
                           .n_slices = s->first_slice[unit + 1] - slice,
                           .k = s->k};
}

/* Adds a unit's part to k rows.
 *
 *   s[slice][lane] = sum over steps of x[index[step][lane]]            in the order of the steps
 *   y[r]          += sum over slices and lanes of s[slice][lane] with the sign that the masks give it
 *
 *   x  in      the panel's inputs, x[columns of the panel] is 0; 3 bytes past that may be read
 *   y  in/out  [k]
 *
 * Ternary and binary (SIGNS is the caller's). Integers are exact modulo 2^32 in any order. Thread-safe on distinct y.
 * No allocation. */
typedef void (*tern_rsr_i8_fn)(const tern_rsr_unit *u, const int8_t *x, int32_t *y);
/* As above for 4 tokens, which one gather brings: x[column][4], x[columns of the panel] is 4 zeros; y[4][TERN_RSR_Y].
 */
enum { TERN_RSR_Y = 16 };
typedef void (*tern_rsr_i8x4_fn)(const tern_rsr_unit *u, const int8_t *x, int32_t *y);
void tern_ref_rsr_i8(const tern_rsr_unit *u, const int8_t *x, int32_t *y);
void tern_ref_rsr_i8x4(const tern_rsr_unit *u, const int8_t *x, int32_t *y);

#endif
