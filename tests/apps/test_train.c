/* tern finetune and tern train as a person uses them. */
#include <math.h>
#include <unistd.h>

#include "apps/train_quick.h"
#include "base/bytes.h"
#include "base/file.h"
#include "support/command.h"
#include "support/converted.h"
#include "support/places.h"
#include "support/test.h"
#include "tern/text.h"

/* step 3/4  loss 2.345  ppl 10.4  grad 0.81  lr 1e-3  1234 tok/s  eta 0:12 */
static void check_line(const char *line)
{
    unsigned step, all, minutes, seconds;
    double loss, ppl, norm, lr, rate;
    int n = sscanf(line, "step %u/%u  loss %lf  ppl %lf  grad %lf  lr %lf  %lf tok/s  eta %u:%u", &step, &all, &loss,
                   &ppl, &norm, &lr, &rate, &minutes, &seconds);
    if (n != 9 || step > all || !(loss > 0) || !(ppl > 1) || !(rate > 0) || seconds > 59) fail_msg("%s", line);
}

static void steps_are_told_line_by_line(void **state)
{
    (void)state;
    char *out = strdup(test_scratch("told.gguf"));
    test_output o =
        TERN(TRAIN_QUICK, "--steps", "4", "-o", out, "--overwrite", "--lr", "1e-3", "--schedule", "constant", "--plot");
    if (o.code != 0) fail_msg("%s", o.err);
    assert_non_null(strstr(o.out, "memory on cpu: "));
    assert_non_null(strstr(o.out, "\nlearns: 6828288 of 6828288 parameters; rows of 32 tokens, 1 a pass"));
    const char *line = strstr(o.out, "\nstep 1/4");
    for (int i = 1; i <= 4; i++, line = strchr(line + 1, '\n')) {
        assert_non_null(line);
        check_line(line + 1);
        assert_non_null(strstr(line, "  lr 1e-3  "));
    }
    assert_non_null(strstr(o.out, "told.gguf\n"));
    assert_non_null(strstr(o.out, " examples/s; memory: "));
    assert_string_equal(o.err, "");
    test_output_free(&o);
    o = TERN("run", "-m", out, "-p", "1 March.", "-n", "8", "--seed", "1", "-q");
    assert_int_equal(o.code, 0);
    assert_true(strlen(o.out) > 12);
    test_output_free(&o);
    assert_true(tern_file_exists(test_scratch("told.train/loss.svg")));
    free(out);
}

static bool has_text(const char *path, const char *text)
{
    tern_buf bytes = {0};
    tern_error err = {0};
    if (tern_file_read(&bytes, path, (size_t)1 << 30, &err) != TERN_OK) fail_msg("%s", err.message);
    const bool found = memmem(bytes.data, bytes.size, text, strlen(text)) != NULL;
    tern_buf_deinit(&bytes);
    return found;
}

/* The template that conversations were put in goes with the result: into a model, and beside an adapter. */
static void the_template_is_stored(void **state)
{
    static const char lines[] =
        "{\"instruction\": \"Say yes.\", \"output\": \"Yes.\"}\n"
        "{\"conversations\": [{\"from\": \"human\", \"value\": \"Hi\"}, {\"from\": \"gpt\", \"value\": "
        "\"Hello.\"}]}\n";
    (void)state;
    char *data = strdup(test_scratch("forms.jsonl")), *model = strdup(test_scratch("stored.gguf"));
    char *adapter = strdup(test_scratch("stored"));
    const char *chatml = tern_chat_template_builtin("chatml");
    test_write_text(data, lines);
    assert_false(has_text(test_small_model(), chatml));
    for (int lora = 0; lora < 2; lora++) {
        test_output o = TERN("finetune", "-m", test_small_model(), "--data", data, "--template", "chatml", "--seq",
                             "64", "--batch", "1", "-t", "1", "--val-split", "0", "--steps", "1", "-o",
                             lora ? adapter : model, "--overwrite", lora ? "--lora" : NULL, "2");
        if (o.code != 0) fail_msg("%s", o.err);
        assert_non_null(strstr(o.err, "ordinary text in this vocabulary"));
        assert_non_null(strstr(o.err, ": <|im_start|> ("));
        test_output_free(&o);
    }
    assert_true(has_text(model, chatml));
    assert_true(has_text(test_scratch("stored/chat_template.jinja"), chatml));
    free(data);
    free(model);
    free(adapter);
}

