/* Gradients of linear layers on a GPU, and the head's products over a chunk of rows, against sums in f64. */
#include "ops/operands.h"
#include "support/test.h"

#include <math.h>

#include "backend/gpu/pipelines.h"
#include "backend/open.h"
#include "support/op_case.h"
#include "support/simulated.h"

static tern_rng rng;
static tern_backend *small; /* bindings of 64 KiB, so that weights are in slices */
static tern_backend *cooperative;

static tern_backend *small_backend(void)
{
    test_gpu_backend(); /* skips where there is no device */
    if (small) return small;
    static const tern_gpu_caps limits = {.workgroup_bytes = 16384,
                                         .workgroup_invocations = 128,
                                         .max_groups = 65535,
                                         .max_binding = 65536,
                                         .binding_alignment = 256};
    return small = test_gpu_open(&limits);
}

/* Drivers in software have no cooperative matrices, the simulated GPU has. */
static tern_backend *cooperative_backend(void)
{
    if (cooperative) return cooperative;
    const tern_gpu_caps caps = {.subgroup_min = 32,
                                .subgroup_max = 32,
                                .workgroup_bytes = 49152,
                                .workgroup_invocations = 1024,
                                .max_groups = 65535,
                                .max_binding = 128 << 20,
                                .binding_alignment = 256,
                                .f16 = true,
                                .cooperative = true,
                                .device_fences = true};
    tern_error err = {0};
    assert_ok(test_simulated_open(&cooperative, &caps, &err), err);
    return cooperative;
}

static const struct {
    const char *name;
    uint32_t block;
} formats[] = {{"i2_s", 128}, {"t160", 1},   {"f32", 1},    {"f16", 1},   {"bf16", 1},
               {"q8_0", 32},  {"q6_k", 256}, {"q4_k", 256}, {"q5_k", 256}};
enum { N_FORMATS = sizeof formats / sizeof *formats };

static uint32_t some_cols(uint32_t format, uint32_t most)
{
    uint32_t block = formats[format].block;
    return block * test_between(&rng, 1, most / block);
}

/* One product. `gap`: columns before and after the rows that are read and written, in their values. */
typedef struct product {
    const char *encoding; /* of W; LINEAR_DW: "q8" or "f32", of x */
    uint32_t rows, cols, n, gap;
    uint32_t first_row; /* of dx; LINEAR_DW: of x */
    bool residual, in_place, row_scales;
    bool uneven; /* rows of dy (LINEAR_DW: columns) of very different sizes, as gradients have */
} product;

/* Values as the ops see them: floats of W with its scales, of rows with theirs. */
static float *decoded(const tern_weight *w)
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

static float *floats_of(const test_case *c, tern_view view)
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

/* How far sums of `depth` products may be off: f32 rounding of terms as large as those in the row. */
static void check(const char *what, uint32_t row, uint32_t col, float got, double want, double most, uint32_t depth)
{
    const double allowed = 1e-6 * sqrt(depth) * most + 1e-6 * fabs(want);
    if (fabs((double)got - want) <= allowed) return;
    fail_msg("%s: row %u, column %u: %.9g, %.9g expected (%.3g off, %.3g allowed)", what, row, col, (double)got, want,
             fabs((double)got - want), allowed);
}

