/* Graphs made by hand: comparing what a backend computed with what the CPU did. */
#include <math.h>

#include "base/half.h"
#include "support/op_case.h"
#include "support/test.h"

static char message[512];

#define DIFFERS(...) (snprintf(message, sizeof message, __VA_ARGS__), message)

bool test_near(float got, float want, double row_most, test_tolerance tolerance)
{
    if (memcmp(&got, &want, sizeof got) == 0) return true;
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
    if (isinf(want) || isinf(got)) return got == want;
    const double allowed = tolerance.absolute + tolerance.of_value * fabs((double)want) + tolerance.of_row * row_most;
    /* e^-80 is off by the rounding of its exponent, and subnormals may be 0: what is that small may be nothing. */
    const bool exact = tolerance.absolute == 0 && tolerance.of_value == 0 && tolerance.of_row == 0;
    return !exact && fabs((double)got - (double)want) <= allowed + 1e-30;
}

static double most_of(const float *row, uint32_t cols)
{
    double most = 0;
    for (uint32_t i = 0; i < cols; i++)
        if (isfinite(row[i])) most = fmax(most, fabs((double)row[i]));
    return most;
}

static const char *difference_of_row(const char *name, uint32_t t, const float *got, const float *want, uint32_t cols,
                                     test_tolerance tolerance)
{
    const double most = most_of(want, cols);
    for (uint32_t i = 0; i < cols; i++)
        if (!test_near(got[i], want[i], most, tolerance))
            return DIFFERS("%s: row %u, column %u of %u: %.9g, %.9g expected (off by %.3g; the row's largest is %.3g)",
                           name, t, i, cols, (double)got[i], (double)want[i], fabs((double)got[i] - (double)want[i]),
                           most);
    return NULL;
}

/* The parts of a Q8 value. */
typedef struct q8 {
    const int8_t *x;
    const float *scales;
    const int32_t *sums;
} q8;

static q8 q8_of(const uint8_t *bytes, uint32_t cols, uint32_t n)
{
    return (q8){.x = (const int8_t *)bytes,
                .scales = (const float *)(const void *)(bytes + tern_q8_scales_offset(cols, n)),
                .sums = (const int32_t *)(const void *)(bytes + tern_q8_sums_offset(cols, n))};
}

static const char *difference_of_q8_row(const char *name, uint32_t t, uint32_t cols, q8 got, q8 want,
                                        test_tolerance tolerance)
{
    const size_t stride = tern_q8_stride(cols);
    const int8_t *a = got.x + t * stride, *b = want.x + t * stride;
    int32_t sum = 0;
    for (uint32_t i = 0; i < stride; i++) {
        const uint32_t allowed = i < cols ? tolerance.of_int8 : 0;
        if ((uint32_t)abs(a[i] - b[i]) > allowed)
            return DIFFERS("%s: row %u, column %u of %u: int8 %d, %d expected (%u off allowed)", name, t, i, cols, a[i],
                           b[i], allowed);
        sum += a[i];
    }
    if (tolerance.of_int8 == 0) sum = want.sums[t];
    if (got.sums[t] != sum) return DIFFERS("%s: row %u: sum %d, %d expected", name, t, got.sums[t], sum);
    return difference_of_row(name, t, &got.scales[t], &want.scales[t], 1, tolerance);
}

static uint32_t rows_of(const test_case *c, const tern_value *v)
{
    return v->rows == TERN_ROWS_TOKENS ? c->graph.max_tokens : c->graph.max_outputs;
}

const char *test_case_difference_of_rows(const test_case *c, uint32_t value, uint32_t n_rows, const test_results *got,
                                         const test_results *want, test_tolerance tolerance)
{
    const tern_value *v = &c->graph.values[value];
    const tern_view view = {.value = value};
    const char *what = NULL;
    for (uint32_t t = 0; t < n_rows && !what; t++) {
        if (v->dtype == TERN_DTYPE_Q8)
            what = difference_of_q8_row(v->name, t, v->cols, q8_of(got->bytes[value], v->cols, rows_of(c, v)),
                                        q8_of(want->bytes[value], v->cols, rows_of(c, v)), tolerance);
        else
            what = difference_of_row(v->name, t, test_results_row(c, got, view, t), test_results_row(c, want, view, t),
                                     v->cols, tolerance);
    }
    return what;
}

static const char *touched_bytes(const test_case *c, uint32_t value, uint64_t first, uint64_t end, const uint8_t *got)
{
    uint8_t poison[4];
    const uint8_t *initial = c->initial[value];
    test_poison(poison, sizeof poison);
    for (uint64_t i = first; i < end; i++) {
        const uint8_t want = initial ? initial[i] : poison[i % 4];
        if (got[i] != want)
            return DIFFERS("%s: byte %llu of %llu, beyond the step's rows, is %02x: %02x was there before",
                           c->graph.values[value].name, (unsigned long long)i,
                           (unsigned long long)c->graph.values[value].bytes, got[i], want);
    }
    return NULL;
}

