/* Preparing a graph: lowered to dispatches, every binding resolved, descriptor sets written, the step recorded. */
#include "backend/vulkan/device.h"
#include "base/alloc.h"
#include "ops/graph.h"
#include "ops/op.h"

enum { NOTHING_BYTES = 256 };

static tern_status find_params(tern_vulkan *vk, const tern_graph *g, const tern_binding *bindings,
                               tern_vulkan_bound *out, tern_error *err)
{
    for (size_t i = 0; i < g->n_values; i++) {
        const tern_value *v = &g->values[i];
        if (v->kind != TERN_VALUE_PARAM || !bindings[i].buffer) continue;
        tern_vulkan_bound at = {
            .buffer = bindings[i].buffer, .offset = bindings[i].offset - v->offset, .bytes = g->param_bytes};
        if (out->buffer && (out->buffer != at.buffer || out->offset != at.offset))
            return tern_fail(err, TERN_INVALID_ARGUMENT,
                             "vulkan: parameter %s is in another buffer than the other parameters", v->name);
        *out = at;
    }
    return out->buffer ? tern_vulkan__buffer_share(vk, out->buffer, err) : TERN_OK;
}

/* Where a binding of a dispatch is. */
static tern_vulkan_bound locate(const tern_prepared *p, const tern_binding *bindings, const tern_vulkan_bound *params,
                                const tern_gpu_range *range, uint32_t i)
{
    switch (range->value) {
    case TERN_GPU_SCRATCH: return (tern_vulkan_bound){p->scratch, range->offset, range->bytes};
    case TERN_GPU_NOTHING: return (tern_vulkan_bound){p->nothing, (uint64_t)i * NOTHING_BYTES, NOTHING_BYTES};
    case TERN_GPU_PARAMS: return (tern_vulkan_bound){params->buffer, params->offset + range->offset, range->bytes};
    default: break;
    }
    const tern_binding *at = &bindings[range->value];
    return (tern_vulkan_bound){at->buffer, at->offset + range->offset, range->bytes};
}

static tern_status check_bound(const tern_vulkan *vk, const tern_gpu_dispatch *d, uint32_t i,
                               const tern_vulkan_bound *at, tern_error *err)
{
    const char *kernel = tern_gpu_pipelines[d->pipeline].name;
    if (!at->buffer) return tern_fail(err, TERN_INVALID_ARGUMENT, "vulkan: %s: binding %u has no buffer", kernel, i);
    if (at->offset % vk->caps.binding_alignment || at->offset + at->bytes > at->buffer->padded || at->bytes == 0 ||
        at->bytes > vk->caps.max_binding)
        return tern_fail(
            err, TERN_INVALID_ARGUMENT,
            "vulkan: %s: binding %u has %llu bytes at %llu of a buffer of %llu; at most %llu, aligned to %u, "
            "expected",
            kernel, i, (unsigned long long)at->bytes, (unsigned long long)at->offset,
            (unsigned long long)at->buffer->bytes, (unsigned long long)vk->caps.max_binding,
            vk->caps.binding_alignment);
    return TERN_OK;
}

static tern_status resolve(tern_vulkan *vk, tern_prepared *p, const tern_binding *bindings, tern_error *err)
{
    tern_vulkan_bound params = {0};
    TERN_TRY(find_params(vk, p->graph, bindings, &params, err));
    p->bound = tern_calloc(p->program.n, sizeof *p->bound);
    if (!p->bound) return tern_fail_alloc(err, p->program.n * sizeof *p->bound);
    for (size_t k = 0; k < p->program.n; k++) {
        const tern_gpu_dispatch *d = &p->program.dispatches[k];
        for (uint32_t i = 0; i < d->n_bindings; i++) {
            p->bound[k][i] = locate(p, bindings, &params, &d->bindings[i], i);
            TERN_TRY(check_bound(vk, d, i, &p->bound[k][i], err));
        }
        p->weight_bytes += d->weight_bytes;
        p->n_layer_dispatches += p->graph->ops[d->op].layer != UINT32_MAX;
    }
    return TERN_OK;
}

