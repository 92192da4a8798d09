/* Declarations that a linear layer's tasks and their products share. */
#ifndef TERN_BACKEND_CPU_LINEAR_LINEAR_INTERNAL_H
#define TERN_BACKEND_CPU_LINEAR_LINEAR_INTERNAL_H

#include "backend/cpu/candidates/candidates.h"
#include "backend/cpu/prepared.h"
#include "backend/kernel_choice.h"
#include "quant/encoding.h"
#include "quant/weight.h"

enum {
    TERN_LINEAR__FEW_TOKENS = 8,
    TERN_LINEAR__SOME_TOKENS = 64,
    TERN_LINEAR__PREFILL_ROWS = 64, /* rows of one task when more tokens than that share it */
    TERN_LINEAR__DECODED_ROWS = 8,  /* ternary rows that are decoded together for f32 tokens */
    TERN_LINEAR__FORMS = 4          /* of int8 by blocks: blocks of 32, 64, 128 and 256 */
};

typedef struct tern_linear__job {
    tern_cpu_step *step;
    const tern_cpu_op *op;
    uint32_t n;                                /* rows */
    tern_cpu_rows x;                           /* f32 rows, for dense weights */
    tern_q8_rows q8;                           /* int8 rows, for ternary weights, */
    const float *q8_scales;                    /* [n], and what an int8 of each stands for */
    tern_q8_blocks blocks[TERN_LINEAR__FORMS]; /* the same rows as int8 by blocks, where a part multiplies such ones */
    uint32_t task_rows[TERN_LINEAR_MAX_PARTS]; /* rows of a task of each part */
    uint32_t first_task[TERN_LINEAR_MAX_PARTS];
    uint32_t first_col[TERN_LINEAR_MAX_PARTS]; /* of the part in the output row */
} tern_linear__job;

static inline uint32_t tern_linear__min(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static inline const tern_weight *tern_linear__part_weight(const tern_graph *graph, const tern_op *op, uint32_t part)
{
    return graph->values[op->in[TERN_LINEAR_W + part].value].weight;
}

/* Whether n rows are multiplied with the weight's layout, which knows nothing of experts. */
static inline bool tern_linear__uses_layout(const tern_cpu_op *op, const tern_buffer *w, uint32_t n)
{
    return w->layout && !op->routes && n <= w->layout->max_tokens;
}

/* The most floats of one part that a task holds, over all its tokens. */
static inline size_t tern_linear__task_floats(const tern_graph *graph)
{
    size_t few = (size_t)TERN_KERNEL_MAX_TASK_ROWS * TERN_LINEAR__FEW_TOKENS,
           many = (size_t)TERN_LINEAR__PREFILL_ROWS * graph->max_tokens;
    return few > many ? few : many;
}

/* From row to row of decoded values. */
static inline size_t tern_linear__decoded_stride(const tern_weight *w)
{
    return ((size_t)w->cols + 255) / 256 * 256;
}

/* Which of a job's forms a weight multiplies. */
static inline uint32_t tern_linear__form(const tern_encoding *e)
{
    uint32_t form = 0;
    while (form + 1 < TERN_LINEAR__FORMS && e->block_elements > 32u << form) form++;
    return form;
}

/* Where rows of x go: row i to of[i * each] .. of[i * each + each - 1], n places in all; `of` NULL: row i to place i.
 */
typedef struct tern_linear__places {
    const uint32_t *of;
    uint32_t each, n;
} tern_linear__places;

/* Memory that all threads share for the forms of n_rows rows, and the forms of n rows of x made in it by all threads.
 */
size_t tern_linear__blocks_bytes(const tern_graph *graph, const tern_op *op, uint32_t n_rows);
void tern_linear__make_blocks(tern_linear__job *job, uint8_t *at, uint32_t n, const tern_linear__places *places);
/* The forms of the job's n rows, from place `first` on. */
void tern_linear__skip_blocks(tern_linear__job *job, uint32_t first);
/* The op's int8 rows. */
void tern_linear__take_q8(tern_linear__job *job);
/* The two slots of f32 of a thread for what its task makes, each of tern_linear__task_floats. */
float *tern_linear__slots(const tern_linear__job *job, uint32_t thread);
/* Rows of a task of a weight of which `rows` rows are shared out to n_threads threads, with n rows of x. */
uint32_t tern_linear__rows_of_task(const tern_cpu_op *op, const tern_buffer *w, uint32_t rows, uint32_t n,
                                   uint32_t n_threads);
/* Row t of an int8 input as f32. */
void tern_linear__widen(const tern_cpu_op *op, uint32_t t, float *x);

/* linear_routed.c: layers with experts; memory that all threads share. */
tern_status tern_linear__routed_supports(const tern_graph *graph, const tern_op *op, tern_error *err);
size_t tern_linear__routed_bytes(const tern_graph *graph, const tern_op *op);
void tern_linear__routed(tern_cpu_step *step, const tern_cpu_op *op);

/* The epilogue of W1.58A8: y[t][r] = dots[t][r], [n][n_rows], times its scales. dots and y may be the same memory. */
void tern_linear__scale(const tern_linear__job *j, const tern_weight *w, uint32_t first, uint32_t n_rows,
                        const int32_t *dots, float *y, size_t y_stride);
/* n rows or columns of so many bytes were not read. */
void tern_linear__count_skipped(const tern_linear__job *job, atomic_uint_least64_t *count, uint32_t n, size_t bytes);

/* Bytes of tern_prepared.tables for each thread; 0: no layout of the op needs tables. */
size_t tern_linear__tables_bytes(const tern_cpu_op *op);

/* y[t][r] = row first + r of part `part` times token t, and its bias, r < n_rows: with the thread's scratch. */
void tern_linear__multiply(const tern_linear__job *j, uint32_t part, uint32_t first, uint32_t n_rows, uint32_t thread,
                           float *y, size_t y_stride);

#endif
