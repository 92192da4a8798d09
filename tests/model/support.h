/* What the model tests share. */
#ifndef TERN_TESTS_MODEL_SUPPORT_H
#define TERN_TESTS_MODEL_SUPPORT_H

#include "support/test.h"

#include "model/model.h"
#include "quant/encoding.h"
#include "quant/weight.h"

static inline tern_model *open_model(const char *path)
{
    tern_error err = {0};
    tern_model *model = NULL;
    assert_ok(tern_model_open(&model, path, NULL, &err), err);
    return model;
}

/* All codes of a ternary weight; the caller's to free. */
static inline int8_t *codes_of(const tern_weight *w)
{
    tern_error err = {0};
    size_t n_bad = 0;
    int8_t *codes = malloc((size_t)w->rows * w->cols);
    assert_non_null(codes);
    assert_ok(tern_decode_codes(w->encoding, w->data, w->rows, w->cols, 0, w->rows, codes, NULL, NULL, &n_bad, &err),
              err);
    assert_int_equal(n_bad, 0);
    return codes;
}

static inline void assert_same_codes(const tern_weight *a, const tern_weight *b)
{
    assert_int_equal(a->rows, b->rows);
    assert_int_equal(a->cols, b->cols);
    int8_t *x = codes_of(a), *y = codes_of(b);
    assert_memory_equal(x, y, (size_t)a->rows * a->cols);
    free(x);
    free(y);
}

/* All values of a dense weight; the caller's to free. */
static inline float *values_of(const tern_weight *w)
{
    tern_error err = {0};
    float *values = malloc((size_t)w->rows * w->cols * sizeof *values);
    assert_non_null(values);
    assert_ok(tern_decode_rows(w->encoding, w->data, w->rows, w->cols, 0, w->rows, values, &err), err);
    return values;
}

#endif
