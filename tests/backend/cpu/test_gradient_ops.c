/* LINEAR_DX and LINEAR_DW on the CPU: what ops/ref/backward.h says, to the bit, with any number of threads, for every
 * encoding, and for views of rows and columns; and LINEAR of ternary weights and f32 rows, which decodes as they do. */
#include "support/test.h"

#include "backend/open.h"
#include "base/half.h"
#include "ops/ref/backward.h"
#include "quant/encoding.h"
#include "quant/weight.h"
#include "support/formats.h"
#include "support/op_case.h"

enum { N_POOLS = 4 };

static tern_rng rng;
static tern_backend *pools[N_POOLS]; /* of 1, 2, 3 and 8 threads */

static uint32_t between(uint32_t low, uint32_t high)
{
    return test_between(&rng, low, high);
}

/* Runs the case with every number of threads; `want` is the whole value `out` of the first n rows. */
static void check(test_case *c, tern_view out, uint32_t n_tokens, uint32_t n_rows, const float *want, const char *what)
{
    const uint32_t cols = c->graph.values[out.value].cols;
    for (int i = 0; i < N_POOLS; i++) {
        test_results got;
        test_case_run(c, pools[i], n_tokens, n_tokens, 1, &got);
        const float *y = (const float *)(const void *)got.bytes[out.value];
        for (uint32_t r = 0; r < n_rows; r++)
            for (uint32_t col = 0; col < cols; col++)
                if (!test_same_bits(y + (size_t)r * cols + col, want + (size_t)r * cols + col, 1))
                    fail_msg("%s, pool %d: row %u of %u, column %u of %u: %.9g, %.9g expected", what, i, r, n_rows, col,
                             cols, (double)y[(size_t)r * cols + col], (double)want[(size_t)r * cols + col]);
        assert_null(
            c->graph.values[out.value].kind == TERN_VALUE_STATE ? NULL : test_case_touched(c, out.value, n_rows, &got));
        test_results_free(&got);
    }
}

/* The weight as floats: codes where its scale is applied to the sums. */
static float *weight_values(const tern_weight *w)
{
    const size_t n = (size_t)w->rows * w->cols;
    float *values = malloc(n * sizeof *values);
    tern_error err = {0};
    if (!w->encoding->ternary) {
        assert_ok(tern_decode_rows(w->encoding, w->data, w->rows, w->cols, 0, w->rows, values, &err), err);
        return values;
    }
    int8_t *codes = malloc(n);
    assert_ok(tern_decode_codes(w->encoding, w->data, w->rows, w->cols, 0, w->rows, codes, NULL, NULL, NULL, &err),
              err);
    for (size_t i = 0; i < n; i++) values[i] = (float)codes[i] * (w->row_scales ? w->row_scales[i / w->cols] : 1);
    free(codes);
    return values;
}

typedef struct dx_shape {
    const char *encoding;
    uint32_t n, rows, cols; /* tokens; of the weight */
    uint32_t dy_cols, first_col, first_row;
    bool residual, in_place, row_scales, bf16;
    test_fill fill;
} dx_shape;

static float to_bf16(float x)
{
    return tern_bf16_to_f32(tern_f32_to_bf16(x));
}

/* n rows of `cols` of these numbers, each column times its scale where there are some, in bf16. */
static float *rounded(const float *x, size_t stride, uint32_t n, uint32_t cols, const float *scales)
{
    float *out = malloc((size_t)n * cols * sizeof *out);
    for (uint32_t t = 0; t < n; t++)
        for (uint32_t c = 0; c < cols; c++)
            out[(size_t)t * cols + c] = to_bf16(x[t * stride + c] * (scales ? scales[c] : 1));
    return out;
}

