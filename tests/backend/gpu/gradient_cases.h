/* Products of gradients on a GPU, against sums in f64. */
#ifndef TERN_TESTS_BACKEND_GPU_GRADIENT_CASES_H
#define TERN_TESTS_BACKEND_GPU_GRADIENT_CASES_H

#include "ops/operands.h"
#include "support/test.h"

#include <math.h>

#include "backend/gpu/pipelines.h"
#include "backend/open.h"
#include "support/op_case.h"
#include "support/simulated.h"

extern tern_rng gradient_rng;

extern tern_backend *gradient_small; /* bindings of 64 KiB, so that weights are in slices */

extern tern_backend *gradient_cooperative;

typedef struct gradient_format {
    const char *name;
    uint32_t block;
} gradient_format;

#define ONE_FORMAT(X, name, NAME, elements, bytes) +1
enum { N_FORMATS = 5 TERN_ENCODING_BLOCK_LIST(ONE_FORMAT, ) }; /* two ternary ones, three of plain floats */
#undef ONE_FORMAT

extern const gradient_format gradient_formats[N_FORMATS];

/* One product. `gap`: columns before and after the rows that are read and written, in their values. */
typedef struct product {
    const char *encoding; /* of W; LINEAR_DW: "q8" or "f32", of x */
    uint32_t rows, cols, n, gap;
    uint32_t first_row; /* of dx; LINEAR_DW: of x */
    bool residual, in_place, row_scales;
    bool uneven; /* rows of dy (LINEAR_DW: columns) of very different sizes, as gradients have */
    bool runs;   /* each 64 numbers that are summed have another size than those before */
    bool bf16;   /* both factors are rounded to bf16 */
} product;

/* Values as the ops see them: floats of W with its scales, of rows with theirs. */
float *gradient_decoded(const tern_weight *w);

float *gradient_floats_of(const test_case *c, tern_view view);

/* A sum of products: as the op defines it, and of factors that are not rounded. */
typedef struct gradient_sum {
    double sum, most;  /* the largest term */
    double exact, all; /* all: of the magnitudes of terms */
} gradient_sum;

void gradient_add(gradient_sum *s, const product *d, float a, float b);
/* How far sums of `depth` products may be off: f32 rounding of terms as large as those in the row. Of bf16 also what
 * tensor cores cut when they add up, and 2^-7 of all terms from the sum of factors that are not rounded. */
void gradient_check(const char *what, const product *d, uint32_t row, uint32_t col, float got, const gradient_sum *want,
                    uint32_t depth);

void gradient_check_untouched(const test_case *c, const test_results *results, tern_view view, uint32_t first,
                              uint32_t n_rows);

/* Row t of dy times 10^-(t mod 12), or column c so. */
void gradient_make_uneven(test_case *c, tern_view view, uint32_t n_rows, bool columns);

/* Column c of dy times 10^-(c / 64 mod 12), or row t so. */
void gradient_make_runs(test_case *c, tern_view view, uint32_t n_rows, bool columns);

/* dx = dy W + residual. The head's: dy has rows of its own, dx those from first_row on. */
void gradient_run_dx(const product *d, tern_backend *backend);

/* dw += dy^T x. */
void gradient_run_dw(const product *d, tern_backend *backend);

int gradient_close_all(void **state);

#endif
