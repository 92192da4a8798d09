/* The WebGPU backend's table of functions. */
#include "backend/webgpu/webgpu.h"

#include "backend/webgpu/device.h"
#include "base/alloc.h"
#include "ops/op.h"
#include "quant/weight.h"

tern_status tern_webgpu__check(tern_error *err)
{
    char message[400] = {0};
    tern_status status = (tern_status)tern_webgpu_host_failure(message, sizeof message);
    return status == TERN_OK ? TERN_OK : tern_fail(err, status, "%s", message);
}

static void webgpu_close(tern_backend *b)
{
    if (!b) return;
    tern_webgpu *gpu = tern_webgpu__self(b);
    for (int i = 0; i < TERN_GPU_MAX_BINDINGS; i++) tern_webgpu__buffer_free(gpu, gpu->nothing[i]);
    tern_gpu_choices_deinit(&gpu->choices);
    tern_free(gpu->bounce);
    tern_free(gpu);
}

static tern_status buffer_create(tern_backend *b, uint64_t bytes, tern_buffer **out, tern_error *err)
{
    tern_webgpu *gpu = tern_webgpu__self(b);
    TERN_TRY(tern_webgpu__check(err));
    return tern_webgpu__buffer_make(gpu, bytes, 0, "a buffer", out, err);
}

static tern_status make_room(tern_backend *b, const tern_weight *w, tern_buffer **out, tern_error *err)
{
    tern_webgpu *gpu = tern_webgpu__self(b);
    TERN_TRY(tern_webgpu__check(err));
    return tern_webgpu__make_room(gpu, w, out, err);
}

static tern_status weight_write(tern_backend *b, tern_buffer *buffer, const tern_weight *part, uint32_t first,
                                tern_error *err)
{
    tern_webgpu *gpu = tern_webgpu__self(b);
    TERN_TRY(tern_webgpu__check(err));
    return tern_webgpu__weight_write(gpu, buffer, part, first, err);
}

static void buffer_free(tern_backend *b, tern_buffer *buffer)
{
    tern_webgpu__buffer_free(tern_webgpu__self(b), buffer);
}

static tern_status weight_create(tern_backend *b, const tern_weight *w, tern_buffer **out, tern_error *err)
{
    tern_buffer *buffer;
    TERN_TRY(make_room(b, w, &buffer, err));
    tern_status status = w->data ? weight_write(b, buffer, w, 0, err) : TERN_OK;
    if (status == TERN_OK) *out = buffer;
    else buffer_free(b, buffer);
    return status;
}

static tern_status buffer_write(tern_backend *b, tern_buffer *buffer, uint64_t offset, const void *data, uint64_t bytes,
                                tern_error *err)
{
    tern_webgpu *gpu = tern_webgpu__self(b);
    TERN_TRY(tern_webgpu__check(err));
    return tern_webgpu__buffer_write(gpu, buffer, offset, data, bytes, err);
}

static void read_cancel(tern_backend *b)
{
    tern_webgpu__read_cancel(tern_webgpu__self(b));
}

static tern_status buffer_read(tern_backend *b, const tern_buffer *buffer, uint64_t offset, void *data, uint64_t bytes,
                               tern_error *err)
{
    return tern_webgpu__buffer_read(tern_webgpu__self(b), buffer, offset, data, bytes, err);
}

static tern_status supports(tern_backend *b, const tern_graph *graph, const tern_op *op, tern_error *err)
{
    return tern_gpu_supports(graph, op, &tern_webgpu__self(b)->caps, err);
}

/* Browsers do not say. */
static uint64_t memory_free(const tern_backend *b)
{
    (void)b;
    return 0;
}

static tern_status weight_bytes(const tern_backend *b, const tern_weight *w, uint64_t *bytes, tern_error *err)
{
    tern_gpu_layout layout;
    TERN_TRY(tern_gpu_layout_of(&layout, w, &((const tern_webgpu *)b)->caps, err));
    *bytes = layout.bytes;
    return TERN_OK;
}

static tern_status prepare(tern_backend *b, const tern_graph *graph, const tern_binding *bindings, tern_prepared **out,
                           tern_error *err)
{
    return tern_webgpu__prepare(tern_webgpu__self(b), graph, bindings, out, err);
}

static void prepared_free(tern_backend *b, tern_prepared *prepared)
{
    tern_webgpu__prepared_free(tern_webgpu__self(b), prepared);
}

