/* Memory for layouts, on large pages: weights of a few hundred kilobytes, each on pages of its own, would cost a fifth
 * of the speed. */
#ifndef TERN_BACKEND_CPU_CANDIDATES_LAYOUT_MEMORY_H
#define TERN_BACKEND_CPU_CANDIDATES_LAYOUT_MEMORY_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

typedef struct tern_cpu__chunk tern_cpu__chunk;

/* The memory of one backend. Thread-safe. */
typedef struct tern_cpu__layout_memory {
    pthread_mutex_t lock;
    tern_cpu__chunk *current; /* where the next one goes, if it fits */
} tern_cpu__layout_memory;

typedef struct tern_cpu__layout_block {
    uint8_t *data;
    tern_cpu__chunk *chunk;
} tern_cpu__layout_block;

void tern_cpu__layout_memory_init(tern_cpu__layout_memory *memory);
/* After all blocks were freed. */
void tern_cpu__layout_memory_deinit(tern_cpu__layout_memory *memory);
/* A block of so many bytes, 64-byte aligned, not cleared. Errors: OUT_OF_MEMORY. */
tern_status tern_cpu__layout_alloc(tern_cpu__layout_memory *memory, uint64_t bytes, tern_cpu__layout_block *out,
                                   tern_error *err);
/* Safe on a zeroed one. */
void tern_cpu__layout_free(tern_cpu__layout_memory *memory, tern_cpu__layout_block *block);

#endif
