/* RSR slices with f32 inputs: for comparing with the papers, whose kernels take floats. */
#ifndef TERN_BENCH_RSR_SLICES_F32_H
#define TERN_BENCH_RSR_SLICES_F32_H

#include "ops/ref/rsr.h"

/* Adds a unit's part to k rows, as tern_rsr_i8_fn does; exact bits: each row has 16 lanes, which take the slices one
 * after the other (a masked lane adds or subtracts, others stay), then the tree of ops/ref/lanes.h, then y.
 *
 *   x  in      the panel's inputs, x[columns of the panel] is 0
 *   y  in/out  [k] */
typedef void (*rsr_f32_fn)(const tern_rsr_unit *u, const float *x, float *y);

typedef struct rsr_f32_kernel {
    const char *level;
    uint32_t needed; /* tern_cpu_feature bits */
    rsr_f32_fn fn;
} rsr_f32_kernel;

/* Plain C, which is the definition, first; better ones after it, up to one whose level is NULL. */
extern const rsr_f32_kernel rsr_f32_kernels[];
/* The last of them that a CPU with these features can run. */
rsr_f32_fn rsr_f32_best(uint32_t features);

#endif
