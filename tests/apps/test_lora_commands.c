/* --lora, /lora and `tern export-lora`, as a person uses them: files in, numbers and text out, checked against what is
 * computed here from the files. */
#include <math.h>
#include <unistd.h>

#include "model/support.h"
#include "quant/encoding.h"
#include "support/adapters.h"
#include "support/command.h"
#include "support/converted.h"
#include "support/golden.h"

#define IDS "5,42,79,116,153,190,227,14,51,88"
enum { N_IDS = 10 };

static tern_error err;

/* An adapter of the model at `from`, written as a GGUF file or, with no ending, as a PEFT folder. */
static const char *written(const char *from, const char *name, uint32_t rank, uint64_t seed)
{
    static char paths[4][1024];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof *paths, "%s", test_scratch(name));
    tern_model *model = open_model(from);
    tern_adapter *adapter = test_adapter(model, rank, seed, false);
    assert_ok(strstr(name, ".gguf") ? tern_adapter_write_gguf(adapter, path, &err)
                                    : tern_adapter_write_peft(adapter, path, &err),
              err);
    tern_adapter_close(adapter);
    tern_model_close(model);
    return path;
}

/* path:scale */
static const char *scaled(const char *path, const char *scale)
{
    static char texts[4][1100];
    static unsigned next;
    char *text = texts[next++ % 4];
    snprintf(text, sizeof *texts, "%s:%s", path, scale);
    return text;
}

#define LOGITS(model, ...) TERN("logits", "-m", model, "--ids", IDS, __VA_ARGS__)

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
    const char *model = test_fixture("llama"), *a = written(model, "cli-a.gguf", 3, 1),
               *b = written(model, "cli-b", 5, 2);
    test_output base = LOGITS(model, "--kv", "f32"),
                off = LOGITS(model, "--lora", scaled(a, "0"), "--lora", scaled(b, "0"));
    test_output one = LOGITS(model, "--lora", a),
                again = LOGITS(model, "--lora", scaled(a, "0.5"), "--lora", scaled(a, "5e-1"));
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
               *a = written(model, "cli-dense.gguf", 4, 3);
    snprintf(merged, sizeof merged, "%s", test_scratch("cli-merged.gguf"));
    test_output report = TERN("export-lora", "-m", model, "--lora", scaled(a, "0.8"), "-o", merged, "-f");
    test_output base = LOGITS(model, "--kv", "f32"), beside = LOGITS(model, "--lora", scaled(a, "0.8"));
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

