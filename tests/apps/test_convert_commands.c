/* The commands that write and show model files: convert, inspect, synth; and files that are cut short. */
#include <sys/stat.h>

#include "apps/commands_cases.h"
#include "apps/lora_commands_cases.h"
#include "support/micro_model.h"

static void convert_keeps_the_text(void **state)
{
    (void)state;
    static const char *const types[] = {"i2_s", "tq2_0", "tq1_0", "t160"};
    test_output want = TERN("run", "-m", test_small_model(), BEGIN, "--greedy", "-n", "24", "-q");
    for (size_t i = 0; i < 4; i++) {
        const char *file = test_scratch("cli-converted.gguf");
        test_output o = TERN("convert", test_small_model(), "-o", file, "--type", types[i], "--overwrite");
        assert_int_equal(o.code, 0);
        assert_string_equal(o.out, "");
        assert_non_null(strstr(o.err, "bits per weight"));
        test_output_free(&o);
        o = TERN("run", "-m", file, "--greedy", "-n", "24", "-q", "-p", "Once upon a time");
        assert_string_equal(o.out, want.out);
        test_output_free(&o);
    }
    test_output_free(&want);
}

/* For programs: sizes as numbers, which agree with what is printed for people. */
static void json_has_the_sizes(void **state)
{
    (void)state;
    const char *file = test_scratch("cli-json.gguf");
    json_t *made = test_tern_json(TERN_WORDS("convert", test_small_model(), "-o", file, "--json", "-f"));
    struct stat st;
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(json_integer_value(json_object_get(made, "output_bytes")), st.st_size);
    assert_int_equal(json_array_size(json_object_get(made, "fallbacks")), 0);
    json_t *whole = test_tern_json(TERN_WORDS("inspect", file, "--memory", "--json", "-c", "256")),
           *part =
               test_tern_json(TERN_WORDS("inspect", file, "--memory", "--json", "-c", "256", "--kv-memory", "400K"));
    const json_t *device = json_object_get(whole, "device"), *less = json_object_get(part, "device");
    json_int_t sum = 0;
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)device, name, value) if (strcmp(name, "total_bytes") != 0) sum +=
        json_integer_value(value);
    assert_int_equal(sum, json_integer_value(json_object_get(device, "total_bytes")));
    assert_int_equal(json_integer_value(json_object_get(less, "kv_bytes")), 400 << 10);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(part, "host"), "kv_bytes")),
                     json_integer_value(json_object_get(device, "kv_bytes")));
    json_decref(made);
    json_decref(whole);
    json_decref(part);
}

/* Layers sorted in the file, and sorted anew: the text stays. */
static void rsr_keeps_the_text(void **state)
{
    (void)state;
    const char *file = test_scratch("cli-rsr.gguf");
    test_output want = TERN("run", "-m", test_small_model(), BEGIN, "--greedy", "-n", "24", "-q");
    test_output o = TERN("convert", test_small_model(), "-o", file, "--rsr", "--rsr-rows", "4", "-f");
    assert_int_equal(o.code, 0);
    test_output_free(&o);
    static const char *const kernels[] = {"rsr", "rsr:5", "t160", "dot", "lut"};
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        o = TERN("run", "-m", file, "--kernel", kernels[i], "--greedy", "-n", "24", "-q", "-p", "Once upon a time");
        assert_string_equal(o.out, want.out);
        test_output_free(&o);
    }
    test_output_free(&want);
}

static void convert_refuses(void **state)
{
    (void)state;
    test_output o = TERN("convert", test_small_model(), "-o", test_small_model());
    assert_int_equal(o.code, 2);
    assert_non_null(strstr(o.err, "input and output are the same file"));
    test_output_free(&o);
    o = TERN("convert", test_fixture("llama"), "-o", test_scratch("cli-forced.gguf"), "--rsr");
    assert_int_equal(o.code, 2);
    assert_non_null(strstr(o.err, "rsr: a model without ternary layers found, some expected"));
    test_output_free(&o);
    o = TERN("convert", test_fixture("llama"), "-o", test_scratch("cli-forced.gguf"), "--type", "i2_s");
    assert_int_equal(o.code, 1);
    assert_non_null(strstr(o.err, "the model was not trained for it (--force does it all the same)"));
    test_output_free(&o);
}

