/* Runs that stop and go on: to the same losses, checkpoints and results bit for bit, wherever they were stopped, and
 * killed. */
#include "train/run_resume_cases.h"

#include "base/bytes.h"

static void assert_same_runs(const char *a, const char *b)
{
    static const char *const names[] = {"loss.csv", "checkpoint/state.safetensors"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const run_path x = inside(a, names[i]), y = inside(b, names[i]);
        assert_same_files(x.text, y.text);
    }
}

/* An adapter's folder is the adapter alone; the run works beside it. */
static void assert_same_adapters(const char *a, const char *b)
{
    char work_a[600], work_b[600];
    snprintf(work_a, sizeof work_a, "%s.train", a);
    snprintf(work_b, sizeof work_b, "%s.train", b);
    assert_same_runs(work_a, work_b);
    const run_path x = inside(a, "adapter_model.safetensors"), y = inside(b, "adapter_model.safetensors");
    assert_same_files(x.text, y.text);
    assert_true(access(inside(a, "checkpoint").text, F_OK) != 0);
}

/* What may go wrong in a resume: each state, and each thing that goes by the number of the step. */
static const struct {
    const char *name;
    tern_finetune_optimizer optimizer;
    tern_finetune_master master;
    tern_finetune_states states;
    uint32_t lora, sync_every, accumulate;
    float clamp, threshold;
    uint64_t blend;
    bool validate;
    tern_finetune_precision precision;
} kinds[] = {
    {.name = "adamw"},
    {.name = "sgd", .optimizer = TERN_FINETUNE_OPTIMIZER_SGD},
    {.name = "bf16", .master = TERN_FINETUNE_MASTER_BF16, .states = TERN_FINETUNE_STATES_BF16},
    {.name = "8bit", .states = TERN_FINETUNE_STATES_8BIT, .accumulate = 3},
    {.name = "lora", .lora = 4},
    {.name = "sync", .sync_every = 3},
    {.name = "clamp", .clamp = 1.2f, .threshold = 0.7f},
    {.name = "blend", .blend = 6},
    {.name = "validated", .validate = true},
    {.name = "precision", .precision = TERN_FINETUNE_PRECISION_BF16},
};

static tern_finetune_options options_of(size_t k, const char *output)
{
    tern_finetune_options o = run_resume_options(output);
    o.optimizer = kinds[k].optimizer;
    o.master = kinds[k].master;
    o.states = kinds[k].states;
    o.lora_rank = kinds[k].lora;
    o.lora_dropout = kinds[k].lora ? 0.2f : 0;
    if (kinds[k].sync_every) o.sync_every = kinds[k].sync_every;
    if (kinds[k].accumulate) o.accumulate = kinds[k].accumulate;
    o.clamp = kinds[k].clamp;
    o.threshold = kinds[k].threshold;
    o.blend_steps = kinds[k].blend;
    o.precision = kinds[k].precision;
    o.lr = 5e-3;
    if (kinds[k].validate) {
        o.validation_split = 0.2;
        o.evaluate_every = 2;
    }
    return o;
}

/* A checkpoint of f32 has no word of it, as those of before there was another. */
static void another_precision_is_refused(void **state)
{
    (void)state;
    static const tern_finetune_precision precisions[] = {TERN_FINETUNE_PRECISION_F32, TERN_FINETUNE_PRECISION_BF16};
    static const char *const words[] = {"made with --precision (not given), bf16 found",
                                        "made with --precision bf16, (not given) found"};
    for (size_t i = 0; i < 2; i++) {
        const run_path output = scratch(i ? "precision-bf16" : "precision-f32");
        tern_finetune_options o = run_resume_options(output.text);
        o.precision = precisions[i];
        run_resume_run_some(o, 1);
        o.overwrite = false;
        o.resume = true;
        o.precision = precisions[1 - i];
        run_resume_assert_refused(o, TERN_INVALID_ARGUMENT, words[i]);
    }
}

static void stopped_runs_go_on_as_if_nothing_was(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        char name[64];
        snprintf(name, sizeof name, "whole-%s", kinds[k].name);
        const run_path whole = scratch(name);
        snprintf(name, sizeof name, "parts-%s", kinds[k].name);
        const run_path parts = scratch(name);
        run_resume_run_to_end(options_of(k, whole.text));
        tern_finetune_options o = options_of(k, parts.text);
        run_resume_run_some(o, 1);
        o.overwrite = false;
        o.resume = true;
        o.optimizer_in_backward = !kinds[k].accumulate; /* the same bits: it may come and go */
        run_resume_run_some(o, 3);
        o.optimizer_in_backward = false;
        run_resume_run_some(o, 2);
        o.optimizer_in_backward = !kinds[k].accumulate;
        run_resume_run_to_end(o);
        if (kinds[k].lora) assert_same_adapters(whole.text, parts.text);
        if (kinds[k].lora) continue;
        assert_same_runs(whole.text, parts.text);
        const run_path x = inside(whole.text, "model.safetensors"), y = inside(parts.text, "model.safetensors");
        assert_same_files(x.text, y.text);
    }
}

/* ---- killed */

enum { N_KILLS = 50, KILLED_STEPS = 120 };

