/* Preparing a graph: lowered to dispatches, every binding resolved, pipelines and bind groups made; and running it. */
#include <string.h>

#include "backend/counters.h"
#include "backend/webgpu/device.h"
#include "base/alloc.h"
#include "ops/graph.h"
#include "ops/op.h"

/* Where all parameters are. */
static tern_status find_params(const tern_graph *g, const tern_binding *bindings, tern_binding *out, tern_error *err)
{
    for (size_t i = 0; i < g->n_values; i++) {
        const tern_value *v = &g->values[i];
        if (v->kind != TERN_VALUE_PARAM || !bindings[i].buffer) continue;
        tern_binding at = {.buffer = bindings[i].buffer, .offset = bindings[i].offset - v->offset};
        if (out->buffer && (out->buffer != at.buffer || out->offset != at.offset))
            return tern_fail(err, TERN_INVALID_ARGUMENT,
                             "webgpu: parameter %s is in another buffer than the other parameters", v->name);
        *out = at;
    }
    return TERN_OK;
}

typedef struct operands {
    const tern_prepared *p;
    const tern_binding *bindings;
    tern_binding params;
} operands;

/* Where binding i of a dispatch is. */
static tern_binding locate(const tern_webgpu *gpu, const operands *at, const tern_gpu_range *range, uint32_t i)
{
    switch (range->value) {
    case TERN_GPU_SCRATCH: return (tern_binding){at->p->scratch, range->offset};
    case TERN_GPU_NOTHING: return (tern_binding){gpu->nothing[i], 0};
    case TERN_GPU_PARAMS: return (tern_binding){at->params.buffer, at->params.offset + range->offset};
    default: break;
    }
    const tern_binding *value = &at->bindings[range->value];
    return (tern_binding){value->buffer, value->offset + range->offset};
}

static tern_status check_bound(const tern_webgpu *gpu, const char *kernel, uint32_t i, const tern_binding *at,
                               uint64_t bytes, tern_error *err)
{
    const tern_buffer *buffer = at->buffer;
    if (!buffer) return tern_fail(err, TERN_INVALID_ARGUMENT, "webgpu: %s: binding %u has no buffer", kernel, i);
    if (at->offset % gpu->caps.binding_alignment || at->offset + bytes > buffer->padded || bytes == 0 ||
        bytes > gpu->caps.max_binding || at->offset % buffer->part_bytes + bytes > buffer->part_bytes)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "webgpu: %s: binding %u has %llu bytes at %llu of a buffer of %llu in parts of %llu; at most "
                         "%llu, aligned to "
                         "%u, expected",
                         kernel, i, (unsigned long long)bytes, (unsigned long long)at->offset,
                         (unsigned long long)buffer->bytes, (unsigned long long)buffer->part_bytes,
                         (unsigned long long)gpu->caps.max_binding, gpu->caps.binding_alignment);
    return TERN_OK;
}

static tern_status resolve(const tern_webgpu *gpu, const operands *operands, const tern_gpu_dispatch *d,
                           tern_webgpu_host_dispatch *out, tern_error *err)
{
    const tern_gpu_pipeline_info *info = &tern_gpu_pipelines[d->pipeline];
    *out = (tern_webgpu_host_dispatch){.pipeline = d->pipeline, .n_bindings = d->n_bindings};
    memcpy(out->groups, d->groups, sizeof out->groups);
    memcpy(out->uniform, d->uniform, sizeof out->uniform);
    for (uint32_t i = 0; i < d->n_bindings; i++) {
        tern_binding at = locate(gpu, operands, &d->bindings[i], i);
        uint64_t bytes = (d->bindings[i].bytes + 3) / 4 * 4;
        TERN_TRY(check_bound(gpu, info->name, i, &at, bytes, err));
        out->bindings[i] = tern_webgpu__range(at.buffer, at.offset, bytes);
    }
    return TERN_OK;
}

