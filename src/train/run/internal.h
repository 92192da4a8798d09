/* The inside of a run: what tern_finetune holds, and the files that its parts are in. */
#ifndef TERN_TRAIN_RUN_INTERNAL_H
#define TERN_TRAIN_RUN_INTERNAL_H

#include "backend/open.h"
#include "model/derive.h"
#include "tern/train.h"
#include "text/chat/template.h"
#include "train/checkpoint.h"
#include "train/data/order.h"
#include "train/data/pack.h"
#include "train/power.h"
#include "train/thermal.h"
#include "train/trainer/trainer.h"

/* One line of loss.csv. Step 0 has a validation loss alone. */
typedef struct tern_run_point {
    uint64_t step, n_tokens;                  /* tokens so far */
    double epoch, loss, norm, lr, validation; /* NAN: none */
} tern_run_point;

typedef struct tern_run_curve {
    char *csv_path, *svg_path;
    FILE *csv;
    tern_run_point *points;
    size_t n, cap;
} tern_run_curve;

/* Rows of one pass or step, in one block of memory. */
typedef struct tern_run_rows {
    tern_train_row *rows;
    int32_t *numbers;
    size_t n;
} tern_run_rows;

typedef struct tern_run {
    const tern_finetune_options *o;
    tern_finetune_result result;
    double started; /* seconds of the clock */

    /* files: a folder with loss.csv, the data's tokens, and in `checkpoint` what a run goes on from */
    bool to_gguf;
    char *dry_folder; /* of a dry run, in the place of `folder`; removed at the end */
    char *folder, *checkpoint_dir, *state_path;
    int lock;          /* of the folder; -1: not yet */
    bool fresh_folder; /* it was not there before */

    const tern_encoding *type;
    const struct tern_mix *mix; /* instead of `type`, or NULL */
    tern_model *model;
    const char *chat_template; /* Jinja that the result gets: a flag's, or the family's; NULL: the model's own */
    tern_adapter *start;
    tern_train_data *data, *validation_data;
    tern_train_pack *pack, *validation; /* validation may be NULL */
    tern_train_order order;

    tern_trainer_params params;
    uint64_t evaluate_every;
    tern_backend *backend;
    tern_trainer *trainer;
    tern_trainer_plan plan;
    tern_run_rows rows;
    json_t *settings;            /* strings by the names of flags */
    tern_checkpoint *checkpoint; /* of a run that goes on, until it is restored */

    tern_run_curve curve;
    uint64_t n_tokens; /* positions trained on, those before a resume included */
    double best_loss;  /* INFINITY: none yet */
    uint64_t best_step;
    uint32_t n_worse; /* evaluations since */
    uint64_t saved_step;
    double saved_at;

    tern_thermal *thermal;
    tern_thermal_reading reading;
    double read_at;
    tern_power power;
    uint64_t n_timed;                   /* steps of this call */
    uint64_t n_tail;                    /* steps in the mean of the result's loss */
    double step_seconds, total_seconds; /* of a step: smoothed, its work alone; and with rests and all else */
    struct tern_run_profile *profile;   /* NULL: not asked for */
} tern_run;

static inline bool tern_run__is_lora(const tern_run *run)
{
    return run->params.lora.rank || run->params.lora.start;
}

