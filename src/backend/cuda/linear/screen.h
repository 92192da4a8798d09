/* `--head exact` on CUDA: a copy of the output table in Q8_0 bounds every logit, and only rows that can be among the
 * wanted ones are computed from the table (docs/decisions/0011-exact-head.md). */
#ifndef TERN_BACKEND_CUDA_LINEAR_SCREEN_H
#define TERN_BACKEND_CUDA_LINEAR_SCREEN_H

#include "backend/cuda/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    TERN_CUDA_SCREEN_ROWS = 4,    /* of a step: with more, products read the table once for all of them */
    TERN_CUDA_SCREEN_WANTED = 64, /* the most logits that are wanted, the pinned ones among them */
    TERN_CUDA_SCREEN_SLICES = 64  /* of a row of logits, whose highest are found side by side */
};

/* For a row w of the table and its copy u, with rows x of a step:
 *
 *   |full logit - estimate|  <=  |x| * error,   error = |w - u| + g * (|w| + |u|)
 *
 * by Cauchy and Schwarz; g bounds what sums in f32 may lose in any order. The wanted logits are at least the n-th
 * highest of estimate - |x| * error: a row whose estimate + |x| * error is less is none of them. */
typedef struct tern_cuda_screen_table {
    tern_cuda_weight table; /* f32, f16 or bf16 */
    uint8_t *copy;          /* [rows][copy_bytes]: a row of Q8_0 in the layout of backend/gpu/layout.h */
    uint32_t copy_bytes;
    float *errors; /* [rows], rounded up; infinite: the row is always computed */
} tern_cuda_screen_table;
/* Makes the copy and the errors. */
cudaError_t tern_cuda_screen_build(const tern_cuda_screen_table *s, cudaStream_t stream);

/* tern_wanted (ops/params.h). */
typedef struct tern_cuda_wanted {
    uint32_t n_pinned;
    float reach, sharpness, tail;
    uint32_t pinned[1020];
} tern_cuda_wanted;

/* Scratch that a step of a screened LINEAR writes for its own kernels. */
typedef struct tern_cuda_screen_plan {
    uint32_t rows, full_rows; /* of x: those that are screened, or all of them to be multiplied with the table */
    uint32_t wanted;          /* how many of the highest */
    float norms[TERN_CUDA_SCREEN_ROWS]; /* |x|, rounded up */
    float thresholds[TERN_CUDA_SCREEN_ROWS];
    unsigned long long found[TERN_CUDA_SCREEN_ROWS][TERN_CUDA_SCREEN_SLICES][TERN_CUDA_SCREEN_WANTED];
} tern_cuda_screen_plan;

/* A screened LINEAR: out[t][r] is the full logit where row r may be wanted, else -inf. Steps of more rows than
 * TERN_CUDA_SCREEN_ROWS, or that want more than TERN_CUDA_SCREEN_WANTED or a sum (tern_wanted's tail), are run in full.
 */
typedef struct tern_cuda_screened {
    tern_cuda_linear full, estimate; /* their counts are of the plan */
    const float *errors;
    const uint32_t *counts; /* COUNTS */
    const tern_cuda_wanted *more;
    tern_cuda_screen_plan *plan; /* scratch */
} tern_cuda_screened;
cudaError_t tern_cuda_run_screened(const tern_cuda_screened *p, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