static tern_status make_buffers(tern_vulkan *vk, tern_prepared *p, tern_error *err)
{
    TERN_TRY(tern_vulkan__buffer_make(vk, TERN_GPU_MAX_BINDINGS * NOTHING_BYTES, TERN_VULKAN_DEVICE, &p->nothing, err));
    TERN_TRY(tern_vulkan__buffer_zero(vk, p->nothing, err));
    if (p->program.scratch_bytes == 0) return TERN_OK;
    TERN_TRY(tern_vulkan__buffer_make(vk, p->program.scratch_bytes, TERN_VULKAN_DEVICE, &p->scratch, err));
    return tern_vulkan__buffer_zero(vk, p->scratch, err);
}

static tern_status make_pool(tern_vulkan *vk, tern_prepared *p, tern_error *err)
{
    uint32_t n = (uint32_t)p->program.n, n_storage = 0;
    for (uint32_t k = 0; k < n; k++) n_storage += tern_gpu_pipelines[p->program.dispatches[k].pipeline].n_bindings;
    VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, n_storage};
    VkDescriptorPoolCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO, .maxSets = n, .poolSizeCount = 1, .pPoolSizes = &size};
    vk->counters.allocations++;
    return tern_vulkan__check(vk, vk->fn.CreateDescriptorPool(vk->device, &info, NULL, &p->descriptor_pool),
                              "vkCreateDescriptorPool", err);
}

static tern_status make_set(tern_vulkan *vk, tern_prepared *p, size_t k, tern_error *err)
{
    const uint32_t n = tern_gpu_pipelines[p->program.dispatches[k].pipeline].n_bindings;
    VkDescriptorSetAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                        .descriptorPool = p->descriptor_pool,
                                        .descriptorSetCount = 1,
                                        .pSetLayouts = &vk->set_layouts[n]};
    TERN_TRY(tern_vulkan__check(vk, vk->fn.AllocateDescriptorSets(vk->device, &info, &p->sets[k]),
                                "vkAllocateDescriptorSets", err));
    VkDescriptorBufferInfo buffers[TERN_VULKAN_MAX_BINDINGS];
    VkWriteDescriptorSet writes[TERN_VULKAN_MAX_BINDINGS];
    for (uint32_t i = 0; i < n; i++) {
        buffers[i] =
            (VkDescriptorBufferInfo){p->bound[k][i].buffer->handle, p->bound[k][i].offset, p->bound[k][i].bytes};
        writes[i] = (VkWriteDescriptorSet){.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                           .dstSet = p->sets[k],
                                           .dstBinding = 1 + i,
                                           .descriptorCount = 1,
                                           .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                           .pBufferInfo = &buffers[i]};
    }
    vk->fn.UpdateDescriptorSets(vk->device, n, writes, 0, NULL);
    return TERN_OK;
}

static tern_status make_sets(tern_vulkan *vk, tern_prepared *p, tern_error *err)
{
    TERN_TRY(make_pool(vk, p, err));
    p->sets = tern_calloc(p->program.n, sizeof *p->sets);
    if (!p->sets) return tern_fail_alloc(err, p->program.n * sizeof *p->sets);
    for (size_t k = 0; k < p->program.n; k++) TERN_TRY(make_set(vk, p, k, err));
    return TERN_OK;
}