static void check_untouched(const test_case *c, const test_results *results, tern_view view, uint32_t first,
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

/* Row t of dy times 10^-(t mod 12), or column c so. */
static void make_uneven(test_case *c, tern_view view, uint32_t n_rows, bool columns)
{
    const uint32_t cols = c->graph.values[view.value].cols;
    float *x = test_case_floats(c, view);
    for (uint32_t i = 0; i < n_rows * cols; i++) x[i] *= powf(10, -(float)((columns ? i % cols : i / cols) % 12));
}

/* dx = dy W + residual. The head's: dy has rows of its own, dx those from first_row on. */
static void run_dx(const product *d, tern_backend *backend)
{
    test_case c;
    const uint32_t max = d->first_row ? 64 + d->n : d->n + 3;
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = max, .max_outputs = d->n});
    const tern_rows rows = d->first_row ? TERN_ROWS_OUTPUTS : TERN_ROWS_TOKENS;
    tern_view dy = test_case_rows(&c, "dy", rows, d->rows + 2 * d->gap, TEST_ORDINARY),
              w = test_case_weight(&c, d->encoding, d->rows, d->cols);
    float *scales = malloc(d->rows * sizeof *scales);
    for (uint32_t r = 0; r < d->rows; r++) scales[r] = 0.25f + tern_rng_f32(&rng);
    if (d->row_scales) test_case_weight_of(&c, w)->row_scales = scales;
    if (d->uneven) make_uneven(&c, dy, d->n, false);
    if (d->gap) dy = test_case_columns(dy, d->gap, d->rows);
    tern_op op = {.kind = TERN_OP_LINEAR_DX, .rows = rows, .n_in = 2, .in = {dy, w}};
    if (d->residual) op.residual = test_case_rows(&c, "residual", TERN_ROWS_TOKENS, d->cols + d->gap, TEST_ORDINARY);
    op.out = d->in_place ? op.residual : test_case_output(&c, "dx", TERN_ROWS_TOKENS, TERN_DTYPE_F32, d->cols + d->gap);
    op.out.cols = d->cols;
    op.out.first_row = d->first_row;
    if (d->residual) op.residual = (tern_view){op.residual.value, op.out.first_col, d->cols, d->first_row};
    test_case_add(&c, op);
    test_results results;
    test_case_run(&c, backend, d->first_row ? max : d->n, d->n, 1, &results);
    float *y = floats_of(&c, dy), *wf = decoded(test_case_weight_of(&c, w)),
          *residual = d->residual ? floats_of(&c, op.residual) : NULL;
    for (uint32_t t = 0; t < d->n; t++)
        for (uint32_t i = 0; i < d->cols; i++) {
            double sum = residual ? (double)residual[t * d->cols + i] : 0, most = fabs(sum);
            for (uint32_t r = 0; r < d->rows; r++) {
                const double term = (double)y[t * d->rows + r] * (double)wf[(size_t)r * d->cols + i];
                sum += term;
                most = fmax(most, fabs(term));
            }
            check("dx", t, i, test_results_row(&c, &results, op.out, t + d->first_row)[i], sum, most, d->rows);
        }
    check_untouched(&c, &results, op.out, d->first_row, d->n);
    free(y);
    free(wf);
    free(residual);
    free(scales);
    test_results_free(&results);
    test_case_close(&c);
}

/* dw += dy^T x. */
static void run_dw(const product *d, tern_backend *backend)
{
    test_case c;
    const bool q8 = strcmp(d->encoding, "q8") == 0;
    const uint32_t max = d->first_row ? 64 + d->n : d->n + 3;
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = max, .max_outputs = d->n});
    const tern_rows rows = d->first_row ? TERN_ROWS_OUTPUTS : TERN_ROWS_TOKENS;
    tern_view dy = test_case_rows(&c, "dy", rows, d->rows + 2 * d->gap, TEST_ORDINARY),
              x = q8 ? test_case_q8(&c, "x", TERN_ROWS_TOKENS, d->cols)
                     : test_case_rows(&c, "x", TERN_ROWS_TOKENS, d->cols + d->gap, TEST_ORDINARY),
              dw = test_case_state(&c, "dw", TERN_STATE_GRADIENT, TERN_DTYPE_F32, d->rows, d->cols, TEST_ORDINARY);
    if (d->uneven) make_uneven(&c, dy, d->n, true);
    for (uint32_t i = 0; d->uneven && i < d->rows * d->cols; i++)
        test_case_floats(&c, dw)[i] *= powf(10, -(float)((i / d->cols + d->gap) % 12));
    if (d->gap) dy = test_case_columns(dy, d->gap, d->rows);
    x.cols = d->cols;
    x.first_row = d->first_row;
    test_case_add(
        &c,
        (tern_op){
            .kind = TERN_OP_LINEAR_DW, .rows = rows, .n_in = 3, .in = {dy, x, dw}, .out = {.value = TERN_NO_VALUE}});
    test_results results;
    test_case_run(&c, backend, d->first_row ? max : d->n, d->n, 1, &results);
    float *y = floats_of(&c, dy), *xf = floats_of(&c, x), *held = test_case_floats(&c, dw);
    for (uint32_t r = 0; r < d->rows; r++)
        for (uint32_t i = 0; i < d->cols; i++) {
            double sum = (double)held[(size_t)r * d->cols + i], most = fabs(sum);
            for (uint32_t t = 0; t < d->n; t++) {
                const double term = (double)y[t * d->rows + r] * (double)xf[t * d->cols + i];
                sum += term;
                most = fmax(most, fabs(term));
            }
            check("dw", r, i, ((const float *)(const void *)results.bytes[dw.value])[(size_t)r * d->cols + i], sum,
                  most, d->n);
        }
    free(y);
    free(xf);
    test_results_free(&results);
    test_case_close(&c);
}

static void every_format(void **state)
{
    (void)state;
    static const uint32_t tokens[] = {1, 7, 70, 150};
    test_seed(&rng);
    for (int kind = 0; kind < TEST_GPU_N_KINDS; kind++)
        for (uint32_t f = 0; f < N_FORMATS; f++)
            for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i += test_quick() ? 3 : 1) {
                const product d = {.encoding = formats[f].name,
                                   .rows = test_between(&rng, 1, 300),
                                   .cols = some_cols(f, 520),
                                   .n = tokens[i],
                                   .row_scales = f == 0 && i % 2};
                print_message("%s: %u x %u, %u tokens\n", d.encoding, d.rows, d.cols, d.n);
                run_dx(&d, test_gpu_backend_of((test_gpu_kind)kind));
            }
}

