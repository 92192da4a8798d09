/* Compute pipelines: each made once, when a graph first needs it. */
#include <string.h>

#include "backend/gpu/spirv.h"
#include "backend/vulkan/device.h"
#include "base/alloc.h"

/* Set and pipeline layouts depend on the number of storage bindings alone: Vulkan tells read-only ones apart in the shader. */
static tern_status make_layouts(tern_vulkan *vk, uint32_t n_storage, tern_error *err)
{
    if (vk->layouts[n_storage]) return TERN_OK;
    VkDescriptorSetLayoutBinding bindings[TERN_GPU_MAX_BINDINGS];
    for (uint32_t i = 0; i < n_storage; i++)
        bindings[i] = (VkDescriptorSetLayoutBinding){.binding = 1 + i, .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                                     .descriptorCount = 1, .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT};
    VkDescriptorSetLayoutCreateInfo set = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, .bindingCount = n_storage,
                                           .pBindings = bindings};
    VkPushConstantRange words = {.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT, .size = TERN_GPU_UNIFORM_WORDS * 4}; /* binding 0 of the WGSL */
    if (!vk->set_layouts[n_storage])
        TERN_TRY(tern_vulkan__check(vk, vk->fn.CreateDescriptorSetLayout(vk->device, &set, NULL, &vk->set_layouts[n_storage]),
                                    "vkCreateDescriptorSetLayout", err));
    VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO, .setLayoutCount = 1,
                                         .pSetLayouts = &vk->set_layouts[n_storage], .pushConstantRangeCount = 1,
                                         .pPushConstantRanges = &words};
    return tern_vulkan__check(vk, vk->fn.CreatePipelineLayout(vk->device, &layout, NULL, &vk->layouts[n_storage]), "vkCreatePipelineLayout", err);
}

static tern_status make(tern_vulkan *vk, tern_gpu_pipeline which, const uint32_t *words, size_t n_words, tern_error *err)
{
    const tern_gpu_pipeline_info *info = &tern_gpu_pipelines[which];
    const uint32_t n_storage = (uint32_t)strlen(info->signature);
    TERN_TRY(make_layouts(vk, n_storage, err));
    TERN_TRY(tern_vulkan__module_of(&vk->modules[which], words, n_words, err));
    VkShaderModuleCreateInfo code = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = n_words * 4, .pCode = words};
    VkShaderModule module;
    TERN_TRY(tern_vulkan__check(vk, vk->fn.CreateShaderModule(vk->device, &code, NULL, &module), "vkCreateShaderModule", err));
    VkPipelineShaderStageRequiredSubgroupSizeCreateInfo size = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO, .requiredSubgroupSize = vk->caps.subgroup_min};
    VkPipelineCreationFeedback feedback = {0}, stage_feedback = {0};
    VkPipelineCreationFeedbackCreateInfo told = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CREATION_FEEDBACK_CREATE_INFO,
                                                 .pPipelineCreationFeedback = &feedback, .pipelineStageCreationFeedbackCount = 1,
                                                 .pPipelineStageCreationFeedbacks = &stage_feedback};
    VkComputePipelineCreateInfo pipeline = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO, .pNext = vk->physical.feedback ? &told : NULL,
        .layout = vk->layouts[n_storage],
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO, .stage = VK_SHADER_STAGE_COMPUTE_BIT, .module = module,
                  .pName = "main"}};
    if (info->needs && vk->physical.subgroup_control) {
        pipeline.stage.pNext = &size;
        if (vk->modules[which].local_size_x % vk->caps.subgroup_min == 0)
            pipeline.stage.flags = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
    }
    VkResult result = vk->fn.CreateComputePipelines(vk->device, vk->cache, 1, &pipeline, NULL, &vk->pipelines[which]);
    vk->fn.DestroyShaderModule(vk->device, module, NULL);
    if (tern_vulkan__check(vk, result, "vkCreateComputePipelines", err) != TERN_OK) return tern_error_prefix(err, "kernel %s", info->name);
    bool hit = feedback.flags & VK_PIPELINE_CREATION_FEEDBACK_APPLICATION_PIPELINE_CACHE_HIT_BIT;
    vk->counters.pipelines++;
    vk->counters.pipeline_hits += hit;
    vk->n_unsaved += !hit;
    return TERN_OK;
}

tern_status tern_vulkan__pipeline(tern_vulkan *vk, tern_gpu_pipeline which, tern_error *err)
{
    if (vk->pipelines[which]) return TERN_OK;
    size_t n_words;
    const uint32_t *words = tern_gpu_spirv(which, &n_words);
    return make(vk, which, words, n_words, err);
}

void tern_vulkan__pipelines_close(tern_vulkan *vk)
{
    for (int i = 0; i < TERN_GPU_PIPELINE_COUNT; i++)
        if (vk->pipelines[i]) vk->fn.DestroyPipeline(vk->device, vk->pipelines[i], NULL);
    for (int i = 0; i <= TERN_GPU_MAX_BINDINGS; i++) {
        if (vk->layouts[i]) vk->fn.DestroyPipelineLayout(vk->device, vk->layouts[i], NULL);
        if (vk->set_layouts[i]) vk->fn.DestroyDescriptorSetLayout(vk->device, vk->set_layouts[i], NULL);
    }
    if (vk->cache) vk->fn.DestroyPipelineCache(vk->device, vk->cache, NULL);
    tern_free(vk->cache_path);
}
