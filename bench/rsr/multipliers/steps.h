/* RSR products on groups, one for each step of the documents' way from the algorithm to its fast kernels. They are what
 * bench_rsr measures beside the slices that Tern serves with, and what tests compare those with.
 *
 *   y[i] += sum over groups of sign(group, i) * (sum over the group's columns c of x[c])      i below k
 *
 * Integers are exact; f32 sums of a group run in the order of its columns (gathers: in 8 or 16 lanes). Binary and
 * ternary alike. */
#ifndef TERN_BENCH_RSR_STEPS_H
#define TERN_BENCH_RSR_STEPS_H

#include "rsr/multipliers/groups.h"

/* One unit. Masks as rsr_groups has them; lists as rsr_lists makes them. */
typedef struct rsr_block {
    uint32_t n_groups, n_columns;
    const uint16_t *perm;
    const tern_rsr_group *groups;
    const uint32_t *wide_perm, *wide_ends; /* the same numbers in 32 bits */
    const uint32_t *first_row;             /* [n_groups + 1] into rows and signs */
    const uint16_t *rows;                  /* of the block, that a group's sum goes to */
    const int8_t *signs;
} rsr_block;

/* X(name, what it is): scratch is [n_columns + 16] of the type of y. Levels: _plain for all, those of SIMD gathers
 * _avx2 and _avx512. */
#define RSR_STEPS(X)                                                                                                   \
    X(lists, "signed scatter lists, 32-bit numbers")                                                                   \
    X(lists16, "16-bit columns, groups of up to 4 without a loop")                                                     \
    X(masks, "two 16-bit masks for each group")                                                                        \
    X(permuted, "inputs copied in the order of the columns, then summed")                                              \
    X(direct, "no copy: loads unrolled by 8, prefetched")

typedef void rsr_step_i8(const rsr_block *b, const int8_t *x, int32_t *scratch, int32_t *y);
typedef void rsr_step_f32(const rsr_block *b, const float *x, float *scratch, float *y);

#define RSR_STEP(name, words)                                                                                          \
    rsr_step_i8 rsr_##name##_i8;                                                                                       \
    rsr_step_f32 rsr_##name##_f32;
RSR_STEPS(RSR_STEP)
#undef RSR_STEP

/* All of them; name NULL at the end. */
typedef struct rsr_step {
    const char *name;
    rsr_step_i8 *i8;
    rsr_step_f32 *f32;
} rsr_step;
extern const rsr_step rsr_steps[];

/* Masks, with groups summed by gathers; x has 3 readable bytes behind it. NULL where the CPU has none. */
rsr_step_i8 *rsr_gather_i8(uint32_t features);
rsr_step_f32 *rsr_gather_f32(uint32_t features);

/* All columns of a matrix in 32 bits and its scatter lists; blocks of it point into them. */
typedef struct rsr_lists {
    uint32_t *perm, *ends, *first_row;
    uint16_t *rows;
    int8_t *signs;
} rsr_lists;

tern_status rsr_lists_make(rsr_lists *out, const rsr_groups *g, tern_error *err);
void rsr_lists_deinit(rsr_lists *lists);
/* Unit u of a matrix; lists may be NULL. */
rsr_block rsr_block_of(const rsr_groups *g, const rsr_lists *lists, uint32_t u);

#endif
