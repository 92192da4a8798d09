/* A dry run: a folder to work in meanwhile, and a few steps that say how long all would take. */
#include <errno.h>
#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/show.h"
#include "train/run/internal.h"

/* ---- the folder */

tern_status tern_run__make_dry_folder(tern_run *run, tern_error *err)
{
    const char *dir = run->o->temp_dir && *run->o->temp_dir ? run->o->temp_dir : "/tmp";
    char *path = tern_path_join(dir, "tern-dry-run-XXXXXX");
    if (!path) return tern_fail_alloc(err, strlen(dir));
    if (mkdtemp(path)) {
        run->dry_folder = path;
        return TERN_OK;
    }
    const int why = errno;
    tern_fail(err, TERN_IO, "%s: cannot make a folder in it: %s", tern_show_z(dir).text, strerror(why));
    tern_free(path);
    return TERN_IO;
}

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *walk)
{
    (void)about, (void)kind, (void)walk;
    remove(path);
    return 0;
}

void tern_run__remove_dry_folder(const tern_run *run)
{
    if (run->dry_folder) nftw(run->dry_folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* ---- time */

enum { MOST_STEPS = 3 };
static const double enough_seconds = 5;

/* Without data any tokens will do: what a step computes does not depend on them. */
static void make_up_rows(const tern_run *run, tern_train_row *row, size_t number)
{
    const uint32_t n_vocab = tern_model_config(run->model)->n_vocab, seq = run->params.seq;
    for (uint32_t i = 0; i < seq; i++) {
        row->ids[i] = (int32_t)((number * seq + i) % n_vocab);
        row->labels[i] = (int32_t)((number * seq + i + 1) % n_vocab);
        row->starts[i] = 0;
    }
    row->n_used = row->n_labels = seq;
}

static tern_status fill_rows(const tern_run *run, uint64_t step, tern_error *err)
{
    for (size_t i = 0; i < run->rows.n; i++) {
        const uint64_t at = step * run->rows.n + i;
        if (!run->pack) make_up_rows(run, &run->rows.rows[i], i);
        else TERN_TRY(tern_train_pack_row(run->pack, tern_train_order_row(&run->order, at), &run->rows.rows[i], err));
    }
    return TERN_OK;
}

static tern_status time_step(tern_run *run, uint64_t step, tern_trainer_result *r, double *seconds, tern_error *err)
{
    TERN_TRY(fill_rows(run, step, err));
    const double start = tern_run__seconds();
    tern_run__before_step(run);
    TERN_TRY(tern_trainer_step(run->trainer, run->rows.rows, run->rows.n, r, err));
    tern_run__after_step(run);
    *seconds = tern_run__seconds() - start;
    return TERN_OK;
}

/* The mean of three steps, of as many as there are in five seconds. The first one also touches all memory, and counts
 * only where there is no other. */
static tern_status time_steps(tern_run *run, tern_trainer_result *r, tern_error *err)
{
    double first = 0, rest = 0;
    uint64_t n = 0;
    TERN_TRY(time_step(run, 0, r, &first, err));
    while (n + 1 < MOST_STEPS && first + rest < enough_seconds) {
        double seconds = 0;
        TERN_TRY(tern_run__check_stop(run, err));
        TERN_TRY(time_step(run, ++n, r, &seconds, err));
        rest += seconds;
    }
    run->step_seconds = n ? rest / (double)n : first;
    return TERN_OK;
}

/* Seconds of one validation: a pass over one batch, times their number. */
static tern_status time_validation(tern_run *run, double *seconds, tern_error *err)
{
    double sum = 0;
    uint64_t n_labels = 0;
    *seconds = 0;
    if (!run->validation) return TERN_OK;
    const uint32_t n_rows = tern_train_pack_about(run->validation)->n_rows, batch = run->params.batch;
    const uint32_t n = n_rows < batch ? n_rows : batch;
    for (uint32_t i = 0; i < n; i++) TERN_TRY(tern_train_pack_row(run->validation, i, &run->rows.rows[i], err));
    const double start = tern_run__seconds();
    TERN_TRY(tern_trainer_evaluate(run->trainer, run->rows.rows, n, &sum, &n_labels, err));
    *seconds = (tern_run__seconds() - start) * ceil((double)n_rows / batch);
    return TERN_OK;
}

static double all_seconds(const tern_run *run, double validation_seconds)
{
    const uint64_t n = run->params.n_steps;
    const double n_validations = 1 + ceil((double)n / (double)run->evaluate_every);
    if (!run->pack && !run->o->steps) return NAN;
    return (double)n * run->step_seconds / run->power.duty + n_validations * validation_seconds;
}

tern_status tern_run__estimate(tern_run *run, tern_error *err)
{
    tern_trainer_result r = {0};
    double validation = 0;
    TERN_TRY(tern_run__alloc_rows(run, err));
    TERN_TRY(time_steps(run, &r, err));
    TERN_TRY(time_validation(run, &validation, err));
    tern_run__emit(run, (tern_finetune_event){.kind = TERN_FINETUNE_ESTIMATED,
                                              .step_ms = run->step_seconds * 1e3,
                                              .tokens_per_second = (double)r.n_positions / run->step_seconds,
                                              .examples_per_second = (double)run->rows.n / run->step_seconds,
                                              .eta = all_seconds(run, validation),
                                              .duty = run->power.duty});
    tern_run__report_profile(run);
    return TERN_OK;
}
