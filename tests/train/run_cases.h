/* What the tests of training runs share. */
#ifndef TERN_TESTS_TRAIN_RUN_CASES_H
#define TERN_TESTS_TRAIN_RUN_CASES_H

#include "support/converted.h"
#include "support/logits.h"
#include "train/run_support.h"

#include "infer/session/session.h"
#include "model/adapter/adapter.h"

extern run_path run_case_model, run_case_data;

extern const char *run_case_data_list[1];

int run_case_make_files(void **state);

tern_finetune_options run_case_options(const char *output);

/* What a run said. */
typedef struct said {
    uint64_t n_planned, n_steps, n_evaluated, n_saved, n_notes, n_written, n_samples;
    double first_loss, last_loss, first_validation, last_validation, best, least_duty;
    uint64_t planned, total_rows;
    uint32_t batch, accumulate;
    char notes[1024], sample[1024], written[512];
} said;

void run_case_hear(void *context, const tern_finetune_event *e);

tern_finetune_result run_case_run(tern_finetune_options o, said *s);

#endif
