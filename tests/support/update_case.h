/* Some steps of the optimiser on one made-up tensor, on a backend and by the definitions of ops/ref/update.h: what is
 * stored must be the same to the bit. */
#ifndef TERN_TESTS_SUPPORT_UPDATE_CASE_H
#define TERN_TESTS_SUPPORT_UPDATE_CASE_H

#include "backend/backend.h"
#include "ops/ref/update.h"
#include "support/kernels.h"

typedef enum update_kind {
    UPDATE_DENSE,   /* a weight that is its own master */
    UPDATE_TERNARY, /* a master and i2_s with row scales */
    UPDATE_BLENDED, /* a master and a dense F32 weight (gradual quantisation) */
} update_kind;

typedef struct update_case {
    update_kind kind;
    uint32_t rows, cols, n_steps;
    tern_dtype w, m, v;
    tern_optimizer optimizer;
    bool momentum, decays;
    float threshold, clamp, blend, clip;
    test_fill weights, gradients;
    uint64_t seed;                         /* of everything */
    const float *masters, *every_gradient; /* [rows * cols] in their place; NULL: random */
} update_case;

/* What is there after the steps; bytes as they are stored, without padding. */
typedef struct update_results {
    uint8_t *w, *m, *v, *g; /* states, or NULL; of UPDATE_DENSE w is the weight */
    uint8_t *out;           /* codes [rows][ceil(cols / 128) * 32], or F32 */
    float *scales;          /* [rows] of UPDATE_TERNARY */
    float *norms;           /* [n_steps] sums of squares */
} update_results;

/* A case from a generator: any types and sizes. */
update_case update_case_any(tern_rng *rng);
/* The cases where a rounding, a tie or a flush would show that random ones do not meet, i = 0 .. 3; `numbers` is for
 * what they point to. */
enum { UPDATE_HARD_CASES = 4, UPDATE_HARD_ELEMENTS = 16 * 512 };
update_case update_case_hard(int i, float numbers[2][UPDATE_HARD_ELEMENTS]);
void update_case_print(const update_case *c);

void update_case_expect(const update_case *c, update_results *results);
/* slice_rows: how many rows of a ternary weight are together on the device, and slice_bytes from one such slice to the
 * next; 0: all. */
void update_case_run(const update_case *c, tern_backend *backend, uint32_t slice_rows, uint64_t slice_bytes,
                     update_results *results);
/* What differs (static storage), or NULL. */
const char *update_case_difference(const update_case *c, const update_results *got, const update_results *want);
void update_results_free(update_results *results);

#endif
