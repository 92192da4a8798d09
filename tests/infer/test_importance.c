/* Importance matrices: what goes into the layers, against PyTorch's hidden states, and through files into quantisers.
 */
#include "infer/session/importance.h"

#include <math.h>

#include "base/file.h"
#include "format/gguf.h"
#include "quant/encoding.h"
#include "quant/weight.h"
#include "support/converted.h"
#include "support/golden.h"
#include "support/test.h"

static tern_error err;

/* Sum over tokens of (rms_norm(hidden) * gain)^2, in double. */
static double square_of(const float *hidden, const float *gain, size_t n_tokens, uint32_t n, uint32_t col, double eps)
{
    double sum = 0;
    for (size_t t = 0; t < n_tokens; t++) {
        double squares = 0;
        for (uint32_t c = 0; c < n; c++) squares += (double)hidden[t * n + c] * (double)hidden[t * n + c];
        const double x = (double)hidden[t * n + col] / sqrt(squares / n + eps) * (double)gain[col];
        sum += x * x;
    }
    return sum;
}

static void inputs_of_the_layers(void **state)
{
    (void)state;
    test_golden g;
    tern_importance m;
    tern_engine *engine = test_engine(test_fixture("llama"), NULL);
    const tern_model *model = tern_engine_model(engine);
    const uint32_t n = tern_model_config(model)->n_embd;
    const double eps = (double)tern_model_config(model)->rms_eps;
    uint32_t n_ids;
    test_golden_open(&g, test_fixture("llama/golden.safetensors"));
    const int32_t *ids = test_golden_ids(&g, 0, &n_ids);
    const float *hidden = (const float *)(const void *)tern_safetensors_find(g.file, "0.hidden")->data;
    assert_ok(tern_importance_measure(&m, engine, ids, n_ids, NULL, &err), err);
    assert_int_equal(m.n, 3 * 7);
    assert_int_equal(m.n_tokens, n_ids);
    for (uint32_t layer = 0; layer < 3; layer++)
        for (size_t k = 0; k < 3; k++) { /* Q, K and V */
            const tern_imatrix_sums *s = &m.sums[layer * 7 + k];
            const float *gain = (const float *)(const void *)tern_model_weight(model, TERN_ROLE_ATTN_NORM, layer)->data;
            assert_int_equal(s->counts[0], n_ids);
            for (uint32_t c = 0; c < n; c += 7) {
                const double want = square_of(hidden + layer * n_ids * n, gain, n_ids, n, c, eps);
                assert_true(fabs(s->squares[c] - want) <= 1e-3 * want + 1e-6);
            }
        }
    tern_importance_deinit(&m);
    tern_engine_close(engine);
    test_golden_close(&g);
}

/* Windows start empty and batches join: 300 tokens in windows of 150 are twice the same 150. */
static void windows(void **state)
{
    (void)state;
    int32_t ids[300];
    tern_importance once, twice;
    tern_engine *engine = test_engine(test_fixture("llama"), NULL);
    for (int i = 0; i < 300; i++) ids[i] = 1 + i % 150 * 3;
    assert_ok(tern_importance_measure(&once, engine, ids, 150, &(tern_importance_params){.window = 150}, &err), err);
    assert_ok(tern_importance_measure(&twice, engine, ids, 300, &(tern_importance_params){.window = 150}, &err), err);
    assert_int_equal(twice.n_windows, 2);
    for (size_t i = 0; i < once.n; i++) {
        assert_int_equal(twice.sums[i].counts[0], 300);
        for (uint32_t c = 0; c < once.sums[i].cols; c++)
            assert_true(fabs(twice.sums[i].squares[c] - 2 * once.sums[i].squares[c]) <=
                        1e-9 * twice.sums[i].squares[c]);
    }
    tern_importance_deinit(&once);
    tern_importance_deinit(&twice);
    assert_int_equal(tern_importance_measure(&once, engine, ids, 1, NULL, &err), TERN_INVALID_ARGUMENT);
    assert_string_equal(err.message, "text of 1 tokens: at least 2 expected");
    tern_engine_close(engine);
}

/* Written, read, and used: the columns that count come out nearer than without. The text has three tokens, so that
 * columns differ: over many, those of a model with random weights count alike. */
