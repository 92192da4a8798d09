/* CPU features elsewhere: those of WebAssembly are fixed when it is compiled, and where no kernel level exists there
 * are none. */
#if !defined(__x86_64__) && !defined(__aarch64__)
#include "base/cpu.h"

uint32_t tern_cpu_features(void)
{
#if defined(__wasm_simd128__)
    return TERN_CPU_SIMD128;
#else
    return 0;
#endif
}
#endif
