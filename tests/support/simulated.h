/* A backend on the simulated GPU (support/spirv.h): lowers graphs for made-up devices, and runs the very SPIR-V of the
 * pipelines. */
#ifndef TERN_TESTS_SUPPORT_SIMULATED_H
#define TERN_TESTS_SUPPORT_SIMULATED_H

#include "backend/backend.h"
#include "backend/gpu/pipelines.h"

/* Subgroups have caps->subgroup_min lanes. Errors of a kernel are those of run(). */
tern_status test_simulated_open(tern_backend **backend, const tern_gpu_caps *caps, tern_error *err);

/* How a pipeline's invocations were used so far, and the most barriers of a workgroup (spirv_figures). */
typedef struct test_use {
    uint64_t runs, done, possible, barriers;
} test_use;

extern test_use test_simulated_use[TERN_GPU_PIPELINE_COUNT];

#endif
