/* The dispatches that measure a GPU. */
#include "backend/gpu/measure/measure.h"

#include "backend/gpu/gpu_internal.h"

enum { LOAD_BYTES = 16, ROUNDS = 1024, DOTS_OF_ROUND = 32, FMAS_OF_ROUND = 32 };

/* Neither zeros nor weights give it, and the compiler cannot know. */
static const uint32_t never = 0x9e3779b9;

tern_status tern_gpu_add_reads(tern_gpu_program *p, const tern_op *op, uint32_t value, double *bytes, tern_error *err)
{
    const tern_gpu_bandwidth_overrides *kernel = tern_gpu_bandwidth_overrides_of(TERN_GPU_READ_BANDWIDTH);
    const uint64_t group_bytes = (uint64_t)kernel->workgroup * kernel->loads * LOAD_BYTES,
                   bound = p->caps->max_binding / group_bytes,
                   most = p->caps->max_groups < bound ? p->caps->max_groups : bound;
    uint64_t left = p->graph->values[value].bytes / group_bytes;
    for (uint64_t at = 0; left;) {
        const uint64_t groups = left < most ? left : most;
        tern_gpu_dispatch *d = tern_gpu__add(p, op, TERN_GPU_READ_BANDWIDTH, (uint32_t)groups, 1, 1, err);
        if (!d) return TERN_OUT_OF_MEMORY;
        tern_gpu_bandwidth_set(d, &(tern_gpu_bandwidth_uniform){.never = never});
        tern_gpu__bind(d, (tern_gpu_range){.value = value, .offset = at, .bytes = groups * group_bytes});
        tern_gpu__bind_nothing(d); /* what is never written */
        *bytes += (double)(groups * group_bytes);
        at += groups * group_bytes;
        left -= groups;
    }
    return TERN_OK;
}

/* The work of all invocations of a dispatch, `each` in a round. */
static double operations_of(const tern_gpu_dispatch *d, uint32_t each)
{
    return (double)d->groups[0] * tern_gpu_pipelines[d->pipeline].invocations * ROUNDS * each;
}

tern_status tern_gpu_add_dots(tern_gpu_program *p, const tern_op *op, uint32_t n_groups, double *operations,
                              tern_error *err)
{
    tern_gpu_dispatch *d = tern_gpu__add(p, op, TERN_GPU_DOT_RATE, n_groups, 1, 1, err);
    if (!d) return TERN_UNSUPPORTED;
    tern_gpu_dots_set(d, &(tern_gpu_dots_uniform){.never = never, .rounds = ROUNDS, .factor = 0x01ff0301});
    tern_gpu__bind_nothing(d); /* what is never written */
    *operations += operations_of(d, DOTS_OF_ROUND);
    return TERN_OK;
}

tern_status tern_gpu_add_fmas(tern_gpu_program *p, const tern_op *op, uint32_t n_groups, double *operations,
                              tern_error *err)
{
    tern_gpu_dispatch *d = tern_gpu__add(p, op, TERN_GPU_FMA_RATE, n_groups, 1, 1, err);
    if (!d) return TERN_UNSUPPORTED;
    tern_gpu_fmas_set(d, &(tern_gpu_fmas_uniform){.never = never, .rounds = ROUNDS, .factor = 0.9375f});
    tern_gpu__bind_nothing(d); /* what is never written */
    *operations += operations_of(d, FMAS_OF_ROUND);
    return TERN_OK;
}

tern_status tern_gpu_add_waits(tern_gpu_program *p, const tern_op *op, uint32_t n, uint32_t n_rounds, tern_error *err)
{
    static const tern_gpu_pipeline sizes[] = {TERN_GPU_WAITS_LARGE, TERN_GPU_WAITS_SMALL};
    for (uint32_t i = 0; i < n_rounds; i++) {
        tern_gpu_dispatch *d = tern_gpu__add(p, op, sizes[i % 2], n, 1, 1, err);
        if (!d) return p->out_of_memory ? TERN_OUT_OF_MEMORY : TERN_UNSUPPORTED;
        tern_gpu_waits_set(d, &(tern_gpu_waits_uniform){.n = n});
        tern_gpu__bind_value(p, d, i % 2, false);
        tern_gpu__bind_value(p, d, 1 - i % 2, true);
    }
    return TERN_OK;
}
