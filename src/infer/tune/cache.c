/* Measured choices in memory. */
#include "infer/tune/cache.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/show.h"
#include "quant/encoding.h"

enum { MAX_THREADS = 1024 };
static const double max_microseconds = 1e9, max_rate = 1e9;

void tern_tune_cache_deinit(tern_tune_cache *c)
{
    tern_free(c->cpu);
    tern_free(c->build);
    tern_free(c->choices);
    tern_free(c->costs);
    tern_free(c->decodes);
    *c = (tern_tune_cache){0};
}

tern_status tern_tune_cache_init(tern_tune_cache *c, const char *cpu, const char *build, tern_error *err)
{
    *c = (tern_tune_cache){.cpu = tern_strdup(cpu), .build = tern_strdup(build)};
    if (c->cpu && c->build) return TERN_OK;
    tern_tune_cache_deinit(c);
    return tern_fail_alloc(err, strlen(cpu) + strlen(build) + 2);
}

/* "dot", "rsr:6": letters, digits, a colon, a dash or an underscore. */
static bool is_kernel_name(const char *name)
{
    const size_t n = strnlen(name, TERN_KERNEL_NAME_BYTES);
    return n > 0 && n < TERN_KERNEL_NAME_BYTES && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-:") == n;
}

static bool is_time(double microseconds)
{
    return microseconds >= 0 && microseconds <= max_microseconds;
}

/* A GPU's: its name, and how many tokens at most. */
static tern_status check_device(const tern_kernel_choice *c, tern_error *err)
{
    if (memchr(c->device, 0, sizeof c->device) &&
        (c->tokens == 1 || c->tokens == 8 || c->tokens == 64 || c->tokens == 512) && c->n_threads == 0 &&
        c->task_rows == 0)
        return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT,
                     "tokens %u, threads %u, task_rows %u of a GPU: 1, 8, 64 or 512, 0 and 0 expected", c->tokens,
                     c->n_threads, c->task_rows);
}

static tern_status check_threads(const tern_kernel_choice *c, tern_error *err)
{
    if (!c->encoding->ternary)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "encoding %s: a ternary one expected", c->encoding->name);
    if (c->n_threads == 0 || c->n_threads > MAX_THREADS)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "threads %u: 1 to %d expected", c->n_threads, MAX_THREADS);
    if (c->task_rows > TERN_KERNEL_MAX_TASK_ROWS)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "task_rows %u: at most %d expected", c->task_rows,
                         TERN_KERNEL_MAX_TASK_ROWS);
    if (c->tokens) return tern_fail(err, TERN_INVALID_ARGUMENT, "tokens %u: a device expected with them", c->tokens);
    return TERN_OK;
}

static tern_status check(const tern_kernel_choice *c, const tern_tune_cost *cost, tern_error *err)
{
    if (!is_kernel_name(c->kernel))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "kernel \"%s\": a name as --kernel has it expected",
                         tern_show((tern_span){(const uint8_t *)c->kernel, strnlen(c->kernel, sizeof c->kernel)}).text);
    if (c->rows == 0 || c->cols == 0)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%u x %u: rows and columns expected", c->rows, c->cols);
    TERN_TRY(c->device[0] ? check_device(c, err) : check_threads(c, err));
    if (!is_time(cost->microseconds) || !is_time(cost->default_microseconds))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "microseconds %g, default_microseconds %g: 0 to %g expected",
                         cost->microseconds, cost->default_microseconds, max_microseconds);
    return TERN_OK;
}

size_t tern_tune_cache_find(const tern_tune_cache *cache, const tern_kernel_choice *k)
{
    size_t i = 0;
    for (; i < cache->n; i++) {
        const tern_kernel_choice *c = &cache->choices[i];
        if (c->encoding == k->encoding && c->rows == k->rows && c->cols == k->cols && c->n_threads == k->n_threads &&
            c->tokens == k->tokens && strcmp(c->device, k->device) == 0)
            break;
    }
    return i;
}

