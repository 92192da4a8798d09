/* Inside the GPU lowering: what the families' lower*.c files share to make a dispatch. Each adds one, fills its uniform
 * (tern_gpu_KERNEL_set of generated/kernels.h) and binds its buffers in the order of the kernel's bindings. */
#ifndef TERN_BACKEND_GPU_GPU_INTERNAL_H
#define TERN_BACKEND_GPU_GPU_INTERNAL_H

#include "backend/gpu/generated/kernels.h"
#include "backend/gpu/layout.h"
#include "backend/gpu/program.h"
#include "ops/graph.h"
#include "ops/op.h"

/* Lowers one op: adds its dispatches to the program. Errors: UNSUPPORTED, OUT_OF_MEMORY. */
typedef tern_status tern_gpu_lower_fn(tern_gpu_program *p, const tern_op *op, tern_error *err);

#define X(kind, name) tern_gpu_lower_fn tern_gpu__lower_##name;
#include "backend/gpu/ops.def"
#undef X

/* Adds a dispatch of the op with the given pipeline, to be filled in; valid until the next is added. NULL with err set
 * when memory is out or groups exceed the device's. */
tern_gpu_dispatch *tern_gpu__add(tern_gpu_program *p, const tern_op *op, tern_gpu_pipeline pipeline, uint32_t x,
                                 uint32_t y, uint32_t z, tern_error *err);
/* One invocation for each element of the op's out, with the first of two pipelines that fits. */
tern_gpu_dispatch *tern_gpu__add_elementwise(tern_gpu_program *p, const tern_op *op,
                                             const tern_gpu_pipeline candidates[2], tern_error *err);

/* Each of these binds one buffer, behind those that are bound. */
void tern_gpu__bind(tern_gpu_dispatch *d, tern_gpu_range range);
/* The whole of a value. */
void tern_gpu__bind_value(const tern_gpu_program *p, tern_gpu_dispatch *d, uint32_t value, bool written);
/* A value from the view's first row on (f32). */
void tern_gpu__bind_view(const tern_gpu_program *p, tern_gpu_dispatch *d, tern_view view, bool written);
/* All parameters. */
void tern_gpu__bind_params(const tern_gpu_program *p, tern_gpu_dispatch *d, bool written);
void tern_gpu__bind_nothing(tern_gpu_dispatch *d);
/* Slice `slice` of a weight. */
void tern_gpu__bind_slice(tern_gpu_dispatch *d, uint32_t value, const tern_gpu_layout *layout, uint32_t slice);
void tern_gpu__bind_scratch(tern_gpu_dispatch *d, uint64_t offset, uint64_t bytes, bool written);

/* The value that a view looks at, and how far its rows lie apart, in elements. */
const tern_value *tern_gpu__value(const tern_gpu_program *p, tern_view view);
uint32_t tern_gpu__stride(const tern_gpu_program *p, tern_view view);
/* Where a parameter starts in PARAMS, in words. */
uint32_t tern_gpu__param_word(const tern_gpu_program *p, tern_param which);
uint32_t tern_gpu__word_of(const tern_gpu_program *p, tern_view param);
/* Where the number of such rows is in PARAMS, COUNTS[0] or COUNTS[1], in words; of rows ROUTED, that of their tokens,
 * each of which has tern_gpu__token_rows of them. */
uint32_t tern_gpu__count_word(const tern_gpu_program *p, tern_rows rows);
uint32_t tern_gpu__token_rows(const tern_gpu_program *p, tern_rows rows); /* 1 of other rows */
/* The words of PARAMS with the number and the first of an op's rows. An op with a group has those of its group. An op
 * without one has the number of all such rows, and word 0, which stands for row 0. */
uint32_t tern_gpu__group_count_word(const tern_gpu_program *p, const tern_op *op);
uint32_t tern_gpu__group_first_word(const tern_gpu_program *p, const tern_op *op);
/* The most of such rows that a step has. */
uint32_t tern_gpu__max_rows(const tern_gpu_program *p, tern_rows rows);
/* The rows that pipelines, tiles and splits are chosen for: tern_graph.kernel_rows. */
uint32_t tern_gpu__kernel_rows(const tern_gpu_program *p, tern_rows rows);
/* Room in SCRATCH behind the counters; ops share it one after the other, and the dispatches of one op when they ask
 * more than once. The offset. */
uint64_t tern_gpu__scratch(tern_gpu_program *p, uint64_t bytes);

/* The use of a sum: see the kernels. */
typedef enum tern_gpu_epilogue { TERN_GPU_STORE, TERN_GPU_ADD_RESIDUAL, TERN_GPU_ADD_RESULT } tern_gpu_epilogue;

/* Where the op's residual lies when it is there: apart, or where the result goes (TERN_FUSION_IN_PLACE), which must
 * then not be bound twice. */
tern_gpu_epilogue tern_gpu__residual_epilogue(const tern_gpu_program *p, const tern_op *op);

static inline uint32_t tern_gpu__ceil_div(uint32_t a, uint32_t b)
{
    return a / b + (a % b != 0);
}
static inline uint32_t tern_gpu__round_up(uint32_t n, uint32_t multiple)
{
    return tern_gpu__ceil_div(n, multiple) * multiple;
}
/* To where a binding may start. */
static inline uint64_t tern_gpu__aligned(uint64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

tern_status tern_gpu__unsupported(const tern_graph *graph, const tern_op *op, const char *why, tern_error *err);

#endif
