/* Attention on the CPU against its formula, with a scale, a soft cap, a window and sinks. */
#include "support/test.h"

#include "quant/weight.h"

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
    const tern_param table = s->window ? TERN_PARAM_RING_PAGES : TERN_PARAM_PAGES;
    const uint32_t *pages = (const uint32_t *)(const void *)r->bytes[g->params[table]];
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
        const tern_param table = window ? TERN_PARAM_RING_PAGES : TERN_PARAM_PAGES;
        memcpy(test_case_param(&one.c, table), test_case_param(&many.c, table),
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
};

TEST_GROUP(forward_attention, "web", tests, .setup = seed, .teardown = test_backends_close);
