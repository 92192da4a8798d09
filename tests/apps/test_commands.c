/* Every sub-command once, on real files. */
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/open.h"
#include "base/bytes.h"
#include "base/file.h"
#include "format/json.h"
#include "support/command.h"
#include "support/converted.h"
#include "support/golden.h"
#include "support/test.h"

#define BEGIN "-p", "Once upon a time"

static const char *text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    if (!text) fail_msg("no string \"%s\"", key);
    return text;
}

static double number_at(const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);
    if (!json_is_number(v)) fail_msg("no number \"%s\"", key);
    return json_number_value(v);
}

static json_t *read_golden(const char *path)
{
    json_error_t error;
    json_t *root = json_load_file(path, JSON_ALLOW_NUL, &error);
    if (!root) fail_msg("%s: %s", path, error.text);
    return root;
}

/* The golden texts: the prompt and 64 greedy tokens. */
static void run_writes_the_golden_texts(void **state)
{
    (void)state;
    json_t *golden = read_golden(test_model("tiny-stories-bitnet/golden_greedy.json"));
    const char *prompt;
    json_t *want;
    json_object_foreach(golden, prompt, want)
    {
        test_output o =
            TERN("run", "-m", test_small_model(), "-p", prompt, "--greedy", "-n", "64", "-t", "2", "--kv", "f32");
        assert_int_equal(o.code, 0);
        const char *text = text_at(want, "text");
        assert_memory_equal(o.out, text, strlen(text));
        assert_string_equal(o.out + strlen(text), "\n");
        assert_non_null(strstr(o.err, "64 tokens"));
        test_output_free(&o);
    }
    json_decref(golden);
}

static void run_reports_as_json(void **state)
{
    (void)state;
    json_t *o = test_tern_json(TERN_WORDS("run", "-m", test_small_model(), BEGIN, "-n", "8", "--seed", "7", "--json"));
    assert_string_equal(text_at(o, "prompt"), "Once upon a time");
    const json_t *statistics = json_object_get(o, "statistics");
    assert_true(number_at(statistics, "generated_tokens") == 8);
    assert_true(number_at(statistics, "prompt_tokens") == 5);
    assert_true(number_at(statistics, "seed") == 7);
    assert_true(number_at(statistics, "weight_bytes_per_token") > 3e6);
    assert_true(number_at(statistics, "read_bandwidth") > 0);
    assert_string_equal(text_at(statistics, "stopped_by"), "length");
    json_decref(o);
}

static void same_seed_same_text(void **state)
{
    (void)state;
    test_output a = TERN("run", "-m", test_small_model(), BEGIN, "-n", "32", "--seed", "3", "-q"),
                b = TERN("run", "-m", test_small_model(), BEGIN, "-n", "32", "--seed", "3", "-q", "-t", "1", "--draft",
                         "ngram"),
                c = TERN("run", "-m", test_small_model(), BEGIN, "-n", "32", "--seed", "4", "-q");
    assert_int_equal(a.code, 0);
    assert_string_equal(a.out, b.out);
    assert_string_not_equal(a.out, c.out);
    assert_string_equal(a.err, "");
    test_output_free(&a);
    test_output_free(&b);
    test_output_free(&c);
}

/* Every number of 64 bits is a seed, the last one too; above JSON's whole numbers it is a text there. */
static void the_largest_seed_is_one(void **state)
{
    static const char seed[] = "18446744073709551615";
    (void)state;
    test_output a = TERN("run", "-m", test_small_model(), BEGIN, "-n", "24", "--seed", seed),
                b = TERN("run", "-m", test_small_model(), BEGIN, "-n", "24", "--seed", seed);
    assert_string_equal(a.out, b.out);
    assert_non_null(strstr(a.err, "; seed 18446744073709551615\n"));
    json_t *o = test_tern_json(TERN_WORDS("run", "-m", test_small_model(), BEGIN, "-n", "1", "--seed", seed, "--json"));
    assert_string_equal(text_at(json_object_get(o, "statistics"), "seed"), seed);
    json_decref(o);
    test_output_free(&a);
    test_output_free(&b);
}

