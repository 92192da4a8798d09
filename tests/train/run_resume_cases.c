/* Runs that are stopped and go on, for tests. */
#include "train/run_resume_cases.h"

run_path run_resume_model, run_resume_data;

const char *run_resume_data_list[1];

int run_resume_make_files(void **state)
{
    (void)state;
    run_resume_model = put_model("resume-model");
    snprintf(run_resume_data.text, sizeof run_resume_data.text, "%s", put_sequences("resume.jsonl", 60, 11));
    run_resume_data_list[0] = run_resume_data.text;
    return 0;
}

tern_finetune_options run_resume_options(const char *output)
{
    return run_options(run_resume_model.text, run_resume_data_list, output);
}

void run_resume_count_event(void *context, const tern_finetune_event *e)
{
    stopper *s = context;
    s->n_steps += e->kind == TERN_FINETUNE_STEP;
    s->n_saved += e->kind == TERN_FINETUNE_SAVED;
}

bool run_resume_steps_left(void *context)
{
    const stopper *s = context;
    return s->n_steps < s->left;
}

void run_resume_run_to_end(tern_finetune_options o)
{
    tern_error err = {0};
    assert_ok(tern_finetune(&o, NULL, &err), err);
}

void run_resume_run_some(tern_finetune_options o, uint64_t n)
{
    tern_error err = {0};
    stopper s = {.left = n};
    o.on_event = run_resume_count_event;
    o.go_on = run_resume_steps_left;
    o.context = &s;
    tern_status status = tern_finetune(&o, NULL, &err);
    if (status != TERN_CANCELLED) fail_msg("status %d: %s", status, err.message);
    assert_non_null(strstr(err.message, "--resume"));
    assert_true(s.n_steps >= n && s.n_saved >= 1);
}

void run_resume_assert_refused(tern_finetune_options o, tern_status code, const char *words)
{
    tern_error err = {0};
    o.overwrite = false;
    assert_int_equal(tern_finetune(&o, NULL, &err), code);
    if (!strstr(err.message, words)) fail_msg("\"%s\" has no \"%s\"", err.message, words);
}
