/* Training runs: heat, plans that come before memory, mistakes that have words, and what is there and is kept. */
#include "train/run_cases.h"

/* ---- power */

static void heat_slows_it_down(void **state)
{
    static const char trace[] = "seconds,celsius\n0,90\n0.001,95\n";
    (void)state;
    const run_path out = scratch("warm");
    char *path = strdup(put_file("warm.csv", trace, sizeof trace - 1));
    said s;
    tern_finetune_options o = run_case_options(out.text);
    run_case_run(o, &s);
    assert_true(s.least_duty == 1);
    assert_int_equal(s.batch, 2);
    o.power = TERN_FINETUNE_POWER_BALANCED;
    run_case_run(o, &s);
    assert_true(s.least_duty == 0.9);
    o.power = TERN_FINETUNE_POWER_SAVER;
    o.batch = 0;
    run_case_run(o, &s);
    assert_true(s.least_duty == 0.6 && s.batch == 1 && s.accumulate == 4);
    o.power = TERN_FINETUNE_POWER_PERFORMANCE;
    o.max_temp = 89;
    o.thermal_trace = path;
    run_case_run(o, &s);
    assert_true(s.least_duty < 1);
    free(path);
}

/* Too hot to go on: it says so, what was learned is saved, and nothing else changes. */
static void heat_stops_a_run_for_a_while(void **state)
{
    static const char trace[] = "0,95\n2.5,\n4,60\n";
    (void)state;
    const run_path out = scratch("hot");
    said cool, hot;
    tern_finetune_options o = run_case_options(out.text);
    o.steps = 3;
    run_case_run(o, &cool);
    assert_int_equal(cool.n_saved, 1);
    o.max_temp = 80;
    o.thermal_trace = put_file("hot.csv", trace, sizeof trace - 1);
    run_case_run(o, &hot);
    assert_int_equal(hot.n_saved, 2);
    assert_int_equal(hot.n_steps, 3);
    assert_true(hot.last_loss == cool.last_loss);
    static const char *const notes[] = {"95 degrees, where 80 are too many: no work until it is below that",
                                        "no longer known (last reading: 95 degrees)", "60 degrees: training continues"};
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++)
        if (!strstr(hot.notes, notes[i])) fail_msg("\"%s\" has no \"%s\"", hot.notes, notes[i]);
}

/* ---- plans */

static void plans_come_before_memory(void **state)
{
    (void)state;
    const run_path out = scratch("planned");
    said s, less;
    tern_error err = {0};
    tern_finetune_options o = run_case_options(out.text);
    o.dry_run = true;
    o.data = NULL;
    o.n_data = 0;
    o.output = NULL;
    run_case_run(o, &s);
    assert_true(s.n_planned == 1 && s.n_steps == 0 && s.n_written == 0 && s.planned > 1 << 20);
    o.states = TERN_FINETUNE_STATES_8BIT;
    run_case_run(o, &less);
    assert_true(less.planned < s.planned);
    o = run_case_options(out.text);
    o.memory_limit = s.planned / 2;
    memset(&s, 0, sizeof s);
    o.on_event = run_case_hear;
    o.context = &s;
    assert_int_equal(tern_finetune(&o, NULL, &err), TERN_OUT_OF_MEMORY);
    assert_int_equal(s.n_planned, 1);
    assert_non_null(strstr(err.message, "GiB expected; --"));
    o.dry_run = true;
    assert_int_equal(tern_finetune(&o, NULL, &err), TERN_OUT_OF_MEMORY);
}

/* ---- refused */

static void assert_refused(tern_finetune_options o, tern_status code, const char *words)
{
    tern_error err = {0};
    tern_finetune_result result = {.size = sizeof result};
    const tern_status status = tern_finetune(&o, &result, &err);
    if (status != code || !strstr(err.message, words))
        fail_msg("status %d, \"%s\": status %d and \"%s\" expected", status, err.message, code, words);
    assert_int_equal(tern_finetune(&o, NULL, NULL), code);
}

