/* The pipeline table, and what may run where. */
#include "backend/gpu/pipelines.h"

#include <string.h>

#if TERN_WEBGPU /* no words of those that a browser never has */
#define NATIVE             (TERN_GPU_NEEDS_COOPERATIVE | TERN_GPU_NEEDS_WAITS | TERN_GPU_NEEDS_VULKAN)
#define WORDS(needs, text) ((needs)&NATIVE ? "" : (text))
#else
#define WORDS(needs, text) text
#endif

const tern_gpu_pipeline_info tern_gpu_pipelines[TERN_GPU_PIPELINE_COUNT] = {
#define X(name, file, signature, needs, subgroup, invocations, bytes, overrides)                                       \
    [TERN_GPU_##name] = {WORDS(needs, #name),  file,  signature,                                                       \
                         sizeof signature - 1, needs, subgroup,                                                        \
                         invocations,          bytes, WORDS(needs, overrides)},
#include "backend/gpu/pipelines.def"
#undef X
};

void tern_gpu_limit(tern_gpu_caps *caps, const tern_gpu_caps *limits)
{
    if (limits->subgroup_max == 0) caps->subgroup_min = caps->subgroup_max = 0;
    caps->cooperative = caps->cooperative && limits->cooperative;
    caps->int8_matrices = caps->int8_matrices && limits->int8_matrices;
    if (limits->workgroup_bytes < caps->workgroup_bytes) caps->workgroup_bytes = limits->workgroup_bytes;
    if (limits->workgroup_invocations < caps->workgroup_invocations)
        caps->workgroup_invocations = limits->workgroup_invocations;
    if (limits->max_groups < caps->max_groups) caps->max_groups = limits->max_groups;
    if (limits->max_binding < caps->max_binding) caps->max_binding = limits->max_binding;
    caps->f16 = caps->f16 && limits->f16;
    caps->waits = caps->waits && limits->waits;
    caps->device_fences = caps->device_fences && limits->device_fences;
}

bool tern_gpu_pipeline_fits(tern_gpu_pipeline pipeline, const tern_gpu_caps *caps)
{
    const tern_gpu_pipeline_info *info = &tern_gpu_pipelines[pipeline];
    if (info->needs & TERN_GPU_NEEDS_SUBGROUPS && (caps->subgroup_min == 0 || caps->subgroup_min < info->subgroup))
        return false;
    if (info->needs & TERN_GPU_NEEDS_COOPERATIVE && !caps->cooperative) return false;
    if (info->needs & TERN_GPU_NEEDS_INT8_MATRICES && !caps->int8_matrices) return false;
    if (info->needs & TERN_GPU_NEEDS_WAITS && !caps->waits) return false;
    return info->invocations <= caps->workgroup_invocations && info->workgroup_bytes <= caps->workgroup_bytes;
}

tern_gpu_pipeline tern_gpu_first_fit(const tern_gpu_pipeline *candidates, size_t n, const tern_gpu_caps *caps)
{
    for (size_t i = 0; i < n; i++)
        if (tern_gpu_pipeline_fits(candidates[i], caps)) return candidates[i];
    return TERN_GPU_PIPELINE_COUNT;
}

tern_gpu_pipeline tern_gpu_waiting(tern_gpu_pipeline pipeline)
{
    const char *name = tern_gpu_pipelines[pipeline].name;
    const size_t n = strlen(name);
    for (tern_gpu_pipeline p = 0; p < TERN_GPU_PIPELINE_COUNT; p++)
        if (tern_gpu_pipelines[p].needs & TERN_GPU_NEEDS_WAITS && strncmp(tern_gpu_pipelines[p].name, name, n) == 0 &&
            strcmp(tern_gpu_pipelines[p].name + n, "_WAITS") == 0)
            return p;
    return TERN_GPU_PIPELINE_COUNT;
}