/* A stream without an end. */
static void too_much_input_is_refused(void **state)
{
    static const struct {
        const char *words[8], *said;
    } cases[] = {
        {{"tokenize", "-f", "-"}, "standard input: more than 268435456 bytes of text found"},
        {{"run", "-f", "-"}, "standard input: more than 268435456 bytes of text found"},
        {{"chat", "--template", "chatml"}, "standard input: a line of more than 16777216 bytes found"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int out, status;
        char said[512] = "", byte;
        FILE *log = tmpfile();
        const int kept = dup(0), zeros = open("/dev/zero", O_RDONLY);
        assert_true(log && kept >= 0 && zeros >= 0);
        dup2(zeros, 0);
        const pid_t pid = test_tern_start_logged(cases[i].words, &out, log);
        dup2(kept, 0);
        assert_int_equal(read(out, &byte, 1), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        rewind(log);
        assert_true(fread(said, 1, sizeof said - 1, log) > 0);
        if (!strstr(said, cases[i].said)) fail_msg("%s", said);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
        fclose(log);
        close(kept);
        close(zeros);
        close(out);
    }
}

/* A terminal gets no control characters of others; a file gets the text as it is. */
static void terminals_get_no_escapes(void **state)
{
    (void)state;
    static const char hostile[] = "\033]0;mine\007Once \302\233upon", shown[] = "\\x1b]0;mine\\x07Once \\x9bupon";
    test_output o = TERN("run", "-m", test_small_model(), "-p", hostile, "-n", "1");
    assert_memory_equal(o.out, hostile, strlen(hostile));
    test_output_free(&o);
    o = test_tern_on_terminal(TERN_WORDS("run", "-m", test_small_model(), "-p", hostile, "-n", "1"));
    assert_memory_equal(o.out, shown, strlen(shown));
    test_output_free(&o);
    o = test_tern_on_terminal(TERN_WORDS("tokenize", "-m", test_small_model(), "--special", hostile));
    assert_int_equal(o.code, 0);
    assert_null(memchr(o.out, 033, o.n_out));
    test_output_free(&o);
}

static void stop_strings_end_the_text(void **state)
{
    (void)state;
    test_output o = TERN("run", "-m", test_small_model(), BEGIN, "--greedy", "--stop", "park", "-t", "1");
    assert_string_equal(o.out, "Once upon a time, a young cat lived in the \n");
    assert_non_null(strstr(o.err, "stopped by stop string"));
    test_output_free(&o);
}

static void ctrl_c_ends_a_generation_cleanly(void **state)
{
    (void)state;
    int out, status;
    char byte;
    pid_t pid = test_tern_start(
        TERN_WORDS("run", "-m", test_small_model(), BEGIN, "-n", "0", "--ignore-eos", "--context-shift"), &out);
    assert_int_equal(read(out, &byte, 1), 1);
    kill(pid, SIGINT);
    while (read(out, &byte, 1) == 1)
        ;
    assert_int_equal(byte, '\n');
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 130);
    close(out);
}

/* Nobody reads: no signal, no complaint, and the session is saved all the same. */
static void a_reader_may_go_away(void **state)
{
    (void)state;
    int out, status;
    const char *file = test_scratch("cli-unread.session");
    unlink(file);
    pid_t pid = test_tern_start(TERN_WORDS("run", "-m", test_small_model(), BEGIN, "-n", "0", "--ignore-eos",
                                           "--context-shift", "--save", file),
                                &out);
    close(out);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    test_output o = TERN("run", "-m", test_small_model(), "-n", "1", "--restore", file);
    if (o.code != 0) fail_msg("%s", o.err);
    test_output_free(&o);
}

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
        assert_int_equal(o.code, 1 + (i == 0)); /* run asks for a prompt first */
        if (i > 0) assert_non_null(strstr(o.err, path));
        test_output_free(&o);
    }
}

