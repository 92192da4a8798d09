/* RSR products on groups in plain C, and the forms of the matrix that they read. */
#include "rsr/multipliers/steps.h"

#include "base/alloc.h"
#include "base/cpu.h"

#define X          int8_t
#define Y          int32_t
#define NAME(step) rsr_##step##_i8
#include "rsr/multipliers/steps.inc"

#define X          float
#define Y          float
#define NAME(step) rsr_##step##_f32
#include "rsr/multipliers/steps.inc"

#if defined(__x86_64__)
enum { WIDE = TERN_CPU_AVX512 | TERN_CPU_AVX512_VNNI }; /* what the files of that level are compiled for */
extern rsr_step_i8 rsr_gather_i8_avx2, rsr_gather_i8_avx512;
extern rsr_step_f32 rsr_gather_f32_avx2, rsr_gather_f32_avx512;

rsr_step_i8 *rsr_gather_i8(uint32_t features)
{
    if ((features & WIDE) == WIDE) return rsr_gather_i8_avx512;
    return features & TERN_CPU_AVX2 ? rsr_gather_i8_avx2 : NULL;
}

rsr_step_f32 *rsr_gather_f32(uint32_t features)
{
    if ((features & WIDE) == WIDE) return rsr_gather_f32_avx512;
    return features & TERN_CPU_AVX2 ? rsr_gather_f32_avx2 : NULL;
}
#else
rsr_step_i8 *rsr_gather_i8(uint32_t features)
{
    (void)features;
    return NULL;
}

rsr_step_f32 *rsr_gather_f32(uint32_t features)
{
    (void)features;
    return NULL;
}
#endif

static void list_group(const tern_rsr_group *g, uint32_t k, uint32_t *at, rsr_lists *out)
{
    for (uint32_t row = 0; row < k; row++) {
        const int sign = (g->pos >> row & 1) - (g->neg >> row & 1);
        if (!sign) continue;
        out->rows[*at] = (uint16_t)row;
        out->signs[(*at)++] = (int8_t)sign;
    }
}

tern_status rsr_lists_make(rsr_lists *out, const rsr_groups *g, tern_error *err)
{
    const uint32_t n_units = g->n_blocks * g->n_panels, n_columns = g->first_column[n_units],
                   n_groups = g->first_group[n_units];
    const size_t most = (size_t)n_groups * g->k + 1;
    uint32_t at = 0;
    *out = (rsr_lists){.perm = tern_calloc((size_t)n_columns + 1, 4),
                       .ends = tern_calloc((size_t)n_groups + 1, 4),
                       .first_row = tern_calloc((size_t)n_groups + 1, 4),
                       .rows = tern_calloc(most, 2),
                       .signs = tern_calloc(most, 1)};
    if (!out->perm || !out->ends || !out->first_row || !out->rows || !out->signs) {
        rsr_lists_deinit(out);
        return tern_fail_alloc(err, ((size_t)n_columns + 2 * (size_t)n_groups) * 4 + most * 3);
    }
    for (uint32_t i = 0; i < n_columns; i++) out->perm[i] = g->perm[i];
    for (uint32_t i = 0; i < n_groups; i++) {
        out->ends[i] = g->groups[i].end;
        list_group(&g->groups[i], g->k, &at, out);
        out->first_row[i + 1] = at;
    }
    return TERN_OK;
}

void rsr_lists_deinit(rsr_lists *l)
{
    tern_free(l->perm);
    tern_free(l->ends);
    tern_free(l->first_row);
    tern_free(l->rows);
    tern_free(l->signs);
    *l = (rsr_lists){0};
}

rsr_block rsr_block_of(const rsr_groups *g, const rsr_lists *l, uint32_t u)
{
    const uint32_t column = g->first_column[u], group = g->first_group[u];
    rsr_block b = {.n_groups = g->first_group[u + 1] - group,
                   .n_columns = g->first_column[u + 1] - column,
                   .perm = g->perm + column,
                   .groups = g->groups + group};
    if (!l) return b;
    b.wide_perm = l->perm + column;
    b.wide_ends = l->ends + group;
    b.first_row = l->first_row + group;
    b.rows = l->rows;
    b.signs = l->signs;
    return b;
}