/* Small outputs get a copy that the host reads; of a graph that chooses tokens, the tokens alone. */
static tern_status make_mirrors(tern_vulkan *vk, tern_prepared *p, const tern_binding *bindings, tern_error *err)
{
    const tern_graph *g = p->graph;
    p->mirrored = tern_calloc(g->n_values + 1, sizeof *p->mirrored);
    if (!p->mirrored) return tern_fail_alloc(err, (g->n_values + 1) * sizeof *p->mirrored);
    if (p->waits && p->waits->mirror) p->mirrored[p->n_mirrored++] = p->waits;
    for (uint32_t i = 0; i < g->n_values; i++) {
        if (g->values[i].kind != TERN_VALUE_OUTPUT || !bindings[i].buffer) continue;
        if (g->tokens != TERN_NO_VALUE && i != g->tokens) continue;
        TERN_TRY(tern_vulkan__buffer_mirror(vk, bindings[i].buffer, bindings[i].offset, g->values[i].bytes, err));
        if (bindings[i].buffer->mirror) p->mirrored[p->n_mirrored++] = bindings[i].buffer;
    }
    return TERN_OK;
}

static tern_status make_ready(tern_vulkan *vk, tern_prepared *p, const tern_binding *bindings, tern_error *err)
{
    if (p->program.n == 0) return tern_fail(err, TERN_INVALID_ARGUMENT, "vulkan: a graph with nothing to run");
    TERN_TRY(make_buffers(vk, p, err));
    TERN_TRY(resolve(vk, p, bindings, err));
    tern_vulkan__take_waiting(vk, &p->program);
    TERN_TRY(tern_vulkan__pipelines(vk, &p->program, err));
    TERN_TRY(tern_vulkan__put_in_order(vk, p, err));
    TERN_TRY(make_sets(vk, p, err));
    TERN_TRY(make_mirrors(vk, p, bindings, err));
    if (vk->profile) TERN_TRY(tern_vulkan__profile_open(vk, p, err));
    TERN_TRY(tern_vulkan__record(vk, p, err));
    return tern_vulkan__upload_wait(vk, err);
}

tern_status tern_vulkan__prepare_program(tern_vulkan *vk, tern_gpu_program *program, const tern_binding *bindings,
                                         tern_prepared **out, tern_error *err)
{
    tern_prepared *p = tern_calloc(1, sizeof *p);
    if (!p) {
        tern_gpu_program_deinit(program);
        return tern_fail_alloc(err, sizeof *p);
    }
    p->graph = program->graph;
    p->program = *program;
    *program = (tern_gpu_program){0};
    tern_status status = make_ready(vk, p, bindings, err);
    tern_vulkan__cache_save(vk);
    if (status == TERN_OK) *out = p;
    else tern_vulkan__prepared_free(vk, p);
    return status;
}

tern_status tern_vulkan__prepare(tern_vulkan *vk, const tern_graph *graph, const tern_binding *bindings,
                                 tern_prepared **out, tern_error *err)
{
    tern_gpu_program program;
    TERN_TRY(tern_gpu_lower(&program, graph, &vk->caps, err));
    return tern_vulkan__prepare_program(vk, &program, bindings, out, err);
}

void tern_vulkan__prepared_free(tern_vulkan *vk, tern_prepared *p)
{
    if (!p || vk->hangs) return;
    VkCommandBuffer commands[] = {p->step, p->after};
    if (p->step) vk->fn.FreeCommandBuffers(vk->device, vk->command_pool, 1, &commands[0]);
    if (p->after) vk->fn.FreeCommandBuffers(vk->device, vk->command_pool, 1, &commands[1]);
    if (p->queries) vk->fn.DestroyQueryPool(vk->device, p->queries, NULL);
    if (p->descriptor_pool) vk->fn.DestroyDescriptorPool(vk->device, p->descriptor_pool, NULL);
    tern_vulkan__buffer_free(vk, p->scratch);
    tern_vulkan__buffer_free(vk, p->nothing);
    tern_vulkan__buffer_free(vk, p->waits);
    tern_vulkan__buffer_free(vk, p->waits_at_start);
    tern_gpu_program_deinit(&p->program);
    tern_free(p->bound);
    tern_free(p->places);
    tern_free(p->sets);
    tern_free(p->mirrored);
    tern_free(p->ticks);
    tern_free(p);
}
