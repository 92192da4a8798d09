/* What ops of inference can ask for beside their plain form, on the CPU: attention with a scale, a soft cap, a window
 * and sinks, norms of groups of columns, biases; against double precision, and to the bit where two forms are one. */
#include "support/test.h"

#include <math.h>

#include "base/half.h"
#include "graph/graph.h"
#include "ops/ref/ref.h"
#include "support/attention_case.h"

static tern_rng rng;

/* A row of a cache as floats. */
static void load(const test_attention *a, const test_results *r, tern_view cache, uint32_t t, uint32_t h, uint32_t j,
                 double *row)
{
    const test_attention_shape *s = &a->shape;
    const tern_graph *g = &a->c.graph;
    const uint32_t *pages = (const uint32_t *)(const void *)r->bytes[g->params[TERN_PARAM_PAGES]];
    const uint32_t *sequences = (const uint32_t *)(const void *)r->bytes[g->params[TERN_PARAM_SEQUENCES]];
    const size_t page = pages[sequences[t] * g->max_pages + j / TERN_PAGE_SIZE];
    const size_t at = ((page * s->n_kv_heads + h) * TERN_PAGE_SIZE + j % TERN_PAGE_SIZE) * s->head_dim;
    for (uint32_t d = 0; d < s->head_dim; d++)
        row[d] = s->f32 ? (double)((const float *)(const void *)r->bytes[cache.value])[at + d]
                        : (double)tern_f16_to_f32(((const uint16_t *)(const void *)r->bytes[cache.value])[at + d]);
}

/* The definition, with whole scores, a maximum taken out and no pages. */
static void plain_attention(const test_attention *a, const test_results *r, uint32_t t, uint32_t head, double *out)
{
    const test_attention_shape *s = &a->shape;
    const uint32_t *positions = (const uint32_t *)(const void *)r->bytes[a->c.graph.params[TERN_PARAM_POSITIONS]];
    const uint32_t kv_head = head / (s->n_heads / s->n_kv_heads), position = positions[t], dim = s->head_dim;
    const float *q = test_results_row(&a->c, r, a->x, t) + (size_t)head * dim;
    const double scale = s->scale > 0 ? (double)s->scale : 1 / sqrt(dim);
    double *scores = malloc((position + 1) * sizeof *scores), row[512], sum = 0, most = -HUGE_VAL;
    double sink =
        s->sinks ? (double)((const float *)(const void *)a->c.weights[a->sinks.value]->data)[head] : -HUGE_VAL;
    for (uint32_t j = 0; j <= position; j++) {
        scores[j] = -HUGE_VAL;
        if (s->window && position - j >= s->window) continue;
        load(a, r, a->k_cache, t, kv_head, j, row);
        double dot = 0;
        for (uint32_t d = 0; d < dim; d++) dot += (double)q[d] * row[d];
        scores[j] = dot * scale;
        if (s->softcap > 0) scores[j] = (double)s->softcap * tanh(scores[j] / (double)s->softcap);
        most = fmax(most, scores[j]);
    }
    memset(out, 0, dim * sizeof *out);
    for (uint32_t j = 0; j <= position; j++) {
        if (!(scores[j] > -HUGE_VAL)) continue;
        load(a, r, a->v_cache, t, kv_head, j, row);
        sum += exp(scores[j] - most);
        for (uint32_t d = 0; d < dim; d++) out[d] += exp(scores[j] - most) * row[d];
    }
    sum += exp(sink - most);
    for (uint32_t d = 0; d < dim; d++) out[d] /= sum;
    free(scores);
}

static void check_attention(const test_attention_shape *s)
{
    test_attention a;
    test_results r;
    double want[512];
    test_attention_open(&a, &rng, s, false);
    test_attention_hide(&a);
    test_case_add(&a.c, test_attention_op(&a, TERN_OP_ATTENTION));
    test_case_run(&a.c, test_backend("cpu"), s->n_tokens, 1, 1, &r);
    for (uint32_t t = 0; t < s->n_tokens; t++)
        for (uint32_t h = 0; h < s->n_heads; h++) {
            const float *got = test_results_row(&a.c, &r, a.out, t) + (size_t)h * s->head_dim;
            plain_attention(&a, &r, t, h, want);
            for (uint32_t d = 0; d < s->head_dim; d++)
                if (!(fabs((double)got[d] - want[d]) <= 2e-6))
                    fail_msg("token %u, head %u, %u: %g, %g expected", t, h, d, (double)got[d], want[d]);
        }
    test_results_free(&r);
    test_case_close(&a.c);
}