static test_output logits_of(const char *model)
{
    test_output o = TERN("logits", "-m", model, "--ids", "5,6,7,8");
    if (o.code != 0) fail_msg("%s", o.err);
    return o;
}

/* The model that a run with two more tokens starts from says what the base does, and of each new token the mean of all
 * that it says of the others, for that is what a mean row of the output table gives. */
static void assert_grown(const char *base, const char *grown)
{
    test_output o = logits_of(base), g = logits_of(grown);
    const size_t n = o.n_out / 16, m = g.n_out / 16;
    double spread = 0, worst = 0;
    assert_int_equal(m, n + 2);
    for (size_t row = 0; row < 4; row++) {
        const float *x = (const float *)(const void *)o.out + row * n,
                    *y = (const float *)(const void *)g.out + row * m;
        double mean = 0;
        for (size_t i = 0; i < n; i++) mean += (double)x[i] / (double)n;
        for (size_t i = 0; i < n; i++) {
            spread = fmax(spread, fabs((double)x[i] - mean));
            worst = fmax(worst, fabs((double)x[i] - (double)y[i]));
        }
        for (size_t i = n; i < m; i++) worst = fmax(worst, fabs((double)y[i] - mean));
    }
    if (!(worst < 0.02 * spread)) fail_msg("%g of %g", worst, spread); /* norms and tables are bf16 in the folder */
    test_output_free(&o);
    test_output_free(&g);
}

/* Marks that become tokens: in the model that a run starts from, in both forms of the result, and when it goes on. */
static void tokens_are_added(void **state)
{
    static const char lines[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}, "
                                "{\"role\": \"assistant\", \"content\": \"Hello.\"}]}\n"
                                "{\"messages\": [{\"role\": \"user\", \"content\": \"Who are you?\"}, "
                                "{\"role\": \"assistant\", \"content\": \"A fox.\"}]}\n";
    (void)state;
    char *data = strdup(test_scratch("marks.jsonl")), *folder = strdup(test_scratch("grown"));
    char *file = strdup(test_scratch("grown.gguf"));
    test_write_text(data, lines);
#define GROW(...)                                                                                                      \
    TERN("finetune", "-m", test_small_model(), "--data", data, "--template", "chatml", "--seq", "48", "--batch", "1",  \
         "-t", "1", "--val-split", "0", "--add-tokens", "<|im_start|>", "--add-tokens", "<|im_end|>", __VA_ARGS__)
    test_output o = GROW("--steps", "2", "-o", file, "-f");
    if (o.code != 0) fail_msg("%s", o.err);
    assert_null(strstr(o.err, "ordinary text"));
    test_output_free(&o);
    assert_grown(test_small_model(), test_scratch("grown.train/grown"));
    o = GROW("--steps", "48", "-o", file, "--resume");
    if (o.code != 0) fail_msg("%s", o.err);
    test_output_free(&o);
    o = GROW("--steps", test_quick() ? "2" : "48", "-o", folder, "-f");
    if (o.code != 0) fail_msg("%s", o.err);
    test_output_free(&o);
    for (int i = 0; i < (test_quick() ? 1 : 2); i++) { /* learned: the mark that ends an answer does so */
        o = test_tern("Who are you?\n", TERN_WORDS("chat", "-m", i ? folder : file, "--greedy"));
        if (o.code != 0 || strcmp(o.out, "A fox.\n") != 0) fail_msg("%d: %s%s", o.code, o.out, o.err);
        test_output_free(&o);
    }
    o = GROW("--steps", "2", "-o", test_scratch("grown-lora"), "--lora", "2");
    assert_int_equal(o.code, 2);
    assert_non_null(strstr(o.err, "added tokens beside an adapter"));
    test_output_free(&o);
    o = GROW("--steps", "2", "-o", test_scratch("twice.gguf"), "--add-tokens", "<|im_end|>");
    assert_int_equal(o.code, 2);
    assert_non_null(strstr(o.err, "<|im_end|> is a special token already"));
    test_output_free(&o);
    free(data);
    free(folder);
    free(file);
}

static double number_at(const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);
    if (!json_is_number(v)) fail_msg("no number \"%s\"", key);
    return json_number_value(v);
}

