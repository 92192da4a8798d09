/* CPU features of x86-64, from CPUID and from what the operating system saves (XCR0). */
#if defined(__x86_64__)
#include <cpuid.h>
#include <stdbool.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "base/cpu.h"

/* Bits of CPUID as in the Intel SDM, volume 2A, CPUID. */
enum {
    LEAF1_ECX_SSSE3 = 1 << 9,
    LEAF1_ECX_FMA = 1 << 12,
    LEAF1_ECX_SSE41 = 1 << 19,
    LEAF1_ECX_OSXSAVE = 1 << 27,
    LEAF1_ECX_AVX = 1 << 28,
    LEAF1_ECX_F16C = 1 << 29,
    LEAF7_EBX_AVX2 = 1 << 5,
    LEAF7_ECX_VBMI = 1 << 1,
    LEAF7_ECX_VBMI2 = 1 << 6,
    LEAF7_ECX_VNNI = 1 << 11,
    LEAF7_EDX_AMX = 1 << 24 | 1 << 25, /* tiles, int8 */
    LEAF7_1_EAX_AVX_VNNI = 1 << 4,
    XCR0_YMM = 0x06,
    XCR0_ZMM = 0xe6,
    XCR0_TILES = 0x60000,
};
static const uint32_t leaf7_ebx_avx512 = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31; /* F, DQ, CD, BW, VL */

static bool has(uint32_t word, uint32_t bits)
{
    return (word & bits) == bits;
}

static uint32_t xcr0(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

/* Whether Linux keeps tile data for this process, which it does for those that ask (arch_prctl(2); Documentation/arch/
 * x86/xstate.rst of Linux). Asking again changes nothing. */
static bool may_use_tiles(void)
{
#if defined(__linux__) && defined(SYS_arch_prctl)
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XTILEDATA = 18 };
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XTILEDATA) == 0;
#else
    return false;
#endif
}

/* CPUID says what the CPU can do; the state bits of XCR0 say which registers survive a task switch. */
static uint32_t vector_features(uint32_t state)
{
    uint32_t a, b, c, d, features = 0;
    if (!has(state, XCR0_YMM) || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !has(b, LEAF7_EBX_AVX2)) return 0;
    const uint32_t last_subleaf = a, tiles = d;
    features |= TERN_CPU_AVX2;
    if (has(state, XCR0_ZMM) && has(b, leaf7_ebx_avx512)) {
        features |= TERN_CPU_AVX512;
        if (has(c, LEAF7_ECX_VNNI)) features |= TERN_CPU_AVX512_VNNI;
        if (has(c, LEAF7_ECX_VNNI | LEAF7_ECX_VBMI | LEAF7_ECX_VBMI2)) features |= TERN_CPU_AVX512_VBMI;
    }
    if (last_subleaf >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d) && has(a, LEAF7_1_EAX_AVX_VNNI))
        features |= TERN_CPU_AVX_VNNI;
    if (features & TERN_CPU_AVX512_VBMI && has(state, XCR0_TILES) && has(tiles, LEAF7_EDX_AMX) && may_use_tiles())
        features |= TERN_CPU_AMX_INT8;
    return features;
}

uint32_t tern_cpu_features(void)
{
    uint32_t a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !has(c, LEAF1_ECX_SSSE3 | LEAF1_ECX_SSE41)) return 0;
    uint32_t avx = LEAF1_ECX_OSXSAVE | LEAF1_ECX_AVX | LEAF1_ECX_FMA | LEAF1_ECX_F16C;
    return TERN_CPU_SSE41 | (has(c, avx) ? vector_features(xcr0()) : 0);
}
#endif
