/* Command line, copies and clock of the benchmarks of matrices out of the caches. */
#include "cold/cold.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/rng.h"

enum { MAX_PASSES = 100, MAX_TIMES = MAX_PASSES * COLD_MAX_COPIES };
static const size_t cold_bytes = (size_t)640 << 20;
static const double most_seconds = 2;
static const char *program;

static bool read_option(cold_options *o, int option)
{
    const uint32_t *n = o->n_threads;
    char more;
    if (option == 't')
        return sscanf(optarg, "%u,%u%c", &o->n_threads[0], &o->n_threads[1], &more) == 2 && n[0] > 0 && n[1] > 0 &&
               n[0] <= COLD_MAX_THREADS && n[1] <= COLD_MAX_THREADS;
    if (option == 'n')
        return sscanf(optarg, "%u%c", &o->passes, &more) == 1 && o->passes > 0 && o->passes <= MAX_PASSES;
    return option == 's' && sscanf(optarg, "%ux%u%c", &o->rows, &o->cols, &more) == 2 && o->rows > 0 && o->cols > 0 &&
           o->rows <= COLD_MAX_ROWS && o->cols <= COLD_MAX_COLS && o->rows % 64 == 0 && o->cols % 128 == 0;
}

static bool is_table(const char *const *tables, const char *word)
{
    while (*tables && strcmp(*tables, word) != 0) tables++;
    return *tables != NULL;
}

void cold_open(cold_options *o, int argc, char **argv, const char *const *tables, const char *usage)
{
    tern_error err = {0};
    bool good = true;
    *o = (cold_options){.n_threads = {1, 2}, .passes = 10};
    program = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
    for (int option; good && (option = getopt(argc, argv, "t:n:s:")) != -1;) good = read_option(o, option);
    o->words = argv + optind;
    o->n_words = argc - optind;
    for (int i = 0; i < o->n_words; i++) good = good && is_table(tables, o->words[i]);
    if (!good) {
        fputs(usage, stderr);
        exit(2);
    }
    for (int p = 0; p < 2; p++) cold_check(tern_pool_open(&o->pools[p], o->n_threads[p], false, &err), &err);
}

void cold_close(cold_options *o)
{
    for (int p = 0; p < 2; p++) tern_pool_close(o->pools[p]);
}

bool cold_wants(const cold_options *o, const char *table)
{
    for (int i = 0; i < o->n_words; i++)
        if (strcmp(o->words[i], table) == 0) return true;
    return o->n_words == 0;
}

void cold_check(tern_status status, const tern_error *err)
{
    if (status == TERN_OK) return;
    fprintf(stderr, "%s: %s\n", program, err->message);
    exit(1);
}

void cold_progress(const char *format, ...)
{
    va_list args;
    if (!isatty(STDERR_FILENO)) return;
    fflush(stdout);
    fputs("\r\033[K", stderr);
    if (!format) return;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fflush(stderr);
}

double cold_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *found(void *p, size_t bytes)
{
    if (p) return p;
    fprintf(stderr, "%s: out of memory: could not allocate %zu bytes\n", program, bytes);
    exit(1);
}

int8_t *cold_codes(uint32_t rows, uint32_t cols)
{
    const size_t n = (size_t)rows * cols;
    int8_t *codes = found(malloc(n), n);
    tern_rng rng = {.state = rows + 31 * cols};
    for (size_t i = 0; i < n; i++) codes[i] = (int8_t)((int)tern_rng_below(&rng, 3) - 1);
    return codes;
}

size_t cold_n_copies(size_t bytes)
{
    const size_t n = cold_bytes / bytes + 1;
    return n < COLD_MAX_COPIES ? n : COLD_MAX_COPIES;
}

uint8_t *cold_copies(const void *data, size_t bytes, size_t n)
{
    uint8_t *all = found(tern_alloc_aligned(bytes * n, 4096), bytes * n);
    for (size_t i = 0; i < n; i++) memcpy(all + i * bytes, data, bytes);
    return all;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double cold_time(uint32_t passes, size_t n_copies, void (*run)(void *context, size_t copy), void *context)
{
    static double times[MAX_TIMES];
    const double begun = cold_seconds();
    double start = begun;
    size_t n = 0;
    while (n < passes * n_copies && n < MAX_TIMES && start - begun < most_seconds) {
        const double from = cold_seconds();
        run(context, n % n_copies);
        start = cold_seconds();
        times[n++] = start - from;
    }
    qsort(times, n, sizeof *times, by_value);
    return times[n / 50] * 1e6;
}