/* What the definition makes of it. */
static float *expected_dx(const dx_shape *s, const tern_weight *w, const float *dy, const float *residual)
{
    const size_t n = (size_t)s->n * s->cols;
    tern_weight plain = *w;
    if (s->bf16) plain.row_scales = NULL;
    float *dx = calloc(n, sizeof *dx), *values = weight_values(&plain), *dy16 = NULL, *values16 = NULL;
    const float scale = w->encoding->ternary && !w->row_scales ? w->scale : 1;
    if (s->bf16) {
        dy16 = rounded(dy, s->dy_cols, s->n, s->rows, w->row_scales);
        values16 = rounded(values, s->cols, s->rows, s->cols, NULL);
        tern_ref_linear_dx(values16, s->rows, s->cols, dy16, s->rows, s->n, dx, s->cols);
    } else {
        tern_ref_linear_dx(values, s->rows, s->cols, dy, s->dy_cols, s->n, dx, s->cols);
    }
    free(dy16);
    free(values16);
    for (size_t i = 0; i < n; i++) dx[i] = (residual ? residual[i] : 0.0f) + scale * dx[i];
    free(values);
    return dx;
}

static void check_dx(const dx_shape *s)
{
    test_case c;
    char what[160];
    snprintf(what, sizeof what, "dx of %s [%u][%u], %u tokens%s%s%s, %s", s->encoding, s->rows, s->cols, s->n,
             s->residual ? ", residual" : "", s->row_scales ? ", scales by row" : "", s->bf16 ? ", bf16" : "",
             test_fill_names[s->fill]);
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = s->first_row + s->n + 1});
    tern_view dy = test_case_rows(&c, "dy", TERN_ROWS_TOKENS, s->dy_cols, s->fill),
              w = test_case_weight(&c, s->encoding, s->rows, s->cols);
    dy = test_case_columns(dy, s->first_col, s->rows);
    dy.first_row = s->first_row;
    tern_view residual = {0}, out;
    if (s->residual) residual = test_case_rows(&c, "residual", TERN_ROWS_TOKENS, s->cols, TEST_ORDINARY);
    out = s->in_place ? residual : test_case_output(&c, "dx", TERN_ROWS_TOKENS, TERN_DTYPE_F32, s->cols);
    tern_weight *weight = test_case_weight_of(&c, w);
    float *scales = malloc(s->rows * sizeof *scales);
    test_floats(&rng, TEST_ORDINARY, scales, s->rows);
    if (s->row_scales) weight->row_scales = scales;
    test_case_add(&c, (tern_op){.kind = TERN_OP_LINEAR_DX,
                                .n_in = TERN_LINEAR_DX_INPUTS,
                                .in = {[TERN_LINEAR_DX_DY] = dy, [TERN_LINEAR_DX_W] = w},
                                .residual = residual,
                                .halves = s->bf16 ? TERN_HALVES_BF16 : TERN_HALVES_NONE,
                                .out = out});
    float *want = expected_dx(s, weight, test_case_floats(&c, dy) + (size_t)s->first_row * s->dy_cols + s->first_col,
                              s->residual ? test_case_floats(&c, residual) : NULL);
    check(&c, out, s->n, s->n, want, what);
    free(want);
    free(scales);
    test_case_close(&c);
}

static void dx_of_every_encoding(void **state)
{
    (void)state;
    static const struct {
        const char *encoding;
        uint32_t grain;
    } formats[] = {TEST_DENSE_BLOCKS{"i2_s", 128}, {"tq1_0", 256}, {"tq2_0", 256}, {"t160", 1}};
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++)
        for (uint32_t i = 0; i < 6; i++) {
            const uint32_t rows = between(1, 40), most = i == 5 ? 1300 : 600;
            const uint32_t cols = between(1, (most + formats[f].grain - 1) / formats[f].grain) * formats[f].grain;
            const bool residual = between(0, 1);
            check_dx(&(dx_shape){.encoding = formats[f].encoding,
                                 .n = between(1, 20),
                                 .rows = rows,
                                 .cols = cols,
                                 .dy_cols = rows + between(0, 5),
                                 .residual = residual,
                                 .in_place = residual && between(0, 1),
                                 .row_scales = strcmp(formats[f].encoding, "i2_s") == 0 && i % 2,
                                 .bf16 = i > 2});
        }
}

