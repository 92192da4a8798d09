/* What the benchmarks of matrices out of the caches share: their command line, copies of a matrix, and the time of
 * products with each copy in turn. */
#ifndef TERN_BENCH_COLD_H
#define TERN_BENCH_COLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/pool.h"

enum { COLD_MAX_COPIES = 2000, COLD_MAX_ROWS = 1 << 15, COLD_MAX_COLS = (1 << 15) - 512, COLD_MAX_THREADS = 64 };

/* -t A,B  two numbers of threads (1,2);  -n N  products with each copy, at most (10; a measurement also ends after 2
 * seconds);  -s ROWSxCOLS  one shape, multiples of 64 and 128;  words: the tables that are wanted, all without one. */
typedef struct cold_options {
    tern_pool *pools[2];
    uint32_t n_threads[2], passes;
    uint32_t rows, cols; /* 0: the program's own shapes */
    char **words;
    int n_words;
} cold_options;

/* Reads the command line and opens the pools. `tables`: the words that there are, NULL behind them. Ends the program
 * with `usage` where it is not as expected. */
void cold_open(cold_options *o, int argc, char **argv, const char *const *tables, const char *usage);
void cold_close(cold_options *o);
bool cold_wants(const cold_options *o, const char *table);

/* Ends the program, with the error, unless the status is OK. */
void cold_check(tern_status status, const tern_error *err);
/* What is measured now, on standard error where that is a terminal; NULL takes it away. */
void cold_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));

double cold_seconds(void);
/* [rows][cols] random codes; the caller's to free. */
int8_t *cold_codes(uint32_t rows, uint32_t cols);
/* How many copies of so many bytes fill 640 MiB: more than the caches of this kind of machine. */
size_t cold_n_copies(size_t bytes);
/* n copies one after the other, at a multiple of 4096; tern_free_aligned. */
uint8_t *cold_copies(const void *data, size_t bytes, size_t n);
/* Microseconds of run(context, copy) with copies 0 to n - 1 in turn, `passes` times: where the fastest fiftieth ends,
 * as other programs may run beside this one. */
double cold_time(uint32_t passes, size_t n, void (*run)(void *context, size_t copy), void *context);

#endif
