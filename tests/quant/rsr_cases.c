/* Made-up matrices of all kinds for the tests of RSR. */
#include "quant/rsr_cases.h"

tern_rng rsr_rng;

uint32_t rsr_between(uint32_t low, uint32_t high)
{
    return low + tern_rng_below(&rsr_rng, high - low + 1);
}

int8_t rsr_random_code(tern_rsr_kind kind)
{
    if (kind == TERN_RSR_TERNARY) return (int8_t)((int)rsr_between(0, 2) - 1);
    return (int8_t)(kind == TERN_RSR_BINARY ? rsr_between(0, 1) : rsr_between(0, 1) * 2 - 1u);
}

matrix rsr_make(tern_rsr_kind kind, uint32_t rows, uint32_t cols, fill f)
{
    matrix m = {.rows = rows, .cols = cols, .kind = kind, .codes = malloc((size_t)rows * cols)};
    assert_non_null(m.codes);
    const int8_t one = rsr_random_code(kind);
    for (size_t i = 0; i < (size_t)rows * cols; i++) {
        m.codes[i] = f == ALL_EQUAL ? one : rsr_random_code(kind);
        if (f == ALL_ZERO) m.codes[i] = kind == TERN_RSR_SIGNS ? -1 : 0;
        if (f == SPARSE && kind != TERN_RSR_SIGNS && rsr_between(0, 30)) m.codes[i] = 0;
    }
    return m;
}

tern_status rsr_read_rows(void *context, uint32_t first, uint32_t n, int8_t *codes, tern_error *err)
{
    (void)err;
    const matrix *m = context;
    memcpy(codes, m->codes + (size_t)first * m->cols, (size_t)n * m->cols);
    return TERN_OK;
}

tern_rsr_source rsr_source_of(matrix *m)
{
    return (tern_rsr_source){.read = rsr_read_rows, .context = m, .rows = m->rows, .cols = m->cols};
}
