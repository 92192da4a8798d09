/* RSR products on groups, one for each step of the documents' way from the algorithm to its fast kernels. They are what
 * bench_rsr measures beside the slices that Tern serves with, and what tests compare those with.
 *
 *   y[i] += sum over groups of sign(group, i) * (sum over the group's columns c of x[c])      i below k
 *
 * Integers are exact; f32 sums of a group run in the order of its columns (gathers: in 8 or 16 lanes). Binary and
 * ternary alike. */
#ifndef TERN_BACKEND_CPU_RSR_STEPS_H
#define TERN_BACKEND_CPU_RSR_STEPS_H

#include "quant/rsr.h"

/* One unit. Masks as tern_rsr_groups has them; lists as tern_cpu__rsr_lists makes them. */
typedef struct tern_cpu__rsr_block {
    uint32_t n_groups, n_columns;
    const uint16_t *perm;
    const tern_rsr_group *groups;
    const uint32_t *wide_perm, *wide_ends; /* the same numbers in 32 bits */
    const uint32_t *first_row;             /* [n_groups + 1] into rows and signs */
    const uint16_t *rows;                  /* of the block, that a group's sum goes to */
    const int8_t *signs;
} tern_cpu__rsr_block;

/* X(name, what it is): room is [n_columns + 16] of the type of y. Levels: _plain for all, those of SIMD gathers _avx2
 * and _avx512. */
#define TERN_CPU_RSR_STEPS(X)                                                                                          \
    X(lists, "signed scatter lists, 32-bit numbers")                                                                   \
    X(lists16, "16-bit columns, groups of up to 4 without a loop")                                                     \
    X(masks, "two 16-bit masks for each group")                                                                        \
    X(permuted, "inputs copied in the order of the columns, then summed")                                              \
    X(direct, "no copy: loads unrolled by 8, prefetched")

typedef void tern_cpu__rsr_step_i8(const tern_cpu__rsr_block *b, const int8_t *x, int32_t *room, int32_t *y);
typedef void tern_cpu__rsr_step_f32(const tern_cpu__rsr_block *b, const float *x, float *room, float *y);

#define TERN_CPU_RSR_STEP(name, words)                                                                                 \
    tern_cpu__rsr_step_i8 tern_cpu__rsr_##name##_i8;                                                                   \
    tern_cpu__rsr_step_f32 tern_cpu__rsr_##name##_f32;
TERN_CPU_RSR_STEPS(TERN_CPU_RSR_STEP)
#undef TERN_CPU_RSR_STEP

/* All of them; name NULL at the end. */
typedef struct tern_cpu__rsr_step {
    const char *name;
    tern_cpu__rsr_step_i8 *i8;
    tern_cpu__rsr_step_f32 *f32;
} tern_cpu__rsr_step;
extern const tern_cpu__rsr_step tern_cpu__rsr_steps[];

/* Masks, with groups summed by gathers; x has 3 readable bytes behind it. NULL where the CPU has none. */
tern_cpu__rsr_step_i8 *tern_cpu__rsr_gather_i8(uint32_t features);
tern_cpu__rsr_step_f32 *tern_cpu__rsr_gather_f32(uint32_t features);

/* All columns of a matrix in 32 bits and its scatter lists; blocks of it point into them. */
typedef struct tern_cpu__rsr_lists {
    uint32_t *perm, *ends, *first_row;
    uint16_t *rows;
    int8_t *signs;
} tern_cpu__rsr_lists;

tern_status tern_cpu__rsr_lists_make(tern_cpu__rsr_lists *out, const tern_rsr_groups *g, tern_error *err);
void tern_cpu__rsr_lists_deinit(tern_cpu__rsr_lists *lists);
/* Unit u of a matrix; lists may be NULL. */
tern_cpu__rsr_block tern_cpu__rsr_block_of(const tern_rsr_groups *g, const tern_cpu__rsr_lists *lists, uint32_t u);

#endif
