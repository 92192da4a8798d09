/* --lora, /lora and `tern export-lora`, as a person uses them: files in, numbers and text out, checked against what is
 * computed here from the files. */
#include "apps/lora_commands_cases.h"
#include "apps/merge/verdict.h"

static double distance(const test_output *a, const test_output *b)
{
    assert_int_equal(a->code, 0);
    assert_int_equal(b->code, 0);
    assert_true(a->n_out > 0 && a->n_out == b->n_out);
    return test_rms_error((const float *)(const void *)a->out, (const float *)(const void *)b->out, a->n_out / 4);
}

static void scales_and_sums(void **state)
{
    (void)state;
    const char *model = test_fixture("llama"), *a = lora_commands_written(model, "cli-a.gguf", 3, 1),
               *b = lora_commands_written(model, "cli-b", 5, 2);
    test_output base = LOGITS(model, "--kv", "f32"),
                off = LOGITS(model, "--lora", lora_commands_scaled(a, "0"), "--lora", lora_commands_scaled(b, "0"));
    test_output one = LOGITS(model, "--lora", a), again = LOGITS(model, "--lora", lora_commands_scaled(a, "0.5"),
                                                                 "--lora", lora_commands_scaled(a, "5e-1"));
    test_output both = LOGITS(model, "--lora", a, "--lora", b), turned = LOGITS(model, "--lora", b, "--lora", a);
    assert_true(distance(&off, &base) == 0);
    assert_true(distance(&one, &base) > 1e-2);
    assert_true(distance(&again, &one) <= 1e-5);
    assert_true(distance(&both, &one) > 1e-2);
    assert_true(distance(&turned, &both) <= 1e-5);
    test_output *const all[] = {&base, &off, &one, &again, &both, &turned};
    for (size_t i = 0; i < 6; i++) test_output_free(all[i]);
}

/* A dense model: the merged file computes what the adapter does beside it. */
static void a_dense_merge_is_the_adapter(void **state)
{
    (void)state;
    char merged[1024];
    const char *model = test_converted(test_fixture("llama"), "f32", "f32"),
               *a = lora_commands_written(model, "cli-dense.gguf", 4, 3);
    snprintf(merged, sizeof merged, "%s", test_scratch("cli-merged.gguf"));
    test_output report = TERN("export-lora", "-m", model, "--lora", lora_commands_scaled(a, "0.8"), "-o", merged, "-f");
    assert_non_null(
        strstr(report.out, "verdict: the merged model says what the model with the adapters beside it says"));
    test_output base = LOGITS(model, "--kv", "f32"), beside = LOGITS(model, "--lora", lora_commands_scaled(a, "0.8"));
    test_output inside = LOGITS(merged, "--kv", "f32");
    assert_int_equal(report.code, 0);
    assert_true(distance(&beside, &base) > 1e-2);
    double error = distance(&inside, &beside);
    if (!(error <= 1e-4)) fail_msg("merged weights differ by %g", error);
    remove(merged);
    test_output_free(&report);
    test_output_free(&base);
    test_output_free(&beside);
    test_output_free(&inside);
}

/* Codes times scale. */
static double *values_as_run(const tern_model *model, tern_role role, uint32_t layer, size_t *n)
{
    const tern_weight *w = tern_model_weight(model, role, layer);
    *n = (size_t)w->rows * w->cols;
    int8_t *codes = codes_of(w);
    double *values = malloc(*n * sizeof *values);
    for (size_t i = 0; i < *n; i++) values[i] = (double)codes[i] * (double)w->scale;
    free(codes);
    return values;
}

/* What the report says of all weights together. */
typedef struct sums {
    double n, changed, before, wanted, achieved, product;
} sums;

static void check_row(const json_t *row, const sums *s)
{
    assert_true(lora_commands_number(row, "elements") == s->n);
    assert_true(lora_commands_number(row, "changed") == s->changed);
    assert_true(fabs(lora_commands_number(row, "adapter_norm") / sqrt(s->wanted / s->before) - 1) < 1e-5);
    assert_true(fabs(lora_commands_number(row, "change_norm") / sqrt(s->achieved / s->before) - 1) < 1e-5);
    assert_true(fabs(lora_commands_number(row, "kept") - s->product / sqrt(s->wanted * s->achieved)) < 1e-5);
}