/* Ids of a golden input as "1,2,3". */
static char *ids_text(const int32_t *ids, uint32_t n)
{
    char *text = calloc(n + 1, 12), *at = text;
    for (uint32_t i = 0; i < n; i++) at += sprintf(at, "%s%d", i ? "," : "", ids[i]);
    return text;
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
        TERN_WORDS("run", "-m", path, BEGIN, "-n", "0", "--ignore-eos", "--context-shift"), &out, log);
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

static void check_logits(const char *model, const test_golden *golden, uint32_t input, bool hidden)
{
    uint32_t n;
    char name[32];
    const int32_t *ids = test_golden_ids(golden, input, &n);
    char *text = ids_text(ids, n);
    snprintf(name, sizeof name, "%u.%s", input, hidden ? "hidden" : "logits");
    const tern_st_tensor *want = tern_safetensors_find(golden->file, name);
    test_output o =
        hidden ? TERN("logits", "-m", model, "--ids", text, "--hidden") : TERN("logits", "-m", model, "--ids", text);
    assert_int_equal(o.code, 0);
    assert_int_equal(o.n_out, want->n_elements * 4);
    double error =
        test_rms_error((const float *)(void *)o.out, (const float *)(const void *)want->data, want->n_elements);
    if (!(error <= 2e-3)) fail_msg("%s of %s: off by %g", name, model, error);
    test_output_free(&o);
    free(text);
}

/* Folders without a tokenizer; the third input is longer than a piece of the output. */
static void logits_are_the_golden_ones(void **state)
{
    (void)state;
    static const char *const models[] = {"bitnet", "llama"};
    for (size_t m = 0; m < 2; m++) {
        test_golden golden;
        const char *path = test_fixture(models[m]);
        char file[1200];
        snprintf(file, sizeof file, "%s/golden.safetensors", path);
        test_golden_open(&golden, file);
        for (uint32_t i = 0; i < golden.n_inputs; i++) check_logits(path, &golden, i, false);
        check_logits(path, &golden, 0, true);
        test_golden_close(&golden);
    }
}

/* A batch decides how many tokens are read at once, not what comes out. */
static void logits_in_small_batches(void **state)
{
    (void)state;
    const char *model = test_fixture("bitnet");
    for (int hidden = 0; hidden < 2; hidden++) {
        const char *what = hidden ? "--hidden" : NULL;
        test_output whole = TERN("logits", "-m", model, "--ids", "5,6,7", what);
        assert_int_equal(whole.code, 0);
        assert_true(whole.n_out > 0);
        static const char *const batches[] = {"1", "2", "200"};
        for (size_t i = 0; i < 3; i++) {
            test_output parts = TERN("logits", "-m", model, "--ids", "5,6,7", "-b", batches[i], what);
            if (parts.code != 0) fail_msg("-b %s: %s", batches[i], parts.err);
            assert_int_equal(parts.n_out, whole.n_out);
            assert_memory_equal(parts.out, whole.out, whole.n_out);
            test_output_free(&parts);
        }
        test_output_free(&whole);
    }
}

static void ids_on_a_line(const json_t *ids, char *out)
{
    size_t i;
    json_t *id;
    *out = 0;
    json_array_foreach(ids, i, id) out += sprintf(out, "%s%d", i ? " " : "", (int)json_integer_value(id));
    strcat(out, "\n");
}

static void tokenize_gives_the_golden_ids(void **state)
{
    (void)state;
    json_t *golden = read_golden(test_fixture("tokenizers/demo_golden.json"));
    enum { CASES = 12 };
    for (size_t i = 0; i < CASES && i < json_array_size(golden); i++) {
        const json_t *one = json_array_get(golden, i);
        char want[8192];
        if (strlen(text_at(one, "text")) != json_string_length(json_object_get(one, "text")))
            continue; /* holds a NUL */
        ids_on_a_line(json_object_get(one, "ids"), want);
        test_output o = test_tern(text_at(one, "text"), TERN_WORDS("tokenize", "-m", test_small_model(), "--ids"));
        assert_string_equal(o.out, want);
        test_output back = test_tern(want, TERN_WORDS("tokenize", "-m", test_small_model(), "--decode"));
        if (strlen(want) > 1) assert_string_equal(back.out, text_at(one, "text"));
        test_output_free(&o);
        test_output_free(&back);
    }
    json_decref(golden);
}