/* A mix, counted by inspect; and what has another type where a block of 256 does not fit. */
static void mixes(void **state)
{
    (void)state;
    const char *file = test_scratch("cli-mix.gguf");
    test_output o = TERN("convert", test_fixture("gemma3"), "-o", file, "--type", "Q4_K_M", "-f");
    assert_int_equal(o.code, 0);
    assert_null(strstr(o.err, "instead of"));
    test_output_free(&o);
    json_t *d = test_tern_json(TERN_WORDS("inspect", file, "--json"));
    const json_t *n = json_object_get(d, "encodings");
    assert_int_equal(json_integer_value(json_object_get(n, "q4_k")), 7 * 7 - 6); /* layers 2, 5, 6 of 7 have more */
    assert_int_equal(json_integer_value(json_object_get(n, "q6_k")), 7);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(d, "metadata"), "general.file_type")), 15);
    json_decref(d);
    o = TERN("inspect", file);
    assert_non_null(strstr(o.out, "43 q4_k"));
    test_output_free(&o);
    tern_error err = {0};
    tern_buf bytes = micro_model(&(micro_change){.width = 96, .seed = 3, .architecture = "llama"});
    assert_ok(tern_file_write(test_scratch("cli-96.gguf"), bytes.data, bytes.size, &err), err);
    tern_buf_deinit(&bytes);
    o = TERN("convert", test_scratch("cli-96.gguf"), "-o", file, "--type", "q6_K", "-f");
    assert_int_equal(o.code, 0);
    assert_non_null(strstr(o.err, "7 tensors are q8_0 instead of q6_k: 96 columns, no multiple of 256"));
    test_output_free(&o);
}

/* Measured, in a file, and used: the line says for how many tensors. */
static void importance(void **state)
{
    (void)state;
    const char *text = test_scratch("cli-imatrix.txt"), *file = test_scratch("cli-imatrix.gguf");
    tern_error err = {0};
    assert_ok(tern_file_write(text, "Once upon a time there was a small boat.", 40, &err), err);
    test_output o = TERN("imatrix", "-m", test_small_model(), "-f", text, "-o", file, "--overwrite", "--json");
    assert_int_equal(o.code, 0);
    assert_non_null(strstr(o.out, "\"matrices\": 56"));
    assert_non_null(strstr(o.out, "\"windows\": 1"));
    test_output_free(&o);
    o = TERN("convert", test_small_model(), "-o", test_scratch("cli-weighted.gguf"), "--type", "q4_k", "--imatrix",
             file, "-f");
    assert_int_equal(o.code, 0);
    assert_non_null(strstr(o.err, "56 tensors weighed by "));
    assert_non_null(strstr(o.err, ", 0 without an entry there"));
    test_output_free(&o);
    o = TERN("convert", test_small_model(), "-o", file, "--type", "q4_k", "--imatrix", file, "-f");
    assert_int_equal(o.code, 2); /* the output is an input */
    test_output_free(&o);
    o = TERN("convert", test_small_model(), "-o", test_scratch("cli-weighted.gguf"), "--imatrix", test_small_model(),
             "-f");
    assert_int_equal(o.code, 1);
    assert_non_null(strstr(o.err, "no importance matrix found"));
    test_output_free(&o);
    o = TERN("imatrix", "-m", test_small_model(), "-o", file, "--overwrite");
    assert_int_equal(o.code, 2);
    assert_non_null(strstr(o.err, "no text: give the file that the model reads with -f"));
    test_output_free(&o);
}

static void truncated_files_are_refused(void **state)
{
    (void)state;
    const char *path = test_scratch("cli-truncated.gguf");
    tern_buf whole = {0};
    tern_error err = {0};
    assert_ok(tern_file_read(&whole, test_small_model(), 1 << 24, &err), err);
    test_write_file(path, whole.data, whole.size / 2);
    tern_buf_deinit(&whole);
    static const char *const commands[] = {"run", "bench", "inspect"};
    for (size_t i = 0; i < 3; i++) {
        test_output o = i == 2 ? TERN(commands[i], path) : TERN(commands[i], "-m", path);
        assert_int_equal(o.code, 1);
        assert_non_null(strstr(o.err, path));
        test_output_free(&o);
    }
}

