/* An RSR matrix as groups: permutation, ends and masks, all of 16 bits. */
#include "rsr/multipliers/groups.h"

#include <string.h>

#include "base/alloc.h"
#include "quant/rsr_internal.h"

static tern_status emit(const tern_rsr__unit *unit, void *scratch, tern_rsr__stream *streams, uint32_t counts[2],
                        tern_error *err)
{
    (void)scratch;
    const size_t n_perm = unit->n_columns * sizeof *unit->perm, n_groups = unit->n_groups * sizeof *unit->groups;
    void *perm = tern_rsr__append(&streams[0], n_perm);
    if (!perm) return tern_fail_alloc(err, n_perm);
    memcpy(perm, unit->perm, n_perm);
    void *groups = tern_rsr__append(&streams[1], n_groups);
    if (!groups) return tern_fail_alloc(err, n_groups);
    memcpy(groups, unit->groups, n_groups);
    counts[0] = unit->n_columns;
    counts[1] = unit->n_groups;
    return TERN_OK;
}

tern_status rsr_groups_build(rsr_groups *out, const tern_rsr_source *source, const tern_rsr_options *options,
                             tern_error *err)
{
    tern_rsr__joined j;
    *out = (rsr_groups){0};
    TERN_TRY(tern_rsr__build(&j, source, options, emit, NULL, err));
    *out = (rsr_groups){.kind = options->kind,
                        .k = options->k,
                        .rows = source->rows,
                        .cols = source->cols,
                        .panel_cols = j.panel_cols,
                        .n_blocks = j.n_blocks,
                        .n_panels = j.n_panels,
                        .first_column = j.first[0],
                        .first_group = j.first[1],
                        .perm = (uint16_t *)(void *)j.data[0],
                        .groups = (tern_rsr_group *)(void *)j.data[1]};
    tern_free(j.data[2]);
    return TERN_OK;
}

void rsr_groups_deinit(rsr_groups *g)
{
    tern_free(g->first_column);
    tern_free(g->first_group);
    tern_free(g->perm);
    tern_free(g->groups);
    *g = (rsr_groups){0};
}