const char *test_case_touched(const test_case *c, uint32_t value, uint32_t n_rows, const test_results *got)
{
    const tern_value *v = &c->graph.values[value];
    const uint32_t n = rows_of(c, v);
    const uint8_t *bytes = got->bytes[value];
    if (v->dtype != TERN_DTYPE_Q8) return touched_bytes(c, value, (uint64_t)n_rows * v->cols * 4, v->bytes, bytes);
    const uint64_t scales = tern_q8_scales_offset(v->cols, n), sums = tern_q8_sums_offset(v->cols, n);
    const char *what = touched_bytes(c, value, n_rows * tern_q8_stride(v->cols), scales, bytes);
    if (!what) what = touched_bytes(c, value, scales + n_rows * 4, sums, bytes);
    return what ? what : touched_bytes(c, value, sums + n_rows * 4, v->bytes, bytes);
}

/* Floats within the tolerance, moments of 8 bits and BF16 to the bit. */
static const char *difference_of_state(const test_case *c, uint32_t value, const test_results *got,
                                       const test_results *want, test_tolerance tolerance)
{
    const tern_value *v = &c->graph.values[value];
    const uint8_t *a = got->bytes[value], *b = want->bytes[value];
    const char *what = NULL;
    for (uint32_t t = 0; v->dtype == TERN_DTYPE_F32 && t < v->n_rows && !what; t++)
        what = difference_of_row(v->name, t, (const float *)(const void *)a + (size_t)t * v->cols,
                                 (const float *)(const void *)b + (size_t)t * v->cols, v->cols, tolerance);
    for (uint64_t i = 0; v->dtype != TERN_DTYPE_F32 && i < v->bytes && !what; i++)
        if (a[i] != b[i])
            what = DIFFERS("%s: byte %llu of %llu is %02x, %02x expected", v->name, (unsigned long long)i,
                           (unsigned long long)v->bytes, a[i], b[i]);
    return what;
}

static float element(const uint8_t *bytes, bool f16, size_t i)
{
    return f16 ? tern_f16_to_f32(((const uint16_t *)(const void *)bytes)[i]) : ((const float *)(const void *)bytes)[i];
}

/* A row is one head's at one position. */
static const char *difference_of_cache(const test_case *c, uint32_t value, const test_results *got,
                                       const test_results *want, test_tolerance tolerance)
{
    const tern_value *v = &c->graph.values[value];
    const bool f16 = v->dtype == TERN_DTYPE_F16;
    const uint32_t cols = c->head_dim, n_rows = (uint32_t)(v->bytes / (f16 ? 2 : 4) / cols);
    const char *what = NULL;
    float *a = malloc(cols * sizeof *a), *b = malloc(cols * sizeof *b);
    for (uint32_t t = 0; t < n_rows && !what; t++) {
        for (uint32_t i = 0; i < cols; i++) {
            a[i] = element(got->bytes[value], f16, (size_t)t * cols + i);
            b[i] = element(want->bytes[value], f16, (size_t)t * cols + i);
        }
        what = difference_of_row(v->name, t, a, b, cols, tolerance);
    }
    free(a);
    free(b);
    return what;
}

static const char *difference_of_value(const test_case *c, uint32_t value, const uint32_t counts[2],
                                       const test_results *got, const test_results *want, test_tolerance tolerance)
{
    const tern_value *v = &c->graph.values[value];
    const uint32_t n_rows = counts[v->rows == TERN_ROWS_OUTPUTS];
    const char *what;
    switch (v->kind) {
    case TERN_VALUE_PARAM:
        return memcmp(got->bytes[value], want->bytes[value], v->bytes) ? DIFFERS("parameter %s has changed", v->name)
                                                                       : NULL;
    case TERN_VALUE_CACHE: return difference_of_cache(c, value, got, want, tolerance);
    case TERN_VALUE_STATE: return difference_of_state(c, value, got, want, tolerance);
    case TERN_VALUE_ACTIVATION:
    case TERN_VALUE_OUTPUT:
        what = test_case_difference_of_rows(c, value, n_rows, got, want, tolerance);
        return what ? what : test_case_touched(c, value, n_rows, got);
    default: return NULL;
    }
}

const char *test_case_difference(const test_case *c, const uint32_t counts[2], const test_results *got,
                                 const test_results *want, test_tolerance tolerance)
{
    const char *what = NULL;
    for (uint32_t i = 0; i < c->graph.n_values && !what; i++)
        what = difference_of_value(c, i, counts, got, want, tolerance);
    return what;
}

void test_case_compare(test_case *c, tern_backend *backend, uint32_t n_tokens, uint32_t n_outputs,
                       test_tolerance tolerance)
{
    test_results got, want;
    test_case_run(c, test_backend("cpu"), n_tokens, n_outputs, 1, &want);
    test_case_run(c, backend, n_tokens, n_outputs, 1, &got);
    const char *what = test_case_difference(c, (const uint32_t[2]){n_tokens, n_outputs}, &got, &want, tolerance);
    test_results_free(&got);
    test_results_free(&want);
    if (what) fail_msg("%s", what);
}
