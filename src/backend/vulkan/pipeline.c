/* Compute pipelines: each made once, when a graph first needs it, those of a graph together. */
#include "backend/gpu/spirv.h"
#include "backend/vulkan/device.h"
#include "base/alloc.h"
#include "base/pool.h"

/* Set and pipeline layouts depend on the number of storage bindings alone: Vulkan tells read-only ones apart in the
 * shader. */
static tern_status make_layouts(tern_vulkan *vk, uint32_t n_storage, tern_error *err)
{
    if (vk->layouts[n_storage]) return TERN_OK;
    VkDescriptorSetLayoutBinding bindings[TERN_VULKAN_MAX_BINDINGS];
    for (uint32_t i = 0; i < n_storage; i++)
        bindings[i] = (VkDescriptorSetLayoutBinding){.binding = 1 + i,
                                                     .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                                     .descriptorCount = 1,
                                                     .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT};
    VkDescriptorSetLayoutCreateInfo set = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, .bindingCount = n_storage, .pBindings = bindings};
    VkPushConstantRange words = {.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT,
                                 .size = TERN_GPU_UNIFORM_WORDS * 4}; /* binding 0 of the WGSL */
    if (!vk->set_layouts[n_storage])
        TERN_TRY(tern_vulkan__check(
            vk, vk->fn.CreateDescriptorSetLayout(vk->device, &set, NULL, &vk->set_layouts[n_storage]),
            "vkCreateDescriptorSetLayout", err));
    VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                         .setLayoutCount = 1,
                                         .pSetLayouts = &vk->set_layouts[n_storage],
                                         .pushConstantRangeCount = 1,
                                         .pPushConstantRanges = &words};
    return tern_vulkan__check(vk, vk->fn.CreatePipelineLayout(vk->device, &layout, NULL, &vk->layouts[n_storage]),
                              "vkCreatePipelineLayout", err);
}

/* Pipelines that are made together, each by one thread: drivers take their time to compile. */
typedef struct making {
    tern_vulkan *vk;
    tern_gpu_pipeline which[TERN_GPU_PIPELINE_COUNT];
    uint32_t n;
    struct {
        uint32_t *words;
        size_t n_words;
    } modules[TERN_GPU_PIPELINE_COUNT];
    struct {
        VkResult result;
        bool hit;
    } outcomes[TERN_GPU_PIPELINE_COUNT];
} making;

/* One that is larger than what can be asked for has the usual size, which is the one that would be. */
static bool asks_for_size(const tern_vulkan *vk, tern_gpu_pipeline which)
{
    const bool cares = tern_gpu_pipelines[which].needs & (TERN_GPU_NEEDS_SUBGROUPS | TERN_GPU_NEEDS_COOPERATIVE);
    return cares && vk->physical.subgroup_control &&
           vk->modules[which].local_size_x <= (uint64_t)vk->caps.subgroup_min * vk->physical.most_subgroups;
}

static VkResult make(const making *m, uint32_t task, bool *hit)
{
    tern_vulkan *vk = m->vk;
    const tern_gpu_pipeline which = m->which[task];
    const tern_gpu_pipeline_info *info = &tern_gpu_pipelines[which];
    VkShaderModuleCreateInfo code = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                     .codeSize = m->modules[task].n_words * 4,
                                     .pCode = m->modules[task].words};
    VkShaderModule module;
    VkResult result = vk->fn.CreateShaderModule(vk->device, &code, NULL, &module);
    if (result != VK_SUCCESS) return result;
    VkPipelineShaderStageRequiredSubgroupSizeCreateInfo size = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
        .requiredSubgroupSize = vk->caps.subgroup_min};
    VkPipelineCreationFeedback feedback = {0}, stage_feedback = {0};
    VkPipelineCreationFeedbackCreateInfo told = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CREATION_FEEDBACK_CREATE_INFO,
                                                 .pPipelineCreationFeedback = &feedback,
                                                 .pipelineStageCreationFeedbackCount = 1,
                                                 .pPipelineStageCreationFeedbacks = &stage_feedback};
    VkComputePipelineCreateInfo pipeline = {.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
                                            .pNext = vk->physical.feedback ? &told : NULL,
                                            .layout = vk->layouts[info->n_bindings],
                                            .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                                                      .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                                                      .module = module,
                                                      .pName = "main"}};
    if (asks_for_size(vk, which)) {
        pipeline.stage.pNext = &size;
        if (vk->modules[which].local_size_x % vk->caps.subgroup_min == 0)
            pipeline.stage.flags = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
    }
    result = vk->fn.CreateComputePipelines(vk->device, vk->cache, 1, &pipeline, NULL, &vk->pipelines[which]);
    vk->fn.DestroyShaderModule(vk->device, module, NULL);
    *hit = feedback.flags & VK_PIPELINE_CREATION_FEEDBACK_APPLICATION_PIPELINE_CACHE_HIT_BIT;
    return result;
}

