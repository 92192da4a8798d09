/* Products of gradients on a GPU, against sums in f64. */
#include "backend/gpu/gradient_cases.h"

#include "base/half.h"
#include "quant/encoding.h"
#include "quant/weight.h"
#include "support/formats.h"

const gradient_format gradient_formats[N_FORMATS] = {{"i2_s", 128}, {"t160", 1}, TEST_DENSE_BLOCKS};

tern_rng gradient_rng;

tern_backend *gradient_small; /* bindings of 64 KiB, so that weights are in slices */

tern_backend *gradient_cooperative;

float *gradient_decoded(const tern_weight *w)
{
    tern_error err = {0};
    size_t n = (size_t)w->rows * w->cols, bad;
    float *out = malloc(n * sizeof *out);
    if (!w->encoding->ternary) {
        assert_ok(tern_decode_rows(w->encoding, w->data, w->rows, w->cols, 0, w->rows, out, &err), err);
        return out;
    }
    int8_t *codes = malloc(n);
    assert_ok(tern_decode_codes(w->encoding, w->data, w->rows, w->cols, 0, w->rows, codes, NULL, NULL, &bad, &err),
              err);
    for (size_t i = 0; i < n; i++) out[i] = (float)codes[i] * (w->row_scales ? w->row_scales[i / w->cols] : w->scale);
    free(codes);
    return out;
}

float *gradient_floats_of(const test_case *c, tern_view view)
{
    const tern_value *v = &c->graph.values[view.value];
    const uint32_t n = v->rows == TERN_ROWS_TOKENS ? c->graph.max_tokens : c->graph.max_outputs;
    const uint8_t *bytes = c->initial[view.value];
    float *out = malloc((size_t)n * view.cols * sizeof *out);
    for (uint32_t t = 0; t + view.first_row < n; t++)
        for (uint32_t i = 0; i < view.cols; i++) {
            const float *f = (const float *)(const void *)bytes;
            const size_t row = t + view.first_row;
            out[t * view.cols + i] = v->dtype == TERN_DTYPE_Q8
                                         ? (float)((const int8_t *)bytes)[row * tern_q8_stride(v->cols) + i] *
                                               f[tern_q8_scales_offset(v->cols, n) / 4 + row]
                                         : f[row * v->cols + view.first_col + i];
        }
    return out;
}

static double to_bf16(float x)
{
    return (double)tern_bf16_to_f32(tern_f32_to_bf16(x));
}

void gradient_add(gradient_sum *s, const product *d, float a, float b)
{
    const double exact = (double)a * (double)b, term = d->bf16 ? to_bf16(a) * to_bf16(b) : exact;
    s->sum += term;
    s->most = fmax(s->most, fabs(term));
    s->exact += exact;
    s->all += fabs(exact);
}

void gradient_check(const char *what, const product *d, uint32_t row, uint32_t col, float got, const gradient_sum *want,
                    uint32_t depth)
{
    const double each = d->bf16 ? 2e-5 : 1e-6;
    const double allowed = each * sqrt(depth) * want->most + 1e-6 * fabs(want->sum);
    if (fabs((double)got - want->sum) > allowed)
        fail_msg("%s%s: row %u, column %u: %.9g, %.9g expected (%.3g off, %.3g allowed)", what, d->bf16 ? ", bf16" : "",
                 row, col, (double)got, want->sum, fabs((double)got - want->sum), allowed);
    if (fabs((double)got - want->exact) > allowed + 0x1p-7 * want->all)
        fail_msg("%s%s: row %u, column %u: %.9g, %.9g expected of factors that are not rounded", what,
                 d->bf16 ? ", bf16" : "", row, col, (double)got, want->exact);
}

