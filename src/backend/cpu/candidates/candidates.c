/* The list of kernels that a ternary weight can have, and how one is chosen. */
#include "backend/cpu/candidates/candidates.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/kernel_choice.h"
#include "base/alloc.h"
#include "base/pool.h"
#include "base/show.h"
#include "quant/rsr.h"
#include "quant/weight.h"

static const tern_cpu__candidate candidates[] = {
    {.name = "dot"},
    {.name = "t160", .make = tern_cpu__t160_make},
    {.name = "lut",
     .parameter = "columns of a look-up",
     .min = 2,
     .max = TERN_LUT_MAX_WIDTH,
     .gap = 4,
     .tune_min = 2,
     .tune_max = TERN_LUT_MAX_WIDTH,
     .make = tern_cpu__lut_make},
    {.name = "rsr",
     .parameter = "rows of a block",
     .min = 1,
     .max = TERN_RSR_MAX_K,
     .tune_min = 2,
     .tune_max = 12,
     .make = tern_cpu__rsr_make},
};
enum { N_CANDIDATES = sizeof candidates / sizeof *candidates };

static const tern_cpu__candidate *find(const char *name, size_t n)
{
    for (size_t i = 0; i < N_CANDIDATES; i++)
        if (strlen(candidates[i].name) == n && memcmp(candidates[i].name, name, n) == 0) return &candidates[i];
    return NULL;
}

static tern_status unknown(const char *text, tern_error *err)
{
    char names[80] = "";
    for (size_t i = 0, at = 0; i < N_CANDIDATES && at < sizeof names; i++)
        at += (size_t)snprintf(names + at, sizeof names - at, "%s%s%s", i ? ", " : "", candidates[i].name,
                               candidates[i].parameter ? "[:N]" : "");
    return tern_fail(err, TERN_INVALID_ARGUMENT, "kernel \"%s\": one of %s expected", tern_show_z(text).text, names);
}

tern_status tern_cpu__choice_parse(const char *text, tern_cpu__choice *out, tern_error *err)
{
    *out = (tern_cpu__choice){.candidate = &candidates[0]};
    if (!text) return TERN_OK;
    const size_t n = strcspn(text, ":");
    const tern_cpu__candidate *c = find(text, n);
    if (!c) return unknown(text, err);
    out->candidate = c;
    if (!text[n]) return TERN_OK;
    if (!c->parameter) return unknown(text, err);
    char *end;
    const unsigned long value = strtoul(text + n + 1, &end, 10);
    if (text[n + 1] < '0' || text[n + 1] > '9' || *end || value < c->min || value > c->max)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "kernel \"%s\": %s from %u to %u expected after the colon",
                         tern_show_z(text).text, c->parameter, c->min, c->max);
    if (c->gap && value == c->gap)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "kernel \"%s\": %s from %u to %u expected after the colon, but not %u", tern_show_z(text).text,
                         c->parameter, c->min, c->max, c->gap);
    out->n = (uint32_t)value;
    return TERN_OK;
}

const tern_cpu__candidate *tern_cpu__candidate_at(size_t i)
{
    return i < N_CANDIDATES ? &candidates[i] : NULL;
}

static tern_status take(const tern_kernel_choice *from, tern_cpu__shape_choice *to, tern_error *err)
{
    *to = (tern_cpu__shape_choice){.encoding = from->encoding, .rows = from->rows, .cols = from->cols};
    TERN_TRY(tern_cpu__choice_parse(from->kernel, &to->choice, err));
    if (from->task_rows > TERN_KERNEL_MAX_TASK_ROWS)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "kernel \"%s\": %u rows of a task found, at most %u expected",
                         from->kernel, from->task_rows, TERN_KERNEL_MAX_TASK_ROWS);
    to->choice.task_rows = from->task_rows;
    return TERN_OK;
}

tern_status tern_cpu__choices_take(tern_cpu *cpu, const tern_kernel_choice *choices, size_t n, tern_error *err)
{
    if (n == 0) return TERN_OK;
    cpu->shape_choices = tern_calloc(n, sizeof *cpu->shape_choices);
    if (!cpu->shape_choices) return tern_fail_alloc(err, n * sizeof *cpu->shape_choices);
    for (size_t i = 0; i < n; i++)
        if (choices[i].n_threads == tern_pool_threads(cpu->pool))
            TERN_TRY(take(&choices[i], &cpu->shape_choices[cpu->n_shape_choices++], err));
    return TERN_OK;
}

tern_cpu__choice tern_cpu__choose(const tern_cpu *cpu, const tern_weight *w)
{
    for (size_t i = 0; i < cpu->n_shape_choices && !w->trained; i++) {
        const tern_cpu__shape_choice *c = &cpu->shape_choices[i];
        if (c->encoding == w->encoding && c->rows == w->rows && c->cols == w->cols) return c->choice;
    }
    return cpu->choice;
}
