/* A whole RSR matrix of any kind times a vector, on the calling thread: by a step on groups, or by a kernel on slices.
 *
 *   y[r] = sum over c of w[r][c] * x[c]
 *
 *   x     in   [cols]; gathers on groups read 3 bytes behind it
 *   scratch    on groups [panel_cols + 16], on slices [panel_cols + 4]
 *   y     out  [rows]
 *
 * Integers are exact as long as three times the sum over c of |x[c]| fits 32 bits. No allocation.
 *
 * Ternary layers of models take another way (candidates/rsr.c): ranges of rows of slices, several tokens, all threads.
 * This is for binary matrices and matrices of signs, for the multipliers that the documents name, and for comparing all
 * of them. */
#ifndef TERN_BENCH_RSR_PRODUCT_H
#define TERN_BENCH_RSR_PRODUCT_H

#include "rsr/multipliers/slices_f32.h"
#include "rsr/multipliers/steps.h"

void rsr_i8_groups(const rsr_groups *g, const rsr_lists *lists, rsr_step_i8 *step, const int8_t *x, int32_t *scratch,
                   int32_t *y);
void rsr_f32_groups(const rsr_groups *g, const rsr_lists *lists, rsr_step_f32 *step, const float *x, float *scratch,
                    float *y);
void rsr_i8_slices(const tern_rsr_slices *s, tern_rsr_i8_fn kernel, const int8_t *x, int8_t *scratch, int32_t *y);
void rsr_f32_slices(const tern_rsr_slices *s, rsr_f32_fn kernel, const float *x, float *scratch, float *y);

/* The multipliers of the public code, by their versions there, and what stands for them here. */
typedef struct rsr_multiplier {
    const char *version; /* "binary 4.2" */
    const char *step;    /* as RSR_STEPS has it, or "gather" */
    bool ternary;
    rsr_step_i8 *i8;
    rsr_step_f32 *f32;
} rsr_multiplier;

/* The one of this version on a CPU with these features. Errors: INVALID_ARGUMENT (with all versions), UNSUPPORTED (SIMD
 * gathers that the CPU does not have). */
tern_status rsr_multiplier_find(const char *version, uint32_t features, rsr_multiplier *out, tern_error *err);
/* NULL past the last. */
const char *rsr_multiplier_version(size_t i);

#endif