static sums look(const tern_model *before, const tern_model *after, const tern_adapter *adapter, tern_role role,
                 uint32_t layer)
{
    sums s = {0};
    size_t n;
    const tern_adapter_info *info = tern_adapter_describe(adapter);
    const tern_adapter_pair *pair = tern_adapter_find(adapter, role, layer);
    double *b = values_as_run(before, role, layer, &n), *a = values_as_run(after, role, layer, &n);
    for (size_t i = 0; i < n; i++) {
        double d = 0;
        for (uint32_t k = 0; k < info->rank; k++)
            d += (double)pair->b[i / pair->in * info->rank + k] * (double)pair->a[k * pair->in + i % pair->in];
        d *= (double)info->scale;
        s.changed += (a[i] > 0) - (a[i] < 0) != (b[i] > 0) - (b[i] < 0);
        s.before += b[i] * b[i];
        s.wanted += d * d;
        s.achieved += (a[i] - b[i]) * (a[i] - b[i]);
        s.product += (a[i] - b[i]) * d;
    }
    s.n = (double)n;
    free(a);
    free(b);
    return s;
}

/* Masters plus s B A, ternarised here. */
static void check_codes(const tern_model *before, const tern_model *after, const tern_adapter *adapter, tern_role role,
                        uint32_t layer, bool bf16)
{
    const tern_weight *w = tern_model_weight(before, role, layer), *v = tern_model_weight(after, role, layer);
    const tern_adapter_pair *pair = tern_adapter_find(adapter, role, layer);
    const tern_adapter_info *info = tern_adapter_describe(adapter);
    const size_t n = (size_t)w->rows * w->cols;
    float *masters = malloc(n * sizeof *masters), scale;
    int8_t *want = malloc(n), *got = codes_of(v);
    assert_ok(tern_model_master(before, role, layer, 0, w->rows, masters, &lora_commands_err), lora_commands_err);
    for (size_t i = 0; i < n; i++) {
        double d = 0;
        for (uint32_t k = 0; k < info->rank; k++)
            d += (double)info->scale * (double)pair->b[i / pair->in * info->rank + k] *
                 (double)pair->a[k * pair->in + i % pair->in];
        masters[i] += (float)d;
    }
    if (bf16) {
        uint8_t *bytes = malloc(n * 2);
        const tern_encoding *e = tern_encoding_find(TERN_ENC_BF16);
        assert_ok(tern_encode(e, masters, w->rows, w->cols, bytes, &lora_commands_err), lora_commands_err);
        assert_ok(tern_decode_rows(e, bytes, w->rows, w->cols, 0, w->rows, masters, &lora_commands_err),
                  lora_commands_err);
        free(bytes);
    }
    tern_ternarise(masters, n, want, &scale);
    assert_memory_equal(got, want, n);
    assert_true(v->scale == scale);
    free(masters);
    free(want);
    free(got);
}

/* The report of a merge into ternary weights, and the files themselves, from bf16 masters. */
static void check_ternary(const char *output, bool folder)
{
    char merged[1024];
    snprintf(merged, sizeof merged, "%s", test_scratch(output));
    const char *from = test_fixture("bitnet-train"), *lora = test_fixture("bitnet-train/lora");
    json_t *report =
        test_tern_json(TERN_WORDS("export-lora", "-m", from, "--lora", lora, "-o", merged, "--json", "-f", "--force"));
    tern_model *before = open_model(from), *after = open_model(merged);
    tern_adapter *adapter;
    assert_ok(tern_adapter_open(&adapter, lora, before, &lora_commands_err), lora_commands_err);
    sums total = {0};
    size_t at = 0;
    const json_t *rows = json_object_get(report, "weights");
    for (uint32_t layer = 0; layer < 2; layer++)
        for (int role = 0; role < TERN_ROLE_COUNT; role++) {
            char name[TERN_ROLE_NAME_BYTES];
            if (!tern_adapter_find(adapter, (tern_role)role, layer)) continue;
            tern_role_hf_name(NULL, (tern_role)role, layer, name);
            const json_t *row = json_array_get(rows, at++);
            const tern_weight *w = tern_model_weight(after, (tern_role)role, layer);
            assert_string_equal(json_string_value(json_object_get(row, "name")), name);
            assert_true((float)lora_commands_number(row, "scale_after") == w->scale);
            sums s = look(before, after, adapter, (tern_role)role, layer);
            assert_true(s.changed > 0);
            check_row(row, &s);
            check_codes(before, after, adapter, (tern_role)role, layer, folder);
            for (size_t i = 0; i < sizeof s / sizeof(double); i++) ((double *)&total)[i] += ((double *)&s)[i];
        }
    assert_int_equal(at, 14);
    assert_int_equal(json_array_size(rows), at);
    check_row(json_object_get(report, "total"), &total);
    json_decref(report);
    tern_adapter_close(adapter);
    tern_model_close(before);
    tern_model_close(after);
}

static void a_ternary_merge_is_reported(void **state)
{
    (void)state;
    check_ternary("cli-merged-ternary.gguf", false);
    check_ternary("cli-merged-ternary", true);
}

