/* Groups of levels: how many of them side by side this CPU fits fastest. */
#include <stdatomic.h>

#include "base/cpu.h"

#define LANES      4
#define FIT_GROUPS tern_signed_fit__groups_4
#include "quant/signed_groups.inc"

typedef uint16_t (*fit_fn)(const tern_signed_fit *f, int least, const float *x, const float *w, int8_t *multiples,
                           float *q);

static fit_fn choose(void)
{
#if defined(__x86_64__)
    const uint32_t features = tern_cpu_features();
    if (features & TERN_CPU_AVX512) return tern_signed_fit__groups_avx512;
    if (features & TERN_CPU_AVX2) return tern_signed_fit__groups_avx2;
#endif
    return tern_signed_fit__groups_4;
}

uint16_t tern_signed_fit__groups(const tern_signed_fit *f, int least, const float *x, const float *w, int8_t *multiples,
                                 float *q)
{
    static _Atomic(fit_fn) chosen;
    fit_fn fit = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (!fit) atomic_store_explicit(&chosen, fit = choose(), memory_order_relaxed);
    return fit(f, least, x, w, multiples, q);
}