/* Chains longer than a block, tiles of both sizes, rows and columns of a larger value, i2_s rows that share a byte. */
static void dx_of_large_and_odd_shapes(void **state)
{
    (void)state;
    static const dx_shape shapes[] = {
        {.encoding = "f32", .n = 70, .rows = 600, .cols = 130, .dy_cols = 640, .first_col = 17, .residual = true},
        {.encoding = "i2_s", .n = 300, .rows = 513, .cols = 384, .dy_cols = 513, .residual = true, .in_place = true},
        {.encoding = "i2_s", .n = 33, .rows = 256, .cols = 2816, .dy_cols = 256, .first_row = 64},
        {.encoding = "i2_s", .n = 5, .rows = 32, .cols = 100, .dy_cols = 32},
        {.encoding = "bf16", .n = 257, .rows = 257, .cols = 257, .dy_cols = 600, .first_col = 300},
        {.encoding = "t160", .n = 9, .rows = 70, .cols = 1000, .dy_cols = 70, .residual = true},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        dx_shape bf16 = shapes[i];
        bf16.bf16 = true;
        check_dx(&shapes[i]);
        check_dx(&bf16);
    }
    for (int fill = 0; fill < TEST_N_FILLS; fill++)
        check_dx(&(dx_shape){.encoding = "f32",
                             .n = 7,
                             .rows = 300,
                             .cols = 50,
                             .dy_cols = 300,
                             .residual = fill % 2,
                             .bf16 = fill % 3 == 0,
                             .fill = (test_fill)fill});
}

typedef struct dw_shape {
    bool q8, bf16;
    uint32_t n, rows, cols, dy_cols, first_col, dy_first_row, x_first_row;
    test_fill fill;
} dw_shape;

static void expected_dw(const dw_shape *s, test_case *c, tern_view dy, tern_view x, float *dw)
{
    const float *from = test_case_floats(c, dy) + (size_t)s->dy_first_row * s->dy_cols + s->first_col;
    if (!s->q8) {
        const float *rows = test_case_floats(c, x) + (size_t)s->x_first_row * s->cols;
        float *dy16 = rounded(from, s->dy_cols, s->n, s->rows, NULL),
              *x16 = rounded(rows, s->cols, s->n, s->cols, NULL);
        if (s->bf16) tern_ref_linear_dw(dy16, s->rows, x16, s->cols, s->n, s->rows, s->cols, dw);
        else tern_ref_linear_dw(from, s->dy_cols, rows, s->cols, s->n, s->rows, s->cols, dw);
        free(dy16);
        free(x16);
        return;
    }
    const uint8_t *bytes = c->initial[x.value];
    const uint32_t max_rows = c->graph.max_tokens;
    const tern_q8_rows q = {.x = (const int8_t *)bytes + s->x_first_row * tern_q8_stride(s->cols),
                            .stride = tern_q8_stride(s->cols),
                            .n = s->n};
    const float *scales =
        (const float *)(const void *)(bytes + tern_q8_scales_offset(s->cols, max_rows)) + s->x_first_row;
    if (!s->bf16) tern_ref_linear_dw_q8(from, s->dy_cols, &q, scales, s->rows, s->cols, dw);
    for (uint32_t t = 0; s->bf16 && t < s->n; t++) {
        const float one = 1;
        const tern_q8_rows row = {.x = q.x + t * q.stride, .stride = q.stride, .n = 1};
        float *dy16 = malloc(s->rows * sizeof *dy16);
        for (uint32_t r = 0; r < s->rows; r++) dy16[r] = to_bf16(from[t * s->dy_cols + r] * scales[t]);
        tern_ref_linear_dw_q8(dy16, s->rows, &row, &one, s->rows, s->cols, dw);
        free(dy16);
    }
}

