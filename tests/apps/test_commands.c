/* Commands on real files: text that is written, sessions, tokens, training data, and what Tern says of itself. */
#include "apps/commands_cases.h"

/* The golden texts: the prompt and 64 greedy tokens. */
static void run_writes_the_golden_texts(void **state)
{
    (void)state;
    json_t *golden = commands_read_golden(test_model("tiny-stories-bitnet/golden_greedy.json"));
    const char *prompt;
    json_t *want;
    json_object_foreach(golden, prompt, want)
    {
        test_output o =
            TERN("run", "-m", test_small_model(), "-p", prompt, "--greedy", "-n", "64", "-t", "2", "--kv", "f32", "-v");
        assert_int_equal(o.code, 0);
        const char *text = commands_text_at(want, "text");
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
    json_t *o =
        test_tern_json(TERN_WORDS("run", "-m", test_small_model(), BEGIN, "-n", "8", "--seed", "7", "--json", "-v"));
    assert_string_equal(commands_text_at(o, "prompt"), "Once upon a time");
    const json_t *statistics = json_object_get(o, "statistics");
    assert_true(commands_number_at(statistics, "generated_tokens") == 8);
    assert_true(commands_number_at(statistics, "prompt_tokens") == 5);
    assert_true(commands_number_at(statistics, "seed") == 7);
    assert_true(commands_number_at(statistics, "weight_bytes_per_token") > 2.5e6);
    assert_true(commands_number_at(statistics, "read_bandwidth") > 0);
    assert_string_equal(commands_text_at(statistics, "stopped_by"), "length");
    assert_string_equal(commands_text_at(statistics, "activations"), "int8");
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
    test_output a = TERN("run", "-m", test_small_model(), BEGIN, "-n", "24", "--seed", seed, "-v"),
                b = TERN("run", "-m", test_small_model(), BEGIN, "-n", "24", "--seed", seed, "-v");
    assert_string_equal(a.out, b.out);
    assert_non_null(strstr(a.err, "; seed 18446744073709551615\n"));
    json_t *o = test_tern_json(TERN_WORDS("run", "-m", test_small_model(), BEGIN, "-n", "1", "--seed", seed, "--json"));
    assert_string_equal(commands_text_at(json_object_get(o, "statistics"), "seed"), seed);
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
        {{"chat", "--template", "chatml"}, "standard input: a message of more than 16777216 bytes found"},
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

/* A prompt is a word, a flag, a file or what is piped; one newline at the end of the latter two is not part of it.
 * Statistics are for a terminal, or for -v. */
static void prompts_come_in_four_ways(void **state)
{
    (void)state;
    static const char *const piped[] = {"Once upon a time", "Once upon a time\n", "Once upon a time\r\n"};
    const char *file = test_scratch("prompt.txt");
    test_output want = TERN("run", "-m", test_small_model(), BEGIN, "--greedy", "-n", "9"), o[5];
    test_write_text(file, "Once upon a time\n");
    o[0] = TERN("run", "Once upon a time", "-m", test_small_model(), "--temperature", "0", "--n-predict", "9");
    o[1] = TERN("run", "-f", file, "-m", test_small_model(), "--greedy", "-n", "9");
    for (int i = 0; i < 3; i++)
        o[2 + i] = test_tern(piped[i], TERN_WORDS("run", "-m", test_small_model(), "--greedy", "-n", "9"));
    for (int i = 0; i < 5; i++) {
        assert_string_equal(o[i].out, want.out);
        assert_string_equal(o[i].err, "");
        test_output_free(&o[i]);
    }
    test_output_free(&want);
    want = TERN("run", "-m", test_small_model(), "-p", "Once\n", "--greedy", "-n", "1");
    o[0] = test_tern("Once\n\n", TERN_WORDS("run", "-m", test_small_model(), "--greedy", "-n", "1"));
    assert_string_equal(o[0].out, want.out);
    test_output_free(&o[0]);
    test_output_free(&want);
}

/* Its length is said, the text is not repeated. */
static void a_prompt_that_is_too_long_is_counted(void **state)
{
    (void)state;
    test_output o = TERN("run", "Once upon a time there was a fox", "-c", "5", "-m", test_small_model());
    assert_int_equal(o.code, 1);
    assert_string_equal(o.out, "");
    assert_non_null(strstr(o.err, " tokens, the context 5: a shorter one, or a larger --ctx expected"));
    test_output_free(&o);
}

static void stop_strings_end_the_text(void **state)
{
    (void)state;
    test_output o = TERN("run", "-m", test_small_model(), BEGIN, "--greedy", "--stop", "meadow", "-t", "1", "-v");
    assert_string_equal(o.out, "Once upon a time there was a sleepy girl named Tess, who lived near the \n");
    assert_non_null(strstr(o.err, "stopped by stop string"));
    test_output_free(&o);
}

static void ctrl_c_ends_a_generation_cleanly(void **state)
{
    (void)state;
    int out, status;
    char byte;
    pid_t pid = test_tern_start(
        TERN_WORDS("run", "-m", test_small_model(), BEGIN, "-n", "-1", "--ignore-eos", "--context-shift"), &out);
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
    pid_t pid = test_tern_start(TERN_WORDS("run", "-m", test_small_model(), BEGIN, "-n", "-1", "--ignore-eos",
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

/* -n 0: the prompt alone, and a session goes on from it as if it had not ended. */
static void no_tokens_evaluate_the_prompt(void **state)
{
    (void)state;
    const char *file = test_scratch("cli-prompt.session");
    unlink(file);
    test_output o = TERN("run", "-m", test_small_model(), BEGIN, "-n", "0", "--save", file);
    assert_int_equal(o.code, 0);
    assert_string_equal(o.out, "Once upon a time\n");
    test_output on = TERN("run", "-m", test_small_model(), "-n", "12", "--greedy", "--restore", file);
    test_output all = TERN("run", "-m", test_small_model(), BEGIN, "-n", "12", "--greedy", "-q");
    assert_int_equal(on.code, 0);
    assert_string_equal(on.out, all.out);
    test_output_free(&o);
    test_output_free(&on);
    test_output_free(&all);
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
    json_t *golden = commands_read_golden(test_fixture("tokenizers/demo_golden.json"));
    enum { CASES = 12 };
    for (size_t i = 0; i < CASES && i < json_array_size(golden); i++) {
        const json_t *one = json_array_get(golden, i);
        char want[8192];
        if (strlen(commands_text_at(one, "text")) != json_string_length(json_object_get(one, "text")))
            continue; /* holds a NUL */
        ids_on_a_line(json_object_get(one, "ids"), want);
        test_output o =
            test_tern(commands_text_at(one, "text"), TERN_WORDS("tokenize", "-m", test_small_model(), "--ids"));
        assert_string_equal(o.out, want);
        test_output back = test_tern(want, TERN_WORDS("tokenize", "-m", test_small_model(), "--decode"));
        if (strlen(want) > 1) assert_string_equal(back.out, commands_text_at(one, "text"));
        test_output_free(&o);
        test_output_free(&back);
    }
    json_decref(golden);
}

static void tokenize_reports_as_json(void **state)
{
    (void)state;
    json_t *o = test_tern_json(TERN_WORDS("tokenize", "-m", test_small_model(), "Hello<|end_of_text|>", "--json"));
    const double plain = commands_number_at(o, "count");
    assert_true(plain == (double)json_array_size(json_object_get(o, "tokens")));
    json_decref(o);
    o = test_tern_json(TERN_WORDS("tokenize", "-m", test_small_model(), "Hello<|end_of_text|>", "--json", "--special"));
    assert_true(commands_number_at(o, "count") < plain);
    json_decref(o);
    o = test_tern_json(TERN_WORDS("tokenize", "-m", test_small_model(), "--decode", "72 1623", "--json"));
    assert_string_equal(commands_text_at(o, "text"), "Hell");
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

/* The first device of a list that can be used, of a type (NULL: any). */
static bool has_device(const json_t *list, const char *type, size_t most)
{
    bool has = false;
    for (size_t i = 0; i < json_array_size(list) && i < most && !has; i++) {
        const json_t *d = json_array_get(list, i);
        has = !json_object_get(d, "lacks") && (!type || strcmp(commands_text_at(d, "type"), type) == 0);
    }
    return has;
}

/* `--backend auto` is what `tern devices` says that it is. */
static void auto_takes_a_device_that_answers(void **state)
{
    (void)state;
    json_t *o = test_tern_json(TERN_WORDS("devices", "--json"));
    const json_t *cuda = json_object_get(json_object_get(o, "cuda"), "devices"),
                 *vulkan = json_object_get(json_object_get(o, "vulkan"), "devices");
    const char *first = has_device(vulkan, "discrete", SIZE_MAX) ? "vulkan" : "cpu";
    if (has_device(cuda, NULL, 1)) first = "cuda";
    assert_string_equal(commands_text_at(o, "auto"), first);
    test_output as = TERN("run", "-m", test_small_model(), BEGIN, "--greedy", "-n", "4", "-q", "--backend", "auto"),
                named = TERN("run", "-m", test_small_model(), BEGIN, "--greedy", "-n", "4", "-q", "--backend", first);
    assert_int_equal(named.code, 0);
    assert_string_equal(as.out, named.out);
    test_output_free(&as);
    test_output_free(&named);
    json_decref(o);
}

static bool has_text(const json_t *list, const char *text)
{
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item)
    {
        if (strcmp(json_string_value(item), text) == 0) return true;
    }
    return false;
}

static void devices_and_version_report(void **state)
{
    (void)state;
    json_t *o = test_tern_json(TERN_WORDS("devices", "--json"));
    assert_true(commands_number_at(o, "cores") >= 1);
    assert_non_null(json_object_get(json_object_get(o, "kernels"), "i2_s"));
    assert_string_equal(commands_text_at(o, "dense_activations"), "int8");
    const json_t *cuda = json_object_get(o, "cuda");
    assert_true((json_array_size(json_object_get(cuda, "devices")) > 0) == !json_object_get(cuda, "problem"));
    const json_t *vulkan = json_object_get(o, "vulkan"); /* devices, or why there are none */
    assert_true((json_array_size(json_object_get(vulkan, "devices")) > 0) == !json_object_get(vulkan, "problem"));
    json_decref(o);
    o = test_tern_json(TERN_WORDS("version", "--json"));
    assert_string_equal(commands_text_at(o, "version"), TERN_VERSION);
    const json_t *backends = json_object_get(o, "backends");
    size_t n = 0; /* each is there, or named among what is not */
    for (size_t i = 0; tern_backend_names[i]; i++)
        if (has_text(json_object_get(o, "without"), tern_backend_names[i])) n++;
        else assert_string_equal(json_string_value(json_array_get(backends, i - n)), tern_backend_names[i]);
    assert_string_equal(json_string_value(json_array_get(backends, 0)), "cpu");
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
    assert_non_null(strstr(o.out, "--draft-model) value=1 files=1 words=$(tern list --names"));
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
    assert_true(commands_number_at(made, "documents") == 2);
    assert_true(commands_number_at(made, "rows") == 1);
    test_output o = TERN("data", "-m", test_small_model(), out, "--show", "9");
    assert_int_equal(o.code, 0);
    assert_non_null(strstr(o.out, "\n<|begin_of_text|>Once upon a time.<|end_of_text|>\n"));
    assert_non_null(strstr(o.out, "\n[-<|begin_of_text|>User: Hi<|eot_id|>Assistant:-] Hello.<|eot_id|>\n"));
    test_output_free(&o);
    json_t *seen = test_tern_json(TERN_WORDS("data", out, "--json"));
    assert_string_equal(commands_text_at(seen, "fingerprint"), commands_text_at(made, "fingerprint"));
    json_decref(seen);
    json_decref(made);
    o = TERN("data", "-m", test_small_model(), in, "-o", out, "--overwrite");
    assert_int_equal(o.code, 0);
    assert_non_null(strstr(o.err, "the model has no chat template: bitnet, by its family"));
    test_output_free(&o);
    o = TERN("data", in);
    assert_int_equal(o.code, 1);
    assert_non_null(strstr(o.err, "`tern data -m MODEL FILE ... -o OUT` makes one"));
    test_output_free(&o);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(run_writes_the_golden_texts),
    cmocka_unit_test(run_reports_as_json),
    cmocka_unit_test(same_seed_same_text),
    cmocka_unit_test(the_largest_seed_is_one),
    cmocka_unit_test(too_much_input_is_refused),
    cmocka_unit_test(terminals_get_no_escapes),
    cmocka_unit_test(prompts_come_in_four_ways),
    cmocka_unit_test(a_prompt_that_is_too_long_is_counted),
    cmocka_unit_test(stop_strings_end_the_text),
    cmocka_unit_test(ctrl_c_ends_a_generation_cleanly),
    cmocka_unit_test(a_reader_may_go_away),
    cmocka_unit_test(no_tokens_evaluate_the_prompt),
    cmocka_unit_test(tokenize_gives_the_golden_ids),
    cmocka_unit_test(tokenize_reports_as_json),
    cmocka_unit_test(sessions_are_saved_and_restored),
    cmocka_unit_test(devices_and_version_report),
    cmocka_unit_test(auto_takes_a_device_that_answers),
    cmocka_unit_test(completion_is_a_script),
    cmocka_unit_test(data_is_made_and_shown),
};

TEST_GROUP(commands, "gpu", tests);