void gradient_check_untouched(const test_case *c, const test_results *results, tern_view view, uint32_t first,
                              uint32_t n_rows)
{
    const tern_value *v = &c->graph.values[view.value];
    const uint32_t n = v->rows == TERN_ROWS_TOKENS ? c->graph.max_tokens : c->graph.max_outputs;
    float poison;
    test_poison(&poison, sizeof poison);
    for (uint32_t t = 0; t < n; t++)
        for (uint32_t i = 0; i < v->cols; i++) {
            if (t >= first && t < first + n_rows && i >= view.first_col && i < view.first_col + view.cols) continue;
            const float *want = c->initial[view.value]
                                    ? (const float *)(const void *)c->initial[view.value] + (size_t)t * v->cols + i
                                    : &poison;
            assert_memory_equal(&test_results_row(c, results, view, t)[i], want, sizeof poison);
        }
}

void gradient_make_uneven(test_case *c, tern_view view, uint32_t n_rows, bool columns)
{
    const uint32_t cols = c->graph.values[view.value].cols;
    float *x = test_case_floats(c, view);
    for (uint32_t i = 0; i < n_rows * cols; i++) x[i] *= powf(10, -(float)((columns ? i % cols : i / cols) % 12));
}

void gradient_make_runs(test_case *c, tern_view view, uint32_t n_rows, bool columns)
{
    const uint32_t cols = c->graph.values[view.value].cols;
    float *x = test_case_floats(c, view);
    for (uint32_t i = 0; i < n_rows * cols; i++) x[i] *= powf(10, -(float)((columns ? i % cols : i / cols) / 64 % 12));
}

void gradient_run_dx(const product *d, tern_backend *backend)
{
    test_case c;
    const uint32_t max = d->first_row ? 64 + d->n : d->n + 3;
    test_case_open(&c, &gradient_rng, &(test_case_shape){.max_tokens = max, .max_outputs = d->n});
    const tern_rows rows = d->first_row ? TERN_ROWS_OUTPUTS : TERN_ROWS_TOKENS;
    tern_view dy = test_case_rows(&c, "dy", rows, d->rows + 2 * d->gap, TEST_ORDINARY),
              w = test_case_weight(&c, d->encoding, d->rows, d->cols);
    float *scales = malloc(d->rows * sizeof *scales);
    for (uint32_t r = 0; r < d->rows; r++) scales[r] = 0.25f + tern_rng_f32(&gradient_rng);
    if (d->row_scales) test_case_weight_of(&c, w)->row_scales = scales;
    if (d->uneven) gradient_make_uneven(&c, dy, d->n, false);
    if (d->runs) gradient_make_runs(&c, dy, d->n, true);
    if (d->gap) dy = test_case_columns(dy, d->gap, d->rows);
    const tern_halves halves = d->bf16 ? TERN_HALVES_BF16 : TERN_HALVES_NONE;
    tern_op op = {.kind = TERN_OP_LINEAR_DX, .rows = rows, .n_in = 2, .in = {dy, w}, .halves = halves};
    if (d->residual) op.residual = test_case_rows(&c, "residual", TERN_ROWS_TOKENS, d->cols + d->gap, TEST_ORDINARY);
    op.out = d->in_place ? op.residual : test_case_output(&c, "dx", TERN_ROWS_TOKENS, TERN_DTYPE_F32, d->cols + d->gap);
    op.out.cols = d->cols;
    op.out.first_row = d->first_row;
    if (d->residual) op.residual = (tern_view){op.residual.value, op.out.first_col, d->cols, d->first_row};
    test_case_add(&c, op);
    test_results results;
    test_case_run(&c, backend, d->first_row ? max : d->n, d->n, 1, &results);
    /* in bf16 scales are not those of the factor that is rounded */
    const tern_weight *weight = test_case_weight_of(&c, w);
    const bool of_rows = d->bf16 && d->row_scales;
    const float scale = d->bf16 && weight->encoding->ternary && !d->row_scales ? weight->scale : 1;
    float *y = gradient_floats_of(&c, dy), *wf = gradient_decoded(weight),
          *residual = d->residual ? gradient_floats_of(&c, op.residual) : NULL;
    for (uint32_t t = 0; t < d->n; t++)
        for (uint32_t i = 0; i < d->cols; i++) {
            const double start = residual ? (double)residual[t * d->cols + i] : 0;
            gradient_sum sum = {0};
            for (uint32_t r = 0; r < d->rows; r++)
                gradient_add(&sum, d, y[t * d->rows + r] * (of_rows ? scales[r] : 1),
                             wf[(size_t)r * d->cols + i] / (of_rows ? scales[r] : 1) / scale);
            sum = (gradient_sum){start + scale * sum.sum, fmax(fabs(start), fabs(scale) * sum.most),
                                 start + scale * sum.exact, fabs(scale) * sum.all};
            gradient_check("dx", d, t, i, test_results_row(&c, &results, op.out, t + d->first_row)[i], &sum, d->rows);
        }
    gradient_check_untouched(&c, &results, op.out, d->first_row, d->n);
    free(y);
    free(wf);
    free(residual);
    free(scales);
    test_results_free(&results);
    test_case_close(&c);
}

