/* Layers with one input: what sharing it, and one pool of blocks, saves. */
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "rsr/products.h"

enum sharing { NOTHING, INPUT, INPUT_AND_POOL };

typedef struct siblings {
    job jobs[3];
    uint32_t n, cols;
    enum sharing sharing;
    tern_pool *pool;
} siblings;

/* Task t of all layers together: TASKS of each. */
static void sibling_task(void *context, uint32_t task, uint32_t thread)
{
    siblings *s = context;
    job_task(&s->jobs[task / TASKS], task % TASKS, thread);
}

static void run_siblings(void *context, size_t copy)
{
    static float scale;
    siblings *s = context;
    for (uint32_t i = 0; i < s->n; i++) {
        s->jobs[i].copy = copy;
        if (i == 0 || s->sharing == NOTHING)
            work.kernels.quantize(work.x_f32, s->cols, work.x_i8, (s->cols + 127u) / 128 * 128, &scale, &work.x_sum);
        if (s->sharing != INPUT_AND_POOL) tern_pool_for(s->pool, TASKS, job_task, &s->jobs[i]);
    }
    if (s->sharing == INPUT_AND_POOL) tern_pool_for(s->pool, TASKS * s->n, sibling_task, s);
}

static double time_siblings(siblings *s, enum sharing sharing, const cold_options *o, int pool)
{
    s->sharing = sharing;
    s->pool = o->pools[pool];
    return cold_time(o->passes, s->jobs[0].n_copies, run_siblings, s);
}

static void print_sharings(const char *name, siblings *s, const cold_options *o)
{
    static const char *const words[] = {"an input and a call for each", "one input, a call for each",
                                        "one input, one pool of blocks"};
    for (int i = NOTHING; i <= INPUT_AND_POOL; i++) {
        cold_progress("%s: %s", name, words[i]);
        const double one = time_siblings(s, (enum sharing)i, o, 0), two = time_siblings(s, (enum sharing)i, o, 1);
        cold_progress(NULL);
        printf("| %s | %s | %.0f | %.0f |\n", name, words[i], one, two);
        fflush(stdout);
    }
}

void print_siblings(const char *name, const uint32_t *rows, uint32_t n, uint32_t cols, const cold_options *o)
{
    siblings s = {.n = n, .cols = cols};
    tern_rsr_slices slices[3];
    tern_error err = {0};
    size_t all = 0;
    for (uint32_t i = 0; i < n; i++) {
        const matrix m = matrix_of(rows[i], cols);
        const tern_rsr_source source = matrix_source(&m);
        const tern_rsr_options how = {.k = 6, .pool = o->pools[1]};
        cold_check(tern_rsr_slices_build(&slices[i], &source, &how, 0, &err), &err);
        all += slices[i].n_bytes;
        free(m.codes);
    }
    for (uint32_t i = 0; i < n; i++) {
        s.jobs[i] = (job){.task = slices_task,
                          .units = slices[i].n_blocks,
                          .bytes = slices[i].n_bytes,
                          .n_copies = cold_n_copies(all),
                          .slices = &slices[i]};
        s.jobs[i].data = cold_copies(slices[i].bytes, slices[i].n_bytes, s.jobs[i].n_copies);
    }
    print_sharings(name, &s, o);
    for (uint32_t i = 0; i < n; i++) {
        tern_free_aligned(s.jobs[i].data);
        tern_rsr_slices_deinit(&slices[i]);
    }
}
