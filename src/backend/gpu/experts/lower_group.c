/* Lowering the list of routed rows by expert. */
#include "backend/gpu/experts/experts_internal.h"

enum { WORDS_OF_TILE = 4 };

static_assert((int)TERN_GPU_GROUP_ROWS_CONST_MAX_EXPERTS >= (int)TERN_MAX_EXPERTS, "room of group_rows.wesl");

/* Every expert that has rows has one tile that is not full at most. */
tern_status tern_gpu__group_rows(tern_gpu_program *p, const tern_op *op, uint32_t tile, bool stable, uint64_t offset,
                                 tern_gpu_grouping *g, tern_error *err)
{
    const uint32_t n = tern_gpu__max_rows(p, TERN_ROWS_ROUTED), experts = n < op->n_experts ? n : op->n_experts;
    g->max_tiles = (n - experts) / tile + experts;
    g->rows_first = WORDS_OF_TILE * (1 + g->max_tiles);
    const uint64_t bytes = ((uint64_t)g->rows_first + n) * 4;
    g->range = (tern_gpu_range){
        .value = TERN_GPU_SCRATCH, .offset = tern_gpu__scratch(p, offset + bytes) + offset, .bytes = bytes};
    tern_gpu_dispatch *d =
        tern_gpu__add(p, op, stable ? TERN_GPU_GROUP_ROWS_STABLE : TERN_GPU_GROUP_ROWS, 1, 1, 1, err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_group_rows_uniform u = {.count_word = tern_gpu__group_count_word(p, op),
                                           .n_routes = p->graph->n_routes,
                                           .n_experts = op->n_experts,
                                           .tile = tile,
                                           .rows_first = g->rows_first,
                                           .first_word = tern_gpu__group_first_word(p, op),
                                           .max_rows = n};
    tern_gpu_group_rows_set(d, &u);
    tern_gpu__bind_params(p, d, false);
    tern_gpu__bind_value(p, d, op->route.value, false);
    tern_gpu__bind_scratch(d, g->range.offset, g->range.bytes, true);
    return TERN_OK;
}

tern_status tern_gpu__group_all_rows(tern_gpu_program *p, const tern_op *op, uint64_t offset, tern_gpu_grouping *g,
                                     tern_error *err)
{
    return tern_gpu__group_rows(p, op, tern_gpu__max_rows(p, TERN_ROWS_ROUTED), true, offset, g, err);
}