/* While it runs, the model's file loses its second half. */
static void a_file_that_is_cut_while_it_is_used_is_named(void **state)
{
    (void)state;
    const char *path = test_scratch("cli-cut.gguf");
    tern_buf whole = {0};
    tern_error err = {0};
    int out, status;
    char byte, said[2048] = "";
    FILE *log = tmpfile();
    assert_non_null(log);
    assert_ok(tern_file_read(&whole, test_small_model(), 1 << 24, &err), err);
    test_write_file(path, whole.data, whole.size);
    pid_t pid = test_tern_start_logged(
        TERN_WORDS("run", "-m", path, BEGIN, "-n", "-1", "--ignore-eos", "--context-shift"), &out, log);
    assert_int_equal(read(out, &byte, 1), 1);
    assert_int_equal(truncate(path, 8192), 0);
    while (read(out, &byte, 1) == 1)
        ;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    rewind(log);
    assert_true(fread(said, 1, sizeof said - 1, log) > 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 1) fail_msg("status %x: %s", status, said);
    char words[1200];
    snprintf(words, sizeof words, "%s was cut short while it was in use: 8192 bytes found, %zu expected\n", path,
             whole.size);
    if (!strstr(said, words)) fail_msg("\"%s\" has no \"%s\"", said, words);
    tern_buf_deinit(&whole);
    fclose(log);
    close(out);
}

static void inspect_describes_files_and_folders(void **state)
{
    (void)state;
    json_t *o = test_tern_json(TERN_WORDS("inspect", test_small_model(), "--json"));
    assert_string_equal(commands_text_at(o, "architecture"), "bitnet-b1.58");
    assert_string_equal(commands_text_at(o, "format"), "GGUF version 3");
    assert_true(commands_number_at(json_object_get(o, "config"), "layers") == 8);
    assert_int_equal(json_array_size(json_object_get(o, "tensors")), 2 + 8 * 11);
    assert_non_null(json_object_get(json_object_get(o, "metadata"), "general.architecture"));
    json_decref(o);
    o = test_tern_json(TERN_WORDS("inspect", test_fixture("llama"), "--json"));
    assert_string_equal(commands_text_at(o, "architecture"), "llama");
    json_decref(o);
    o = test_tern_json(TERN_WORDS("inspect", test_fixture("tokenizers/ggml-vocab-gpt-2.gguf"), "--json"));
    assert_non_null(strstr(commands_text_at(o, "problem"), "gpt2"));
    json_decref(o);
}

static void inspect_describes_adapters(void **state)
{
    (void)state;
    const char *adapter = test_fixture("bitnet-train/lora");
    json_t *o = test_tern_json(TERN_WORDS("inspect", adapter, "-m", test_fixture("bitnet-train"), "--json"));
    const json_t *a = json_object_get(o, "adapter");
    assert_int_equal(json_integer_value(json_object_get(a, "rank")), 8);
    assert_int_equal(json_integer_value(json_object_get(a, "parameters")), 32768);
    assert_true(json_is_true(json_object_get(a, "fits_model")));
    json_decref(o);
    test_output printed = TERN("inspect", adapter);
    assert_int_equal(printed.code, 0);
    assert_non_null(strstr(printed.out, "gate_proj, up_proj, down_proj"));
    test_output_free(&printed);
    printed = TERN("inspect", adapter, "-m", test_fixture("llama"));
    assert_int_equal(printed.code, 1);
    assert_non_null(strstr(printed.err, "expected"));
    test_output_free(&printed);
}

static void inspect_prints(void **state)
{
    (void)state;
    static const char *const flags[][2] = {{"--graph", "attention"},
                                           {"--memory", "bytes"},
                                           {"--kernels", " linear_ternary_vec: NORM=true GATED=true "},
                                           {"--kv=f16", "blk.7.ffn_down.weight"}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        test_output o = TERN("inspect", test_small_model(), flags[i][0]);
        assert_int_equal(o.code, 0);
        assert_non_null(strstr(o.out, flags[i][1]));
        test_output_free(&o);
    }
    static const char *const hybrid[][2] = {{"--graph", "gated_delta"}, {"--memory", "states of layers that recur"}};
    for (size_t i = 0; i < sizeof hybrid / sizeof *hybrid; i++) {
        test_output o = TERN("inspect", test_fixture("qwen3_5"), hybrid[i][0]);
        assert_int_equal(o.code, 0);
        assert_non_null(strstr(o.out, hybrid[i][1]));
        test_output_free(&o);
    }
}

static void synth_writes_a_model_that_runs(void **state)
{
    (void)state;
    const char *file = test_scratch("cli-synth.gguf");
    test_output o = TERN("synth", "--preset", "bitnet-tiny", "-o", file, "--type", "t160", "--seed", "5", "-f");
    assert_int_equal(o.code, 0);
    test_output_free(&o);
    o = TERN("run", "-m", file, "-p", "a", "-n", "4");
    assert_int_equal(o.code, 0);
    test_output_free(&o);
}

