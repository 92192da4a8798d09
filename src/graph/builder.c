/* Values and ops of a graph under construction. */
#include "graph/builder.h"

#include "model/cut.h"
#include "quant/weight.h"

#include <stdio.h>

tern_view tern_build__value(tern_builder *b, tern_value value, const char *name)
{
    uint32_t id = 0;
    if (b->layer == UINT32_MAX) snprintf(value.name, sizeof value.name, "%s", name);
    else snprintf(value.name, sizeof value.name, "%s-%u", name, b->layer);
    if (b->status == TERN_OK) b->status = tern_graph__add_value(b->graph, value, &id, b->err);
    return (tern_view){.value = id, .cols = value.cols};
}

tern_view tern_build__activation(tern_builder *b, const char *name, tern_dtype dtype, tern_rows rows, uint32_t cols)
{
    uint64_t n = tern_graph_max_rows(b->graph, rows);
    tern_value value = {.kind = TERN_VALUE_ACTIVATION,
                        .dtype = dtype,
                        .rows = rows,
                        .cols = cols,
                        .bytes = tern_row_bytes(dtype, cols, n)};
    return tern_build__value(b, value, name);
}

tern_view tern_build__param(tern_builder *b, tern_param which)
{
    return (tern_view){.value = b->graph->params[which]};
}

const tern_graph_weight *tern_build__graph_weight(const tern_builder *b, tern_role role)
{
    uint32_t layer = b->layer == UINT32_MAX ? 0 : b->layer;
    return b->options->weights ? &b->options->weights[(size_t)layer * TERN_ROLE_COUNT + role] : NULL;
}

const tern_weight *tern_build__weight_at(const tern_builder *b, tern_role role)
{
    uint32_t layer = b->layer == UINT32_MAX ? 0 : b->layer;
    const tern_graph_weight *weight = tern_build__graph_weight(b, role);
    if (weight && weight->weight) return weight->weight;
    /* a head that is the embedding table stays so when another table takes its place */
    const bool whole = tern_model_cut(b->model).n < 2;
    if (role == TERN_ROLE_OUTPUT && b->config->tied_head && whole)
        return tern_build__weight_at(b, TERN_ROLE_TOKEN_EMBD);
    return tern_model_weight(b->model, role, layer);
}

/* In training graphs a weight is one value however often it is used. */
static bool find_weight(const tern_builder *b, const tern_weight *weight, tern_view *view)
{
    for (uint32_t i = 0; b->options->training && i < b->graph->n_values; i++) {
        if (b->graph->values[i].kind != TERN_VALUE_WEIGHT || b->graph->values[i].weight != weight) continue;
        *view = (tern_view){.value = i, .cols = weight->cols};
        return true;
    }
    return false;
}

tern_view tern_build__weight(tern_builder *b, const tern_weight *weight)
{
    tern_view view;
    if (find_weight(b, weight, &view)) return view;
    tern_value value = {.kind = TERN_VALUE_WEIGHT, .weight = weight, .cols = weight->cols, .bytes = weight->bytes};
    uint32_t layer = b->layer;
    b->layer = UINT32_MAX;
    view = tern_build__value(b, value, weight->name);
    b->layer = layer;
    return view;
}

void tern_build__op(tern_builder *b, tern_op op, tern_rows rows, uint32_t n_in, tern_view out)
{
    op.rows = rows;
    op.layer = b->layer;
    op.n_in = n_in;
    op.out = out;
    if (b->status == TERN_OK) b->status = tern_graph__add_op(b->graph, &op, b->err);
}

tern_rows tern_build__rows_of(const tern_builder *b, tern_view x)
{
    return b->graph->values ? b->graph->values[x.value].rows : TERN_ROWS_TOKENS;
}

tern_view tern_build__rms_norm_at(tern_builder *b, tern_view x, tern_role role, tern_view out)
{
    tern_view norm_weight = tern_build__weight(b, tern_build__weight_at(b, role));
    tern_op op = {.kind = TERN_OP_RMS_NORM,
                  .in = {[TERN_NORM_X] = x, [TERN_NORM_WEIGHT] = norm_weight},
                  .eps = b->config->rms_eps};
    tern_build__op(b, op, tern_build__rows_of(b, x), TERN_NORM_INPUTS, out);
    return out;
}

tern_view tern_build__rms_norm(tern_builder *b, const char *name, tern_view x, tern_role role)
{
    tern_view y = tern_build__activation(b, name, TERN_DTYPE_F32, tern_build__rows_of(b, x), x.cols);
    return tern_build__rms_norm_at(b, x, role, y);
}

tern_view tern_build__scale(tern_builder *b, const char *name, tern_view x, float factor, float softcap)
{
    const tern_rows rows = tern_build__rows_of(b, x);
    tern_view y = tern_build__activation(b, name, TERN_DTYPE_F32, rows, x.cols);
    tern_op op = {.kind = TERN_OP_SCALE, .in = {[TERN_SCALE_X] = x}, .scale = factor, .softcap = softcap};
    tern_build__op(b, op, rows, TERN_SCALE_INPUTS, y);
    return y;
}

tern_view tern_build__all_gather(tern_builder *b, const char *name, tern_view x, tern_role role)
{
    tern_cut cut = tern_model_cut(b->model);
    uint32_t whole;
    if (cut.n < 2 || tern_cut_rows(b->config, role, b->layer, cut, &whole).n == whole) return x;
    tern_op op = {.kind = TERN_OP_ALL_GATHER, .in = {[TERN_ALL_GATHER_X] = x}, .n_ranks = cut.n};
    for (cut.rank = 0; cut.rank < cut.n; cut.rank++)
        op.rank_cols[cut.rank] = tern_cut_rows(b->config, role, b->layer, cut, &whole).n;
    const tern_rows rows = tern_build__rows_of(b, x);
    tern_view y = tern_build__activation(b, name, TERN_DTYPE_F32, rows, whole);
    tern_build__op(b, op, rows, TERN_ALL_GATHER_INPUTS, y);
    return y;
}

void tern_build__mark_hidden(tern_builder *b, tern_view x, uint32_t index)
{
    if (!b->options->keep_hidden || b->status != TERN_OK) return;
    tern_value *value = &b->graph->values[x.value];
    value->kind = TERN_VALUE_OUTPUT;
    snprintf(value->name, sizeof value->name, "hidden-%u", index);
}