static void tell_parent(void *context, const tern_finetune_event *e)
{
    const int *out = context;
    const char kind = (char)('a' + e->kind);
    if (e->kind != TERN_FINETUNE_STEP && e->kind != TERN_FINETUNE_SAVED) return;
    if (write(*out, &kind, 1) != 1) _exit(3);
}

/* The child: goes on where there is a checkpoint, and begins where there is none. */
static void live(tern_finetune_options o, const char *state_path, int out)
{
    o.resume = access(state_path, F_OK) == 0;
    o.overwrite = !o.resume;
    o.on_event = tell_parent;
    o.context = &out;
    _exit(tern_finetune(&o, NULL, NULL) == TERN_OK ? 0 : 1);
}

/* Waits for so many steps and checkpoints and then up to some hundred microseconds more. False: it came to its end
 * before. */
static bool wait_a_while(int in, tern_rng *rng)
{
    char event;
    for (uint32_t n = tern_rng_below(rng, 6); n; n--)
        if (read(in, &event, 1) != 1) return false;
    const struct timespec t = {0, (long)tern_rng_below(rng, 400000)};
    struct pollfd none = {.fd = -1};
    ppoll(&none, 1, &t, NULL);
    return true;
}

/* One life. True when it was killed. */
static bool live_and_die(const tern_finetune_options *o, const char *state_path, tern_rng *rng)
{
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) live(*o, state_path, ends[1]);
    close(ends[1]);
    const bool waited = wait_a_while(ends[0], rng);
    if (waited) kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    close(ends[0]);
    if (WIFEXITED(status) && WEXITSTATUS(status) != 0) fail_msg("a life ended with status %d", WEXITSTATUS(status));
    return WIFSIGNALED(status);
}

static void killed_runs_come_to_the_same_end(void **state)
{
    (void)state;
    tern_rng rng;
    test_seed(&rng);
    const run_path whole = scratch("never-killed"), killed = scratch("killed");
    const run_path state_path = inside(killed.text, "checkpoint/state.safetensors");
    tern_finetune_options o = run_resume_options(whole.text);
    o.steps = KILLED_STEPS;
    o.save_every = 1;
    o.validation_split = 0.2;
    o.evaluate_every = 3;
    o.plot = true;
    run_resume_run_to_end(o);
    o.output = killed.text;
    unlink(state_path.text);
    int n_kills = 0, n_lives = 0;
    const int wanted = test_quick() ? N_KILLS / 5 : N_KILLS;
    while (n_kills < wanted && n_lives < 4 * N_KILLS) { /* about a step in each life */
        o.optimizer_in_backward = n_lives % 2;
        const bool died = live_and_die(&o, state_path.text, &rng);
        n_kills += died;
        n_lives++;
        if (!died) unlink(state_path.text); /* it came to its end: once more */
    }
    assert_int_equal(n_kills, wanted);
    assert_int_equal(access(state_path.text, F_OK), 0);
    o.resume = true;
    o.overwrite = false;
    run_resume_run_to_end(o);
    assert_same_runs(whole.text, killed.text);
    const run_path x = inside(whole.text, "model.safetensors"), y = inside(killed.text, "model.safetensors");
    assert_same_files(x.text, y.text);
    const run_path a = inside(whole.text, "loss.svg"), b = inside(killed.text, "loss.svg");
    assert_same_files(a.text, b.text);
}

/* From nothing: the model of the first call is gone on with, and other shapes are refused. */
static void models_from_nothing_go_on(void **state)
{
    static const char config[] = "{\"hidden_size\": 128, \"intermediate_size\": 128, \"num_hidden_layers\": 1, "
                                 "\"num_attention_heads\": 2, \"vocab_size\": 300, \"max_position_embeddings\": 64}";
    (void)state;
    tern_error err = {0};
    tern_buf text = {0};
    for (int i = 0; i < 60; i++)
        assert_ok(tern_buf_addf(&text, &err, "%d. The cat sat on the mat, and the dog on the log.\n\n", i % 10), err);
    const run_path whole = scratch("nothing-whole"), parts = scratch("nothing-parts"), corpus = scratch("nothing.txt"),
                   shapes = scratch("nothing-shapes.json");
    put_file("nothing.txt", text.data, text.size);
    put_file("nothing-shapes.json", config, sizeof config - 1);
    const char *list[] = {corpus.text};
    tern_finetune_options o = run_options(NULL, list, whole.text);
    o.config = shapes.text;
    o.split = TERN_FINETUNE_SPLIT_BLANK;
    run_resume_run_to_end(o);
    o.output = parts.text;
    run_resume_run_some(o, 4);
    o.overwrite = false;
    o.resume = true;
    put_file("nothing-shapes.json", config, sizeof config - 2);
    run_resume_assert_refused(o, TERN_INVALID_ARGUMENT, "made with another config (fingerprint ");
    put_file("nothing-shapes.json", config, sizeof config - 1);
    run_resume_run_to_end(o);
    assert_same_runs(whole.text, parts.text);
    tern_buf_deinit(&text);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(stopped_runs_go_on_as_if_nothing_was),
    cmocka_unit_test(killed_runs_come_to_the_same_end),
    cmocka_unit_test(models_from_nothing_go_on),
    cmocka_unit_test(another_precision_is_refused),
};

TEST_GROUP(run_resume, "slow", tests, .setup = run_resume_make_files);
