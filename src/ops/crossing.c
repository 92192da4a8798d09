/* Which rows cross between places that run parts of a graph. */
#include "ops/crossing.h"

#include "ops/graph.h"
#include "ops/op.h"

uint32_t tern_op_goes_with(const tern_op *op, uint32_t n_layers)
{
    return op->kind == TERN_OP_GATHER && n_layers ? n_layers - 1 : op->layer;
}

uint32_t tern_op_values_read(const tern_op *op, uint32_t *values)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i + 1 < tern_op_n_views(op); i++)
        if (tern_op_view(op, i).value != TERN_NO_VALUE) values[n++] = tern_op_view(op, i).value;
    return n;
}

bool tern_crossing_reads(const tern_graph *graph, uint32_t value, uint32_t place, tern_places *where)
{
    const tern_value_kind kind = graph->values[value].kind;
    const tern_places here = (tern_places)1 << place, had = where[value];
    where[value] |= here;
    return (kind == TERN_VALUE_ACTIVATION || kind == TERN_VALUE_OUTPUT) && had && !(had & here);
}

void tern_crossing_writes(const tern_op *op, uint32_t place, tern_places *where)
{
    for (uint32_t i = 0; i < tern_op_n_views(op); i++) {
        const uint32_t value = tern_op_view(op, i).value;
        if (value != TERN_NO_VALUE && tern_op_writes_view(op, i)) where[value] = (tern_places)1 << place;
    }
}

uint64_t tern_crossing_bytes(const tern_graph *graph, uint32_t value, uint32_t n_tokens, uint32_t n_outputs)
{
    const tern_value *v = &graph->values[value];
    if (v->dtype == TERN_DTYPE_Q8) return v->bytes;
    return tern_row_bytes(v->dtype, v->cols, tern_rows_of(v->rows, n_tokens, n_outputs, graph->n_routes));
}