static void check_dw(const dw_shape *s)
{
    test_case c;
    char what[160];
    snprintf(what, sizeof what, "dw [%u][%u] of %s, %u tokens%s, %s", s->rows, s->cols, s->q8 ? "int8" : "f32", s->n,
             s->bf16 ? ", bf16" : "", test_fill_names[s->fill]);
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = s->n + s->dy_first_row + s->x_first_row});
    tern_view dy = test_case_rows(&c, "dy", TERN_ROWS_TOKENS, s->dy_cols, s->fill);
    tern_view x = s->q8 ? test_case_q8(&c, "x", TERN_ROWS_TOKENS, s->cols)
                        : test_case_rows(&c, "x", TERN_ROWS_TOKENS, s->cols, s->fill);
    tern_view dw = test_case_state(&c, "dw", TERN_STATE_GRADIENT, TERN_DTYPE_F32, s->rows, s->cols, TEST_ORDINARY);
    dy = test_case_columns(dy, s->first_col, s->rows);
    dy.first_row = s->dy_first_row;
    x.first_row = s->x_first_row;
    test_case_add(&c, (tern_op){.kind = TERN_OP_LINEAR_DW,
                                .n_in = TERN_LINEAR_DW_INPUTS,
                                .in = {[TERN_LINEAR_DW_DY] = dy, [TERN_LINEAR_DW_X] = x, [TERN_LINEAR_DW_DW] = dw},
                                .halves = s->bf16 ? TERN_HALVES_BF16 : TERN_HALVES_NONE,
                                .out = {.value = TERN_NO_VALUE},
                                .residual = {.value = TERN_NO_VALUE}});
    float *want = malloc((size_t)s->rows * s->cols * sizeof *want);
    memcpy(want, test_case_floats(&c, dw), (size_t)s->rows * s->cols * sizeof *want);
    expected_dw(s, &c, dy, x, want);
    check(&c, dw, s->n, s->rows, want, what);
    free(want);
    test_case_close(&c);
}

static void dw_of_every_shape(void **state)
{
    (void)state;
    for (int i = 0; i < 30; i++) {
        const uint32_t rows = between(1, 70);
        check_dw(&(dw_shape){.q8 = i % 2,
                             .bf16 = i / 2 % 2,
                             .n = between(1, 40),
                             .rows = rows,
                             .cols = between(1, 300),
                             .dy_cols = rows + between(0, 5)});
    }
    static const dw_shape shapes[] = {
        {.n = 600, .rows = 70, .cols = 130, .dy_cols = 100, .first_col = 30},
        {.q8 = true, .n = 513, .rows = 300, .cols = 520, .dy_cols = 300},
        {.n = 64, .rows = 1030, .cols = 96, .dy_cols = 1030, .x_first_row = 64},
        {.q8 = true,
         .n = 40,
         .rows = 65,
         .cols = 700,
         .dy_cols = 70,
         .first_col = 5,
         .dy_first_row = 64,
         .x_first_row = 128},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        dw_shape bf16 = shapes[i];
        bf16.bf16 = true;
        check_dw(&shapes[i]);
        check_dw(&bf16);
    }
    for (int fill = 0; fill < TEST_N_FILLS; fill++)
        check_dw(&(dw_shape){.q8 = fill % 2, .n = 30, .rows = 40, .cols = 50, .dy_cols = 40, .fill = (test_fill)fill});
}

