/* An RSR matrix as groups: a permutation of the columns, and where each group ends: the form of the papers. */
#ifndef TERN_BENCH_RSR_GROUPS_H
#define TERN_BENCH_RSR_GROUPS_H

#include "quant/rsr.h"

/* Groups are in the order of their patterns as numbers of base 3
 * (binary: 2), row 0 the highest digit, 0 -> 0, -1 -> 1, +1 -> 2; the columns of a group ascend. */
typedef struct rsr_groups {
    tern_rsr_kind kind;
    uint32_t k, rows, cols, panel_cols, n_blocks, n_panels;
    uint32_t *first_column, *first_group; /* [n_units + 1]: where a unit's part of perm and of groups begins */
    uint16_t *perm;                       /* columns, counted from the panel's first */
    tern_rsr_group *groups;
} rsr_groups;

/* Errors: those of tern_rsr_slices_build. */
tern_status rsr_groups_build(rsr_groups *out, const tern_rsr_source *source, const tern_rsr_options *options,
                             tern_error *err);
void rsr_groups_deinit(rsr_groups *groups);

#endif
