/* Running the ops of a training step beside the linear layers. */
#ifndef TERN_BACKEND_CPU_TRAINING_TRAINING_H
#define TERN_BACKEND_CPU_TRAINING_TRAINING_H

#include <string.h>

#include "backend/cpu/exec.h"

typedef struct tern_rows_job {
    tern_cpu_step *step;
    const tern_cpu_op *op;
} tern_rows_job;

static inline float *tern_rows__at(const tern_cpu_rows *rows, uint32_t t)
{
    return rows->data + t * rows->stride;
}

/* Element t of a parameter that is input i: first_row counts (labels of a piece of the head). */
static inline uint32_t tern_rows__param(const tern_cpu_op *op, uint32_t i, uint32_t t)
{
    uint32_t v;
    memcpy(&v, op->base[i] + ((size_t)op->op->in[i].first_row + t) * 4, 4);
    return v;
}

static inline tern_train_params tern_rows__training(const tern_cpu_op *op, uint32_t i)
{
    tern_train_params params;
    memcpy(&params, op->base[i], sizeof params);
    return params;
}

/* One row each. */
void tern_cpu__scale(tern_cpu_step *step, const tern_cpu_op *op);
void tern_cpu__dropout(tern_cpu_step *step, const tern_cpu_op *op);
void tern_cpu__fake_quantize(tern_cpu_step *step, const tern_cpu_op *op);
void tern_cpu__cross_entropy(tern_cpu_step *step, const tern_cpu_op *op);
void tern_cpu__rms_norm_backward(tern_cpu_step *step, const tern_cpu_op *op);
void tern_cpu__rope_backward(tern_cpu_step *step, const tern_cpu_op *op);
void tern_cpu__gate_backward(tern_cpu_step *step, const tern_cpu_op *op);
void tern_cpu__embed_backward(tern_cpu_step *step, const tern_cpu_op *op);

void tern_cpu__varlen_attention(tern_cpu_step *step, const tern_cpu_op *op);
void tern_cpu__varlen_attention_backward(tern_cpu_step *step, const tern_cpu_op *op);

/* Bytes for each thread, and those that the threads share. */
size_t tern_varlen_attention__scratch(const tern_graph *graph, const tern_op *op);
size_t tern_varlen_attention__shared(const tern_graph *graph, const tern_op *op);
size_t tern_varlen_attention__backward_scratch(const tern_op *op);
size_t tern_varlen_attention__backward_shared(const tern_graph *graph, const tern_op *op);

#endif
