/* Lowering: from a graph to dispatches, for the backends to run. Nothing here calls a device. */
#ifndef TERN_BACKEND_GPU_PROGRAM_H
#define TERN_BACKEND_GPU_PROGRAM_H

#include "backend/gpu/pipelines.h"
#include "base/error.h"

typedef struct tern_graph tern_graph; /* ops/graph.h */
typedef struct tern_op tern_op;       /* ops/op.h */

/* One storage binding of a dispatch. SCRATCH starts with TERN_GPU_COUNTER_BYTES that are zero before the first run;
 * whoever counts there leaves zeros. The rest holds anything. */
enum { TERN_GPU_COUNTER_BYTES = 16384 };
enum { TERN_GPU_SCRATCH = 0xfffffffe, TERN_GPU_NOTHING = 0xfffffffd, TERN_GPU_PARAMS = 0xfffffffc };

typedef struct tern_gpu_range {
    uint32_t value;  /* of the graph, or SCRATCH (memory of this graph's dispatches), NOTHING (256 bytes that nobody
                      * reads: one such  buffer for each binding of a dispatch), PARAMS (all parameter values: their
                      * offsets are in the graph) */
    uint64_t offset; /* from where the value starts; a multiple of 256 */
    uint64_t bytes;  /* up to 15 more than the value has, for kernels that read vectors: buffers have whole 256 bytes */
    bool written;
} tern_gpu_range;

typedef struct tern_gpu_dispatch {
    tern_gpu_pipeline pipeline;
    uint32_t op; /* index in the graph */
    bool beside; /* reads nothing that the dispatch before writes, and writes other elements, whatever their ranges
                  * are; so for all that follow each other with it, as parts of one op */
    uint32_t groups[3];
    uint32_t n_bindings;
    tern_gpu_range bindings[TERN_GPU_MAX_BINDINGS]; /* WGSL binding 1 + i */
    uint32_t uniform[TERN_GPU_UNIFORM_WORDS];       /* u32, or the bits of an f32 */
    uint64_t weight_bytes;                          /* that it reads */
    /* The key of a product that other pipelines could make (choices.h); else 0. */
    uint32_t weight_rows, weight_cols, weight_tokens;
} tern_gpu_dispatch;

/* The dispatches of a graph, in order. They handle every step up to the graph's largest: the number of rows is read
 * from COUNTS on the device, and workgroups beyond it return at once. */
typedef struct tern_gpu_program {
    const tern_graph *graph;
    const tern_gpu_caps *caps;
    tern_gpu_dispatch *dispatches;
    size_t n, cap;
    uint64_t scratch_bytes;
    bool out_of_memory; /* why a dispatch could not be added */
} tern_gpu_program;

/* Errors: UNSUPPORTED with the op, its shape and the flag that would move it; OUT_OF_MEMORY. */
tern_status tern_gpu_lower(tern_gpu_program *program, const tern_graph *graph, const tern_gpu_caps *caps,
                           tern_error *err);
void tern_gpu_program_deinit(tern_gpu_program *program);
/* The status of lowering one op. */
tern_status tern_gpu_supports(const tern_graph *graph, const tern_op *op, const tern_gpu_caps *caps, tern_error *err);

#endif