void gradient_run_dw(const product *d, tern_backend *backend)
{
    test_case c;
    const bool q8 = strcmp(d->encoding, "q8") == 0;
    const uint32_t max = d->first_row ? 64 + d->n : d->n + 3;
    test_case_open(&c, &gradient_rng, &(test_case_shape){.max_tokens = max, .max_outputs = d->n});
    const tern_rows rows = d->first_row ? TERN_ROWS_OUTPUTS : TERN_ROWS_TOKENS;
    tern_view dy = test_case_rows(&c, "dy", rows, d->rows + 2 * d->gap, TEST_ORDINARY),
              x = q8 ? test_case_q8(&c, "x", TERN_ROWS_TOKENS, d->cols)
                     : test_case_rows(&c, "x", TERN_ROWS_TOKENS, d->cols + d->gap, TEST_ORDINARY),
              dw = test_case_state(&c, "dw", TERN_STATE_GRADIENT, TERN_DTYPE_F32, d->rows, d->cols, TEST_ORDINARY);
    if (d->uneven) gradient_make_uneven(&c, dy, d->n, true);
    if (d->runs) gradient_make_runs(&c, dy, d->n, false);
    for (uint32_t i = 0; d->uneven && i < d->rows * d->cols; i++)
        test_case_floats(&c, dw)[i] *= powf(10, -(float)((i / d->cols + d->gap) % 12));
    if (d->gap) dy = test_case_columns(dy, d->gap, d->rows);
    x.cols = d->cols;
    x.first_row = d->first_row;
    test_case_add(&c, (tern_op){.kind = TERN_OP_LINEAR_DW,
                                .rows = rows,
                                .n_in = 3,
                                .in = {dy, x, dw},
                                .halves = d->bf16 ? TERN_HALVES_BF16 : TERN_HALVES_NONE,
                                .out = {.value = TERN_NO_VALUE}});
    test_results results;
    test_case_run(&c, backend, d->first_row ? max : d->n, d->n, 1, &results);
    /* in bf16 the scale of a row of int8 is a factor of dy's */
    const float *bytes = (const float *)(const void *)c.initial[x.value];
    const float *levels = d->bf16 && q8 ? bytes + tern_q8_scales_offset(d->cols, max) / 4 + d->first_row : NULL;
    float *y = gradient_floats_of(&c, dy), *xf = gradient_floats_of(&c, x), *held = test_case_floats(&c, dw);
    for (uint32_t r = 0; r < d->rows; r++)
        for (uint32_t i = 0; i < d->cols; i++) {
            const double start = (double)held[(size_t)r * d->cols + i];
            gradient_sum sum = {start, fabs(start), start, 0};
            for (uint32_t t = 0; t < d->n; t++)
                gradient_add(&sum, d, y[t * d->rows + r] * (levels ? levels[t] : 1),
                             xf[t * d->cols + i] / (levels ? levels[t] : 1));
            gradient_check("dw", d, r, i,
                           ((const float *)(const void *)results.bytes[dw.value])[(size_t)r * d->cols + i], &sum, d->n);
        }
    free(y);
    free(xf);
    test_results_free(&results);
    test_case_close(&c);
}

int gradient_close_all(void **state)
{
    if (gradient_small) gradient_small->close(gradient_small);
    if (gradient_cooperative) gradient_cooperative->close(gradient_cooperative);
    return test_backends_close(state);
}