static const test_attention_shape shapes[] = {
    {.n_heads = 4,
     .n_kv_heads = 2,
     .head_dim = 64,
     .n_ctx = 700,
     .max_tokens = 1,
     .n_tokens = 1,
     .n_sequences = 1,
     .first = 600},
    {.n_heads = 4,
     .n_kv_heads = 1,
     .head_dim = 40,
     .n_ctx = 400,
     .max_tokens = 90,
     .n_tokens = 85,
     .n_sequences = 1,
     .first = 250},
    {.n_heads = 2,
     .n_kv_heads = 2,
     .head_dim = 32,
     .n_ctx = 320,
     .max_tokens = 9,
     .n_tokens = 8,
     .n_sequences = 3,
     .first = 300,
     .f32 = true},
    {.n_heads = 2, .n_kv_heads = 1, .head_dim = 16, .n_ctx = 64, .max_tokens = 40, .n_tokens = 40, .n_sequences = 1},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static void attention_follows_the_formula(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_SHAPES; i++) {
        test_attention_shape s = shapes[i];
        check_attention(&s);
        s.scale = 0.31f;
        check_attention(&s);
        s.softcap = 1.75f;
        check_attention(&s);
        s.sinks = true;
        check_attention(&s);
        s.softcap = 0;
        for (uint32_t window = 1; window < 400; window = window * 3 / 2 + 1) {
            s.window = window;
            check_attention(&s);
        }
    }
}

/* Runs the case on the CPU and takes the rows of its output; the pages are the same for equal seeds. */
static float *run_rows(const test_attention_shape *s, uint64_t seed, float sink)
{
    test_attention a;
    test_results r;
    tern_rng same = {seed};
    test_attention_open(&a, &same, s, false);
    tern_op op = test_attention_op(&a, TERN_OP_ATTENTION);
    float *sinks = s->sinks ? (float *)(uintptr_t)a.c.weights[a.sinks.value]->data : NULL;
    for (uint32_t h = 0; sinks && h < s->n_heads; h++) sinks[h] = sink;
    test_case_add(&a.c, op);
    test_case_run(&a.c, test_backend("cpu"), s->n_tokens, 1, 1, &r);
    const size_t cols = (size_t)s->n_heads * s->head_dim;
    float *rows = malloc(s->n_tokens * cols * sizeof *rows);
    for (uint32_t t = 0; t < s->n_tokens; t++)
        memcpy(rows + t * cols, test_results_row(&a.c, &r, a.out, t), cols * sizeof *rows);
    test_results_free(&r);
    test_case_close(&a.c);
    return rows;
}

static void assert_same(const test_attention_shape *a, const test_attention_shape *b, float sink, bool same)
{
    const uint64_t seed = tern_rng_u64(&rng);
    float *x = run_rows(a, seed, sink), *y = run_rows(b, seed, sink);
    assert_int_equal(test_same_bits(x, y, (size_t)a->n_tokens * a->n_heads * a->head_dim), same);
    free(x);
    free(y);
}

static void what_changes_nothing_changes_no_bit(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_SHAPES; i++) {
        test_attention_shape s = shapes[i], other = s;
        const uint32_t last = s.first + s.max_tokens;
        other.window = last; /* it covers everything */
        assert_same(&s, &other, 0, true);
        other.window = last / 2;
        assert_same(&s, &other, 0, false);
        other = s;
        other.scale = 1.0f / sqrtf((float)s.head_dim);
        assert_same(&s, &other, 0, true);
        test_attention_shape sinks = s;
        sinks.sinks = true;
        assert_same(&sinks, &sinks, 0, true);
        /* sinks draw from the generator after everything that is compared */
        assert_same(&s, &sinks, -HUGE_VALF, true);
        assert_same(&s, &sinks, 0, false);
    }
}

