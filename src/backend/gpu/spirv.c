/* The pipelines' SPIR-V. The assembler reads the files; CMake says where they are (TERN_SPIRV_DIR) and that this file
 * depends on them. */
#include "backend/gpu/spirv.h"

#define HIDDEN __attribute__((visibility("hidden")))

/* Symbols of this file alone: the assembler resolves them, the linker never sees them. */
#define X(name, file, signature, needs, subgroup, invocations, bytes, overrides)                                       \
    extern const uint32_t spirv_##name[] __asm__(".Lspirv_" #name) HIDDEN;                                             \
    extern const uint32_t spirv_##name##_end[] __asm__(".Lspirv_" #name "_end") HIDDEN;                                \
    __asm__(".pushsection .rodata\n.balign 4\n.Lspirv_" #name ":\n"                                                    \
            ".incbin \"" TERN_SPIRV_DIR "/" #name ".spv\"\n.Lspirv_" #name "_end:\n.popsection\n");
#include "backend/gpu/pipelines.def"
#undef X

static const struct {
    const uint32_t *words, *end;
} modules[TERN_GPU_PIPELINE_COUNT] = {
#define X(name, file, signature, needs, subgroup, invocations, bytes, overrides)                                       \
    [TERN_GPU_##name] = {spirv_##name, spirv_##name##_end},
#include "backend/gpu/pipelines.def"
#undef X
};

const uint32_t *tern_gpu_spirv(tern_gpu_pipeline pipeline, size_t *n_words)
{
    *n_words = (size_t)(modules[pipeline].end - modules[pipeline].words);
    return modules[pipeline].words;
}
