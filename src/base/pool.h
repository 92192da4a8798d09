/* One pool of threads, and a parallel-for over it. */
#ifndef TERN_BASE_POOL_H
#define TERN_BASE_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct tern_pool tern_pool;

/* One piece of work: `task` counts from 0 to n_tasks - 1; `thread` is the worker that runs it, below n_threads. */
typedef void (*tern_task_fn)(void *context, uint32_t task, uint32_t thread);

/* Starts n_threads - 1 workers (the caller is the last one). n_threads 0: one for each physical core that this
 * process may run on. `pin` ties each worker to a core. Errors: OUT_OF_MEMORY, INVALID_ARGUMENT above 1024, IO. */
tern_status tern_pool_open(tern_pool **pool, uint32_t n_threads, bool pin, tern_error *err);
void tern_pool_close(tern_pool *pool);
uint32_t tern_pool_threads(const tern_pool *pool);

/* Runs fn for every task and returns when all are done; one caller at a time. Which thread takes which task is not
 * fixed, so results must depend on `task` alone. Workers spin for a short while between calls, then park. pool NULL:
 * the caller does all of them. No allocation. */
void tern_pool_for(tern_pool *pool, uint32_t n_tasks, tern_task_fn fn, void *context);

/* The task that a thread begins with, of n_tasks: neighbouring tasks are one thread's, until another has none left. */
static inline uint64_t tern_pool_first_task(uint64_t n_tasks, uint32_t thread, uint32_t n_threads)
{
    return n_tasks * thread / n_threads;
}

/* Memory that a thread will read: `from` is looked at by the processor's prefetcher alone, so it need not be there. */
typedef struct tern_ahead_range {
    const uint8_t *from;
    size_t bytes;
} tern_ahead_range;
typedef tern_ahead_range (*tern_ahead_fn)(const void *context, uint32_t thread, uint32_t n_threads);

/* From now on a worker that has no task left in a call asks fn for the memory that it will read in a later call, and
 * prefetches it until that call begins. It asks while it still counts as working. NULL: nothing. Set between calls, by
 * the caller of tern_pool_for. */
void tern_pool_ahead(tern_pool *pool, tern_ahead_fn fn, const void *context);

/* tern_pool_for with tasks that can fail: after the first failure those that have not begun are left out, and its
 * status and error are given back. Which of several that fail is the first is not fixed. */
typedef tern_status (*tern_try_fn)(void *context, uint32_t task, uint32_t thread, tern_error *err);
tern_status tern_pool_try(tern_pool *pool, uint32_t n_tasks, tern_try_fn fn, void *context, tern_error *err);

#endif
