/* RSR slices with f32 inputs in plain C, and the list of all levels. */
#include "rsr/multipliers/slices_f32.h"

#include <stddef.h>

#include "base/cpu.h"
#include "ops/ref/lanes.h"

static void plain(const tern_rsr_unit *u, const float *x, float *y)
{
    const uint16_t *masks = u->masks, *index = u->index;
    float rows[16][TERN_LANES] = {{0}};
    for (uint32_t slice = 0; slice < u->n_slices; slice++, masks += 2 * u->k) {
        float sums[TERN_LANES] = {0};
        for (uint32_t s = 0; s < u->lengths[slice]; s++, index += TERN_LANES)
            for (int l = 0; l < TERN_LANES; l++) sums[l] += x[index[l]];
        for (uint32_t r = 0; r < u->k; r++)
            for (int l = 0; l < TERN_LANES; l++) {
                if (masks[r] >> l & 1u) rows[r][l] += sums[l];
                if (masks[u->k + r] >> l & 1u) rows[r][l] -= sums[l];
            }
    }
    for (uint32_t r = 0; r < u->k; r++) y[r] += tern_ref__lanes_sum(rows[r]);
}

#if defined(__x86_64__)
extern __typeof__(plain) rsr_f32_avx2, rsr_f32_avx512;
#endif

const rsr_f32_kernel rsr_f32_kernels[] = {
    {"scalar", 0, plain},
#if defined(__x86_64__)
    {"avx2", TERN_CPU_AVX2, rsr_f32_avx2},
    {"avx512", TERN_CPU_AVX2 | TERN_CPU_AVX512 | TERN_CPU_AVX512_VNNI, rsr_f32_avx512},
#endif
    {NULL, 0, NULL},
};

rsr_f32_fn rsr_f32_best(uint32_t features)
{
    rsr_f32_fn best = plain;
    for (const rsr_f32_kernel *k = rsr_f32_kernels; k->level; k++)
        if ((k->needed & ~features) == 0) best = k->fn;
    return best;
}