double tern_run__seconds(void);
/* Adds what is the same for every event: the step, the machine. */
void tern_run__emit(const tern_run *run, tern_finetune_event event);
void tern_run__note(const tern_run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* CANCELLED when the caller wants to stop. */
tern_status tern_run__check_stop(const tern_run *run, tern_error *err);
/* For progress callbacks of other layers: `context` is this. */
typedef struct tern_run_progress {
    const tern_run *run;
    const char *text;
} tern_run_progress;
bool tern_run__progress(void *context, float done);

/* ---- several processes (ranks.c); alone each is the first and decides nothing */

/* Whether this is the process that makes and writes files and says what it does. */
bool tern_run__is_first(const tern_run *run);
tern_status tern_run__check_ranks(const tern_run *run, tern_error *err);
/* Sends rank 0's decision to all. */
tern_status tern_run__broadcast_decision(const tern_run *run, uint32_t *what, tern_error *err);
/* The others wait here until rank 0 has come as far: what it made is there. */
tern_status tern_run__wait_for_first(const tern_run *run, tern_error *err);
/* Whether all ranks have the settings, and so the files, of rank 0. Errors: INVALID_ARGUMENT (what differs). */
tern_status tern_run__agree(const tern_run *run, tern_error *err);

/* ---- options: words to params; what the model and the data decide */

tern_status tern_run__read_options(tern_run *run, tern_error *err);
tern_status tern_run__choose_params(tern_run *run, tern_error *err);
/* Everything that a resumed run must have alike, by flag. */
tern_status tern_run__list_settings(tern_run *run, tern_error *err);

/* ---- files */

/* Names the output and the folder, and refuses what the run may not write to (base/output.h). */
tern_status tern_run__name_folders(tern_run *run, tern_error *err);
tern_status tern_run__make_folders(tern_run *run, tern_error *err);
/* Removes the folders that this run made, where nothing lies in them yet. */
void tern_run__remove_empty_folders(tern_run *run);
/* A path in the folder; NULL when out of memory. */
char *tern_run__path(const tern_run *run, const char *name);

/* ---- model and data */

/* A model from scratch, or one that gets more tokens, as a folder beside the checkpoint, which is there already when a
 * run goes on. */
tern_status tern_run__make_model(tern_run *run, char **path, tern_error *err);
/* The model of the options with its added tokens, into the folder. Errors: those of opening and of tern_hf_write. */
tern_status tern_run__add_tokens(const tern_run *run, const char *dir, tern_error *err);
tern_status tern_run__open_data(tern_run *run, tern_error *err);
/* Whether `tern data` has written the file. */
bool tern_run__is_data_file(const char *path);
tern_status tern_run__alloc_rows(tern_run *run, tern_error *err);

/* ---- the curve of losses */

/* Goes on from the points up to `step`, or begins anew at step 0. */
tern_status tern_run__open_curve(tern_run *run, uint64_t step, tern_error *err);
tern_status tern_run__add_point(tern_run *run, const tern_run_point *point, tern_error *err);
/* Everything so far reaches the file. */
tern_status tern_run__flush_curve(tern_run *run, tern_error *err);
tern_status tern_run__plot(tern_run *run, tern_error *err);
void tern_run__close_curve(tern_run_curve *curve);

/* ---- checkpoints */

tern_status tern_run__save(tern_run *run, tern_error *err);
tern_status tern_run__save_best(tern_run *run, tern_error *err);
/* Opens the checkpoint to go on from and compares its settings. */
tern_status tern_run__find_checkpoint(tern_run *run, tern_error *err);
/* The settings and the progress that a checkpoint's run has. */
tern_status tern_run__read_checkpoint(tern_run *run, const json_t *about, tern_error *err);
/* Puts the trainer where it was, and closes the checkpoint. */
tern_status tern_run__restore(tern_run *run, tern_error *err);
/* Gives the trainer the best weights. */
tern_status tern_run__restore_best(tern_run *run, tern_error *err);

/* ---- a dry run */

/* Makes a folder to work in. */
tern_status tern_run__make_dry_folder(tern_run *run, tern_error *err);
/* Safe where there is none. */
void tern_run__remove_dry_folder(const tern_run *run);
/* Takes a few steps and tells what all would take. The trainer is open. */
tern_status tern_run__estimate(tern_run *run, tern_error *err);

/* ---- what the steps' dispatches cost; nothing where that was not asked for */

tern_status tern_run__open_profile(tern_run *run, tern_error *err);
void tern_run__before_step(const tern_run *run);
void tern_run__after_step(const tern_run *run);
void tern_run__report_profile(const tern_run *run);
void tern_run__close_profile(tern_run *run);

/* ---- the loop, and what comes of it */

tern_status tern_run__loop(tern_run *run, tern_error *err);
/* Whether a checkpoint may be written here: ternary weights are those of their masters, as they are after a restore. */
bool tern_run__may_save(const tern_run *run);
/* After a step that took `busy` seconds: rests as the machine's heat and the power mode want, or until the caller wants
 * to stop. Where it is too hot to go on, this is reported and a checkpoint is written first. */
tern_status tern_run__cool_down(tern_run *run, double busy, tern_error *err);
tern_status tern_run__write_result(tern_run *run, tern_error *err);
/* An output that could not be written at the end is an error before the first step. */
tern_status tern_run__rehearse_result(tern_run *run, tern_error *err);
/* The weights that the trainer has now, as a source of masters over the model. Close it. */
typedef struct tern_run_masters {
    tern_run *run;
    uint32_t *index; /* [n_layers][TERN_ROLE_COUNT] tensor + 1, 0: none */
    uint8_t *bytes;
    uint32_t cached; /* tensor + 1 */
    tern_master_source source;
    tern_derivation derivation;
} tern_run_masters;
tern_status tern_run__open_masters(tern_run_masters *masters, tern_run *run, tern_error *err);
void tern_run__close_masters(tern_run_masters *masters);

#endif