static void tokenize_reports_as_json(void **state)
{
    (void)state;
    json_t *o = test_tern_json(TERN_WORDS("tokenize", "-m", test_small_model(), "Hello<|endoftext|>", "--json"));
    const double plain = number_at(o, "count");
    assert_true(plain == (double)json_array_size(json_object_get(o, "tokens")));
    json_decref(o);
    o = test_tern_json(TERN_WORDS("tokenize", "-m", test_small_model(), "Hello<|endoftext|>", "--json", "--special"));
    assert_true(number_at(o, "count") < plain);
    json_decref(o);
    o = test_tern_json(TERN_WORDS("tokenize", "-m", test_small_model(), "--decode", "39 587", "--json"));
    assert_string_equal(text_at(o, "text"), "Hell");
    json_decref(o);
}

static void inspect_describes_files_and_folders(void **state)
{
    (void)state;
    json_t *o = test_tern_json(TERN_WORDS("inspect", test_small_model(), "--json"));
    assert_string_equal(text_at(o, "architecture"), "bitnet-b1.58");
    assert_string_equal(text_at(o, "format"), "GGUF version 3");
    assert_true(number_at(json_object_get(o, "config"), "layers") == 8);
    assert_int_equal(json_array_size(json_object_get(o, "tensors")), 2 + 8 * 11);
    assert_non_null(json_object_get(json_object_get(o, "metadata"), "general.architecture"));
    json_decref(o);
    o = test_tern_json(TERN_WORDS("inspect", test_fixture("llama"), "--json"));
    assert_string_equal(text_at(o, "architecture"), "llama");
    json_decref(o);
    o = test_tern_json(TERN_WORDS("inspect", test_fixture("tokenizers/ggml-vocab-gpt-2.gguf"), "--json"));
    assert_non_null(strstr(text_at(o, "problem"), "gpt2"));
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
    static const char *const flags[][2] = {
        {"--graph", "attention"}, {"--memory", "bytes"}, {"--kv=f16", "blk.7.ffn_down.weight"}};
    for (size_t i = 0; i < 3; i++) {
        test_output o = TERN("inspect", test_small_model(), flags[i][0]);
        assert_int_equal(o.code, 0);
        assert_non_null(strstr(o.out, flags[i][1]));
        test_output_free(&o);
    }
}

static void perplexity_is_the_golden_one(void **state)
{
    (void)state;
    json_t *golden = read_golden(test_model("tiny-stories-bitnet/golden_ppl.json"));
    json_t *o = test_tern_json(TERN_WORDS("perplexity", "-m", test_small_model(),
                                          test_model("tiny-stories-bitnet/heldout_shakespeare.txt"), "--window", "512",
                                          "--against", test_small_model(), "--json"));
    const double want = number_at(golden, "ppl"), got = number_at(o, "ppl");
    if (!(fabs(got - want) <= 0.005 * want)) fail_msg("perplexity %g, %g expected", got, want);
    assert_true(number_at(o, "windows") == 8);
    assert_true(fabs(number_at(o, "kl")) < 1e-9);
    assert_true(number_at(o, "same_top1") == 1);
    json_decref(golden);
    json_decref(o);
}

/* Two runs, the second from where the first was saved, write what one run writes. */
static void sessions_are_saved_and_restored(void **state)
{
    (void)state;
    const char *file = test_scratch("cli.session");
    test_output whole = TERN("run", "-m", test_small_model(), BEGIN, "--greedy", "-n", "24", "-q"),
                first = TERN("run", "-m", test_small_model(), BEGIN, "--greedy", "-n", "12", "-q", "--save", file,
                             "--overwrite"),
                second = TERN("run", "-m", test_small_model(), "--greedy", "-n", "12", "-q", "--restore", file);
    assert_int_equal(second.code, 0);
    first.out[first.n_out - 1] = 0; /* the newline at the end */
    assert_memory_equal(whole.out, first.out, first.n_out - 1);
    assert_string_equal(whole.out + first.n_out - 1, second.out);
    test_output_free(&whole);
    test_output_free(&first);
    test_output_free(&second);
}