#define REFUSE(code, words, change)                                                                                    \
    do {                                                                                                               \
        tern_finetune_options o = run_case_options(out.text);                                                          \
        change;                                                                                                        \
        assert_refused(o, TERN_##code, words);                                                                         \
    } while (0)

static void mistakes_have_words(void **state)
{
    (void)state;
    const run_path out = scratch("mistakes");
    static const char *patterns[] = {"model.layers.9.*"};
    static const char *bad_target[] = {"z_proj"};
    static const char *missing[] = {"no-such-file.txt"};
    REFUSE(INVALID_ARGUMENT, "option optimizer is 2: 0 to 1 expected", o.optimizer = 2);
    REFUSE(INVALID_ARGUMENT, "option schedule is 3: 0 to 2 expected", o.schedule = 3);
    REFUSE(INVALID_ARGUMENT, "option master is 2: 0 to 1 expected", o.master = 2);
    REFUSE(INVALID_ARGUMENT, "option states is 3: 0 to 2 expected", o.states = 3);
    REFUSE(INVALID_ARGUMENT, "option power is 3: 0 to 2 expected", o.power = 3);
    REFUSE(INVALID_ARGUMENT, "option split is 3: 0 to 2 expected", o.split = 3);
    REFUSE(INVALID_ARGUMENT, "option backend is 5: 0 to 4 expected", o.backend = 5);
    REFUSE(INVALID_ARGUMENT, "options.cpu: a member is set", o.cpu.reserved[0] = 1);
    REFUSE(INVALID_ARGUMENT, "options: its size is 0", o.size = 0);
    REFUSE(INVALID_ARGUMENT, "type q9", o.type = "q9");
    REFUSE(INVALID_ARGUMENT, "an output NAME.gguf expected", o.type = "i2_s");
    REFUSE(INVALID_ARGUMENT, "validation split 1: 0 to less than 1", o.validation_split = 1);
    REFUSE(INVALID_ARGUMENT, "validation split nan", o.validation_split = NAN);
    REFUSE(INVALID_ARGUMENT, "epochs 0: above 0", (o.steps = 0, o.epochs = 0));
    REFUSE(INVALID_ARGUMENT, "learning rate -1: above 0", o.lr = -1);
    REFUSE(INVALID_ARGUMENT, "seq 65: at most the model's context of 64", o.seq = 65);
    REFUSE(INVALID_ARGUMENT, "beta1: 1 found", o.beta1 = 1);
    REFUSE(INVALID_ARGUMENT, "clip: nan found", o.clip = NAN);
    REFUSE(INVALID_ARGUMENT, "accumulate: 0 found", o.accumulate = 0);
    REFUSE(INVALID_ARGUMENT, "no tensor of that name", (o.freeze = patterns, o.n_freeze = 1));
    REFUSE(INVALID_ARGUMENT, "LoRA target z_proj",
           (o.lora_rank = 4, o.lora_targets = bad_target, o.n_lora_targets = 1));
    REFUSE(INVALID_ARGUMENT, "both a model and a config found", o.config = "x.json");
    REFUSE(INVALID_ARGUMENT, "neither a model nor a config", o.model = NULL);
    REFUSE(INVALID_ARGUMENT, "no data given", o.n_data = 0);
    REFUSE(INVALID_ARGUMENT, "no output given", o.output = NULL);
    REFUSE(INVALID_ARGUMENT, "input and output are the same folder", o.output = run_case_model.text);
    REFUSE(INVALID_ARGUMENT, "resume and overwrite: both found", o.resume = true);
    REFUSE(INVALID_ARGUMENT, "split and mark", (o.split = TERN_FINETUNE_SPLIT_LINE, o.mark = "x"));
    const char *a_model[] = {test_small_model()};
    REFUSE(INVALID_ARGUMENT, ".gguf is a model: text, JSONL", o.data = a_model);
    REFUSE(INVALID_ARGUMENT, "run.jsonl: input and output are the same file", o.output = run_case_data.text);
    REFUSE(NOT_FOUND, "no-such-file.txt", o.data = missing);
    REFUSE(NOT_FOUND, "no-such-model", o.model = "no-such-model");
    REFUSE(NOT_FOUND, "no-such-adapter", o.lora_start = "no-such-adapter");
    REFUSE(UNSUPPORTED, "backend \"webgpu\"", o.backend = TERN_BACKEND_WEBGPU);
    REFUSE(INVALID_ARGUMENT, "step ",
           (o.lr = 1e30, o.clip = 0, o.warmup = 0, o.optimizer = TERN_FINETUNE_OPTIMIZER_SGD));
}

/* A tokenizer that a folder cannot hold, and an encoding that the matrices do not fit, are found before the first step.
 */
static void results_are_rehearsed(void **state)
{
    (void)state;
    said s = {0};
    tern_error err = {0};
    const run_path out = scratch("rehearsed.gguf");
    tern_finetune_options o = run_case_options(out.text);
    o.type = "tq2_0"; /* rows of 256; these have 128 */
    o.on_event = run_case_hear;
    o.context = &s;
    assert_int_equal(tern_finetune(&o, NULL, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "the result could not be written: model.layers.0."));
    assert_int_equal(s.n_planned, 0);
}

/* Asks for a second run in the folder of the first. */
static void ask_again(void *context, const tern_finetune_event *e)
{
    tern_error err = {0};
    if (e->kind != TERN_FINETUNE_STEP || e->step != 1) return;
    tern_finetune_options o = *(const tern_finetune_options *)context;
    o.on_event = NULL;
    assert_int_equal(tern_finetune(&o, NULL, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "another run uses "));
}

static void one_run_works_in_a_folder(void **state)
{
    (void)state;
    tern_error err = {0};
    const run_path out = scratch("locked");
    tern_finetune_options o = run_case_options(out.text);
    o.steps = 2;
    tern_finetune_options same = o;
    o.on_event = ask_again;
    o.context = &same;
    assert_ok(tern_finetune(&o, NULL, &err), err);
    assert_ok(tern_finetune(&same, NULL, &err), err); /* the lock is gone */
}

/* A run that ended before its first checkpoint is begun again without a flag; what is there of others is not. */
static void what_is_there_is_kept(void **state)
{
    (void)state;
    tern_error err = {0};
    char command[1200];
    const run_path out = scratch("kept"), other = scratch("somebodys.gguf");
    snprintf(command, sizeof command, "rm -rf '%s' '%s'", out.text, scratch("somebodys.train").text);
    assert_int_equal(system(command), 0);
    tern_finetune_options o = run_case_options(out.text);
    o.steps = 2;
    o.overwrite = false;
    o.memory_limit = 1;
    assert_int_equal(tern_finetune(&o, NULL, &err), TERN_OUT_OF_MEMORY);
    assert_true(tern_file_is_dir(out.text));
    o.memory_limit = 0;
    assert_ok(tern_finetune(&o, NULL, &err), err);
    assert_int_equal(tern_finetune(&o, NULL, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "--resume continues it, --overwrite starts again"));
    test_write_text(other.text, "mine");
    o.output = other.text;
    assert_int_equal(tern_finetune(&o, NULL, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "somebodys.gguf exists: --overwrite replaces it"));
    o.output = run_case_model.text; /* another one's folder */
    o.model = out.text;
    assert_int_equal(tern_finetune(&o, NULL, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "exists and is not empty"));
    o.resume = true;
    assert_int_equal(tern_finetune(&o, NULL, &err), TERN_NOT_FOUND);
    assert_non_null(strstr(err.message, "no checkpoint found to resume"));
    assert_false(tern_file_exists(inside(run_case_model.text, "loss.csv").text));
    assert_false(tern_file_exists(inside(run_case_model.text, "checkpoint").text));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(heat_slows_it_down),       cmocka_unit_test(heat_stops_a_run_for_a_while),
    cmocka_unit_test(plans_come_before_memory), cmocka_unit_test(mistakes_have_words),
    cmocka_unit_test(results_are_rehearsed),    cmocka_unit_test(one_run_works_in_a_folder),
    cmocka_unit_test(what_is_there_is_kept),
};

TEST_GROUP(run_refusals, "slow", tests, .setup = run_case_make_files);