static void through_a_file(void **state)
{
    (void)state;
    const char *path = test_scratch("importance.gguf"), *plain = test_scratch("importance-plain.gguf");
    const char *weighted = test_scratch("importance-weighted.gguf");
    int32_t ids[64];
    float mean[1024];
    bool found;
    tern_importance m;
    tern_imatrix *read;
    tern_engine *engine = test_engine(test_fixture("llama"), NULL);
    const tern_model *model = tern_engine_model(engine);
    for (int i = 0; i < 64; i++) ids[i] = 3 + i % 3 * 7;
    assert_ok(tern_importance_measure(&m, engine, ids, 64, NULL, &err), err);
    const tern_imatrix_about about = {"text", m.n_windows, m.window};
    assert_ok(tern_imatrix_write(path, m.sums, m.n, &about, &err), err);
    assert_ok(tern_imatrix_open(&read, path, &err), err);
    assert_int_equal(tern_imatrix_entries(read), 21);
    assert_int_equal(tern_imatrix_chunks(read), 1);
    assert_string_equal(tern_imatrix_name(read), "importance.gguf");
    assert_ok(tern_imatrix_mean(read, "blk.9.attn_q.weight", 1, 256, mean, &found, &err), err);
    assert_false(found);
    assert_int_equal(tern_imatrix_mean(read, "blk.0.attn_q.weight", 1, 255, mean, &found, &err), TERN_MALFORMED);
    assert_string_equal(err.message, "blk.0.attn_q.weight.in_sum2: 1 x 256 of f32 found, 1 x 255 of f32 expected");
    tern_export_report report = {0};
    tern_export_options how = {.linear = tern_encoding_by_name("q4_k"), .report = &report};
    assert_ok(tern_model_write_gguf(model, plain, &how, &err), err);
    how.imatrix = read;
    assert_ok(tern_model_write_gguf(model, weighted, &how, &err), err);
    assert_int_equal(report.n_weighted, 21);
    assert_int_equal(report.n_unweighted, 0);
    how.linear = tern_encoding_by_name("f16");
    assert_int_equal(tern_model_write_gguf(model, test_scratch("importance-none.gguf"), &how, &err),
                     TERN_INVALID_ARGUMENT);
    assert_string_equal(err.message, "imatrix: no entry found for any matrix that is encoded anew, some expected");
    double errors[2] = {0};
    for (int k = 0; k < 2; k++) {
        tern_model *made;
        static float a[512 * 256], b[512 * 256];
        assert_ok(tern_model_open(&made, k ? weighted : plain, &(tern_model_options){.no_tokenizer = true}, &err), err);
        const tern_weight *x = tern_model_weight(model, TERN_ROLE_FFN_UP, 1);
        const tern_weight *y = tern_model_weight(made, TERN_ROLE_FFN_UP, 1);
        assert_ok(tern_imatrix_mean(read, "blk.1.ffn_up.weight", 1, 256, mean, &found, &err), err);
        assert_ok(tern_decode_rows(x->encoding, x->data, x->rows, x->cols, 0, x->rows, a, &err), err);
        assert_ok(tern_decode_rows(y->encoding, y->data, y->rows, y->cols, 0, y->rows, b, &err), err);
        for (size_t i = 0; i < sizeof a / sizeof *a; i++)
            errors[k] += (double)mean[i % 256] * ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        tern_model_close(made);
    }
    print_message("weighted error %.4g of the plain one\n", errors[1] / errors[0]);
    assert_true(errors[1] < errors[0]);
    tern_imatrix_close(read);
    tern_importance_deinit(&m);
    tern_engine_close(engine);
}

static void refuses(void **state)
{
    (void)state;
    tern_imatrix *m;
    bool found;
    float mean[2];
    double squares[2] = {1, 4};
    const char *path = test_scratch("importance-bad.gguf");
    uint64_t counts[2] = {2, 0};
    tern_imatrix_sums sums = {
        .name = "blk.0.attn_q.weight", .cols = 2, .n_experts = 1, .squares = squares, .counts = counts};
    const tern_imatrix_about about = {"text", 1, 512};
    assert_ok(tern_imatrix_write(path, &sums, 1, &about, &err), err);
    assert_ok(tern_imatrix_open(&m, path, &err), err);
    assert_ok(tern_imatrix_mean(m, sums.name, 1, 2, mean, &found, &err), err);
    assert_true(found && mean[0] == 0.5f && mean[1] == 2.0f);
    tern_imatrix_close(m);
    squares[1] = -1;
    assert_ok(tern_imatrix_write(path, &sums, 1, &about, &err), err);
    assert_ok(tern_imatrix_open(&m, path, &err), err);
    assert_int_equal(tern_imatrix_mean(m, sums.name, 1, 2, mean, &found, &err), TERN_MALFORMED);
    assert_string_equal(err.message, "blk.0.attn_q.weight.in_sum2: -1 found at column 1, a sum of squares expected");
    tern_imatrix_close(m);
    counts[0] = 0;
    assert_ok(tern_imatrix_write(path, &sums, 1, &about, &err), err);
    assert_ok(tern_imatrix_open(&m, path, &err), err);
    assert_int_equal(tern_imatrix_mean(m, sums.name, 1, 2, mean, &found, &err), TERN_MALFORMED);
    assert_string_equal(err.message, "blk.0.attn_q.weight.counts: 0 found, a positive number expected");
    tern_imatrix_close(m);
    assert_int_equal(tern_imatrix_open(&m, test_small_model(), &err), TERN_MALFORMED);
    assert_non_null(strstr(err.message, "no importance matrix found: general.type imatrix and tensors"));
}