static void json_has_a_line_for_each_event(void **state)
{
    static const char *const wanted[] = {"plan",       "evaluation", "step",    "step",
                                         "evaluation", "saved",      "written", "done"};
    (void)state;
    test_output o = TERN(TRAIN_QUICK, "--val-split", "0.02", "--steps", "2", "--eval-every", "2", "-o",
                         test_scratch("json.gguf"), "--overwrite", "--json", "--lora", "2");
    if (o.code != 0) fail_msg("%s", o.err);
    size_t n = 0;
    for (char *line = o.out, *end; (end = strchr(line, '\n')); line = end + 1, n++) {
        json_error_t error;
        json_t *event = json_loadb(line, (size_t)(end - line), 0, &error);
        if (!event) fail_msg("%s", error.text);
        const char *name = json_string_value(json_object_get(event, "event"));
        assert_true(n < sizeof wanted / sizeof *wanted);
        assert_string_equal(name, wanted[n]);
        if (strcmp(name, "step") == 0) assert_true(number_at(event, "loss") > 0 && number_at(event, "step_ms") > 0);
        if (strcmp(name, "plan") == 0) assert_true(number_at(event, "trained") < 1e6);
        if (strcmp(name, "saved") == 0 || strcmp(name, "written") == 0) assert_true(number_at(event, "step") == 2);
        if (strcmp(name, "done") == 0) assert_true(number_at(event, "examples_per_second") > 0);
        json_decref(event);
    }
    assert_int_equal(n, sizeof wanted / sizeof *wanted);
    test_output_free(&o);
}

static void dry_runs_need_neither_data_nor_output(void **state)
{
    (void)state;
    test_output o = TERN("finetune", "--dry-run", "-m", test_small_model(), "--lora", "16");
    assert_int_equal(o.code, 0);
    assert_non_null(strstr(o.out, "memory on cpu: "));
    test_output_free(&o);
}

static json_t *event_of(const char *text, const char *name)
{
    for (const char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        json_error_t error;
        json_t *event = json_loadb(line, (size_t)(end - line), 0, &error);
        if (!event) fail_msg("%s", error.text);
        if (strcmp(json_string_value(json_object_get(event, "event")), name) == 0) return event;
        json_decref(event);
    }
    fail_msg("no event %s in %s", name, text);
    return NULL;
}

/* Steps as a run has them, a time that is no less than theirs; and nothing is left behind. */
static void dry_runs_estimate(void **state)
{
    (void)state;
    char *out = strdup(test_scratch("estimated.gguf"));
    unlink(out);
    const char *const call[] = {TRAIN_QUICK, "--val-split", "0.1",    "--epochs", "2",     "-o",
                                out,         "--dry-run",   "--json", "--power",  "saver", NULL};
    test_output o = test_tern(NULL, call);
    if (o.code != 0) fail_msg("%s", o.err);
    json_t *plan = event_of(o.out, "plan"), *estimate = event_of(o.out, "estimate");
    const double steps = number_at(estimate, "steps"), rows = number_at(plan, "rows");
    assert_true(steps == ceil(2 * rows / (number_at(plan, "batch") * number_at(plan, "accumulate"))));
    assert_true(steps == number_at(plan, "steps") && number_at(plan, "validation_rows") > 0);
    assert_true(number_at(estimate, "duty") == 0.6);
    assert_true(number_at(estimate, "seconds") * 1e3 > steps * number_at(estimate, "step_ms") / 0.6);
    assert_false(tern_file_exists(out) || tern_file_exists(test_scratch("estimated.train")));
    json_decref(plan);
    json_decref(estimate);
    test_output_free(&o);
    o = TERN("finetune", "--dry-run", "-m", test_small_model(), "--seq", "32", "--batch", "1", "--lora", "2");
    assert_non_null(strstr(o.out, "ms a step"));
    assert_non_null(strstr(o.out, "the number of steps is not known"));
    test_output_free(&o);
    free(out);
}

/* What is run once a step is counted once, and all of it lies within the steps. */
static void profiles_add_up(void **state)
{
    (void)state;
    test_output o = TERN(TRAIN_QUICK, "--steps", "3", "--val-split", "0.1", "--eval-every", "1", "-o",
                         test_scratch("profiled.gguf"), "-f", "--json", "--profile");
    if (o.code != 0) fail_msg("%s", o.err);
    json_t *profile = event_of(o.out, "profile"), *done = event_of(o.out, "done");
    const json_t *rows = json_object_get(profile, "dispatches");
    double ms = 0, losses = 0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        ms += number_at(row, "ms_per_step");
        if (strcmp(json_string_value(json_object_get(row, "makes")), "cross_entropy") == 0)
            losses = number_at(row, "count_per_step");
    }
    assert_true(number_at(profile, "steps_profiled") == 3);
    assert_true(losses == 1); /* validations have their own, which do not count */
    assert_true(ms > 0 && ms <= number_at(done, "step_ms"));
    json_decref(profile);
    json_decref(done);
    test_output_free(&o);
}