static double number(const json_t *row, const char *key)
{
    const json_t *v = json_object_get(row, key);
    if (!json_is_number(v)) fail_msg("%s: a number expected", key);
    return json_number_value(v);
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
    assert_true(number(row, "elements") == s->n);
    assert_true(number(row, "changed") == s->changed);
    assert_true(fabs(number(row, "adapter_norm") / sqrt(s->wanted / s->before) - 1) < 1e-5);
    assert_true(fabs(number(row, "change_norm") / sqrt(s->achieved / s->before) - 1) < 1e-5);
    assert_true(fabs(number(row, "kept") - s->product / sqrt(s->wanted * s->achieved)) < 1e-5);
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
    assert_ok(tern_model_master(before, role, layer, 0, w->rows, masters, &err), err);
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
        assert_ok(tern_encode(e, masters, w->rows, w->cols, bytes, &err), err);
        assert_ok(tern_decode_rows(e, bytes, w->rows, w->cols, 0, w->rows, masters, &err), err);
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
        test_tern_json(TERN_WORDS("export-lora", "-m", from, "--lora", lora, "-o", merged, "--json", "-f"));
    tern_model *before = open_model(from), *after = open_model(merged);
    tern_adapter *adapter;
    assert_ok(tern_adapter_open(&adapter, lora, before, &err), err);
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
            assert_true((float)number(row, "scale_after") == w->scale);
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

/* The table for people says the same, and warns where hardly anything was kept. */
static void the_table(void **state)
{
    (void)state;
    char merged[1024];
    snprintf(merged, sizeof merged, "%s", test_scratch("cli-table.gguf"));
    const char *from = test_fixture("bitnet-train"), *lora = test_fixture("bitnet-train/lora");
    test_output o = TERN("export-lora", "-m", from, "--lora", lora, "-o", merged, "--type", "t160", "-f");
    test_output weak = TERN("export-lora", "-m", from, "--lora", scaled(lora, "0.003"), "-o", merged, "-f");
    assert_int_equal(o.code, 0);
    assert_non_null(strstr(o.out, "model.layers.1.mlp.down_proj.weight"));
    assert_non_null(strstr(o.out, "\ntotal "));
    assert_string_equal(o.err, "");
    assert_int_equal(weak.code, 0);
    assert_non_null(strstr(weak.err, "almost nothing of the adapter has survived ternarisation"));
    remove(merged);
    test_output_free(&o);
    test_output_free(&weak);
}

/* The same adapter in each command that runs a model. */
static void every_command_takes_adapters(void **state)
{
    (void)state;
    const char *model = test_small_model(), *a = written(model, "cli-bundled.gguf", 4, 6);
    const char *text = TERN_SOURCE_DIR "/README.md";
    test_output plain = TERN("run", "-m", model, "-p", "Once", "-n", "12", "--greedy", "-q"),
                off = TERN("run", "-m", model, "-p", "Once", "-n", "12", "--greedy", "-q", "--lora", scaled(a, "0")),
                on = TERN("run", "-m", model, "-p", "Once", "-n", "12", "--greedy", "-q", "--lora", scaled(a, "4"));
    assert_int_equal(on.code, 0);
    assert_string_equal(plain.out, off.out);
    assert_string_not_equal(plain.out, on.out);
    json_t *ppl = test_tern_json(TERN_WORDS("perplexity", "-m", model, text, "--window", "64", "--ctx", "64", "--lora",
                                            a, "--against", model, "--json"));
    assert_true(number(ppl, "kl") > 1e-3); /* the adapter is beside one of the two alone */
    json_t *bench = test_tern_json(TERN_WORDS("bench", "-m", model, "-p", "8", "-n", "8", "-r", "1", "-t", "1",
                                              "--lora", a, "--lora", a, "--json"));
    assert_int_equal(number(bench, "adapters"), 2);
    assert_true(number(bench, "adapter_bytes") > 0);
    json_t *plain_bench =
        test_tern_json(TERN_WORDS("bench", "-m", model, "-p", "8", "-n", "8", "-r", "1", "-t", "1", "--json"));
    const json_t *row = json_array_get(json_object_get(bench, "results"), 0),
                 *plain_row = json_array_get(json_object_get(plain_bench, "results"), 0);
    double more = number(row, "weight_bytes_per_token") - number(plain_row, "weight_bytes_per_token");
    assert_true(more == number(bench, "adapter_bytes"));
    test_output same = TERN("compare", "-m", model, "--lora", a, "--cpu-features", "scalar", "--reference", "cpu");
    assert_int_equal(same.code, 0);
    assert_non_null(strstr(same.out, "all bits are the same"));
    json_decref(ppl);
    json_decref(bench);
    json_decref(plain_bench);
    test_output_free(&plain);
    test_output_free(&off);
    test_output_free(&on);
    test_output_free(&same);
}

static test_output chat(const char *input, const char *flag, const char *lora)
{
    return test_tern(input, TERN_WORDS("chat", "-m", test_small_model(), "--template", "chatml", "--greedy", "-n", "12",
                                       flag, lora));
}

/* Added, weighed and removed while talking: each answer is that of a chat that had it from the start. */
static void swapped_while_talking(void **state)
{
    (void)state;
    const char *a = written(test_small_model(), "cli-chat.gguf", 4, 6);
    char input[4096], want[4096];
    test_output plain = chat("A king.\n", NULL, NULL), strong = chat("A king.\n", "--lora", scaled(a, "4")),
                weak = chat("A king.\n", "--lora", scaled(a, "1.5"));
    assert_string_not_equal(plain.out, strong.out);
    snprintf(input, sizeof input,
             "A king.\n/lora add %s:4\n/regenerate\n/lora scale 1 1.5\n/regenerate\n/lora remove 1\n/regenerate\n", a);
    test_output o = chat(input, NULL, NULL);
    if (o.code) fail_msg("%s", o.err);
    char list[2][1200];
    for (int i = 0; i < 2; i++) snprintf(list[i], sizeof list[i], "1  %s: scale %s, rank 4, ", a, i ? "1.5" : "4");
    const char *at = o.out;
    const char *const parts[] = {plain.out, list[0], strong.out, list[1], weak.out, "no adapters\n", plain.out};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        at = strstr(at, parts[i]);
        if (!at) fail_msg("\"%s\" is not where it should be in \"%s\"", parts[i], o.out);
        at += strlen(parts[i]);
    }
    snprintf(want, sizeof want, "%s", at);
    assert_string_equal(want, "");
    test_output_free(&plain);
    test_output_free(&strong);
    test_output_free(&weak);
    test_output_free(&o);
}

