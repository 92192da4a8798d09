/* Adapters in every command, exchanged while talking, and words and numbers that are wrong. */
#include "apps/lora_commands_cases.h"
#include "support/places.h"

/* The same adapter in each command that runs a model. */
static void every_command_takes_adapters(void **state)
{
    (void)state;
    const char *model = test_small_model(), *a = lora_commands_written(model, "cli-bundled.gguf", 4, 6);
    const char *text = TERN_SOURCE_DIR "/README.md";
    test_output plain = TERN("run", "-m", model, "-p", "Once", "-n", "12", "--greedy", "-q"),
                off = TERN("run", "-m", model, "-p", "Once", "-n", "12", "--greedy", "-q", "--lora",
                           lora_commands_scaled(a, "0")),
                on = TERN("run", "-m", model, "-p", "Once", "-n", "12", "--greedy", "-q", "--lora",
                          lora_commands_scaled(a, "4"));
    assert_int_equal(on.code, 0);
    assert_string_equal(plain.out, off.out);
    assert_string_not_equal(plain.out, on.out);
    json_t *ppl = test_tern_json(TERN_WORDS("perplexity", "-m", model, text, "--window", "64", "--ctx", "64", "--lora",
                                            a, "--against", model, "--json"));
    assert_true(lora_commands_number(ppl, "kl") > 1e-3); /* the adapter is beside one of the two alone */
    json_t *bench = test_tern_json(TERN_WORDS("bench", "-m", model, "-p", "8", "-n", "8", "-r", "1", "-t", "1",
                                              "--lora", a, "--lora", a, "--json"));
    assert_int_equal(lora_commands_number(bench, "adapters"), 2);
    assert_true(lora_commands_number(bench, "adapter_bytes") > 0);
    json_t *plain_bench =
        test_tern_json(TERN_WORDS("bench", "-m", model, "-p", "8", "-n", "8", "-r", "1", "-t", "1", "--json"));
    const json_t *row = json_array_get(json_object_get(bench, "results"), 0),
                 *plain_row = json_array_get(json_object_get(plain_bench, "results"), 0);
    double more =
        lora_commands_number(row, "weight_bytes_per_token") - lora_commands_number(plain_row, "weight_bytes_per_token");
    assert_true(more == lora_commands_number(bench, "adapter_bytes"));
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
    const char *a = lora_commands_written(test_small_model(), "cli-chat.gguf", 4, 6);
    char input[4096], want[4096];
    test_output plain = chat("A king.\n", NULL, NULL),
                strong = chat("A king.\n", "--lora", lora_commands_scaled(a, "4")),
                weak = chat("A king.\n", "--lora", lora_commands_scaled(a, "1.5"));
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
        {LOGITS(model, "--lora", lora_commands_scaled(lora, "nan")), "scale nan, a finite number expected"},
        {LOGITS(model, "--lora", test_fixture("llama")),
         "llama: a model (Hugging Face) without adapter_config.json found, an adapter (PEFT) expected"},
        {LOGITS(model, "--lora", "no-such.safetensors"), "no-such.safetensors: no such file"},
        {LOGITS(model, "--lora", test_fixture("llama/config.json")),
         "llama: a model (Hugging Face) without adapter_config.json found, an adapter (PEFT) expected"},
        {TERN("export-lora", "-m", model, "-o", "x.gguf"), "no adapter: give one with --lora"},
        {TERN("export-lora", "-m", model, "--lora", lora), "no output: give FILE.gguf or a folder"},
        {TERN("export-lora", "-m", model, "--lora", lora, "-o", "x", "--type", "f16"),
         "is a folder, which gets bf16 masters"},
        {chat("/lora remove 1\n", NULL, NULL), "this chat has no adapters (/lora add FILE adds one)"},
        {chat("/lora add\n", NULL, NULL), "add FILE[:SCALE], remove N, scale N SCALE or no argument expected"},
        {chat("/lora add /no/such/adapter\n", NULL, NULL), "/no/such/adapter: cannot open"},
        {chat("/lora swap 1\n", NULL, NULL), "/lora swap 1: add FILE[:SCALE], remove N"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        test_output o = cases[i].o;
        assert_int_not_equal(o.code, 0);
        if (!strstr(o.err, cases[i].message)) fail_msg("%s\n%s", o.err, cases[i].message);
        test_output_free(&o);
    }
}

static void wrong_numbers_are_explained(void **state)
{
    (void)state;
    const char *a = lora_commands_written(test_small_model(), "cli-words.gguf", 4, 6);
    static const char *const cases[][2] = {
        {"/lora remove 2", "\"2\": the number of an adapter, 1 to 1, expected"},
        {"/lora remove", "the number of an adapter, 1 to 1, expected"},
        {"/lora remove -1", "\"-1\": the number of an adapter"},
        {"/lora remove 1 2", "\"2\": no further argument expected"},
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
    cmocka_unit_test(every_command_takes_adapters),
    cmocka_unit_test(swapped_while_talking),
    cmocka_unit_test(wrong_words_are_explained),
    cmocka_unit_test(wrong_numbers_are_explained),
};

TEST_GROUP(lora_usage, "slow", tests);
