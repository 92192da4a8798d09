/* From the views of an op to what its kernel takes. */
#include <stddef.h>

#include "backend/cuda/cuda_internal.h"
#include "ops/graph.h"
#include "ops/op.h"
#include "quant/weight.h"

uint8_t *tern_cuda__address(const tern_prepared *p, uint32_t value)
{
    const tern_binding *b = &p->bindings[value];
    return b->buffer->data + b->offset;
}

tern_cuda_rows tern_cuda__rows(const tern_prepared *p, tern_view view)
{
    if (view.value == TERN_NO_VALUE || !view.cols) return (tern_cuda_rows){0};
    const uint32_t stride = p->graph->values[view.value].cols;
    float *data = (float *)(void *)tern_cuda__address(p, view.value);
    return (tern_cuda_rows){.data = data + (size_t)view.first_row * stride + view.first_col, .stride = stride};
}

bool tern_cuda__is_q8(const tern_graph *graph, tern_view view)
{
    return graph->values[view.value].dtype == TERN_DTYPE_Q8;
}

tern_cuda_q8 tern_cuda__q8(const tern_prepared *p, tern_view view)
{
    const tern_value *v = &p->graph->values[view.value];
    const uint64_t n = tern_graph_max_rows(p->graph, v->rows);
    uint8_t *data = tern_cuda__address(p, view.value);
    return (tern_cuda_q8){.data = (int8_t *)data,
                          .inv_scales = (float *)(void *)(data + tern_q8_scales_offset(v->cols, n)),
                          .sums = (int32_t *)(void *)(data + tern_q8_sums_offset(v->cols, n)),
                          .stride = (uint32_t)tern_q8_stride(v->cols)};
}

const uint32_t *tern_cuda__param(const tern_prepared *p, tern_param param)
{
    return (const uint32_t *)(const void *)tern_cuda__address(p, p->graph->params[param]);
}

tern_cuda_count tern_cuda__count(const tern_prepared *p, tern_rows rows)
{
    const uint32_t *counts = tern_cuda__param(p, TERN_PARAM_COUNTS);
    return (tern_cuda_count){.n = counts + (rows == TERN_ROWS_OUTPUTS),
                             .times = rows == TERN_ROWS_ROUTED ? p->graph->n_routes : 1,
                             .most = tern_graph_max_rows(p->graph, rows),
                             .usual = tern_graph_usual_rows(p->graph, rows)};
}

tern_cuda_count tern_cuda__group_count(const tern_prepared *p, const tern_op *op)
{
    tern_cuda_count count = tern_cuda__count(p, op->rows);
    if (!op->group) return count;
    const bool outputs = op->rows == TERN_ROWS_OUTPUTS;
    const uint32_t *entry =
        tern_cuda__param(p, TERN_PARAM_GROUPS) + (op->group - 1) * (sizeof(tern_row_group) / sizeof(uint32_t));
    const size_t n = outputs ? offsetof(tern_row_group, n_outputs) : offsetof(tern_row_group, n_tokens);
    const size_t first = outputs ? offsetof(tern_row_group, first_output) : offsetof(tern_row_group, first_token);
    count.n = entry + n / sizeof *entry;
    count.first = entry + first / sizeof *entry;
    return count;
}

/* The scale is read here: in a file that arrives in pieces it is known only once the last one is there. */
tern_cuda_weight tern_cuda__weight(const tern_prepared *p, tern_view view)
{
    const tern_buffer *b = p->bindings[view.value].buffer;
    const tern_gpu_layout *l = &b->layout;
    return (tern_cuda_weight){.data = b->data,
                              .row_scales =
                                  l->scales_offset ? (const float *)(const void *)(b->data + l->scales_offset) : NULL,
                              .scale = p->graph->values[view.value].weight->scale,
                              .format = l->format,
                              .rows = l->rows,
                              .cols = l->cols,
                              .row_bytes = l->row_bytes};
}

const float *tern_cuda__floats(const tern_prepared *p, tern_view view)
{
    return view.cols ? (const float *)(const void *)tern_cuda__address(p, view.value) + view.first_col : NULL;
}