static void bench_reports_as_json(void **state)
{
    (void)state;
    json_t *o = test_tern_json(
        TERN_WORDS("bench", "-m", test_small_model(), "-p", "16", "-n", "4", "-r", "2", "-t", "1,2", "--json"));
    const json_t *results = json_object_get(o, "results");
    assert_int_equal(json_array_size(results), 2);
    assert_string_equal(json_string_value(json_object_get(o, "activations")), "int8");
    for (size_t i = 0; i < 2; i++) {
        const json_t *row = json_array_get(results, i);
        const json_t *decode = json_object_get(row, "decode_tokens_per_second");
        assert_true(number_at(row, "threads") == (double)(i + 1));
        assert_true(number_at(row, "allocations_per_token") == 0);
        assert_true(number_at(row, "weight_bytes_per_token") > 3e6);
        assert_true(number_at(row, "read_bandwidth") > 0);
        assert_true(number_at(row, "operations_share") > 0);
        assert_true(number_at(decode, "min") <= number_at(decode, "median"));
        assert_true(number_at(decode, "median") <= number_at(decode, "max"));
    }
    json_decref(o);
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

static void compare_finds_no_difference(void **state)
{
    (void)state;
    json_t *o = test_tern_json(TERN_WORDS("compare", "-m", test_small_model(), "--reference", "cpu:scalar", "--json"));
    assert_true(json_is_true(json_object_get(o, "ok")) && json_is_true(json_object_get(o, "identical")));
    assert_true(json_is_null(json_object_get(o, "first_difference")));
    assert_true(json_array_size(json_object_get(o, "ops")) > 100);
    assert_string_equal(text_at(o, "reference"), "cpu:scalar");
    json_decref(o);
    test_output text = TERN("compare", "-m", test_small_model(), "--ids", "1,2,3,4", "--unfused");
    assert_int_equal(text.code, 0);
    assert_non_null(strstr(text.out, "all bits are the same"));
    test_output_free(&text);
}

static void bench_shows_where_time_goes(void **state)
{
    (void)state;
    json_t *o = test_tern_json(TERN_WORDS("bench", "-m", test_small_model(), "-p", "8", "-n", "4", "-r", "1", "-t", "1",
                                          "--profile", "--json"));
    const json_t *profile = json_object_get(json_array_get(json_object_get(o, "results"), 0), "profile");
    double shares = 0;
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(json_object_get(profile, "decode"), "dispatches"), i, row) shares +=
        json_real_value(json_object_get(row, "share"));
    assert_true(shares > 0.999 && shares < 1.001);
    json_decref(o);
}

static void devices_and_version_report(void **state)
{
    (void)state;
    json_t *o = test_tern_json(TERN_WORDS("devices", "--json"));
    assert_true(number_at(o, "cores") >= 1);
    assert_non_null(json_object_get(json_object_get(o, "kernels"), "i2_s"));
    const json_t *vulkan = json_object_get(o, "vulkan"); /* devices, or why there are none */
    assert_true((json_array_size(json_object_get(vulkan, "devices")) > 0) == !json_object_get(vulkan, "problem"));
    json_decref(o);
    o = test_tern_json(TERN_WORDS("version", "--json"));
    assert_string_equal(text_at(o, "version"), TERN_VERSION);
    const json_t *backends = json_object_get(o, "backends");
    for (size_t i = 0; tern_backend_names[i]; i++)
        assert_string_equal(json_string_value(json_array_get(backends, i)), tern_backend_names[i]);
    json_decref(o);
    test_output scalar = TERN("devices", "--cpu-features", "scalar");
    assert_null(strstr(scalar.out, "  avx"));
    test_output_free(&scalar);
}

