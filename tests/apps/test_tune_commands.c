/* tern tune: the file of choices is made, used, shown, refused and taken away. */
#include "apps/tune_cases.h"

#include "tern/bytes.h"

#define GREEDY "--greedy", "-n", "16", "-q", "-p", "Once upon a time"

static tern_buf read_choices(void)
{
    tern_buf text = {0};
    tern_error err = {0};
    assert_ok(tern_file_read(&text, tune_choices_path, 1 << 20, &err), err);
    return text;
}

static void write_choices(const char *text, size_t n)
{
    tern_file_writer w;
    tern_error err = {0};
    tern_folders_make(tune_choices_path);
    assert_ok(tern_file_writer_open(&w, tune_choices_path, &err), err);
    tern_file_writer_add(&w, text, n);
    assert_ok(tern_file_writer_commit(&w, &err), err);
}

static void tune(void)
{
    test_output o = TERN("tune", "-m", test_small_model(), QUICK);
    if (o.code) fail_msg("%s", o.err);
    assert_non_null(strstr(o.out, "  default"));
    assert_non_null(strstr(o.out, "bits/w"));
    assert_non_null(strstr(o.out, tune_choices_path));
    assert_non_null(strstr(o.out, "whole model"));
    assert_non_null(strstr(o.out, "  2 threads\n    "));
    test_output_free(&o);
}

static void choices_are_made_and_shown(void **state)
{
    (void)state;
    test_output o = TERN("tune", "--show");
    assert_int_equal(o.code, 1);
    assert_non_null(strstr(o.err, "no measurement found"));
    test_output_free(&o);
    tune();
    o = TERN("tune", "--show");
    assert_int_equal(o.code, 0);
    assert_non_null(strstr(o.out, "default us"));
    test_output_free(&o);
    json_t *shown = test_tern_json(TERN_WORDS("tune", "--show", "--json"));
    const json_t *list = json_object_get(shown, "choices");
    assert_true(json_array_size(list) >= 2);
    assert_int_equal(json_array_size(list) % 2, 0); /* each for 1 and for 2 threads */
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *c = json_array_get(list, i);
        assert_true(json_number_value(json_object_get(c, "microseconds")) <=
                    json_number_value(json_object_get(c, "default_microseconds")));
    }
    json_decref(shown);
}

/* What is measured again replaces what was there; other numbers of threads stay. */
static void measuring_again_adds(void **state)
{
    (void)state;
    test_output o = TERN("tune", "-m", test_small_model(), "--ms", "1", "--cold-mib", "1", "-t", "3");
    assert_int_equal(o.code, 0);
    test_output_free(&o);
    json_t *first = test_tern_json(TERN_WORDS("tune", "--show", "--json"));
    json_t *made = test_tern_json(TERN_WORDS("tune", "-m", test_small_model(), QUICK, "--json"));
    const size_t n = json_array_size(json_object_get(first, "choices"));
    assert_int_equal(json_array_size(json_object_get(made, "choices")), 3 * n);
    size_t chosen = 0, i;
    json_t *row;
    json_array_foreach(json_object_get(made, "results"), i, row) chosen += json_is_true(json_object_get(row, "chosen"));
    assert_int_equal(chosen, 2 * n);
    json_decref(first);
    json_decref(made);
}

/* Every choice in the file becomes this kernel. */
static void force(const char *kernel, uint32_t task_rows)
{
    json_error_t error;
    json_t *root = json_load_file(tune_choices_path, 0, &error), *row;
    size_t i;
    assert_non_null(root);
    json_array_foreach(json_object_get(root, "choices"), i, row)
    {
        json_object_set_new(row, "kernel", json_string(kernel));
        json_object_set_new(row, "task_rows", json_integer(task_rows));
    }
    char *text = json_dumps(root, 0);
    write_choices(text, strlen(text));
    free(text);
    json_decref(root);
}

static double bytes_of_token(const char *flag)
{
    json_t *o = test_tern_json(
        TERN_WORDS("bench", "-m", test_small_model(), "-p", "0", "-n", "4", "-r", "1", "-t", "2", "--json", flag));
    const double n =
        json_number_value(json_object_get(json_array_get(json_object_get(o, "results"), 0), "weight_bytes_per_token"));
    json_decref(o);
    return n;
}

/* Choices are used without a flag, by whatever runs a model, and change no token. */
static void choices_are_used(void **state)
{
    (void)state;
    tune();
    test_output want = TERN("run", "-m", test_small_model(), GREEDY, "--no-tune");
    assert_int_equal(want.code, 0);
    const double standard = bytes_of_token("--no-tune");
    static const struct {
        const char *kernel;
        uint32_t task_rows;
    } forced[] = {{"rsr:4", 0}, {"rsr:3", 96}, {"t160", 36}, {"dot", 17}, {"dot", 1024}};
    for (size_t i = 0; i < sizeof forced / sizeof *forced; i++) {
        force(forced[i].kernel, forced[i].task_rows);
        test_output o = TERN("run", "-m", test_small_model(), GREEDY, "-t", "2");
        assert_int_equal(o.code, 0);
        assert_string_equal(o.out, want.out);
        test_output_free(&o);
        const double bytes = bytes_of_token(NULL);
        if (strncmp(forced[i].kernel, "rsr", 3) == 0) assert_true(bytes > standard);
        if (strcmp(forced[i].kernel, "dot") == 0) assert_true(bytes == standard);
        if (i == 0) {
            assert_true(bytes_of_token("--kernel=dot") == standard);
            assert_true(bytes_of_token("--no-tune") == standard);
            assert_true(bytes_of_token("--cpu-features=native") == standard);
        }
    }
    test_output_free(&want);
}