static void make_pipeline(tern_webgpu *gpu, tern_gpu_pipeline which)
{
    const tern_gpu_pipeline_info *info = &tern_gpu_pipelines[which];
    if (gpu->pipelines[which]) return;
    tern_webgpu_host_pipeline(which, info->name, info->file, info->signature, info->overrides, info->needs);
    gpu->pipelines[which] = true;
    gpu->counters.pipelines++;
}

static tern_status make_program(tern_webgpu *gpu, tern_prepared *p, const tern_binding *bindings, tern_error *err)
{
    operands operands = {.p = p, .bindings = bindings};
    TERN_TRY(find_params(p->graph, bindings, &operands.params, err));
    tern_webgpu_host_dispatch *dispatches = tern_calloc(p->program.n, sizeof *dispatches);
    if (!dispatches) return tern_fail_alloc(err, p->program.n * sizeof *dispatches);
    tern_status status = TERN_OK;
    for (size_t k = 0; k < p->program.n && status == TERN_OK; k++) {
        const tern_gpu_dispatch *d = &p->program.dispatches[k];
        status = resolve(gpu, &operands, d, &dispatches[k], err);
        if (status == TERN_OK) make_pipeline(gpu, d->pipeline);
        p->weight_bytes += d->weight_bytes;
        p->n_layer_dispatches += p->graph->ops[d->op].layer != UINT32_MAX;
    }
    if (status == TERN_OK) p->handle = tern_webgpu_host_program_create(dispatches, (uint32_t)p->program.n);
    tern_free(dispatches);
    return status == TERN_OK ? tern_webgpu__check(err) : status;
}

static tern_status make_ready(tern_webgpu *gpu, tern_prepared *p, const tern_binding *bindings, tern_error *err)
{
    TERN_TRY(tern_webgpu__check(err));
    TERN_TRY(tern_gpu_lower(&p->program, p->graph, &gpu->caps, err));
    if (p->program.n == 0) return tern_fail(err, TERN_INVALID_ARGUMENT, "webgpu: a graph with nothing to run");
    if (p->program.scratch_bytes)
        TERN_TRY(tern_webgpu__buffer_make(gpu, p->program.scratch_bytes, 0, "scratch memory", &p->scratch, err));
    return make_program(gpu, p, bindings, err);
}

tern_status tern_webgpu__prepare(tern_webgpu *gpu, const tern_graph *graph, const tern_binding *bindings,
                                 tern_prepared **out, tern_error *err)
{
    tern_prepared *p = tern_calloc(1, sizeof *p);
    if (!p) return tern_fail_alloc(err, sizeof *p);
    p->graph = graph;
    tern_status status = make_ready(gpu, p, bindings, err);
    if (status == TERN_OK) *out = p;
    else tern_webgpu__prepared_free(gpu, p);
    return status;
}

void tern_webgpu__prepared_free(tern_webgpu *gpu, tern_prepared *p)
{
    if (!p) return;
    if (p->handle) tern_webgpu_host_program_free(p->handle);
    tern_webgpu__buffer_free(gpu, p->scratch);
    tern_gpu_program_deinit(&p->program);
    tern_free(p);
}

static void count(tern_webgpu *gpu, const tern_prepared *p, uint32_t n_steps, uint32_t n_submits)
{
    tern_backend_counters *c = &gpu->counters;
    c->runs += n_steps;
    c->submits += n_submits;
    c->ops += (uint64_t)n_steps * p->graph->n_ops;
    c->dispatches += (uint64_t)n_steps * p->program.n;
    c->layer_dispatches += (uint64_t)n_steps * p->n_layer_dispatches;
    c->weight_bytes += n_steps * p->weight_bytes;
}

tern_status tern_webgpu__run(tern_webgpu *gpu, tern_prepared *p, uint32_t n_steps, tern_error *err)
{
    if (n_steps == 0 || n_steps > gpu->base.info.max_steps || (n_steps > 1 && p->graph->tokens == TERN_NO_VALUE))
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "webgpu: run of %u steps: 1 expected, or up to %u of a graph that samples", n_steps,
                         gpu->base.info.max_steps);
    TERN_TRY(tern_webgpu__check(err));
    count(gpu, p, n_steps, tern_webgpu_host_run(p->handle, n_steps));
    return TERN_OK;
}
