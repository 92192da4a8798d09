/* What the tests of training runs share. */
#include "train/run_cases.h"

run_path run_case_model, run_case_data;

const char *run_case_data_list[1];

int run_case_make_files(void **state)
{
    (void)state;
    run_case_model = put_model("run-model");
    snprintf(run_case_data.text, sizeof run_case_data.text, "%s", put_sequences("run.jsonl", 80, 3));
    run_case_data_list[0] = run_case_data.text;
    return 0;
}

tern_finetune_options run_case_options(const char *output)
{
    return run_options(run_case_model.text, run_case_data_list, output);
}

void run_case_hear(void *context, const tern_finetune_event *e)
{
    said *s = context;
    switch (e->kind) {
    case TERN_FINETUNE_PLANNED:
        s->n_planned++;
        s->planned = e->plan->total;
        s->total_rows = e->plan->n_rows + e->plan->n_validation_rows;
        s->batch = e->plan->batch;
        s->accumulate = e->plan->accumulate;
        break;
    case TERN_FINETUNE_STEP:
        if (s->n_steps++ == 0) s->first_loss = e->loss;
        s->last_loss = e->loss;
        assert_true(e->step == s->n_steps && e->norm > 0 && e->tokens_per_second > 0 && e->step_ms > 0);
        assert_true(fabs(e->ppl - exp(e->loss)) < 1e-9 * e->ppl);
        if (s->n_steps == 1 || e->duty < s->least_duty) s->least_duty = e->duty;
        break;
    case TERN_FINETUNE_EVALUATED:
        if (s->n_evaluated++ == 0) s->first_validation = e->loss;
        s->last_validation = e->loss;
        s->best = e->best_loss;
        break;
    case TERN_FINETUNE_SAVED: s->n_saved++; break;
    case TERN_FINETUNE_NOTE:
        s->n_notes++;
        snprintf(s->notes + strlen(s->notes), sizeof s->notes - strlen(s->notes), "%s\n", e->text);
        break;
    case TERN_FINETUNE_SAMPLE:
        s->n_samples++;
        snprintf(s->sample, sizeof s->sample, "%s", e->text);
        break;
    case TERN_FINETUNE_WRITTEN:
        s->n_written++;
        snprintf(s->written, sizeof s->written, "%s", e->text);
        break;
    case TERN_FINETUNE_PROGRESS:
    case TERN_FINETUNE_ESTIMATED:
    case TERN_FINETUNE_PROFILED: break;
    }
}

tern_finetune_result run_case_run(tern_finetune_options o, said *s)
{
    tern_error err = {0};
    tern_finetune_result result = {.size = sizeof result};
    memset(s, 0, sizeof *s);
    o.on_event = run_case_hear;
    o.context = s;
    assert_ok(tern_finetune(&o, &result, &err), err);
    return result;
}