static void train_makes_a_model(void **state)
{
    static const char config[] = "{\"hidden_size\": 128, \"intermediate_size\": 128, \"num_hidden_layers\": 1, "
                                 "\"num_attention_heads\": 2, \"vocab_size\": 320}";
    (void)state;
    char *json = strdup(test_scratch("made.json")), *out = strdup(test_scratch("made.gguf"));
    test_write_text(json, config);
    test_output o =
        TERN("train", "--config", json, "--data", TRAIN_LOGBOOK, "--split", "blank", "-o", out, "--overwrite", "--seq",
             "64", "--steps", "6", "-t", "1", "--sample-every", "6", "--sample-prompt", "2 March");
    if (o.code != 0) fail_msg("%s", o.err);
    assert_non_null(strstr(o.out, "sample: 2 March"));
    assert_non_null(strstr(o.out, "validation loss "));
    test_output_free(&o);
    o = TERN("inspect", out);
    assert_int_equal(o.code, 0);
    assert_non_null(strstr(o.out, "i2_s"));
    test_output_free(&o);
    free(json);
    free(out);
}

static void assert_refused(const char *words, const char *const *call, int code)
{
    test_output o = test_tern(NULL, call);
    if (o.code != code || !strstr(o.err, words))
        fail_msg("exit status %d, \"%s\": \"%s\" expected", o.code, o.err, words);
    test_output_free(&o);
}

static void mistakes_are_named(void **state)
{
    (void)state;
    const char *out = test_scratch("mistakes.gguf");
    assert_refused("no data: files of text expected with --data", TERN_WORDS("finetune", "-o", out), 2);
    assert_refused("no output: NAME.gguf or a folder expected with -o", TERN_WORDS("finetune", "--data", TRAIN_LOGBOOK),
                   2);
    assert_refused("--betas 0.9: two numbers", TERN_WORDS(TRAIN_QUICK, "-o", out, "--betas", "0.9"), 2);
    assert_refused("--betas 0.9,1: two numbers", TERN_WORDS(TRAIN_QUICK, "-o", out, "--betas", "0.9,1"), 2);
    assert_refused("--memory-limit 4X: a number of bytes", TERN_WORDS(TRAIN_QUICK, "-o", out, "--memory-limit", "4X"),
                   2);
    assert_refused("--lora-targets q_proj,: 1 to 16 names",
                   TERN_WORDS(TRAIN_QUICK, "-o", out, "--lora-targets", "q_proj,"), 2);
    assert_refused("--lr -1: a number from", TERN_WORDS(TRAIN_QUICK, "-o", out, "--lr", "-1"), 2);
    assert_refused("--gpu-layers: training runs on one whole device",
                   TERN_WORDS(TRAIN_QUICK, "-o", out, "--gpu-layers", "1"), 2);
    assert_refused("--device needs a GPU: --backend vulkan, cuda or auto expected",
                   TERN_WORDS(TRAIN_QUICK, "-o", out, "--device", "0"), 2);
    assert_refused("--optimizer adam: adamw|sgd expected; did you mean adamw?",
                   TERN_WORDS(TRAIN_QUICK, "-o", out, "--optimizer", "adam"), 2);
    assert_refused("GiB expected; --", TERN_WORDS(TRAIN_QUICK, "-o", out, "--memory-limit", "20M"), 1);
    assert_refused("no shapes of the model", TERN_WORDS("train", "--data", TRAIN_LOGBOOK, "-o", out), 2);
    assert_refused("no-such.json", TERN_WORDS("train", "--config", "no-such.json", "--data", TRAIN_LOGBOOK, "-o", out),
                   1);
}

/* "--checkpoint --states 8bit takes 0.05 GiB": as it stands, but for its last words, it is the rest of a call that
 * fits. */
