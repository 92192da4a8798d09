/* The backend on the simulated GPU. */
#include "support/simulated.h"

#include <stdlib.h>
#include <string.h>

#include "backend/gpu/layout.h"
#include "backend/gpu/program.h"
#include "backend/gpu/spirv.h"
#include "base/alloc.h"
#include "ops/graph.h"
#include "ops/op.h"
#include "quant/weight.h"
#include "support/spirv.h"
#include "support/test.h"

enum { NOTHING_BYTES = 256 };

struct tern_buffer {
    spirv_memory memory;
};

struct tern_prepared {
    tern_gpu_program program;
    tern_binding *bindings;
    tern_buffer *params, *scratch, *nothing;
    uint64_t params_offset;
};

typedef struct simulated {
    tern_backend base;
    tern_gpu_caps caps;
    bool backwards; /* workgroups of every other dispatch run from the last to the first */
} simulated;

test_use test_simulated_use[TERN_GPU_PIPELINE_COUNT];
static spirv_module *modules[TERN_GPU_PIPELINE_COUNT];

static void close_backend(tern_backend *b)
{
    for (size_t i = 0; i < TERN_GPU_PIPELINE_COUNT; i++) {
        spirv_close(modules[i]);
        modules[i] = NULL;
    }
    free(b);
}

static tern_status buffer_create(tern_backend *b, uint64_t bytes, tern_buffer **out, tern_error *err)
{
    (void)b;
    (void)err;
    const uint64_t padded = (bytes + 255) / 256 * 256;
    tern_buffer *buffer = calloc(1, sizeof *buffer);
    buffer->memory =
        (spirv_memory){.words = calloc(padded, 1), .traces = calloc(padded / 4, sizeof(spirv_trace)), .bytes = padded};
    if (!buffer->memory.words || !buffer->memory.traces) abort();
    *out = buffer;
    return TERN_OK;
}

static void buffer_free(tern_backend *b, tern_buffer *buffer)
{
    (void)b;
    if (!buffer) return;
    free(buffer->memory.words);
    free(buffer->memory.traces);
    free(buffer);
}

static tern_status buffer_write(tern_backend *b, tern_buffer *buffer, uint64_t offset, const void *data, uint64_t bytes,
                                tern_error *err)
{
    (void)b;
    (void)err;
    memcpy((uint8_t *)buffer->memory.words + offset, data, bytes);
    return TERN_OK;
}

static tern_status buffer_read(tern_backend *b, const tern_buffer *buffer, uint64_t offset, void *data, uint64_t bytes,
                               tern_error *err)
{
    (void)b;
    (void)err;
    memcpy(data, (const uint8_t *)buffer->memory.words + offset, bytes);
    return TERN_OK;
}

static tern_status weight_create(tern_backend *b, const tern_weight *w, tern_buffer **out, tern_error *err)
{
    tern_gpu_layout layout;
    TERN_TRY(tern_gpu_layout_of(&layout, w, &((simulated *)b)->caps, err));
    TERN_TRY(buffer_create(b, layout.bytes, out, err));
    for (uint32_t i = 0; i < layout.n_slices; i++) {
        const uint32_t first = i * layout.slice_rows, left = layout.rows - first,
                       n = left < layout.slice_rows ? left : layout.slice_rows;
        uint8_t *slice = (uint8_t *)(*out)->memory.words + i * layout.slice_bytes;
        TERN_TRY(tern_gpu_pack_rows(&layout, w, first, n, slice, err));
        if (layout.scales_offset) memcpy(slice + layout.scales_offset, w->row_scales + first, n * sizeof(float));
    }
    return TERN_OK;
}

static tern_status supports(tern_backend *b, const tern_graph *graph, const tern_op *op, tern_error *err)
{
    return tern_gpu_supports(graph, op, &((simulated *)b)->caps, err);
}

static void prepared_free(tern_backend *b, tern_prepared *p)
{
    if (!p) return;
    buffer_free(b, p->scratch);
    buffer_free(b, p->nothing);
    tern_gpu_program_deinit(&p->program);
    free(p->bindings);
    free(p);
}

