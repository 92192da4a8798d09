/* Runs that are stopped and go on, for tests. */
#ifndef TERN_TESTS_TRAIN_RUN_RESUME_CASES_H
#define TERN_TESTS_TRAIN_RUN_RESUME_CASES_H

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include "support/kernels.h"
#include "train/checkpoint.h"
#include "train/run_support.h"

extern run_path run_resume_model, run_resume_data;

extern const char *run_resume_data_list[1];

int run_resume_make_files(void **state);

tern_finetune_options run_resume_options(const char *output);

/* Stops after so many steps of one call. */
typedef struct stopper {
    uint64_t left;
    uint64_t n_steps, n_saved;
} stopper;

void run_resume_count_event(void *context, const tern_finetune_event *e);

bool run_resume_steps_left(void *context);

void run_resume_run_to_end(tern_finetune_options o);

/* One call that is stopped after `n` steps. */
void run_resume_run_some(tern_finetune_options o, uint64_t n);

void run_resume_assert_refused(tern_finetune_options o, tern_status code, const char *words);

#endif