static void assert_fits(char *suggestion, const char *limit)
{
    const char *call[32] = {"finetune", "--dry-run", "--memory-limit", limit};
    size_t n = 4;
    for (char *word = strtok(suggestion, " "); word && n + 1 < 32; word = strtok(NULL, " ")) {
        if (*word == '\'') { /* a pattern, in quotes for the shell */
            word++;
            word[strcspn(word, "'")] = 0;
        }
        call[n++] = word;
    }
    n -= strcmp(call[n - 3], "takes") == 0 ? 3 : 2; /* the amount, GiB */
    call[n] = NULL;
    test_output o = test_tern(NULL, call);
    if (o.code != 0) fail_msg("--memory-limit %s: %s", limit, o.err);
    test_output_free(&o);
}

/* What the message of a plan that is too large suggests is accepted, and fits. */
static void suggestions_fit(void **state)
{
    (void)state;
    static const char *const limits[] = {"200M", "100M", "80M", "60M", "40M", "20M"};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        if (!test_takes(i, 2, 1)) continue;
        test_output o = TERN("finetune", "--dry-run", "--memory-limit", limits[i]);
        char *words = strstr(o.err, "GiB expected; ");
        if (o.code != 1 || !words || strstr(o.err, "; even ")) fail_msg("%s: %s", limits[i], o.err);
        words += strlen("GiB expected; ");
        words[strcspn(words, "\n")] = 0;
        char *second = strchr(words, ',');
        if (second) *second++ = 0;
        assert_fits(words, limits[i]);
        if (second) assert_fits(second, limits[i]);
        test_output_free(&o);
    }
}

/* A model that was trained with --template can be talked to without. */
static void the_template_is_kept(void **state)
{
    (void)state;
    static const char line[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"Tell me something.\"}, {\"role\": "
                               "\"assistant\", \"content\": \"One day a fox went to a lake.\"}]}\n";
    static const char shapes[] = "{\"hidden_size\": 256, \"intermediate_size\": 256, \"num_hidden_layers\": 1, "
                                 "\"num_attention_heads\": 4, \"vocab_size\": 400}";
    char *data = strdup(test_scratch("talk.jsonl")), *json = strdup(test_scratch("talk.json")),
         *out = strdup(test_scratch("talk.gguf"));
    test_write_text(data, line);
    test_write_text(json, shapes);
    test_output o = TERN("train", "--config", json, "--data", data, "--template", "llama3", "--steps", "1", "--seq",
                         "64", "--val-split", "0", "-o", out, "--overwrite");
    if (o.code != 0) fail_msg("%s", o.err);
    test_output_free(&o);
    o = test_tern("Hello\n", TERN_WORDS("chat", "-m", out, "--greedy", "-n", "2"));
    if (o.code != 0) fail_msg("%s", o.err);
    test_output_free(&o);
    free(data);
    free(json);
    free(out);
}

/* Data that is refused leaves nothing where the run would have been. */
static void refused_data_leaves_no_folder(void **state)
{
    (void)state;
    char data[1024], output[1024], folder[1100];
    snprintf(data, sizeof data, "%s", test_scratch("cli-refused.jsonl"));
    snprintf(output, sizeof output, "%s", test_scratch("cli-refused.gguf"));
    snprintf(folder, sizeof folder, "%s", test_scratch("cli-refused.train"));
    FILE *f = fopen(data, "w");
    assert_non_null(f);
    fputs("{\"txet\": \"a\"}\n", f);
    fclose(f);
    test_output o = TERN("finetune", "-m", test_small_model(), "--data", data, "-o", output);
    assert_int_not_equal(o.code, 0);
    assert_non_null(strstr(o.err, "cli-refused.jsonl:1: none of text"));
    assert_int_not_equal(access(folder, F_OK), 0);
    assert_int_not_equal(access(output, F_OK), 0);
    unlink(data);
    test_output_free(&o);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(steps_are_told_line_by_line),
    cmocka_unit_test(the_template_is_stored),
    cmocka_unit_test(json_has_a_line_for_each_event),
    cmocka_unit_test(dry_runs_need_neither_data_nor_output),
    cmocka_unit_test(tokens_are_added),
    cmocka_unit_test(dry_runs_estimate),
    cmocka_unit_test(profiles_add_up),
    cmocka_unit_test(train_makes_a_model),
    cmocka_unit_test(the_template_is_kept),
    cmocka_unit_test(suggestions_fit),
    cmocka_unit_test(mistakes_are_named),
    cmocka_unit_test(refused_data_leaves_no_folder),
};

TEST_GROUP(train, "slow", tests);