/* Mean KL divergence of rows of logits. */
static double divergence(const test_output *p, const test_output *q, size_t n_vocab)
{
    const float *a = (const float *)(const void *)p->out, *b = (const float *)(const void *)q->out;
    const size_t n = p->n_out / sizeof *a / n_vocab;
    double sum = 0;
    assert_int_equal(p->n_out, q->n_out);
    for (size_t row = 0; row < n; row++, a += n_vocab, b += n_vocab) {
        double sum_a = 0, sum_b = 0;
        for (size_t i = 0; i < n_vocab; i++) sum_a += exp((double)a[i]), sum_b += exp((double)b[i]);
        for (size_t i = 0; i < n_vocab; i++) {
            const double x = (double)a[i] - log(sum_a);
            sum += exp(x) * (x - ((double)b[i] - log(sum_b))) / (double)n;
        }
    }
    return sum;
}

static void words_follow_from_numbers(void **state)
{
    (void)state;
    static const struct {
        double merged, base;
        const char *word;
    } cases[] = {{0, 0, "no change"}, {1e-6, 3, "the same"}, {0.04, 1, "the same"}, {0.06, 1, "worse"},
                 {0.25, 1, "worse"},  {0.26, 1, "ruined"},   {2, 1, "ruined"},      {1e-3, 0, "ruined"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const tern_merge_verdict v = {.merged = cases[i].merged, .base = cases[i].base};
        assert_string_equal(tern_merge_word_name(tern_merge_judge(&v)), cases[i].word);
    }
}

/* A ruined model is not written; the logits of what is written with --force say the same of it. */
static void ruined_models_are_not_written(void **state)
{
    (void)state;
    char merged[1024];
    snprintf(merged, sizeof merged, "%s", test_scratch("cli-ruined.gguf"));
    remove(merged);
    const char *from = test_fixture("bitnet-train"), *lora = test_fixture("bitnet-train/lora");
    test_output o = TERN("export-lora", "-m", from, "--lora", lora, "-o", merged);
    assert_int_equal(o.code, 1);
    assert_non_null(strstr(o.out, "verdict: the merged model is ruined"));
    assert_non_null(strstr(o.err, "cli-ruined.gguf was not written: "));
    assert_false(tern_file_exists(merged));
    test_output_free(&o);
    json_t *report =
        test_tern_json(TERN_WORDS("export-lora", "-m", from, "--lora", lora, "-o", merged, "--json", "--force"));
    const json_t *verdict = json_object_get(report, "verdict");
    assert_string_equal(json_string_value(json_object_get(verdict, "word")), "ruined");
    tern_model *model = open_model(from);
    const size_t n_vocab = tern_model_config(model)->n_vocab;
    tern_model_close(model);
    test_output beside = LOGITS(from, "--lora", lora), base = LOGITS(from, "--kv", "f32"),
                inside = LOGITS(merged, "--kv", "f32");
    const double to_merged = divergence(&beside, &inside, n_vocab), to_base = divergence(&beside, &base, n_vocab);
    assert_true(to_merged > 0.25 * to_base);
    /* Other texts, whose tokens are made up: of the same size. */
    const double said = lora_commands_number(verdict, "kl_merged"),
                 said_base = lora_commands_number(verdict, "kl_base");
    if (!(fabs(log(said / to_merged)) < 1 && fabs(log(said_base / to_base)) < 1))
        fail_msg("%g and %g, %g and %g by the logits", said, said_base, to_merged, to_base);
    json_decref(report);
    remove(merged);
    test_output_free(&beside);
    test_output_free(&base);
    test_output_free(&inside);
}

/* The table for people says the same. */
static void the_table(void **state)
{
    (void)state;
    char merged[1024];
    snprintf(merged, sizeof merged, "%s", test_scratch("cli-table.gguf"));
    const char *from = test_fixture("bitnet-train"), *lora = test_fixture("bitnet-train/lora");
    test_output o = TERN("export-lora", "-m", from, "--lora", lora, "-o", merged, "--type", "t160", "-f", "--force");
    assert_int_equal(o.code, 0);
    assert_non_null(strstr(o.out, "model.layers.1.mlp.down_proj.weight"));
    assert_non_null(strstr(o.out, "\ntotal "));
    assert_string_equal(o.err, "");
    remove(merged);
    test_output_free(&o);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(scales_and_sums),
    cmocka_unit_test(a_dense_merge_is_the_adapter),
    cmocka_unit_test(a_ternary_merge_is_reported),
    cmocka_unit_test(words_follow_from_numbers),
    cmocka_unit_test(ruined_models_are_not_written),
    cmocka_unit_test(the_table),
};

TEST_GROUP(lora_commands, "slow", tests);