static void make_task(void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    making *m = context;
    m->outcomes[task].result = make(m, task, &m->outcomes[task].hit);
}

/* State that the pipelines have in common, and the facts of their modules. */
static tern_status make_ready(making *m, uint32_t task, tern_error *err)
{
    const tern_gpu_pipeline which = m->which[task];
    TERN_TRY(tern_gpu_spirv(which, &m->modules[task].words, &m->modules[task].n_words, err));
    TERN_TRY(make_layouts(m->vk, tern_gpu_pipelines[which].n_bindings, err));
    return tern_vulkan__module_of(&m->vk->modules[which], m->modules[task].words, m->modules[task].n_words, err);
}

static tern_status choose(tern_vulkan *vk, const tern_gpu_program *program, making *m, tern_error *err)
{
    bool wanted[TERN_GPU_PIPELINE_COUNT] = {0};
    m->vk = vk;
    for (size_t k = 0; k < program->n; k++) {
        tern_gpu_pipeline which = program->dispatches[k].pipeline;
        if (vk->pipelines[which] || wanted[which]) continue;
        wanted[which] = true;
        m->which[m->n++] = which;
        TERN_TRY(make_ready(m, m->n - 1, err));
    }
    return TERN_OK;
}

static tern_status count(tern_vulkan *vk, const making *m, tern_error *err)
{
    for (uint32_t i = 0; i < m->n; i++) {
        if (tern_vulkan__check(vk, m->outcomes[i].result, "vkCreateComputePipelines", err) != TERN_OK)
            return tern_error_prefix(err, "kernel %s", tern_gpu_pipelines[m->which[i]].name);
        vk->counters.pipelines++;
        vk->counters.pipeline_hits += m->outcomes[i].hit;
        vk->n_unsaved += !m->outcomes[i].hit;
    }
    return TERN_OK;
}

tern_status tern_vulkan__pipelines(tern_vulkan *vk, const tern_gpu_program *program, tern_error *err)
{
    making *m = tern_calloc(1, sizeof *m);
    if (!m) return tern_fail_alloc(err, sizeof *m);
    tern_status status = choose(vk, program, m, err);
    if (status == TERN_OK && m->n > 1) status = tern_gpu_workers_open(&vk->workers, err);
    if (status == TERN_OK && m->n > 1) tern_pool_for(vk->workers.pool, m->n, make_task, m);
    if (status == TERN_OK && m->n == 1) make_task(m, 0, 0);
    if (status == TERN_OK) status = count(vk, m, err);
    for (uint32_t i = 0; i < m->n; i++) tern_free(m->modules[i].words);
    tern_free(m);
    return status;
}

void tern_vulkan__pipelines_close(tern_vulkan *vk)
{
    for (int i = 0; i < TERN_GPU_PIPELINE_COUNT; i++)
        if (vk->pipelines[i]) vk->fn.DestroyPipeline(vk->device, vk->pipelines[i], NULL);
    for (int i = 0; i <= TERN_VULKAN_MAX_BINDINGS; i++) {
        if (vk->layouts[i]) vk->fn.DestroyPipelineLayout(vk->device, vk->layouts[i], NULL);
        if (vk->set_layouts[i]) vk->fn.DestroyDescriptorSetLayout(vk->device, vk->set_layouts[i], NULL);
    }
    if (vk->cache) vk->fn.DestroyPipelineCache(vk->device, vk->cache, NULL);
    tern_free(vk->cache_path);
}