static tern_status run(tern_backend *b, tern_prepared *prepared, uint32_t n_steps, tern_error *err)
{
    return tern_webgpu__run(tern_webgpu__self(b), prepared, n_steps, err);
}

static tern_status wait(tern_backend *b, tern_error *err)
{
    (void)b;
    TERN_TRY(tern_webgpu__check(err));
    if (!tern_webgpu_host_done()) return TERN_PENDING;
    return tern_webgpu__check(err);
}

static void counters(const tern_backend *b, tern_backend_counters *out)
{
    *out = ((const tern_webgpu *)b)->counters;
}

/* JavaScript measures (gpu.js, measureRead): that takes waiting. */
static double measure(tern_backend *b, tern_measure what, tern_buffer *const *buffers, size_t n, double seconds)
{
    (void)b, (void)what, (void)buffers, (void)n, (void)seconds;
    return 0;
}

static size_t profile(const tern_backend *b, tern_profile_row *rows, size_t cap)
{
    (void)b, (void)rows, (void)cap;
    return 0;
}

static void set_caps(tern_webgpu *gpu, const tern_gpu_caps *limits)
{
    const tern_webgpu_host_device *host = &gpu->host;
    gpu->caps = (tern_gpu_caps){.subgroup_min = host->subgroup_min,
                                .subgroup_max = host->subgroup_max,
                                .workgroup_bytes = host->workgroup_bytes,
                                .workgroup_invocations = host->workgroup_invocations,
                                .max_groups = host->max_groups,
                                .max_binding = host->max_binding,
                                .binding_alignment = 256};
    if (limits) tern_gpu_limit(&gpu->caps, limits);
}

static tern_status open_parts(tern_webgpu *gpu, const tern_webgpu_options *options, tern_error *err)
{
    if (!tern_webgpu_host_open(&gpu->host))
        return tern_fail(err, TERN_NOT_FOUND,
                         "webgpu: the module was given no device: Module.gpu, an open Gpu of gpu.js, expected");
    set_caps(gpu, options->limits);
    gpu->caps.choices = &gpu->choices;
    if (options->kernel) TERN_TRY(tern_gpu_choices_parse(&gpu->choices, options->kernel, &gpu->caps, err));
    gpu->base.info.device = gpu->host.name;
    gpu->base.info.max_buffer =
        gpu->caps.max_binding < gpu->host.max_buffer ? gpu->caps.max_binding : gpu->host.max_buffer;
    gpu->base.info.max_allocation = gpu->host.max_buffer;
    for (int i = 0; i < TERN_GPU_MAX_BINDINGS; i++)
        TERN_TRY(tern_webgpu__buffer_make(gpu, 256, 0, "a buffer of nothing", &gpu->nothing[i], err));
    return TERN_OK;
}

tern_status tern_webgpu_open(tern_backend **backend, const tern_webgpu_options *options, tern_error *err)
{
    *backend = NULL;
    tern_webgpu *gpu = tern_calloc(1, sizeof *gpu);
    if (!gpu) return tern_fail_alloc(err, sizeof *gpu);
    gpu->base =
        (tern_backend){.info.name = "webgpu",
                       .info.copies_weights = true,
                       .info.fusions = options->unfused ? 0 : TERN_FUSION_LINEAR_NORM | TERN_FUSION_ROPE_ATTENTION,
                       .info.max_steps = TERN_SAMPLE_MAX_STEPS,
                       .info.batch_invariant = true,
                       .info.cache_blocks = TERN_GPU_BLOCK_HEADS,
                       .info.samples_rows = true,
                       .info.groups_rows = true,
                       .info.never_waits = true,
                       .close = webgpu_close,
                       .buffer_create = buffer_create,
                       .weight_create = weight_create,
                       .weight_write = weight_write,
                       .buffer_free = buffer_free,
                       .buffer_write = buffer_write,
                       .buffer_read = buffer_read,
                       .read_cancel = read_cancel,
                       .supports = supports,
                       .prepare = prepare,
                       .prepared_free = prepared_free,
                       .run = run,
                       .wait = wait,
                       .memory_free = memory_free,
                       .weight_bytes = weight_bytes,
                       .counters = counters,
                       .measure = measure,
                       .profile = profile};
    tern_status status = open_parts(gpu, options, err);
    if (status == TERN_OK) *backend = &gpu->base;
    else webgpu_close(&gpu->base);
    return status;
}
