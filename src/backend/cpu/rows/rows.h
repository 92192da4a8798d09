/* Helpers of ops that work row by row: operands by row, parameters by element, and a loop over rows. */
#ifndef TERN_BACKEND_CPU_ROWS_ROWS_H
#define TERN_BACKEND_CPU_ROWS_ROWS_H

#include <string.h>

#include "backend/cpu/prepared.h"
#include "base/pool.h"

typedef struct tern_rows_job {
    tern_cpu_step *step;
    const tern_cpu_op *op;
} tern_rows_job;

static inline float *tern_rows__at(const tern_cpu_rows *rows, uint32_t t)
{
    return rows->data + t * rows->stride;
}

/* Element t of a parameter that is input i: first_row counts (labels of a piece of the head). */
static inline uint32_t tern_rows__param(const tern_cpu_op *op, uint32_t i, size_t t)
{
    uint32_t v;
    memcpy(&v, op->base[i] + (op->op->in[i].first_row + t) * 4, 4);
    return v;
}

static inline tern_train_params tern_rows__training(const tern_cpu_op *op, uint32_t i)
{
    tern_train_params params;
    memcpy(&params, op->base[i], sizeof params);
    return params;
}

/* The floats of input i, a weight or a constant: a norm's weight, a rope table. */
static inline const float *tern_rows__floats(const tern_cpu_op *op, uint32_t i)
{
    return (const float *)(const void *)op->base[i];
}

/* Runs fn(context, t, thread) for rows t < n_rows; few rows stay on the calling thread. */
void tern_rows__for(tern_cpu_step *step, uint32_t n_rows, tern_task_fn fn, void *context);
/* As above for each row of an op, with a tern_rows_job. */
void tern_rows__run(tern_cpu_step *step, const tern_cpu_op *op, tern_task_fn fn);

/* Turns n_heads heads of x by one position, by the kernel for whole heads: those that op->rope_dim says. */
void tern_rows__rope(const tern_op *op, tern_rope_fn rope, float *x, uint32_t n_heads, const float *cs);

#endif