/* The last token of a step alone gives the bits that it has in the step. */
static void decode_equals_prefill(void **state)
{
    (void)state;
    for (uint32_t window = 0; window < 330; window = window * 2 + 5) {
        test_attention_shape s = {.n_heads = 4, .n_kv_heads = 2, .head_dim = 64, .n_ctx = 640, .max_tokens = 70};
        s.n_tokens = 70, s.n_sequences = 1, s.first = 530, s.window = window, s.softcap = window % 2 ? 3 : 0;
        test_attention many, one;
        test_results r[2];
        test_attention_open(&many, &rng, &s, false);
        s.max_tokens = s.n_tokens = 1, s.first += 69;
        test_attention_open(&one, &rng, &s, false);
        const tern_value *x = &many.c.graph.values[many.x.value];
        memcpy(one.c.initial[one.x.value], many.c.initial[many.x.value] + x->bytes / 70 * 69, x->bytes / 70);
        const tern_view caches[][2] = {{one.k_cache, many.k_cache}, {one.v_cache, many.v_cache}};
        for (int i = 0; i < 2; i++)
            memcpy(one.c.initial[caches[i][0].value], many.c.initial[caches[i][1].value],
                   many.c.graph.values[caches[i][1].value].bytes);
        memcpy(test_case_param(&one.c, TERN_PARAM_PAGES), test_case_param(&many.c, TERN_PARAM_PAGES),
               many.c.graph.max_pages * sizeof(uint32_t));
        test_case_add(&many.c, test_attention_op(&many, TERN_OP_ATTENTION));
        test_case_add(&one.c, test_attention_op(&one, TERN_OP_ATTENTION));
        test_case_run(&many.c, test_backend("cpu"), 70, 1, 1, &r[0]);
        test_case_run(&one.c, test_backend("cpu"), 1, 1, 1, &r[1]);
        if (!test_same_bits(test_results_row(&many.c, &r[0], many.out, 69), test_results_row(&one.c, &r[1], one.out, 0),
                            s.n_heads * s.head_dim))
            fail_msg("window %u: one token and 70 differ", window);
        test_results_free(&r[0]);
        test_results_free(&r[1]);
        test_case_close(&many.c);
        test_case_close(&one.c);
    }
}

/* RMS_NORM of groups, in place or not, with a residual or not, as the definition of one row for each group. */
static void norms_are_of_each_group(void **state)
{
    (void)state;
    for (int round = 0; round < 60; round++) {
        const uint32_t group = test_between(&rng, 1, 140), n_groups = round % 3 ? test_between(&rng, 1, 6) : 1;
        const uint32_t before = test_between(&rng, 0, 5), cols = n_groups * group, n = test_between(&rng, 1, 7);
        const bool in_place = round % 2, residual = !in_place && test_between(&rng, 0, 1);
        test_case c;
        test_results got;
        test_case_open(&c, &rng, &(test_case_shape){.max_tokens = 7});
        tern_view whole = test_case_rows(&c, "x", TERN_ROWS_TOKENS, before + cols + 3, TEST_MIXED);
        tern_view x = test_case_columns(whole, before, cols), weight = test_case_norm_weight(&c, group);
        tern_view y = in_place ? x : test_case_output(&c, "y", TERN_ROWS_TOKENS, TERN_DTYPE_F32, cols);
        tern_op op = {.kind = TERN_OP_RMS_NORM, .n_in = 2, .in = {x, weight}, .eps = 1e-5f, .out = y};
        if (residual) op.residual = test_case_rows(&c, "residual", TERN_ROWS_TOKENS, cols, TEST_ORDINARY);
        test_case_add(&c, op);
        test_case_run(&c, test_backend("cpu"), n, n, 1, &got);
        float want[6 * 140];
        for (uint32_t t = 0; t < n; t++) {
            const float *in = test_case_floats(&c, whole) + (size_t)t * (before + cols + 3) + before;
            const float *w = (const float *)(const void *)c.weights[weight.value]->data;
            for (uint32_t i = 0; i < cols; i += group) tern_ref_rms_norm(in + i, w, 1e-5f, group, want + i);
            for (uint32_t i = 0; residual && i < cols; i++)
                want[i] = test_case_floats(&c, op.residual)[(size_t)t * cols + i] + want[i];
            assert_true(test_same_bits(test_results_row(&c, &got, y, t), want, cols));
        }
        test_results_free(&got);
        test_case_close(&c);
    }
}