/* Rows count for the expert that they go to; an expert without rows counts all columns alike. */
static void experts(void **state)
{
    (void)state;
    enum { N = 40 };
    const char *path = test_scratch("importance-experts.gguf"), *made = test_scratch("importance-mixtral.gguf");
    int32_t ids[N];
    float mean[8 * 512];
    bool found;
    tern_importance m;
    tern_imatrix *read;
    tern_engine *engine = test_engine(test_fixture("mixtral"), NULL);
    const tern_config *c = tern_engine_config(engine);
    const tern_model *model = tern_engine_model(engine);
    const uint32_t n_experts = c->n_experts, n = c->n_embd;
    for (int i = 0; i < N; i++) ids[i] = 3 + i * 7 % 200;
    assert_ok(tern_importance_measure(&m, engine, ids, N, NULL, &err), err);
    assert_int_equal(m.n, 7 * c->n_layers);
    const tern_imatrix_sums *q = &m.sums[0], *gate = NULL, *down = NULL;
    for (size_t i = 0; i < m.n; i++) {
        if (strcmp(m.sums[i].name, "blk.1.ffn_gate_exps.weight") == 0) gate = &m.sums[i];
        if (strcmp(m.sums[i].name, "blk.1.ffn_down_exps.weight") == 0) down = &m.sums[i];
    }
    assert_true(gate && down && q->n_experts == 1 && gate->n_experts == n_experts && q->counts[0] == N);
    uint64_t rows = 0;
    for (uint32_t e = 0; e < n_experts; e++) {
        assert_int_equal(gate->counts[e], down->counts[e]);
        rows += gate->counts[e];
    }
    assert_int_equal(rows, N * c->n_experts_used);
    const tern_imatrix_about about = {"text", m.n_windows, m.window};
    for (uint32_t k = 0; k < n; k++) gate->squares[2 * n + k] = 0;
    gate->counts[2] = 0;
    assert_ok(tern_imatrix_write(path, m.sums, m.n, &about, &err), err);
    assert_ok(tern_imatrix_open(&read, path, &err), err);
    assert_true((size_t)n_experts * n <= sizeof mean / sizeof *mean);
    assert_ok(tern_imatrix_mean(read, gate->name, n_experts, n, mean, &found, &err), err);
    for (uint32_t e = 0; e < n_experts; e++)
        for (uint32_t k = 0; k < n; k += 5) {
            const double want = gate->counts[e] ? gate->squares[e * n + k] / (double)gate->counts[e] : 1;
            assert_true(fabs((double)mean[e * n + k] - want) <= 1e-6 * want);
        }
    assert_int_equal(tern_imatrix_mean(read, gate->name, n_experts - 1, n, mean, &found, &err), TERN_MALFORMED);
    tern_export_report report = {0};
    const tern_export_options how = {.linear = tern_encoding_by_name("q4_0"), .report = &report, .imatrix = read};
    assert_ok(tern_model_write_gguf(model, made, &how, &err), err);
    assert_int_equal(report.n_unweighted, 0);
    tern_model *quantised;
    assert_ok(tern_model_open(&quantised, made, &(tern_model_options){.no_tokenizer = true}, &err), err);
    const tern_weight *w = tern_model_weight(model, TERN_ROLE_FFN_GATE_EXPS, 1),
                      *y = tern_model_weight(quantised, TERN_ROLE_FFN_GATE_EXPS, 1);
    const uint32_t each = w->rows / n_experts;
    float *values = malloc((size_t)w->rows * n * sizeof *values);
    uint8_t *bytes = malloc(y->bytes);
    assert_ok(tern_decode_rows(w->encoding, w->data, w->rows, n, 0, w->rows, values, &err), err);
    assert_ok(tern_imatrix_mean(read, gate->name, n_experts, n, mean, &found, &err), err);
    for (uint32_t e = 0; e < n_experts; e++) /* each by its own */
        assert_ok(tern_encode_weighted(y->encoding, values + (size_t)e * each * n, mean + e * n, each, n,
                                       bytes + e * (y->bytes / n_experts), &err),
                  err);
    assert_memory_equal(bytes, y->data, y->bytes);
    free(values);
    free(bytes);
    tern_model_close(quantised);
    tern_imatrix_close(read);
    tern_importance_deinit(&m);
    tern_engine_close(engine);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(experts), cmocka_unit_test(inputs_of_the_layers),
    cmocka_unit_test(windows), cmocka_unit_test(through_a_file),
    cmocka_unit_test(refuses),
};

TEST_GROUP(importance, "threads", tests);
