/* Choosing kernels: the scalar definitions first, then each level that the CPU has overwrites what it does better. */
#include "backend/cpu/kernels.h"

#include <stdbool.h>

static bool has(uint32_t features, uint32_t needed)
{
    return (features & needed) == needed;
}

void tern_cpu_kernels_choose(uint32_t features, tern_cpu_kernels *out)
{
#define TERN_CPU_SLOT(name, type)                                                                                      \
    out->name = tern_ref_##name;                                                                                       \
    out->name##_level = "scalar";
    TERN_CPU_SLOT_LIST(TERN_CPU_SLOT)
#undef TERN_CPU_SLOT
#define TERN_CPU_LEVEL(level, words, needed)                                                                           \
    const bool has_##level = has(features, needed);                                                                    \
    (void)has_##level;
    TERN_CPU_LEVEL_LIST(TERN_CPU_LEVEL)
#undef TERN_CPU_LEVEL
#define KERNEL(slot, level)                                                                                            \
    if (has_##level) {                                                                                                 \
        out->slot = tern_cpu__##slot##_##level;                                                                        \
        out->slot##_level = #level;                                                                                    \
    }
#include "backend/cpu/kernels.def"
#undef KERNEL
}