tern_status tern_tune_cache_add(tern_tune_cache *cache, const tern_kernel_choice *choice, const tern_tune_cost *cost,
                                tern_error *err)
{
    const size_t at = tern_tune_cache_find(cache, choice);
    void *choices = cache->choices, *costs = cache->costs;
    TERN_TRY(check(choice, cost, err));
    if (at == TERN_TUNE_MAX_CHOICES) return tern_fail(err, TERN_LIMIT, "more than %d choices", TERN_TUNE_MAX_CHOICES);
    TERN_TRY(tern_grow(&choices, &cache->choices_cap, at + 1, sizeof *choice, err));
    cache->choices = choices;
    TERN_TRY(tern_grow(&costs, &cache->costs_cap, at + 1, sizeof *cost, err));
    cache->costs = costs;
    cache->choices[at] = *choice;
    cache->costs[at] = *cost;
    if (at == cache->n) cache->n++;
    return TERN_OK;
}

static bool is_rate(double tokens_per_second)
{
    return tokens_per_second >= 0 && tokens_per_second <= max_rate;
}

static tern_status check_decode(const tern_tune_decoded *d, tern_error *err)
{
    if (!is_rate(d->standard) || !is_rate(d->tuned))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "default %g, tuned %g tokens a second: 0 to %g expected",
                         d->standard, d->tuned, max_rate);
    if (d->n_threads == 0 || d->n_threads > MAX_THREADS)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "threads %u: 1 to %d expected", d->n_threads, MAX_THREADS);
    if (d->n_choices > TERN_TUNE_MAX_CHOICES || d->n_left_out > TERN_TUNE_MAX_CHOICES)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "choices %u, left_out %u: at most %d expected", d->n_choices,
                         d->n_left_out, TERN_TUNE_MAX_CHOICES);
    return TERN_OK;
}

size_t tern_tune_cache_find_decode(const tern_tune_cache *cache, const tern_tune_decoded *d)
{
    size_t i = 0;
    while (i < cache->n_decodes &&
           (cache->decodes[i].n_threads != d->n_threads || strcmp(cache->decodes[i].model, d->model) != 0))
        i++;
    return i;
}

tern_status tern_tune_cache_add_decode(tern_tune_cache *cache, const tern_tune_decoded *d, tern_error *err)
{
    size_t at = tern_tune_cache_find_decode(cache, d);
    void *decodes = cache->decodes;
    TERN_TRY(check_decode(d, err));
    if (at == TERN_TUNE_MAX_DECODES) memmove(cache->decodes, cache->decodes + 1, --at * sizeof *d);
    TERN_TRY(tern_grow(&decodes, &cache->decodes_cap, at + 1, sizeof *d, err));
    cache->decodes = decodes;
    cache->decodes[at] = *d;
    if (at == cache->n_decodes) cache->n_decodes++;
    return TERN_OK;
}

tern_status tern_tune_cache_merge(tern_tune_cache *into, const tern_tune_cache *from, tern_error *err)
{
    for (size_t i = 0; i < from->n; i++) TERN_TRY(tern_tune_cache_add(into, &from->choices[i], &from->costs[i], err));
    for (size_t i = 0; i < from->n_decodes; i++) TERN_TRY(tern_tune_cache_add_decode(into, &from->decodes[i], err));
    return TERN_OK;
}

tern_status tern_tune_cache_check(const tern_tune_cache *c, const char *cpu, const char *build, tern_error *err)
{
    if (strcmp(c->cpu, cpu) != 0)
        return tern_fail(err, TERN_UNSUPPORTED, "measured on the CPU \"%s\", this one is \"%s\"",
                         tern_show_z(c->cpu).text, tern_show_z(cpu).text);
    if (strcmp(c->build, build) != 0)
        return tern_fail(err, TERN_UNSUPPORTED, "measured by the build \"%s\", this one is \"%s\"",
                         tern_show_z(c->build).text, tern_show_z(build).text);
    return TERN_OK;
}
