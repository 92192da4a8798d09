/* CPU features of 64-bit ARM, from the kernel's auxiliary vector. */
#if defined(__aarch64__)
#include "base/cpu.h"

#if defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>

uint32_t tern_cpu_features(void)
{
    unsigned long caps = getauxval(AT_HWCAP);
    if (!(caps & HWCAP_ASIMD)) return 0;
    return TERN_CPU_NEON | (caps & HWCAP_ASIMDDP ? (uint32_t)TERN_CPU_NEON_DOTPROD : 0);
}
#else
/* NEON is part of the base architecture; what is beyond it cannot be asked for here. */
uint32_t tern_cpu_features(void)
{
    return TERN_CPU_NEON;
}
#endif
#endif
