/* CPU features of 64-bit ARM, from the kernel's auxiliary vector. */
#if defined(__aarch64__)
#include "base/cpu.h"

#if defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>

uint32_t tern_cpu_features(void)
{
    const unsigned long caps = getauxval(AT_HWCAP), more = getauxval(AT_HWCAP2);
    uint32_t features = TERN_CPU_NEON;
    if (!(caps & HWCAP_ASIMD)) return 0;
    if (caps & HWCAP_ASIMDDP) features |= TERN_CPU_NEON_DOTPROD;
    if (caps & HWCAP_ASIMDDP && more & HWCAP2_I8MM) features |= TERN_CPU_NEON_I8MM;
    return features;
}
#else
/* NEON is part of the base architecture; what is beyond it cannot be asked for here. */
uint32_t tern_cpu_features(void)
{
    return TERN_CPU_NEON;
}
#endif
#endif
