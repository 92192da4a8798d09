/* The pipelines' SPIR-V: one file that the assembler reads, and a table of where each module lies in it. CMake says
 * which files (TERN_SPIRV_PACK, TERN_SPIRV_INDEX) and that this one depends on them. */
#include "backend/gpu/spirv.h"

/* A symbol of this file alone: the assembler resolves it, the linker never sees it. */
extern const uint32_t pack[] __asm__(".Lspirv_pack") __attribute__((visibility("hidden")));
__asm__(".pushsection .rodata\n.balign 4\n.Lspirv_pack:\n.incbin \"" TERN_SPIRV_PACK "\"\n.popsection\n");

static const struct {
    uint32_t first, n_words;
} modules[TERN_GPU_PIPELINE_COUNT] = {
#define X(name, first, n_words) [TERN_GPU_##name] = {first, n_words},
#include TERN_SPIRV_INDEX
#undef X
};

const uint32_t *tern_gpu_spirv(tern_gpu_pipeline pipeline, size_t *n_words)
{
    *n_words = modules[pipeline].n_words;
    return pack + modules[pipeline].first;
}
