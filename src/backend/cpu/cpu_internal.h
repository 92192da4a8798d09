/* Inside the CPU backend: the backend itself and its buffers. */
#ifndef TERN_BACKEND_CPU_CPU_INTERNAL_H
#define TERN_BACKEND_CPU_CPU_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "backend/backend.h"
#include "backend/counters.h"
#include "backend/cpu/candidates/layout_memory.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/kernels.h"
#include "base/file.h"

typedef struct tern_pool tern_pool;     /* base/pool.h */
typedef struct tern_ranks tern_ranks;   /* ranks/ranks.h */
typedef struct tern_weight tern_weight; /* quant/weight.h */

/* The candidate that multiplies a ternary weight with a few tokens (candidates/candidates.h), and its number. */
typedef struct tern_cpu__candidate tern_cpu__candidate;
typedef struct tern_cpu__choice {
    const tern_cpu__candidate *candidate;
    uint32_t n;
    uint32_t task_rows; /* 0: by their bytes */
} tern_cpu__choice;

/* The choice of one shape. */
typedef struct tern_cpu__shape_choice {
    const tern_encoding *encoding;
    uint32_t rows, cols;
    tern_cpu__choice choice;
} tern_cpu__shape_choice;

/* Whether what a squared ReLU makes irrelevant is read all the same (linear/sparse.h). */

typedef struct tern_cpu {
    tern_backend base;
    tern_pool *pool;
    tern_cpu_kernels kernels;
    tern_ffn_mode ffn;
    tern_cpu__choice choice;               /* of shapes that have none of their own */
    tern_cpu__shape_choice *shape_choices; /* [n_shape_choices] */
    size_t n_shape_choices;
    tern_cpu__layout_memory layouts;
    tern_ranks *ranks;       /* NULL: this process is the only one */
    pthread_mutex_t running; /* the pool serves one step at a time */
    tern_file_waits waits;   /* for experts in a mapped file */
    atomic_uint_least32_t n_buffers;
    tern_backend_counters counters;
    uint64_t op_runs[TERN_OP_COUNT + 1]; /* the last: the output head */
} tern_cpu;

/* Memory, or a weight. */
struct tern_buffer {
    uint8_t *data;
    uint64_t bytes;
    bool owned;
    const tern_weight *weight;
    size_t row_bytes;
    uint32_t cols;           /* of the weight; padded to whole blocks when it was repacked */
    tern_ternary_fn ternary; /* one of the two, by encoding */
    tern_dense_fn dense;
    bool decodes_first;              /* dense is the definition: decode, and the kernel of f32, are faster */
    tern_blocks_fn blocks;           /* beside `dense`: with int8 tokens; NULL: there is none */
    tern_decode_fn decode;           /* rows as floats; NULL: they are (f32) */
    uint32_t task_rows;              /* with a few tokens; 0: by their bytes */
    struct tern_cpu__layout *layout; /* for a few tokens; NULL: `ternary` serves them too */
    struct tern_screen *screen;      /* of an output table, once a graph has asked for it */
    struct tern_columns *columns;    /* of a sparse layer, likewise */
};

/* Rows of a task of a weight that n_threads threads multiply one token with. */
uint32_t tern_cpu__task_rows(const tern_buffer *w, uint32_t n_threads);

tern_status tern_cpu__weight_create(tern_backend *b, const tern_weight *w, tern_buffer **out, tern_error *err);
/* Tries every chosen kernel once. */
tern_status tern_cpu__self_test(const tern_cpu_kernels *kernels, tern_error *err);

#endif