static tern_status refuse(tern_backend *b, const tern_graph *graph, const tern_op *op, tern_error *err)
{
    (void)b, (void)graph;
    return tern_fail(err, TERN_UNSUPPORTED, "op %s", tern_op_name(op->kind));
}

/* A sum goes into the norm before it where the device says that it can, and changes no bit. */
static void norms_take_sums_where_the_device_can(void **state)
{
    (void)state;
    enum { COLS = 90, TOKENS = 5 };
    tern_backend refusing = *test_backend("cpu");
    refusing.supports = refuse;
    tern_backend *const backends[] = {NULL, &refusing, test_backend("cpu")};
    test_results results[3];
    test_case cases[3];
    tern_view sums[3];
    const uint64_t seed = tern_rng_u64(&rng);
    for (int i = 0; i < 3; i++) {
        test_case *c = &cases[i];
        tern_error err = {0};
        tern_rng same = {seed};
        test_case_open(c, &same, &(test_case_shape){.max_tokens = TOKENS});
        tern_view x = test_case_rows(c, "x", TERN_ROWS_TOKENS, COLS, TEST_ORDINARY);
        tern_view weight = test_case_norm_weight(c, COLS / 3);
        tern_view twice = test_case_activation(c, "twice", TERN_ROWS_TOKENS, TERN_DTYPE_F32, COLS);
        tern_view normed = test_case_activation(c, "normed", TERN_ROWS_TOKENS, TERN_DTYPE_F32, COLS);
        sums[i] = test_case_output(c, "sum", TERN_ROWS_TOKENS, TERN_DTYPE_F32, COLS);
        test_case_add(c, (tern_op){.kind = TERN_OP_SCALE, .n_in = 1, .in = {x}, .scale = 2, .out = twice});
        test_case_add(
            c, (tern_op){.kind = TERN_OP_RMS_NORM, .n_in = 2, .in = {twice, weight}, .eps = 1e-5f, .out = normed});
        test_case_add(c, (tern_op){.kind = TERN_OP_ADD, .n_in = 2, .in = {twice, normed}, .out = sums[i]});
        assert_ok(tern_graph_fuse(&c->graph, backends[i], &err), err);
        assert_int_equal(c->graph.n_ops, i == 2 ? 2 : 3);
        test_case_run(c, test_backend("cpu"), TOKENS, TOKENS, 1, &results[i]);
        assert_true(test_same_bits(test_results_row(c, &results[i], sums[i], 0),
                                   test_results_row(&cases[0], &results[0], sums[0], 0), TOKENS * COLS));
    }
    for (int i = 0; i < 3; i++) {
        test_results_free(&results[i]);
        test_case_close(&cases[i]);
    }
}

typedef struct biased {
    const char *encoding;
    uint32_t n_parts, cols;
    bool q8, gated, residual;
} biased;

