/* A block of the channels of a convolution: what a task works at. CONV and the ops of training begin with the same
 * inputs, x and the weight. */
#ifndef TERN_BACKEND_CPU_RECURRENT_CONV_BLOCK_H
#define TERN_BACKEND_CPU_RECURRENT_CONV_BLOCK_H

#include "backend/cpu/prepared.h"
#include "ops/ref/recurrent/recurrent.h"

enum { TERN_CONV_BLOCK = 64 };

/* [rows][n]: the weight, and the inputs before a run. */
typedef struct tern_conv_block {
    uint32_t first, n, n_taps;
    float weight[TERN_CONV_MAX_TAPS * TERN_CONV_BLOCK], tail[(TERN_CONV_MAX_TAPS - 1) * TERN_CONV_BLOCK];
} tern_conv_block;

static inline uint32_t tern_conv_block__tasks(const tern_cpu_op *op)
{
    return (op->in_cols + TERN_CONV_BLOCK - 1) / TERN_CONV_BLOCK;
}

/* The block of a task, with its weight, and zeros before a run. */
void tern_conv_block__load(const tern_cpu_op *op, uint32_t task, tern_conv_block *block);
/* The block's inputs of row t and of those before it in a run that begins at row `first`, n_taps of them. */
void tern_conv_block__taps(const tern_cpu_op *op, const tern_conv_block *block, uint32_t first, uint32_t t,
                           const float **taps);

#endif
