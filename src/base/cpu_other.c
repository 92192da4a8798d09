/* CPU features where no kernel level exists: none. */
#if !defined(__x86_64__) && !defined(__aarch64__)
#include "base/cpu.h"

uint32_t tern_cpu_features(void)
{
    return 0;
}
#endif
