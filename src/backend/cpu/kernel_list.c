/* All kernels in one table. */
#include <stddef.h>

#include "backend/cpu/kernels.h"

enum {
#define TERN_CPU_LEVEL(level, words, needed) NEEDED_##level = (needed),
    TERN_CPU_LEVEL_LIST(TERN_CPU_LEVEL)
#undef TERN_CPU_LEVEL
};

const tern_cpu_kernel tern_cpu__kernels[] = {
#define KERNEL(slot, level) {#slot, #level, NEEDED_##level, (void (*)(void))tern_cpu__##slot##_##level},
#include "backend/cpu/kernels.def"
#undef KERNEL
    {NULL, NULL, 0, NULL},
};