static void replace(tern_buf *text, const char *from, char to)
{
    char *at = strstr(text->data, from);
    assert_non_null(at);
    at[strlen(from) - 1] = to;
}

/* A file that does not hold here: a message, defaults, the same text. */
static void files_that_do_not_hold_are_named(void **state)
{
    (void)state;
    test_output want = TERN("run", "-m", test_small_model(), GREEDY);
    assert_string_equal(want.err, "");
    static const struct {
        const char *name, *from, *message;
    } cases[] = {{"cpu", "\"cpu\": \"X", "measured on the CPU"},
                 {"build", "\"build\": \"0", "measured by the build"},
                 {"version", "\"version\": 2", "version: 9 found, 2 expected"},
                 {"damage", "\"choices\": [", "tune.json"},
                 {"kernel", "\"kernel\": \"d", "choices[0]: kernel"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tune();
        force("dot", 0);
        tern_buf text = read_choices();
        char from[32];
        snprintf(from, sizeof from, "%s", cases[i].from);
        if (i == 0) from[strlen(from) - 1] = strstr(text.data, "\"cpu\": \"")[8];
        replace(&text, from, '9');
        write_choices(text.data, text.size);
        tern_buf_deinit(&text);
        test_output o = TERN("run", "-m", test_small_model(), GREEDY);
        assert_int_equal(o.code, 0);
        assert_string_equal(o.out, want.out);
        if (!strstr(o.err, cases[i].message) || !strstr(o.err, "default kernels are used"))
            fail_msg("%s: \"%s\"", cases[i].name, o.err);
        test_output_free(&o);
        o = TERN("run", "-m", test_small_model(), GREEDY, "--no-tune");
        assert_string_equal(o.err, "");
        test_output_free(&o);
        o = TERN("tune", "--show"); /* shows whose it is, unless it cannot be read */
        assert_int_equal(o.code, i < 2 || i == 4 ? 0 : 1);
        assert_non_null(strstr(o.code ? o.err : o.out, cases[i].message));
        if (o.code == 0) assert_non_null(strstr(o.out, "not used, default kernels are: "));
        test_output_free(&o);
        if (i >= 2) continue;
        json_t *shown = test_tern_json(TERN_WORDS("tune", "--show", "--json"));
        assert_true(json_is_false(json_object_get(shown, "used")));
        assert_non_null(strstr(json_string_value(json_object_get(shown, "not_used_because")), cases[i].message));
        assert_true(json_array_size(json_object_get(shown, "choices")) > 0);
        json_decref(shown);
    }
    tune(); /* makes it anew */
    test_output o = TERN("tune", "--show");
    assert_int_equal(o.code, 0);
    test_output_free(&o);
    test_output_free(&want);
}

static void reset_takes_the_file_away(void **state)
{
    (void)state;
    tune();
    for (int i = 0; i < 2; i++) {
        test_output o = TERN("tune", "--reset");
        assert_int_equal(o.code, 0);
        assert_non_null(strstr(o.err, i ? "no measurement found" : "removed"));
        assert_false(tern_file_exists(tune_choices_path));
        test_output_free(&o);
    }
}

/* Ctrl-C after the first shape: it is kept. */
static void an_interrupt_loses_one_shape_at_most(void **state)
{
    (void)state;
    int out, code;
    size_t n = 0;
    char text[4096] = "";
    const pid_t pid = test_tern_start(
        TERN_WORDS("tune", "-m", test_small_model(), "--ms", "100", "--cold-mib", "1", "-t", "1"), &out);
    while (!strstr(text, "of them") && n < sizeof text - 1) {
        const ssize_t got = read(out, text + n, sizeof text - 1 - n);
        assert_true(got > 0);
        n += (size_t)got;
        text[n] = 0;
    }
    assert_int_equal(kill(pid, SIGINT), 0);
    while (read(out, text, sizeof text) > 0) continue;
    close(out);
    assert_int_equal(waitpid(pid, &code, 0), pid);
    assert_true(WIFEXITED(code));
    assert_int_equal(WEXITSTATUS(code), 130);
    json_t *shown = test_tern_json(TERN_WORDS("tune", "--show", "--json"));
    const size_t kept = json_array_size(json_object_get(shown, "choices"));
    assert_true(kept >= 1 && kept < 4);
    assert_int_equal(json_array_size(json_object_get(shown, "decode")), 0);
    json_decref(shown);
}

static void wrong_words_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *words[6];
        int code;
        const char *message;
    } cases[] = {
        {{"tune", "--show", "--reset"}, 2, "--show and --reset: both found, one of them expected"},
        {{"tune", "-t", "0"}, 2, "--threads 0"},
        {{"bench", "--kernels", "--shapes", "64"}, 2, "--shapes \"64\": ROWSxCOLS"},
        {{"bench", "--kernels", "--shapes", "64x0"}, 2, "ROWSxCOLS"},
        {{"bench", "--kernels", "--shapes", "0x0"}, 2, "ROWSxCOLS"},
        {{"bench", "--kernels", "--shapes", "99999x1"}, 2, "1 to 65536"},
        {{"bench", "--kernels", "--shapes", "64x128,"}, 2, "\"\": ROWSxCOLS"},
        {{"bench", "--kernels", "--shapes", "64x 128"}, 2, "ROWSxCOLS"},
        {{"bench", "--kernels", "--shapes", "64x128", "--plot=/missing/folder/x.svg"}, 1, "/missing/folder/x.svg"},
        {{"bench", "--kernels", "--shapes", "64x128", "--plot=/"}, 2, "/ is a folder: a file expected"},
        {{"bench", "--kernels", "--kernel", "rsr"}, 2, "--kernels measures every kernel"},
        {{"bench", "--shapes", "64x64"}, 2, "need --kernels, which was not given"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        test_output o = test_tern(NULL, cases[i].words);
        assert_int_equal(o.code, cases[i].code);
        if (!strstr(o.err, cases[i].message)) fail_msg("\"%s\" lacks \"%s\"", o.err, cases[i].message);
        test_output_free(&o);
    }
    test_output o = TERN("tune", "-m", test_fixture("llama"));
    assert_int_equal(o.code, 1);
    assert_non_null(strstr(o.err, "no ternary layers"));
    test_output_free(&o);
    setenv("XDG_CACHE_HOME", "/proc/no", 1); /* before anything is measured */
    o = TERN("tune", "-m", test_small_model(), "--ms", "60000");
    assert_int_equal(o.code, 1);
    assert_non_null(strstr(o.err, "/proc/no/tern/tune.json"));
    assert_null(strstr(o.out, "us"));
    test_output_free(&o);
}

