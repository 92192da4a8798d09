/* Runs that go on with other settings, from damaged checkpoints, or for longer. */
#include "train/run_resume_cases.h"

static void other_settings_are_refused(void **state)
{
    (void)state;
    const run_path out = scratch("settings");
    tern_finetune_options o = run_resume_options(out.text);
    run_resume_run_some(o, 2);
    run_resume_assert_refused(o, TERN_INVALID_ARGUMENT, "--resume continues it, --overwrite starts again");
    o.resume = true;
    tern_finetune_options p = o;
    p.seq--;
    run_resume_assert_refused(p, TERN_INVALID_ARGUMENT, "made with --seq 15, 14 found");
    p = o, p.batch = 4;
    run_resume_assert_refused(p, TERN_INVALID_ARGUMENT, "made with --batch 2, 4 found");
    p = o, p.seed = 99;
    run_resume_assert_refused(p, TERN_INVALID_ARGUMENT, "made with --seed 1, 99 found");
    p = o, p.optimizer = TERN_FINETUNE_OPTIMIZER_SGD;
    run_resume_assert_refused(p, TERN_INVALID_ARGUMENT, "made with --optimizer adamw, sgd found");
    p = o, p.lr = 3e-4;
    run_resume_assert_refused(p, TERN_INVALID_ARGUMENT, "made with --lr 0.002, 0.00029999999999999997 found");
    p = o, p.lora_rank = 4;
    run_resume_assert_refused(p, TERN_INVALID_ARGUMENT, "made with --lora");
    p = o, p.sequential = true;
    run_resume_assert_refused(p, TERN_INVALID_ARGUMENT, "made with --order shuffled, sequential found");
    const char *other = put_sequences("other.jsonl", 60, 12);
    p = o, p.data = &other;
    run_resume_assert_refused(p, TERN_INVALID_ARGUMENT, "made with another data (fingerprint ");
    const run_path other_model = put_model("other-model");
    run_path weights = inside(other_model.text, "model.safetensors");
    FILE *f = fopen(weights.text, "r+b");
    assert_true(f && fseek(f, -2, SEEK_END) == 0 && fputc(0x12, f) != EOF && fclose(f) == 0);
    p = o, p.model = other_model.text;
    run_resume_assert_refused(p, TERN_INVALID_ARGUMENT, "made with another model (fingerprint ");
    o.overwrite = false;
    run_resume_run_to_end(o);
}

static void damaged_checkpoints_are_refused(void **state)
{
    (void)state;
    const run_path out = scratch("damaged"), path = inside(out.text, "checkpoint/state.safetensors");
    tern_finetune_options o = run_resume_options(out.text);
    run_resume_run_some(o, 2);
    o.resume = true;
    tern_buf file = bytes_of(path.text);
    file.data[file.size / 2] ^= 1;
    put_file("damaged/checkpoint/state.safetensors", file.data, file.size);
    run_resume_assert_refused(o, TERN_MALFORMED, "state.safetensors: ");
    put_file("damaged/checkpoint/state.safetensors", file.data, file.size / 3);
    run_resume_assert_refused(o, TERN_MALFORMED, "state.safetensors: ");
    put_file("damaged/checkpoint/state.safetensors", "", 0);
    run_resume_assert_refused(o, TERN_MALFORMED, "state.safetensors: ");
    unlink(path.text);
    run_resume_assert_refused(o, TERN_NOT_FOUND, "no checkpoint found to resume");
    tern_buf_deinit(&file);
}

/* A finished run is carried on, and one that is already long enough only writes its result. */
static void runs_may_become_longer(void **state)
{
    (void)state;
    const run_path out = scratch("longer");
    tern_finetune_options o = run_resume_options(out.text);
    tern_finetune_result result = {.size = sizeof result};
    tern_error err = {0};
    run_resume_run_to_end(o);
    o.overwrite = false;
    o.resume = true;
    stopper s = {0};
    o.on_event = run_resume_count_event;
    o.context = &s;
    assert_ok(tern_finetune(&o, &result, &err), err);
    assert_int_equal(s.n_steps, 0);
    assert_int_equal(result.n_steps, 10);
    o.steps = 14;
    assert_ok(tern_finetune(&o, &result, &err), err);
    assert_int_equal(s.n_steps, 4);
    assert_int_equal(result.n_steps, 14);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(other_settings_are_refused),
    cmocka_unit_test(damaged_checkpoints_are_refused),
    cmocka_unit_test(runs_may_become_longer),
};

TEST_GROUP(run_other, "slow", tests, .setup = run_resume_make_files);