static void wrong_words_are_explained(void **state)
{
    (void)state;
    const char *model = test_fixture("llama"), *lora = test_fixture("bitnet-train/lora");
    const struct {
        test_output o;
        const char *message;
    } cases[] = {
        {LOGITS(model, "--lora", lora), "shape [8][256] found, [8][512] expected"},
        {LOGITS(model, "--lora", "/no/such/adapter"), "/no/such/adapter: cannot open"},
        {LOGITS(model, "--lora", scaled(lora, "nan")), "scale nan, a finite number expected"},
        {LOGITS(model, "--lora", test_fixture("llama")), "adapter_config.json"},
        {LOGITS(model, "--lora", test_fixture("llama/config.json")), "adapter_config.json"},
        {TERN("export-lora", "-m", model, "-o", "x.gguf"), "no adapter: give one with --lora"},
        {TERN("export-lora", "-m", model, "--lora", lora), "no output: give FILE.gguf or a folder"},
        {TERN("export-lora", "-m", model, "--lora", lora, "-o", "x", "--type", "f16"), "is a folder with bf16 masters"},
        {chat("/lora remove 1\n", NULL, NULL), "there are no adapters"},
        {chat("/lora add\n", NULL, NULL), "nothing, add FILE[:SCALE], remove N or scale N SCALE expected"},
        {chat("/lora add /no/such/adapter\n", NULL, NULL), "/no/such/adapter: cannot open"},
        {chat("/lora swap 1\n", NULL, NULL), "/lora swap 1: nothing, add FILE[:SCALE], remove N"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        test_output o = cases[i].o;
        assert_int_not_equal(o.code, 0);
        if (!strstr(o.err, cases[i].message)) fail_msg("%s\nexpected: %s", o.err, cases[i].message);
        test_output_free(&o);
    }
}

static void wrong_numbers_are_explained(void **state)
{
    (void)state;
    const char *a = written(test_small_model(), "cli-words.gguf", 4, 6);
    static const char *const cases[][2] = {
        {"/lora remove 2", "\"2\": the number of an adapter, 1 to 1, expected"},
        {"/lora remove", "the number of an adapter, 1 to 1, expected"},
        {"/lora remove -1", "\"-1\": the number of an adapter"},
        {"/lora remove 1 2", "\"2\": nothing more expected"},
        {"/lora scale 1", "scale \"\": a number expected"},
        {"/lora scale 1 much", "scale \"much\": a number expected"},
        {"/lora scale 1 inf", "scale inf found, a finite number expected"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char input[128];
        snprintf(input, sizeof input, "%s\n", cases[i][0]);
        test_output o = chat(input, "--lora", a);
        assert_int_not_equal(o.code, 0);
        if (!strstr(o.err, cases[i][1])) fail_msg("%s: %s", cases[i][0], o.err);
        test_output_free(&o);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(scales_and_sums),
    cmocka_unit_test(a_dense_merge_is_the_adapter),
    cmocka_unit_test(a_ternary_merge_is_reported),
    cmocka_unit_test(the_table),
    cmocka_unit_test(every_command_takes_adapters),
    cmocka_unit_test(swapped_while_talking),
    cmocka_unit_test(wrong_words_are_explained),
    cmocka_unit_test(wrong_numbers_are_explained),
};

TEST_GROUP(lora_commands, "slow", tests);