/* What the whole model decodes is in the output and in the file, once for each number of threads that has choices. */
static void the_whole_model_decides(void **state)
{
    (void)state;
    json_t *made = test_tern_json(
        TERN_WORDS("tune", "-m", test_small_model(), "--ms", "1", "--cold-mib", "1", "-t", "2,1,2", "--json"));
    const json_t *rounds = json_object_get(made, "rounds"), *choices = json_object_get(made, "choices");
    json_t *row;
    size_t i, other = 0, kept[3] = {0}, left[3] = {0};
    json_array_foreach(rounds, i, row)
    {
        const size_t n = (size_t)json_integer_value(json_object_get(row, "choices"));
        const json_int_t threads = json_integer_value(json_object_get(row, "threads"));
        const double standard = json_number_value(json_object_get(row, "default_tokens_per_second")),
                     tuned = json_number_value(json_object_get(row, "tuned_tokens_per_second"));
        assert_true(threads == 1 || threads == 2);
        assert_true(standard > 0 && tuned > 0);
        assert_true(json_is_true(json_object_get(row, "kept")) == (tuned >= 0.98 * standard));
        if (json_is_true(json_object_get(row, "kept"))) kept[threads] = n;
        if (n > left[threads]) left[threads] = n;
    }
    json_array_foreach(choices, i, row) other +=
        strcmp(json_string_value(json_object_get(row, "kernel")), "dot") != 0 ||
        json_integer_value(json_object_get(row, "task_rows")) != 0;
    assert_int_equal(other, kept[1] + kept[2]);
    json_array_foreach(json_object_get(made, "decode"), i, row)
    {
        const json_int_t threads = json_integer_value(json_object_get(row, "threads"));
        assert_int_equal(json_integer_value(json_object_get(row, "choices")), kept[threads]);
        assert_int_equal(json_integer_value(json_object_get(row, "left_out")), left[threads] - kept[threads]);
        assert_string_equal(json_string_value(json_object_get(row, "model")), strrchr(test_small_model(), '/') + 1);
    }
    json_decref(made);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(choices_are_made_and_shown, tune_set_up),
    cmocka_unit_test_setup(measuring_again_adds, tune_set_up),
    cmocka_unit_test_setup(choices_are_used, tune_set_up),
    cmocka_unit_test_setup(files_that_do_not_hold_are_named, tune_set_up),
    cmocka_unit_test_setup(the_whole_model_decides, tune_set_up),
    cmocka_unit_test_setup(reset_takes_the_file_away, tune_set_up),
    cmocka_unit_test_setup(an_interrupt_loses_one_shape_at_most, tune_set_up),
    cmocka_unit_test_setup(wrong_words_are_refused, tune_set_up),
};

TEST_GROUP(tune_commands, "slow", tests);
