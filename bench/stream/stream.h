/* What the benchmarks that give shares of what the machine can do have in common: the best of several runs, a file
 * larger than the caches, and the rates of reading it and of arithmetic in registers. */
#ifndef TERN_BENCH_STREAM_H
#define TERN_BENCH_STREAM_H

#include <stddef.h>
#include <stdint.h>

#include "backend/cpu/measure/peak.h"
#include "base/pool.h"

enum { STREAM_REPEATS = 7, STREAM_PIECE = 1 << 20, STREAM_PIECES = 640 };
#define STREAM_BYTES ((size_t)STREAM_PIECES * STREAM_PIECE)

/* Seconds, rising. One thread counts its own time, so that a busy machine disturbs less. */
double stream_seconds(uint32_t n_threads);
/* Seconds of the best of STREAM_REPEATS runs of all tasks. */
double stream_best(tern_pool *pool, uint32_t n_tasks, tern_task_fn fn, void *context);

/* An unlinked file of STREAM_PIECES + 1 times a piece, mapped and in memory; what is read has one piece behind it. Ends
 * the program where there is no room for it. */
const uint8_t *stream_file(const void *piece);
/* Bytes a second that the pool reads of the file. */
double stream_read_rate(tern_pool *pool, const uint8_t *file);
/* Multiply-adds a second of registers alone, all threads together; 0 where nobody wrote the loop (NULL). */
double stream_peak_rate(tern_pool *pool, tern_cpu_peak_fn peak);

#endif