static void completion_is_a_script(void **state)
{
    (void)state;
    test_output o = TERN("completion", "bash");
    assert_int_equal(o.code, 0);
    assert_non_null(strstr(o.out, "complete -o filenames -F _tern tern"));
    assert_non_null(strstr(o.out, "--top-k"));
    test_output_free(&o);
}

/* Conversations to a file, the file looked at again; only the assistant's words are outside of [- -]. */
static void data_is_made_and_shown(void **state)
{
    (void)state;
    static const char lines[] = "{\"text\": \"Once upon a time.\"}\n{\"messages\": [{\"role\": \"user\", \"content\": "
                                "\"Hi\"}, {\"role\": \"assistant\", \"content\": \"Hello.\"}]}\n";
    const char *in = test_scratch("talks.jsonl"), *out = test_scratch("talks.tern");
    test_write_text(in, lines);
    json_t *made = test_tern_json(TERN_WORDS("data", "-m", test_small_model(), in, "-o", out, "--template", "bitnet",
                                             "--seq", "32", "--json", "-f"));
    assert_true(number_at(made, "documents") == 2);
    assert_true(number_at(made, "rows") == 1);
    test_output o = TERN("data", "-m", test_small_model(), out, "--show", "9");
    assert_int_equal(o.code, 0);
    assert_non_null(strstr(o.out, "\n<|begin_of_text|>Once upon a time.<|endoftext|>\n"));
    assert_non_null(strstr(o.out, "\n[-<|begin_of_text|>User: Hi<|eot_id|>Assistant:-] Hello.<|eot_id|>\n"));
    test_output_free(&o);
    json_t *seen = test_tern_json(TERN_WORDS("data", out, "--json"));
    assert_string_equal(text_at(seen, "fingerprint"), text_at(made, "fingerprint"));
    json_decref(seen);
    json_decref(made);
    o = TERN("data", "-m", test_small_model(), in, "-o", out, "--overwrite");
    assert_int_equal(o.code, 2);
    assert_non_null(strstr(o.err, "talks.jsonl:2: messages: the model has no chat template"));
    test_output_free(&o);
    o = TERN("data", in);
    assert_int_equal(o.code, 1);
    assert_non_null(strstr(o.err, "talks.jsonl: not a training data file"));
    test_output_free(&o);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(run_writes_the_golden_texts),
    cmocka_unit_test(run_reports_as_json),
    cmocka_unit_test(same_seed_same_text),
    cmocka_unit_test(the_largest_seed_is_one),
    cmocka_unit_test(too_much_input_is_refused),
    cmocka_unit_test(terminals_get_no_escapes),
    cmocka_unit_test(stop_strings_end_the_text),
    cmocka_unit_test(ctrl_c_ends_a_generation_cleanly),
    cmocka_unit_test(a_reader_may_go_away),
    cmocka_unit_test(convert_keeps_the_text),
    cmocka_unit_test(rsr_keeps_the_text),
    cmocka_unit_test(convert_refuses),
    cmocka_unit_test(a_file_that_is_cut_while_it_is_used_is_named),
    cmocka_unit_test(truncated_files_are_refused),
    cmocka_unit_test(logits_are_the_golden_ones),
    cmocka_unit_test(logits_in_small_batches),
    cmocka_unit_test(tokenize_gives_the_golden_ids),
    cmocka_unit_test(tokenize_reports_as_json),
    cmocka_unit_test(inspect_describes_files_and_folders),
    cmocka_unit_test(inspect_describes_adapters),
    cmocka_unit_test(inspect_prints),
    cmocka_unit_test(perplexity_is_the_golden_one),
    cmocka_unit_test(sessions_are_saved_and_restored),
    cmocka_unit_test(bench_reports_as_json),
    cmocka_unit_test(synth_writes_a_model_that_runs),
    cmocka_unit_test(compare_finds_no_difference),
    cmocka_unit_test(bench_shows_where_time_goes),
    cmocka_unit_test(devices_and_version_report),
    cmocka_unit_test(completion_is_a_script),
    cmocka_unit_test(data_is_made_and_shown),
};

TEST_GROUP(commands, "gpu", tests);