static const product views[] = {
    {.encoding = "i2_s", .rows = 65, .cols = 128, .n = 20, .gap = 3},
    {.encoding = "i2_s", .rows = 64, .cols = 128, .n = 20, .gap = 4, .residual = true},
    {.encoding = "f16", .rows = 64, .cols = 90, .n = 20, .gap = 4, .residual = true, .in_place = true},
    {.encoding = "f32", .rows = 700, .cols = 16, .n = 40, .residual = true},
    {.encoding = "f32", .rows = 700, .cols = 13, .n = 40, .gap = 1, .residual = true, .in_place = true},
    {.encoding = "bf16", .rows = 16, .cols = 333, .n = 40, .residual = true, .in_place = true},
    {.encoding = "f16", .rows = 1000, .cols = 130, .n = 33, .first_row = 64},
    {.encoding = "q6_k", .rows = 1000, .cols = 256, .n = 33, .first_row = 64, .residual = true, .in_place = true},
};

static void views_and_residuals(void **state)
{
    (void)state;
    test_seed(&rng);
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) run_dx(&views[i], test_gpu_backend());
}

static void slices(void **state)
{
    (void)state;
    test_seed(&rng);
    for (uint32_t f = 0; f < N_FORMATS; f++) {
        run_dx(&(product){.encoding = formats[f].name, .rows = 701, .cols = 512, .n = 9, .residual = f % 2},
               small_backend());
        run_dx(
            &(product){
                .encoding = formats[f].name, .rows = 130, .cols = 512, .n = 20, .residual = true, .in_place = true},
            small_backend());
    }
    run_dw(&(product){.encoding = "f32", .rows = 300, .cols = 100, .n = 9}, small_backend());
    run_dw(&(product){.encoding = "q8", .rows = 300, .cols = 100, .n = 9}, small_backend());
}

static const product weights[] = {
    {.rows = 1, .cols = 1, .n = 1},
    {.rows = 37, .cols = 130, .n = 5},
    {.rows = 130, .cols = 129, .n = 64, .gap = 4},
    {.rows = 131, .cols = 70, .n = 65, .gap = 3},
    {.rows = 16, .cols = 300, .n = 300},
    {.rows = 300, .cols = 16, .n = 300},
    {.rows = 40, .cols = 50, .n = 700},
    {.rows = 1500, .cols = 1410, .n = 3},
};

static void weight_gradients(void **state)
{
    (void)state;
    test_seed(&rng);
    for (int kind = 0; kind < TEST_GPU_N_KINDS; kind++)
        for (size_t i = 0; i < sizeof weights / sizeof *weights; i++)
            for (int q8 = 0; q8 < 2; q8++) {
                product d = weights[i];
                d.encoding = q8 ? "q8" : "f32";
                run_dw(&d, test_gpu_backend_of((test_gpu_kind)kind));
            }
    run_dw(&(product){.encoding = "f32", .rows = 301, .cols = 60, .n = 33, .first_row = 64}, test_gpu_backend());
}

/* LINEAR over a chunk of f32 rows, as the head of a training graph has it. */
static void run_head(uint32_t format, uint32_t n, uint32_t rows, tern_backend *backend)
{
    test_case c;
    const uint32_t cols = formats[format].block == 1 ? 4 * test_between(&rng, 16, 100) - rows % 4 : 256;
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = 64 + n, .max_outputs = n});
    tern_op op = {.kind = TERN_OP_LINEAR, .rows = TERN_ROWS_OUTPUTS, .n_in = 2, .n_parts = 1};
    op.in[TERN_LINEAR_X] = test_case_rows(&c, "x", TERN_ROWS_TOKENS, cols, TEST_ORDINARY);
    op.in[TERN_LINEAR_X].first_row = 64;
    op.in[TERN_LINEAR_W] = test_case_weight(&c, formats[format].name, rows, cols);
    op.out = test_case_output(&c, "y", TERN_ROWS_OUTPUTS, TERN_DTYPE_F32, rows);
    test_case_add(&c, op);
    test_results results;
    test_case_run(&c, backend, 64 + n, n, 1, &results);
    float *x = floats_of(&c, op.in[TERN_LINEAR_X]), *w = decoded(test_case_weight_of(&c, op.in[TERN_LINEAR_W]));
    for (uint32_t t = 0; t < n; t++)
        for (uint32_t r = 0; r < rows; r++) {
            double sum = 0, most = 0;
            for (uint32_t i = 0; i < cols; i++) {
                const double term = (double)x[t * cols + i] * (double)w[(size_t)r * cols + i];
                sum += term;
                most = fmax(most, fabs(term));
            }
            check("y", t, r, test_results_row(&c, &results, op.out, t)[r], sum, most, cols);
        }
    free(x);
    free(w);
    test_results_free(&results);
    test_case_close(&c);
}

