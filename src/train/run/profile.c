/* The cost of the dispatches of steps, as the backend counts them: evaluations and one-time work are not in it. */
#include <stdlib.h>
#include <string.h>

#include "backend/counters.h"
#include "base/alloc.h"
#include "train/run/internal.h"

enum { MAX_ROWS = 512 };

typedef struct tern_run_profile {
    tern_profile_row before[MAX_ROWS], after[MAX_ROWS];
    tern_profile_row sums[MAX_ROWS]; /* of the steps so far */
    size_t n_before, n_sums;
    uint64_t n_steps;
} tern_run_profile;

tern_status tern_run__open_profile(tern_run *run, tern_error *err)
{
    if (!run->o->profile) return TERN_OK;
    run->profile = tern_calloc(1, sizeof *run->profile);
    return run->profile ? TERN_OK : tern_fail_alloc(err, sizeof *run->profile);
}

void tern_run__close_profile(tern_run *run)
{
    tern_free(run->profile);
    run->profile = NULL;
}

static size_t read_profile(const tern_run *run, tern_profile_row *rows)
{
    const size_t n = run->backend->profile(run->backend, rows, MAX_ROWS);
    return n < MAX_ROWS ? n : MAX_ROWS;
}

/* The row of the same dispatches; NULL: none. */
static tern_profile_row *find_row(tern_profile_row *rows, size_t n, const tern_profile_row *like)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(rows[i].name, like->name) == 0 && strcmp(rows[i].pipeline, like->pipeline) == 0) return &rows[i];
    return NULL;
}

void tern_run__before_step(const tern_run *run)
{
    if (run->profile) run->profile->n_before = read_profile(run, run->profile->before);
}

static void add_rows(tern_run_profile *p, tern_profile_row row)
{
    const tern_profile_row *before = find_row(p->before, p->n_before, &row);
    if (before) {
        row.n -= before->n;
        row.ns -= before->ns;
    }
    tern_profile_row *sum = find_row(p->sums, p->n_sums, &row);
    if (row.n == 0 || (!sum && p->n_sums == MAX_ROWS)) return;
    if (!sum) {
        p->sums[p->n_sums++] = row;
        return;
    }
    sum->n += row.n;
    sum->ns += row.ns;
}

void tern_run__after_step(const tern_run *run)
{
    tern_run_profile *p = run->profile;
    if (!p) return;
    const size_t n = read_profile(run, p->after);
    for (size_t i = 0; i < n; i++) add_rows(p, p->after[i]);
    p->n_steps++;
}

static int by_time(const void *a, const void *b)
{
    const uint64_t x = ((const tern_finetune_profile_row *)a)->ns, y = ((const tern_finetune_profile_row *)b)->ns;
    return (x < y) - (x > y);
}

void tern_run__report_profile(const tern_run *run)
{
    const tern_run_profile *p = run->profile;
    tern_finetune_profile_row rows[MAX_ROWS];
    if (!p || p->n_steps == 0) return;
    for (size_t i = 0; i < p->n_sums; i++)
        rows[i] = (tern_finetune_profile_row){p->sums[i].name, p->sums[i].pipeline, p->sums[i].n, p->sums[i].ns};
    qsort(rows, p->n_sums, sizeof *rows, by_time);
    tern_run__emit(run, (tern_finetune_event){.kind = TERN_FINETUNE_PROFILED,
                                              .step_ms = run->step_seconds * 1e3,
                                              .profile = rows,
                                              .n_profile = p->n_sums,
                                              .n_profiled = p->n_steps});
}
