/* Graphs made by hand: comparing what a backend computed with what the CPU did. */
#include "support/op_case.h"
#include "support/test.h"

static char message[512];

#define DIFFERS(...) (snprintf(message, sizeof message, __VA_ARGS__), message)

bool test_near(float got, float want, double row_most, test_tolerance tolerance)
{
    return tern_is_near(got, want, row_most, 0, &tolerance);
}

static uint32_t rows_of(const test_case *c, const tern_value *v)
{
    return tern_graph_max_rows(&c->graph, v->rows);
}

/* n_rows rows of cols elements of a value, by the measure that all comparisons have. */
static const char *difference_of(const test_case *c, uint32_t value, uint64_t n_rows, uint32_t cols,
                                 const test_results *got, const test_results *want, test_tolerance tolerance)
{
    tern_error err = {0};
    tern_difference d;
    const tern_value *v = &c->graph.values[value];
    const tern_compared compared = {.value = v,
                                    .got = got->bytes[value],
                                    .want = want->bytes[value],
                                    .n_rows = n_rows,
                                    .cols = cols,
                                    .max_rows = rows_of(c, v)};
    assert_ok(tern_difference_find(&compared, &tolerance, &d, &err), err);
    if (d.ok) return NULL;
    tern_difference_words(&d, v->name, message, sizeof message);
    return message;
}

const char *test_case_difference_of_rows(const test_case *c, uint32_t value, uint32_t n_rows, const test_results *got,
                                         const test_results *want, test_tolerance tolerance)
{
    return difference_of(c, value, n_rows, c->graph.values[value].cols, got, want, tolerance);
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

static const char *difference_of_value(const test_case *c, uint32_t value, const uint32_t counts[2],
                                       const test_results *got, const test_results *want, test_tolerance tolerance)
{
    const tern_value *v = &c->graph.values[value];
    const uint32_t n_rows = tern_rows_of(v->rows, counts[0], counts[1], c->graph.n_routes);
    const char *what;
    switch (v->kind) {
    case TERN_VALUE_PARAM:
        return memcmp(got->bytes[value], want->bytes[value], v->bytes) ? DIFFERS("parameter %s has changed", v->name)
                                                                       : NULL;
    case TERN_VALUE_CACHE: /* a row is one head's at one position */
        return difference_of(c, value, v->bytes / tern_row_bytes(v->dtype, c->head_dim, 1), c->head_dim, got, want,
                             tolerance);
    case TERN_VALUE_RECURRENT:
        return difference_of(c, value, v->bytes / tern_row_bytes(v->dtype, v->cols, 1), v->cols, got, want, tolerance);
    case TERN_VALUE_STATE: return difference_of(c, value, v->n_rows, v->cols, got, want, tolerance);
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

void test_case_compare_if_supported(test_case *c, tern_backend *backend, uint32_t n_tokens, test_tolerance tolerance)
{
    for (size_t i = 0; i < c->graph.n_ops; i++) {
        tern_error err = {0};
        if (backend->supports(backend, &c->graph, &c->graph.ops[i], &err) == TERN_OK) continue;
        const char *name = tern_op_name(c->graph.ops[i].kind);
        if (!strstr(err.message, name)) fail_msg("\"%s\": %s expected in it", err.message, name);
        return;
    }
    test_case_compare(c, backend, n_tokens, n_tokens, tolerance);
}
