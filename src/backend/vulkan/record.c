/* Recording a step: its dispatches with the barriers they need, and what makes the results readable for the host. */
#include "backend/vulkan/device.h"
#include "ops/graph.h"
#include "ops/op.h"

void tern_vulkan__barrier(tern_vulkan *vk, VkCommandBuffer commands, VkPipelineStageFlags from, VkAccessFlags written,
                          VkPipelineStageFlags to, VkAccessFlags used)
{
    VkMemoryBarrier memory = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER, .srcAccessMask = written, .dstAccessMask = used};
    vk->fn.CmdPipelineBarrier(commands, from, to, 0, 1, &memory, 0, NULL, 0, NULL);
}

static const VkPipelineStageFlags compute = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                                  transfer = VK_PIPELINE_STAGE_TRANSFER_BIT;
static const VkAccessFlags shader_read_write = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT;

static void record_dispatch(tern_vulkan *vk, tern_prepared *p, size_t k, tern_gpu_pipeline *bound)
{
    const tern_gpu_dispatch *d = &p->program.dispatches[k];
    if (*bound != d->pipeline)
        vk->fn.CmdBindPipeline(p->step, VK_PIPELINE_BIND_POINT_COMPUTE, vk->pipelines[d->pipeline]);
    *bound = d->pipeline;
    VkPipelineLayout layout = vk->layouts[tern_gpu_pipelines[d->pipeline].n_bindings];
    vk->fn.CmdBindDescriptorSets(p->step, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1, &p->sets[k], 0, NULL);
    vk->fn.CmdPushConstants(p->step, layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof d->uniform, d->uniform);
    vk->fn.CmdDispatch(p->step, d->groups[0], d->groups[1], d->groups[2]);
    if (p->queries)
        vk->fn.CmdWriteTimestamp(p->step, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, p->queries, (uint32_t)k + 1);
}

/* Everything that came before is done and visible: uploads, an earlier run, the step before. */
static void record_start(tern_vulkan *vk, tern_prepared *p)
{
    tern_vulkan__barrier(vk, p->step, compute | transfer, VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
                         compute | transfer, shader_read_write | VK_ACCESS_TRANSFER_WRITE_BIT);
    p->n_barriers = 1;
    if (p->waits) { /* the first dispatch that waits has a barrier before it */
        VkBufferCopy copy = {.size = p->waits_at_start->bytes};
        vk->fn.CmdCopyBuffer(p->step, p->waits_at_start->handle, p->waits->handle, 1, &copy);
    }
    if (!p->queries) return;
    vk->fn.CmdResetQueryPool(p->step, p->queries, 0, (uint32_t)p->program.n + 1);
    vk->fn.CmdWriteTimestamp(p->step, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, p->queries, 0);
}

static tern_status record_step(tern_vulkan *vk, tern_prepared *p, tern_error *err)
{
    TERN_TRY(tern_vulkan__commands_create(vk, &p->step, err));
    TERN_TRY(tern_vulkan__begin(vk, p->step, VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT, err));
    record_start(vk, p);
    tern_gpu_pipeline bound = TERN_GPU_PIPELINE_COUNT;
    for (size_t k = 0; k < p->program.n; k++) {
        if (p->places[k].barrier) {
            tern_vulkan__barrier(vk, p->step, compute | transfer,
                                 VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT, compute, shader_read_write);
            p->n_barriers++;
            p->n_layer_barriers += p->graph->ops[p->program.dispatches[k].op].layer != UINT32_MAX;
        }
        record_dispatch(vk, p, k, &bound);
    }
    return tern_vulkan__check(vk, vk->fn.EndCommandBuffer(p->step), "vkEndCommandBuffer", err);
}

static tern_status record_after(tern_vulkan *vk, tern_prepared *p, tern_error *err)
{
    TERN_TRY(tern_vulkan__commands_create(vk, &p->after, err));
    TERN_TRY(tern_vulkan__begin(vk, p->after, VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT, err));
    if (p->n_mirrored) {
        tern_vulkan__barrier(vk, p->after, compute | transfer,
                             VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT, transfer,
                             VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT);
        for (uint32_t i = 0; i < p->n_mirrored; i++) {
            const tern_buffer *from = p->mirrored[i];
            VkBufferCopy copy = {.srcOffset = from->mirror_offset, .size = from->mirror->bytes};
            vk->fn.CmdCopyBuffer(p->after, from->handle, from->mirror->handle, 1, &copy);
        }
    }
    tern_vulkan__barrier(vk, p->after, compute | transfer, VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
                         VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT | VK_ACCESS_HOST_WRITE_BIT);
    return tern_vulkan__check(vk, vk->fn.EndCommandBuffer(p->after), "vkEndCommandBuffer", err);
}

tern_status tern_vulkan__record(tern_vulkan *vk, tern_prepared *p, tern_error *err)
{
    TERN_TRY(record_step(vk, p, err));
    return record_after(vk, p, err);
}
