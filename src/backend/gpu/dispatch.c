/* Making a dispatch: adding it to the program, binding its buffers, finding what its uniform says. */
#include "backend/gpu/gpu_internal.h"
#include "base/alloc.h"

tern_gpu_dispatch *tern_gpu__add(tern_gpu_program *p, const tern_op *op, tern_gpu_pipeline pipeline, uint32_t x,
                                 uint32_t y, uint32_t z, tern_error *err)
{
    const tern_gpu_caps *caps = p->caps;
    if (x > caps->max_groups || y > caps->max_groups || z > caps->max_groups) {
        tern_fail(err, TERN_UNSUPPORTED, "%s of %u x %u x %u workgroups: at most %u in each dimension expected",
                  tern_op_name(op->kind), x, y, z, caps->max_groups);
        return NULL;
    }
    void *items = p->dispatches;
    p->out_of_memory = tern_grow(&items, &p->cap, p->n + 1, sizeof *p->dispatches, err) != TERN_OK;
    if (p->out_of_memory) return NULL;
    p->dispatches = items;
    tern_gpu_dispatch *d = &p->dispatches[p->n++];
    *d = (tern_gpu_dispatch){.pipeline = pipeline, .op = (uint32_t)(op - p->graph->ops), .groups = {x, y, z}};
    return d;
}

tern_gpu_dispatch *tern_gpu__add_elementwise(tern_gpu_program *p, const tern_op *op,
                                             const tern_gpu_pipeline candidates[2], tern_error *err)
{
    tern_gpu_pipeline pipeline = tern_gpu_first_fit(candidates, 2, p->caps);
    const uint32_t width = tern_gpu_pipelines[pipeline].invocations;
    return tern_gpu__add(p, op, pipeline, tern_gpu__ceil_div(op->out.cols, width), tern_gpu__max_rows(p, op->rows), 1,
                         err);
}

void tern_gpu__bind(tern_gpu_dispatch *d, tern_gpu_range range)
{
    d->bindings[d->n_bindings++] = range;
}

void tern_gpu__bind_value(const tern_gpu_program *p, tern_gpu_dispatch *d, uint32_t value, bool written)
{
    tern_gpu__bind(d, (tern_gpu_range){.value = value, .bytes = p->graph->values[value].bytes, .written = written});
}

void tern_gpu__bind_view(const tern_gpu_program *p, tern_gpu_dispatch *d, tern_view view, bool written)
{
    const tern_value *v = tern_gpu__value(p, view);
    uint64_t offset = (uint64_t)view.first_row * v->cols * 4;
    tern_gpu__bind(
        d, (tern_gpu_range){.value = view.value, .offset = offset, .bytes = v->bytes - offset, .written = written});
}

void tern_gpu__bind_params(const tern_gpu_program *p, tern_gpu_dispatch *d, bool written)
{
    tern_gpu__bind(d, (tern_gpu_range){.value = TERN_GPU_PARAMS, .bytes = p->graph->param_bytes, .written = written});
}

void tern_gpu__bind_nothing(tern_gpu_dispatch *d)
{
    tern_gpu__bind(d, (tern_gpu_range){.value = TERN_GPU_NOTHING, .bytes = 256});
}

void tern_gpu__bind_slice(tern_gpu_dispatch *d, uint32_t value, const tern_gpu_layout *layout, uint32_t slice)
{
    tern_gpu__bind(
        d, (tern_gpu_range){.value = value, .offset = slice * layout->slice_bytes, .bytes = layout->slice_bytes});
}

void tern_gpu__bind_scratch(tern_gpu_dispatch *d, uint64_t offset, uint64_t bytes, bool written)
{
    tern_gpu__bind(d,
                   (tern_gpu_range){.value = TERN_GPU_SCRATCH, .offset = offset, .bytes = bytes, .written = written});
}

const tern_value *tern_gpu__value(const tern_gpu_program *p, tern_view view)
{
    return &p->graph->values[view.value];
}

uint32_t tern_gpu__stride(const tern_gpu_program *p, tern_view view)
{
    return tern_gpu__value(p, view)->cols;
}

uint32_t tern_gpu__param_word(const tern_gpu_program *p, tern_param which)
{
    return (uint32_t)(p->graph->values[p->graph->params[which]].offset / 4);
}

uint32_t tern_gpu__word_of(const tern_gpu_program *p, tern_view param)
{
    return (uint32_t)(tern_gpu__value(p, param)->offset / 4);
}

uint32_t tern_gpu__count_word(const tern_gpu_program *p, tern_rows rows)
{
    return tern_gpu__param_word(p, TERN_PARAM_COUNTS) + (rows == TERN_ROWS_OUTPUTS);
}

/* A member of the group's entry of GROUPS. */
static uint32_t group_word(const tern_gpu_program *p, const tern_op *op, size_t of_tokens, size_t of_outputs)
{
    const size_t entry = (op->group - 1) * sizeof(tern_row_group),
                 member = op->rows == TERN_ROWS_OUTPUTS ? of_outputs : of_tokens;
    return tern_gpu__param_word(p, TERN_PARAM_GROUPS) + (uint32_t)((entry + member) / 4);
}

uint32_t tern_gpu__group_count_word(const tern_gpu_program *p, const tern_op *op)
{
    if (!op->group) return tern_gpu__count_word(p, op->rows);
    return group_word(p, op, offsetof(tern_row_group, n_tokens), offsetof(tern_row_group, n_outputs));
}

uint32_t tern_gpu__group_first_word(const tern_gpu_program *p, const tern_op *op)
{
    if (!op->group) return 0;
    return group_word(p, op, offsetof(tern_row_group, first_token), offsetof(tern_row_group, first_output));
}

uint32_t tern_gpu__token_rows(const tern_gpu_program *p, tern_rows rows)
{
    return rows == TERN_ROWS_ROUTED ? p->graph->n_routes : 1;
}

uint32_t tern_gpu__max_rows(const tern_gpu_program *p, tern_rows rows)
{
    return tern_graph_max_rows(p->graph, rows);
}

uint32_t tern_gpu__kernel_rows(const tern_gpu_program *p, tern_rows rows)
{
    return tern_graph_kernel_rows(p->graph, rows);
}

tern_gpu_epilogue tern_gpu__residual_epilogue(const tern_gpu_program *p, const tern_op *op)
{
    if (op->residual.value == TERN_NO_VALUE) return TERN_GPU_STORE;
    const tern_value *out = tern_gpu__value(p, op->out), *addend = tern_gpu__value(p, op->residual);
    bool same =
        out->kind == TERN_VALUE_ACTIVATION && addend->kind == TERN_VALUE_ACTIVATION && out->offset == addend->offset;
    return same || op->out.value == op->residual.value ? TERN_GPU_ADD_RESULT : TERN_GPU_ADD_RESIDUAL;
}

uint64_t tern_gpu__scratch(tern_gpu_program *p, uint64_t bytes)
{
    bytes = TERN_GPU_COUNTER_BYTES + tern_gpu__aligned(bytes);
    if (bytes > p->scratch_bytes) p->scratch_bytes = bytes;
    return TERN_GPU_COUNTER_BYTES;
}

tern_status tern_gpu__unsupported(const tern_graph *graph, const tern_op *op, const char *why, tern_error *err)
{
    const char *name = op->out.value == TERN_NO_VALUE ? "" : graph->values[op->out.value].name;
    return tern_fail(err, TERN_UNSUPPORTED,
                     "gpu: op %s %s: %s; --backend cpu, or fewer --gpu-layers, runs it on the CPU",
                     tern_op_name(op->kind), name, why);
}
