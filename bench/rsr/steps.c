/* The way from the algorithm to the slices, step by step. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cpu.h"
#include "base/rng.h"
#include "rsr/products.h"

static void groups_task(const job *j, size_t copy, uint32_t first, uint32_t n, uint32_t thread)
{
    for (uint32_t u = first; u < first + n; u++) {
        const rsr_block b = rsr_block_of(&j->groups[copy], j->lists ? &j->lists[copy] : NULL, u);
        int32_t *y = work.y[thread] + u * j->groups->k;
        if (j->f32) j->f32(&b, work.x_f32, (float *)(void *)work.scratch[thread], (float *)(void *)y);
        else j->i8(&b, work.x_i8, work.scratch[thread], y);
    }
}

static void shuffle_groups(rsr_groups *g)
{
    tern_rng rng = {.state = 3};
    for (uint32_t u = 0; u < g->n_blocks; u++)
        for (uint32_t i = g->first_group[u], at = 0; i < g->first_group[u + 1]; at = g->groups[i++].end)
            for (uint32_t c = at; c < g->groups[i].end; c++) {
                uint16_t *perm = g->perm + g->first_column[u];
                const uint32_t other = at + tern_rng_below(&rng, g->groups[i].end - at);
                const uint16_t swap = perm[c];
                perm[c] = perm[other];
                perm[other] = swap;
            }
}

typedef struct forms {
    rsr_groups groups[COLD_MAX_COPIES];
    rsr_lists lists[COLD_MAX_COPIES];
    size_t n;
    bool with_lists;
} forms;

static void *dup(const void *p, size_t n)
{
    tern_error err = {0};
    void *q = tern_alloc(n + 64);
    if (!q) cold_check(tern_fail_alloc(&err, n + 64), &err);
    return memcpy(q, p, n);
}

/* Copies of the arrays that a step reads, `bytes` each; where units begin is shared. */
static void open_forms(forms *f, const rsr_groups *g, const rsr_lists *l, size_t bytes)
{
    const size_t columns = g->first_column[g->n_blocks], groups = g->first_group[g->n_blocks];
    f->n = cold_n_copies(bytes);
    f->with_lists = l != NULL;
    for (size_t i = 0; i < f->n; i++) {
        f->groups[i] = *g;
        f->groups[i].perm = dup(g->perm, columns * 2);
        f->groups[i].groups = dup(g->groups, groups * sizeof *g->groups);
        if (!l) continue;
        f->lists[i] =
            (rsr_lists){dup(l->perm, columns * 4), dup(l->ends, groups * 4), dup(l->first_row, (groups + 1) * 4),
                        dup(l->rows, l->first_row[groups] * 2), dup(l->signs, l->first_row[groups])};
    }
}

static void close_forms(forms *f)
{
    for (size_t i = 0; i < f->n; i++) {
        tern_free(f->groups[i].perm);
        tern_free(f->groups[i].groups);
        if (f->with_lists) rsr_lists_deinit(&f->lists[i]);
    }
}

static void print_row(const char *words, const timing *t)
{
    printf("| %s | %.0f | %.0f | %.1f |\n", words, t->us[0], t->us[1], (double)t->bytes * 1e-6);
    fflush(stdout);
}

static void print_step(const char *words, job *j, const cold_options *o)
{
    timing t = {.bytes = j->bytes};
    cold_progress("%s", words);
    for (int p = 0; p < 2; p++) t.us[p] = job_time(j, o, p);
    cold_progress(NULL);
    print_row(words, &t);
}

#define STEP(step, words, size)                                                                                        \
    j.i8 = rsr_##step##_i8, j.f32 = floats ? rsr_##step##_f32 : NULL, j.bytes = (size);                                \
    print_step(words, &j, o);

static void print_lists(const rsr_groups *g, bool floats, const cold_options *o, forms *f)
{
    rsr_lists l;
    tern_error err = {0};
    cold_check(rsr_lists_make(&l, g, &err), &err);
    const size_t columns = g->first_column[g->n_blocks], groups = g->first_group[g->n_blocks],
                 entries = l.first_row[groups], wide = columns * 4 + groups * 8 + entries * 3;
    open_forms(f, g, &l, wide);
    job j = {.task = groups_task, .units = g->n_blocks, .groups = f->groups, .lists = f->lists, .n_copies = f->n};
    STEP(lists, "the algorithm: signed scatter lists, 32-bit numbers", wide)
    STEP(lists16, "16-bit columns, groups of up to 4 without a loop", columns * 2 + groups * 6 + entries * 3)
    close_forms(f);
    rsr_lists_deinit(&l);
}

static void print_masks(const rsr_groups *g, bool floats, const cold_options *o, forms *f)
{
    const size_t bytes = g->first_column[g->n_blocks] * (size_t)2 + g->first_group[g->n_blocks] * sizeof *g->groups;
    job j = {.task = groups_task, .units = g->n_blocks, .groups = f->groups, .n_copies = cold_n_copies(bytes)};
    open_forms(f, g, NULL, bytes);
    for (size_t i = 0; i < f->n; i++) shuffle_groups(&f->groups[i]);
    STEP(masks, "two 16-bit masks for each group, columns in any order", bytes)
    close_forms(f);
    open_forms(f, g, NULL, bytes);
    STEP(masks, "columns ascending in each group", bytes)
    STEP(permuted, "inputs copied in the order of the columns, then summed", bytes)
    STEP(direct, "no copy: loads unrolled by 8, prefetched", bytes)
    j.i8 = rsr_gather_i8(tern_cpu_features());
    j.f32 = floats ? rsr_gather_f32(tern_cpu_features()) : NULL;
    if (j.i8) print_step("SIMD gathers in each group", &j, o);
    close_forms(f);
}

/* What there is before any algorithm: the definition of the dot product. */
static timing time_plain(const matrix *m, bool floats, const cold_options *o)
{
    choose_kernels(0);
    const timing t = floats ? time_decoded(m, o, 2) : time_dot(m, "i2_s", o, 2);
    choose_kernels(tern_cpu_features());
    return t;
}

void print_steps(const matrix *m, uint32_t k, bool floats, const cold_options *o)
{
    static forms f;
    rsr_groups g;
    tern_error err = {0};
    const tern_rsr_source source = matrix_source(m);
    printf("\n%u x %u, k %u, %s inputs\n\n| step | us, %u thread | us, %u threads | MB |\n|---|---|---|---|\n", m->rows,
           m->cols, k, floats ? "f32" : "int8", o->n_threads[0], o->n_threads[1]);
    cold_progress("a dot product for each row");
    timing t = time_plain(m, floats, o);
    cold_progress(NULL);
    print_row("a dot product for each row, plain C", &t);
    cold_check(rsr_groups_build(&g, &source, &(tern_rsr_options){.k = k, .pool = o->pools[1]}, &err), &err);
    print_lists(&g, floats, o, &f);
    print_masks(&g, floats, o, &f);
    rsr_groups_deinit(&g);
    cold_progress("slices");
    t = time_slices(m, k, floats, o, 2);
    cold_progress(NULL);
    print_row("16 groups of like length side by side (slices)", &t);
}
