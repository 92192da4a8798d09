/* Inside the lowering of training: what its files share. Tensors of the optimiser that no binding holds go in chunks.
 */
#ifndef TERN_BACKEND_GPU_TRAINING_TRAINING_INTERNAL_H
#define TERN_BACKEND_GPU_TRAINING_TRAINING_INTERNAL_H

#include "backend/gpu/gpu_internal.h"
#include "ops/update_shape.h"

enum { TERN_GPU_UPDATE_WIDTH = 128 }; /* invocations of all kernels but one */

/* The op's addend to a step's seed. */
static inline uint32_t tern_gpu__stream_seed(const tern_op *op)
{
    return op->stream * 0x9e3779b9u;
}

/* An op and what it works on. Errors of update_of: UNSUPPORTED. */
typedef struct tern_gpu_update {
    tern_gpu_program *p;
    const tern_op *op;
    tern_update_shape shape;
    tern_error *err;
} tern_gpu_update;

tern_status tern_gpu__update_of(tern_gpu_update *j, tern_gpu_program *p, const tern_op *op, tern_error *err);

/* Elements of a tensor, from a multiple of 4096 on: whole runs, blocks and bindings. */
typedef struct tern_gpu_chunk {
    uint64_t first;
    uint32_t n;
} tern_gpu_chunk;

/* The chunk from element `first` on; n is 0 behind the last. */
tern_gpu_chunk tern_gpu__chunk_at(const tern_gpu_update *j, uint64_t first);
/* Bytes of an element. */
uint32_t tern_gpu__size_of(tern_dtype dtype);
/* The elements of a chunk of a value, to the next 16 bytes. */
void tern_gpu__bind_chunk(tern_gpu_dispatch *d, uint32_t value, tern_dtype dtype, tern_gpu_chunk c, bool written);
/* n workgroups, in *x columns and as many rows as that takes. */
tern_gpu_dispatch *tern_gpu__add_update(const tern_gpu_update *j, tern_gpu_pipeline pipeline, uint32_t n, uint32_t *x);

#endif