static tern_status prepare(tern_backend *b, const tern_graph *graph, const tern_binding *bindings, tern_prepared **out,
                           tern_error *err)
{
    tern_prepared *p = calloc(1, sizeof *p);
    tern_status status = tern_gpu_lower(&p->program, graph, &((simulated *)b)->caps, err);
    if (status != TERN_OK) {
        free(p);
        return status;
    }
    p->bindings = calloc(graph->n_values + 1, sizeof *p->bindings);
    memcpy(p->bindings, bindings, graph->n_values * sizeof *bindings);
    for (size_t i = 0; i < graph->n_values; i++)
        if (graph->values[i].kind == TERN_VALUE_PARAM && bindings[i].buffer) {
            p->params = bindings[i].buffer;
            p->params_offset = bindings[i].offset - graph->values[i].offset;
        }
    buffer_create(b, p->program.scratch_bytes, &p->scratch, err);
    buffer_create(b, TERN_GPU_MAX_BINDINGS * NOTHING_BYTES, &p->nothing, err);
    *out = p;
    return TERN_OK;
}

static spirv_binding locate(const tern_prepared *p, const tern_gpu_range *range, uint32_t i)
{
    spirv_binding at = {.offset = range->offset, .bytes = range->bytes, .written = range->written};
    if (range->value == TERN_GPU_SCRATCH) {
        at.memory = &p->scratch->memory;
    } else if (range->value == TERN_GPU_NOTHING) {
        at.memory = &p->nothing->memory;
        at.offset = (uint64_t)i * NOTHING_BYTES;
    } else if (range->value == TERN_GPU_PARAMS) {
        at.memory = &p->params->memory;
        at.offset += p->params_offset;
    } else if (p->bindings[range->value].buffer) {
        at.memory = &p->bindings[range->value].buffer->memory;
        at.offset += p->bindings[range->value].offset;
    }
    return at;
}

static tern_status check(const spirv_dispatch *d, const tern_gpu_pipeline_info *info, uint64_t max_binding,
                         tern_error *err)
{
    for (uint32_t i = 1; i < SPIRV_MAX_BINDINGS; i++) {
        const spirv_binding *a = &d->bindings[i];
        if (i > info->n_bindings) break;
        if (!a->memory || a->offset % 256 || a->offset + a->bytes > a->memory->bytes)
            return tern_fail(err, TERN_INTERNAL,
                             "%s: binding %u lies outside of its buffer, or not at a multiple of 256", info->name, i);
        if (a->bytes > max_binding)
            return tern_fail(err, TERN_INTERNAL, "%s: binding %u has %llu bytes: at most %llu expected", info->name, i,
                             (unsigned long long)a->bytes, (unsigned long long)max_binding);
        for (uint32_t k = 1; k < i; k++) {
            const spirv_binding *b = &d->bindings[k];
            const bool overlap =
                a->memory == b->memory && a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
            if (overlap && (info->signature[i - 1] == 'w' || info->signature[k - 1] == 'w'))
                return tern_fail(err, TERN_INTERNAL, "%s: bindings %u and %u overlap, which WebGPU refuses", info->name,
                                 k, i);
        }
    }
    return TERN_OK;
}

static tern_status open_module(tern_gpu_pipeline pipeline, tern_error *err)
{
    size_t n = 0;
    const char *error = NULL;
    uint32_t *words = NULL;
    if (modules[pipeline]) return TERN_OK;
    TERN_TRY(tern_gpu_spirv(pipeline, &words, &n, err));
    modules[pipeline] = spirv_open(words, n, &error); /* which goes on reading them, and is never closed */
    return modules[pipeline] ? TERN_OK
                             : tern_fail(err, TERN_INTERNAL, "%s: %s", tern_gpu_pipelines[pipeline].name, error);
}

/* The counters of a dispatch that waits for nobody: gpu/shared/waits.wesl. */
enum { WAITS_WORDS = 192, NEXT = 64, VERDICT = WAITS_WORDS - 1 };

static tern_status check_raised(const uint32_t waits[WAITS_WORDS], const char *name, tern_error *err)
{
    if (waits[0] == 0 && waits[NEXT] == 0 && waits[VERDICT] == 0) return TERN_OK;
    return tern_fail(err, TERN_INTERNAL, "%s: %u workgroups have not raised the counter, or it has waited in vain (%u)",
                     name, waits[NEXT], waits[VERDICT]);
}

/* Where devices may wait, the twin that does (tern_gpu_waiting). */
static tern_gpu_pipeline pipeline_of(const simulated *s, const tern_gpu_dispatch *d)
{
    const tern_gpu_pipeline twin = tern_gpu_waiting(d->pipeline);
    return s->caps.waits && twin < TERN_GPU_PIPELINE_COUNT ? twin : d->pipeline;
}