/* Weights in a rotated basis, made and run. */
static void synth_rotates(void **state)
{
    (void)state;
    const char *file = test_scratch("cli-rotated.gguf");
    test_output o = TERN("synth", "--preset", "bonsai2-tiny", "-o", file, "--type", "pq2_0", "--layers", "2", "-f");
    assert_int_equal(o.code, 0);
    test_output_free(&o);
    json_t *d = test_tern_json(TERN_WORDS("inspect", file, "--json"));
    const json_t *rotated = json_object_get(json_object_get(d, "config"), "rotated_inputs");
    assert_string_equal(json_string_value(rotated), "13 weights, blocks of 64");
    json_decref(d);
    o = TERN("run", "-m", file, "-p", "a", "-n", "4", "--state-checkpoints", "3");
    assert_int_equal(o.code, 0);
    test_output_free(&o);
}

/* The block of a folder that drafts tokens is in the file, shown by inspect, and left out where nobody asks for it. */
static void drafting_blocks(void **state)
{
    (void)state;
    const char *file = test_scratch("cli-mtp.gguf");
    test_output o = TERN("convert", test_fixture("qwen3_5_mtp"), "-o", file, "-f");
    assert_int_equal(o.code, 0);
    test_output_free(&o);
    json_t *d = test_tern_json(TERN_WORDS("inspect", file, "--json"));
    const json_t *n = json_object_get(json_object_get(d, "config"), "drafting_blocks");
    assert_int_equal(json_integer_value(n), 1);
    assert_int_equal(json_integer_value(json_object_get(d, "unused_tensors")), 0);
    json_decref(d);
    o = TERN("logits", "-m", file, "--ids", "1,2");
    assert_int_equal(o.code, 0);
    assert_non_null(strstr(o.err, "15 tensors are not used: blk.5."));
    test_output_free(&o);
    static const char *const commands[] = {"run", "serve"};
    for (size_t i = 0; i < 2; i++) {
        o = i ? TERN("serve", "-m", test_small_model(), "--port", "0", "--draft", "mtp")
              : TERN("run", "-m", test_small_model(), "-p", "a", "-n", "4", "--draft", "mtp");
        if (o.code != 1) fail_msg("%s ends with %d, 1 expected", commands[i], o.code);
        assert_non_null(strstr(o.err, "drafting by the model's own block: none was read"));
        test_output_free(&o);
    }
    o = TERN("serve", "-m", file, "--port", "0", "--draft", "mtp", "--draft-model", file);
    assert_int_equal(o.code, 2);
    assert_non_null(strstr(o.err, "--draft mtp and --draft-model: both found, one of them expected"));
    test_output_free(&o);
}

/* A package keeps the block in its shards and is opened without it; a merged model lacks it: both are said. */
static void drafting_blocks_left_out(void **state)
{
    (void)state;
    const char *folder = test_fixture("qwen3_5_mtp");
    char package[1024], lora[1024], merged[1024];
    snprintf(package, sizeof package, "%s", test_scratch("cli-mtp-package"));
    snprintf(lora, sizeof lora, "%s", lora_commands_written(folder, "cli-mtp-lora", 2, 5));
    snprintf(merged, sizeof merged, "%s", test_scratch("cli-mtp-merged.gguf"));
    test_output o = TERN("package", folder, "-o", package, "--overwrite");
    assert_int_equal(o.code, 0);
    test_output_free(&o);
    o = TERN("logits", "-m", package, "--ids", "1,2");
    assert_int_equal(o.code, 0);
    assert_non_null(strstr(o.err, "15 tensors are not used: blk.5."));
    test_output_free(&o);
    o = TERN("export-lora", "-m", folder, "--lora", lora, "-o", merged, "-f", "--force");
    assert_int_equal(o.code, 0);
    assert_non_null(strstr(o.err, "cli-mtp-merged.gguf will not have 15 tensors of the model: mtp."));
    test_output_free(&o);
    remove(merged);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(json_has_the_sizes),
    cmocka_unit_test(convert_keeps_the_text),
    cmocka_unit_test(rsr_keeps_the_text),
    cmocka_unit_test(convert_refuses),
    cmocka_unit_test(mixes),
    cmocka_unit_test(importance),
    cmocka_unit_test(a_file_that_is_cut_while_it_is_used_is_named),
    cmocka_unit_test(truncated_files_are_refused),
    cmocka_unit_test(inspect_describes_files_and_folders),
    cmocka_unit_test(inspect_describes_adapters),
    cmocka_unit_test(inspect_prints),
    cmocka_unit_test(synth_writes_a_model_that_runs),
    cmocka_unit_test(synth_rotates),
    cmocka_unit_test(drafting_blocks),
    cmocka_unit_test(drafting_blocks_left_out),
};

TEST_GROUP(convert_commands, "gpu", tests);