static void head_of_a_chunk(void **state)
{
    (void)state;
    test_seed(&rng);
    for (uint32_t f = 2; f < N_FORMATS; f++) {
        for (uint32_t n = 3; n < 50; n += 40) run_head(f, n, test_between(&rng, 17, 400), test_gpu_backend());
        run_head(f, 30, test_between(&rng, 1, 16), test_gpu_backend());
    }
}

/* The same twice gives the same bits: nothing depends on which workgroup comes first. */
static void same_bits(void **state)
{
    (void)state;
    test_case c;
    test_seed(&rng);
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = 200});
    tern_view dy = test_case_rows(&c, "dy", TERN_ROWS_TOKENS, 40, TEST_ORDINARY),
              x = test_case_rows(&c, "x", TERN_ROWS_TOKENS, 60, TEST_ORDINARY),
              dw = test_case_state(&c, "dw", TERN_STATE_GRADIENT, TERN_DTYPE_F32, 40, 60, TEST_ORDINARY);
    test_case_add(&c,
                  (tern_op){.kind = TERN_OP_LINEAR_DW, .n_in = 3, .in = {dy, x, dw}, .out = {.value = TERN_NO_VALUE}});
    test_results a, b;
    test_case_run(&c, test_gpu_backend(), 200, 200, 1, &a);
    test_case_run(&c, test_gpu_backend(), 200, 200, 1, &b);
    assert_memory_equal(a.bytes[dw.value], b.bytes[dw.value], 40 * 60 * sizeof(float));
    test_results_free(&a);
    test_results_free(&b);
    test_case_close(&c);
}

static uint64_t runs_of(const char *word)
{
    uint64_t n = 0;
    for (size_t i = 0; i < TERN_GPU_PIPELINE_COUNT; i++)
        if (strstr(tern_gpu_pipelines[i].name, word)) n += test_simulated_use[i].runs;
    return n;
}

static void cooperative_matrices(void **state)
{
    (void)state;
    test_on_simulated_gpu();
    test_seed(&rng);
    tern_backend *backend = cooperative_backend();
    for (uint32_t f = 0; f < N_FORMATS; f++) {
        const product d = {.encoding = formats[f].name,
                           .rows = test_between(&rng, 100, 300),
                           .cols = formats[f].block == 1 ? test_between(&rng, 64, 200) : 256,
                           .n = 70,
                           .residual = f % 2,
                           .uneven = true,
                           .row_scales = f == 0};
        print_message("%s: %u x %u\n", d.encoding, d.rows, d.cols);
        run_dx(&d, backend);
    }
    run_dx(&(product){.encoding = "i2_s", .rows = 130, .cols = 256, .n = 140, .gap = 3, .residual = true}, backend);
    run_dx(&(product){.encoding = "bf16", .rows = 77, .cols = 100, .n = 66, .first_row = 64}, backend);
    run_dx(&(product){.encoding = "f16", .rows = 64, .cols = 90, .n = 70, .residual = true, .in_place = true}, backend);
    for (int q8 = 0; q8 < 2; q8++)
        for (int gap = 0; gap < 5; gap += 2)
            run_dw(&(product){.encoding = q8 ? "q8" : "f32",
                              .rows = 133,
                              .cols = 140,
                              .n = 70 + 40 * (uint32_t)gap,
                              .gap = (uint32_t)gap,
                              .uneven = gap == 0},
                   backend);
    run_dw(&(product){.encoding = "f32", .rows = 64, .cols = 64, .n = 64, .first_row = 64}, backend);
    for (uint32_t f = 2; f < N_FORMATS; f++) run_head(f, 64 + f, 60 * f, backend);
    assert_int_equal(runs_of("DX_TERNARY_COOP"), 3);
    assert_int_equal(runs_of("DW_Q8_COOP"), 3);
    assert_int_equal(runs_of("DW_F32_COOP"), 4);
    assert_int_equal(runs_of("_COOP"), (N_FORMATS + 3) + 7 + (N_FORMATS - 2)); /* dx, dw, heads */
}

static int close_all(void **state)
{
    if (small) small->close(small);
    if (cooperative) cooperative->close(cooperative);
    return test_backends_close(state);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_format),         cmocka_unit_test(views_and_residuals), cmocka_unit_test(slices),
    cmocka_unit_test(weight_gradients),     cmocka_unit_test(head_of_a_chunk),     cmocka_unit_test(same_bits),
    cmocka_unit_test(cooperative_matrices),
};

TEST_GROUP(gradient, "gpu slow web", tests, .teardown = close_all);
