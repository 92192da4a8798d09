/* Ternary matrices for tests of RSR. */
#include "support/rsr_matrix.h"

#include "support/kernels.h"
#include "support/test.h"

rsr_matrix rsr_matrix_make(tern_rng *rng, uint32_t rows, uint32_t cols, rsr_fill fill)
{
    rsr_matrix m = {.rows = rows, .cols = cols, .codes = malloc((size_t)rows * cols)};
    assert_non_null(m.codes);
    const int8_t one = (int8_t)((int)test_between(rng, 0, 1) * 2 - 1);
    for (size_t i = 0; i < (size_t)rows * cols; i++) {
        m.codes[i] = fill == RSR_ALL_EQUAL  ? one
                     : fill == RSR_ALL_ZERO ? 0
                                            : (int8_t)((int)test_between(rng, 0, 2) - 1);
        if (fill == RSR_SPARSE && test_between(rng, 0, 20)) m.codes[i] = 0;
    }
    return m;
}

static tern_status read_rows(void *context, uint32_t first, uint32_t n, int8_t *codes, tern_error *err)
{
    (void)err;
    const rsr_matrix *m = context;
    memcpy(codes, m->codes + (size_t)first * m->cols, (size_t)n * m->cols);
    return TERN_OK;
}

tern_rsr_source rsr_matrix_source(rsr_matrix *matrix)
{
    return (tern_rsr_source){.read = read_rows, .context = matrix, .rows = matrix->rows, .cols = matrix->cols};
}

tern_rsr_slices rsr_matrix_slices(rsr_matrix *matrix, uint32_t k)
{
    const tern_rsr_source source = rsr_matrix_source(matrix);
    tern_rsr_slices s;
    tern_error err = {0};
    assert_ok(tern_rsr_slices_build(&s, &source, &(tern_rsr_options){.k = k}, 0, &err), err);
    return s;
}