/* With a bias of zeros the bits of none; with one its sum, and under a gate what GATE makes of both. */
static void check_bias(const biased *b)
{
    enum { ROWS = 70, TOKENS = 13 };
    test_case c;
    test_results got;
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = TOKENS});
    tern_op op = {.kind = TERN_OP_LINEAR, .n_in = 1 + b->n_parts, .n_parts = b->n_parts};
    op.in[0] = b->q8 ? test_case_q8(&c, "x", TERN_ROWS_TOKENS, b->cols)
                     : test_case_rows(&c, "x", TERN_ROWS_TOKENS, b->cols, TEST_ORDINARY);
    for (uint32_t p = 0; p < b->n_parts; p++) op.in[1 + p] = test_case_weight(&c, b->encoding, ROWS, b->cols);
    const uint32_t cols = b->gated ? ROWS : ROWS * b->n_parts;
    if (b->residual) op.residual = test_case_rows(&c, "residual", TERN_ROWS_TOKENS, cols, TEST_ORDINARY);
    tern_op plain = op, zero = op, full = op, apart = op;
    tern_view biases[3] = {{0}};
    apart.residual = (tern_view){0};
    for (uint32_t p = 0; p < b->n_parts; p++) {
        zero.bias[p] = test_case_norm_weight(&c, ROWS);
        memset((void *)(uintptr_t)c.weights[zero.bias[p].value]->data, 0, ROWS * sizeof(float));
        if (p != 1) full.bias[p] = biases[p] = test_case_norm_weight(&c, ROWS); /* the second part has none */
    }
    plain.gated = zero.gated = full.gated = b->gated;
    plain.out = test_case_output(&c, "plain", TERN_ROWS_TOKENS, TERN_DTYPE_F32, cols);
    zero.out = test_case_output(&c, "zero", TERN_ROWS_TOKENS, TERN_DTYPE_F32, cols);
    full.out = test_case_output(&c, "full", TERN_ROWS_TOKENS, TERN_DTYPE_F32, cols);
    apart.out = test_case_output(&c, "apart", TERN_ROWS_TOKENS, TERN_DTYPE_F32, ROWS * b->n_parts);
    test_case_add(&c, plain);
    test_case_add(&c, zero);
    test_case_add(&c, full);
    test_case_add(&c, apart);
    test_case_run(&c, test_backend("cpu"), TOKENS, TOKENS, 1, &got);
    for (uint32_t t = 0; t < TOKENS; t++) {
        float want[3 * ROWS];
        memcpy(want, test_results_row(&c, &got, apart.out, t), ROWS * b->n_parts * sizeof *want);
        for (uint32_t i = 0; i < ROWS * b->n_parts; i++)
            if (biases[i / ROWS].cols)
                want[i] += ((const float *)(const void *)c.weights[biases[i / ROWS].value]->data)[i % ROWS];
        if (b->gated) tern_ref_relu2(want, want + ROWS, ROWS, want);
        for (uint32_t i = 0; b->residual && i < cols; i++)
            want[i] = test_case_floats(&c, op.residual)[(size_t)t * cols + i] + want[i];
        assert_true(test_same_bits(test_results_row(&c, &got, full.out, t), want, cols));
        const float *zeros = test_results_row(&c, &got, zero.out, t), *none = test_results_row(&c, &got, plain.out, t);
        for (uint32_t i = 0; i < cols; i++) assert_true(zeros[i] == none[i]);
    }
    test_results_free(&got);
    test_case_close(&c);
}

static void biases_are_added(void **state)
{
    (void)state;
    static const biased cases[] = {
        {.encoding = "i2_s", .n_parts = 1, .cols = 256, .q8 = true},
        {.encoding = "t160", .n_parts = 3, .cols = 200, .q8 = true, .residual = true},
        {.encoding = "tq2_0", .n_parts = 2, .cols = 512, .q8 = true, .gated = true},
        {.encoding = "i2_s", .n_parts = 2, .cols = 128},
        {.encoding = "f16", .n_parts = 1, .cols = 100, .residual = true},
        {.encoding = "q8_0", .n_parts = 3, .cols = 64},
        {.encoding = "bf16", .n_parts = 2, .cols = 96, .q8 = true, .gated = true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_bias(&cases[i]);
}

static int seed(void **state)
{
    (void)state;
    test_seed(&rng);
    return 0;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(attention_follows_the_formula),
    cmocka_unit_test(what_changes_nothing_changes_no_bit),
    cmocka_unit_test(decode_equals_prefill),
    cmocka_unit_test(norms_are_of_each_group),
    cmocka_unit_test(biases_are_added),
    cmocka_unit_test(norms_take_sums_where_the_device_can),
};

TEST_GROUP(forward_ops, "web", tests, .setup = seed, .teardown = test_backends_close);