/* The sum of codes times floats, then the scale. */
static void linear_of_codes_and_floats(void **state)
{
    (void)state;
    static const struct {
        const char *encoding;
        uint32_t grain;
    } formats[] = {{"i2_s", 128}, {"i2_s", 4}, {"tq1_0", 256}, {"tq2_0", 256}, {"t160", 1}};
    for (uint32_t i = 0; i < 20; i++) {
        test_case c;
        const uint32_t grain = formats[i % 5].grain, rows = grain == 4 ? 32 : between(1, 90), n = between(1, 70);
        const uint32_t cols = between(1, 1500 / grain) * grain;
        test_case_open(&c, &rng, &(test_case_shape){.max_tokens = n});
        tern_view x = test_case_rows(&c, "x", TERN_ROWS_TOKENS, cols, TEST_ORDINARY);
        tern_view w = test_case_weight(&c, formats[i % 5].encoding, rows, cols);
        tern_view y = test_case_output(&c, "y", TERN_ROWS_TOKENS, TERN_DTYPE_F32, rows);
        tern_weight *weight = test_case_weight_of(&c, w);
        float scales[90], *want = malloc(sizeof(float) * n * rows);
        test_floats(&rng, TEST_ORDINARY, scales, rows);
        float *codes = weight_values(weight);
        tern_ref_f32((const uint8_t *)codes, (size_t)cols * 4, rows, cols, test_case_floats(&c, x), cols, n, want,
                     rows);
        if (between(0, 1)) weight->row_scales = scales;
        for (uint32_t e = 0; e < n * rows; e++) want[e] *= weight->row_scales ? scales[e % rows] : weight->scale;
        test_case_add(&c, (tern_op){.kind = TERN_OP_LINEAR,
                                    .n_in = TERN_LINEAR_W + 1,
                                    .in = {[TERN_LINEAR_X] = x, [TERN_LINEAR_W] = w},
                                    .n_parts = 1,
                                    .out = y});
        check(&c, y, n, n, want, formats[i % 5].encoding);
        free(want);
        free(codes);
        test_case_close(&c);
    }
}

/* An adapter's matrix: more tokens than rows, so that both are shared out. */
static void linear_of_few_rows(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 8; i++) {
        test_case c;
        const uint32_t rows = between(1, 130), n = between(60, 400), cols = between(1, 200);
        test_case_open(&c, &rng, &(test_case_shape){.max_tokens = n});
        tern_view x = test_case_rows(&c, "x", TERN_ROWS_TOKENS, cols, TEST_ORDINARY);
        tern_view w = test_case_weight(&c, "f32", rows, cols), residual = {0};
        tern_view y = test_case_output(&c, "y", TERN_ROWS_TOKENS, TERN_DTYPE_F32, rows);
        if (i % 2) residual = test_case_rows(&c, "residual", TERN_ROWS_TOKENS, rows, TEST_ORDINARY);
        float *want = malloc(sizeof(float) * n * rows);
        tern_ref_f32(test_case_weight_of(&c, w)->data, (size_t)cols * 4, rows, cols, test_case_floats(&c, x), cols, n,
                     want, rows);
        for (size_t e = 0; e < (size_t)n * rows && i % 2; e++) want[e] = test_case_floats(&c, residual)[e] + want[e];
        test_case_add(&c, (tern_op){.kind = TERN_OP_LINEAR,
                                    .n_in = TERN_LINEAR_W + 1,
                                    .in = {[TERN_LINEAR_X] = x, [TERN_LINEAR_W] = w},
                                    .n_parts = 1,
                                    .residual = residual,
                                    .out = y});
        check(&c, y, n, n, want, "linear of few rows");
        free(want);
        test_case_close(&c);
    }
}

static int open_state(void **state)
{
    static const uint32_t threads[N_POOLS] = {1, 2, 3, 8};
    tern_error err = {0};
    (void)state;
    test_seed(&rng);
    for (int i = 0; i < N_POOLS; i++) {
        const tern_backend_options options = {.name = "cpu", .n_threads = threads[i]};
        if (tern_backend_open(&pools[i], &options, &err) == TERN_OK) continue;
        print_error("%s\n", err.message);
        return 1;
    }
    return 0;
}

static int close_state(void **state)
{
    for (int i = 0; i < N_POOLS; i++)
        if (pools[i]) pools[i]->close(pools[i]);
    return test_backends_close(state);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(dx_of_every_encoding), cmocka_unit_test(dx_of_large_and_odd_shapes),
    cmocka_unit_test(dw_of_every_shape),    cmocka_unit_test(linear_of_codes_and_floats),
    cmocka_unit_test(linear_of_few_rows),
};

TEST_GROUP(gradient_ops, "web", tests, .setup = open_state, .teardown = close_state);