static tern_status run_dispatch(simulated *s, const tern_prepared *p, const tern_gpu_dispatch *d, tern_error *err)
{
    const tern_gpu_pipeline pipeline = pipeline_of(s, d);
    const tern_gpu_pipeline_info *info = &tern_gpu_pipelines[pipeline];
    uint32_t waits[WAITS_WORDS] = {[NEXT] = d->groups[0] * d->groups[1] * d->groups[2]};
    spirv_memory counters = {.words = waits, .bytes = sizeof waits};
    uint32_t uniform[TERN_GPU_UNIFORM_WORDS];
    memcpy(uniform, d->uniform, sizeof uniform);
    spirv_memory block = {.words = uniform, .bytes = sizeof uniform};
    if (!tern_gpu_pipeline_fits(pipeline, &s->caps))
        return tern_fail(err, TERN_INTERNAL, "%s does not fit the device", info->name);
    TERN_TRY(open_module(pipeline, err));
    spirv_dispatch dispatch = {.module = modules[pipeline],
                               .subgroup_size = s->caps.subgroup_min,
                               .fences = s->caps.device_fences,
                               .groups = {d->groups[0], d->groups[1], d->groups[2]},
                               .bindings = {{.memory = &block, .bytes = block.bytes}}};
    for (uint32_t i = 0; i < d->n_bindings; i++) dispatch.bindings[1 + i] = locate(p, &d->bindings[i], i);
    if (pipeline != d->pipeline)
        dispatch.bindings[1 + d->n_bindings] = (spirv_binding){&counters, 0, sizeof waits, true};
    TERN_TRY(check(&dispatch, info, s->caps.max_binding, err));
    spirv_figures figures = {0};
    const char *what = spirv_run(&dispatch, s->backwards = !s->backwards, &figures);
    test_use *use = &test_simulated_use[pipeline];
    const uint64_t barriers = figures.barriers > use->barriers ? figures.barriers : use->barriers;
    *use = (test_use){use->runs + 1, use->done + figures.done, use->possible + figures.possible, barriers};
    if (what) return tern_fail(err, TERN_INTERNAL, "%s, subgroups of %u: %s", info->name, s->caps.subgroup_min, what);
    return pipeline == d->pipeline ? TERN_OK : check_raised(waits, info->name, err);
}

static tern_status run(tern_backend *b, tern_prepared *p, uint32_t n_steps, tern_error *err)
{
    for (uint32_t k = 0; k < n_steps; k++)
        for (size_t i = 0; i < p->program.n; i++)
            TERN_TRY(run_dispatch((simulated *)b, p, &p->program.dispatches[i], err));
    return TERN_OK;
}

static tern_status wait_for(tern_backend *b, tern_error *err)
{
    (void)b;
    (void)err;
    return TERN_OK;
}

#if !TERN_VULKAN /* then there is no SPIR-V */
tern_status tern_gpu_spirv(tern_gpu_pipeline which, uint32_t **words, size_t *n_words, tern_error *err)
{
    (void)words;
    (void)n_words;
    return tern_fail(err, TERN_UNSUPPORTED, "%s: this build has no SPIR-V", tern_gpu_pipelines[which].name);
}
#endif

tern_status test_simulated_open(tern_backend **backend, const tern_gpu_caps *caps, tern_error *err)
{
    (void)err;
    if (!TERN_VULKAN) test_skip("no simulated GPU: this build has no SPIR-V");
    simulated *s = calloc(1, sizeof *s);
    s->caps = *caps;
    s->base = (tern_backend){.info.name = "simulated",
                             .info.device = "simulated",
                             .info.max_steps = TERN_SAMPLE_MAX_STEPS,
                             .info.groups_rows = true,
                             .info.fusions = TERN_FUSION_LINEAR_NORM | TERN_FUSION_ROPE_ATTENTION,
                             .close = close_backend,
                             .buffer_create = buffer_create,
                             .weight_create = weight_create,
                             .buffer_free = buffer_free,
                             .buffer_write = buffer_write,
                             .buffer_read = buffer_read,
                             .supports = supports,
                             .prepare = prepare,
                             .prepared_free = prepared_free,
                             .run = run,
                             .wait = wait_for};
    *backend = &s->base;
    return TERN_OK;
}
