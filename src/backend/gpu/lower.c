/* From a graph to dispatches: the parts that all ops share. */
#include <string.h>

#include "backend/gpu/gpu.h"
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
    if (tern_grow(&items, &p->cap, p->n + 1, sizeof *p->dispatches, err) != TERN_OK) return NULL;
    p->dispatches = items;
    tern_gpu_dispatch *d = &p->dispatches[p->n++];
    *d = (tern_gpu_dispatch){.pipeline = pipeline, .op = (uint32_t)(op - p->graph->ops), .groups = {x, y, z}};
    return d;
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
    const tern_value *v = &p->graph->values[view.value];
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

uint32_t tern_gpu__param_word(const tern_gpu_program *p, tern_param which)
{
    return (uint32_t)(p->graph->values[p->graph->params[which]].offset / 4);
}

uint32_t tern_gpu__count_word(const tern_gpu_program *p, tern_rows rows)
{
    return tern_gpu__param_word(p, TERN_PARAM_COUNTS) + (rows == TERN_ROWS_OUTPUTS);
}

uint32_t tern_gpu__max_rows(const tern_gpu_program *p, tern_rows rows)
{
    return rows == TERN_ROWS_OUTPUTS ? p->graph->max_outputs : p->graph->max_tokens;
}

uint64_t tern_gpu__scratch(tern_gpu_program *p, uint64_t bytes)
{
    bytes = TERN_GPU_COUNTER_BYTES + (bytes + 255) / 256 * 256;
    if (bytes > p->scratch_bytes) p->scratch_bytes = bytes;
    return TERN_GPU_COUNTER_BYTES;
}

uint32_t tern_gpu__float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

tern_status tern_gpu__unsupported(const tern_graph *graph, const tern_op *op, const char *why, tern_error *err)
{
    const char *name = op->out.value == TERN_NO_VALUE ? "" : graph->values[op->out.value].name;
    return tern_fail(err, TERN_UNSUPPORTED,
                     "gpu: op %s %s: %s; --backend cpu, or fewer --gpu-layers, runs it on the CPU",
                     tern_op_name(op->kind), name, why);
}

static tern_status lower_kind(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    switch (op->kind) {
    case TERN_OP_LINEAR: return tern_gpu__lower_linear(p, op, err);
    case TERN_OP_EMBED: return tern_gpu__lower_embed(p, op, err);
    case TERN_OP_RMS_NORM:
    case TERN_OP_QUANTIZE:
    case TERN_OP_FAKE_QUANTIZE:
    case TERN_OP_NORM_QUANT:
    case TERN_OP_GATE:
    case TERN_OP_ADD:
    case TERN_OP_GATHER: return tern_gpu__lower_rows(p, op, err);
    case TERN_OP_ROPE:
    case TERN_OP_KV_WRITE:
    case TERN_OP_ROPE_KV:
    case TERN_OP_ATTENTION:
    case TERN_OP_ROPE_ATTENTION:
    case TERN_OP_ROPE_BACKWARD: return tern_gpu__lower_attention(p, op, err);
    case TERN_OP_SAMPLE: return tern_gpu__lower_sample(p, op, err);
    case TERN_OP_LINEAR_DX:
    case TERN_OP_LINEAR_DW: return tern_gpu__lower_gradient(p, op, err);
    case TERN_OP_VARLEN_ATTENTION:
    case TERN_OP_VARLEN_ATTENTION_BACKWARD: return tern_gpu__lower_varlen_attention(p, op, err);
    case TERN_OP_SUM_SQUARES:
    case TERN_OP_UPDATE:
    case TERN_OP_REQUANTIZE: return tern_gpu__lower_update(p, op, err);
    case TERN_OP_SCALE:
    case TERN_OP_DROPOUT:
    case TERN_OP_CROSS_ENTROPY:
    case TERN_OP_GATE_BACKWARD: return tern_gpu__lower_backward(p, op, err);
    case TERN_OP_RMS_NORM_BACKWARD: return tern_gpu__lower_norm_backward(p, op, err);
    case TERN_OP_EMBED_BACKWARD: return tern_gpu__lower_embed_backward(p, op, err);
    case TERN_OP_COUNT: break;
    }
    return tern_gpu__unsupported(p->graph, op, "no kernel", err);
}

/* The op's dispatches, from `first` on. */
static tern_status check_bindings(const tern_gpu_program *p, const tern_op *op, size_t first, tern_error *err)
{
    for (size_t k = first; k < p->n; k++) {
        const tern_gpu_dispatch *d = &p->dispatches[k];
        for (uint32_t i = 0; i < d->n_bindings; i++) {
            const tern_gpu_range *range = &d->bindings[i];
            if (range->bytes <= p->caps->max_binding) continue;
            return tern_fail(err, TERN_UNSUPPORTED,
                             "gpu: op %s: %s takes %llu bytes in one binding: at most %llu expected; fewer tokens in a "
                             "step (--batch, --seq), or --backend cpu",
                             tern_op_name(op->kind),
                             range->value < p->graph->n_values ? p->graph->values[range->value].name : "its scratch",
                             (unsigned long long)range->bytes, (unsigned long long)p->caps->max_binding);
        }
    }
    return TERN_OK;
}

static tern_status lower_op(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    size_t first = p->n;
    TERN_TRY(lower_kind(p, op, err));
    return check_bindings(p, op, first, err);
}

tern_status tern_gpu_lower(tern_gpu_program *program, const tern_graph *graph, const tern_gpu_caps *caps,
                           tern_error *err)
{
    *program = (tern_gpu_program){.graph = graph, .caps = caps};
    tern_status status = TERN_OK;
    for (size_t i = 0; i < graph->n_ops && status == TERN_OK; i++) status = lower_op(program, &graph->ops[i], err);
    if (status != TERN_OK) tern_gpu_program_deinit(program);
    return status;
}

void tern_gpu_program_deinit(tern_gpu_program *program)
{
    tern_free(program->dispatches);
    *program = (tern_gpu_program){0};
}

tern_status tern_gpu_supports(const tern_graph *graph, const tern_op *op, const tern_gpu_caps *caps, tern_error *err)
{
    tern_gpu_program program = {.graph = graph, .caps = caps};
    tern_status status = lower_op(&program, op, err);
    tern_gpu_program_deinit(&program);
    return status;
}
