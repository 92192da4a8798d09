/* Measuring what a GPU can do at most: dispatches that read memory, or that do nothing but multiply and add. */
#ifndef TERN_BACKEND_GPU_MEASURE_MEASURE_H
#define TERN_BACKEND_GPU_MEASURE_MEASURE_H

#include "backend/gpu/program.h"

/* Adds dispatches that read all of a value, as far as whole workgroups go, and to *bytes what they read. The op is one
 * of the program's graph; it has no other use. Errors: OUT_OF_MEMORY. */
tern_status tern_gpu_add_reads(tern_gpu_program *p, const tern_op *op, uint32_t value, double *bytes, tern_error *err);

/* Adds one dispatch of n_groups workgroups that multiply and add packed int8 or f32, and to *operations how often its
 * invocations do (four int8 at a time are one). Errors: UNSUPPORTED (too many groups), OUT_OF_MEMORY. */
tern_status tern_gpu_add_dots(tern_gpu_program *p, const tern_op *op, uint32_t n_groups, double *operations,
                              tern_error *err);
tern_status tern_gpu_add_fmas(tern_gpu_program *p, const tern_op *op, uint32_t n_groups, double *operations,
                              tern_error *err);

/* Adds a chain of n_rounds dispatches of n workgroups each. Each waits for the one before. Values 0 and 1 of
 * the graph, [n] u32, are read and written in turn, the first is 0. All of value n_rounds % 2 is then n_rounds. Errors:
 * UNSUPPORTED (too many groups), OUT_OF_MEMORY. */
tern_status tern_gpu_add_waits(tern_gpu_program *p, const tern_op *op, uint32_t n, uint32_t n_rounds, tern_error *err);

#endif
