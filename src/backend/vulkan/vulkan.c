/* The Vulkan backend's table of functions: each takes the lock, so that sessions on several threads take turns. */
#include "backend/vulkan/vulkan.h"

#include <stdio.h>

#include "backend/vulkan/device.h"
#include "base/alloc.h"
#include "base/pool.h"
#include "ops/op.h"

static tern_vulkan *lock(tern_backend *b)
{
    tern_vulkan *vk = tern_vulkan__self(b);
    pthread_mutex_lock(&vk->lock);
    return vk;
}

/* Gives the lock back. A message of the checking layers turns success into an error. */
static tern_status unlock(tern_vulkan *vk, tern_status status, tern_error *err)
{
    tern_vulkan_messages *messages = &vk->instance.messages;
    if (vk->validation && status == TERN_OK) {
        pthread_mutex_lock(&messages->lock);
        if (messages->n)
            status =
                tern_fail(err, TERN_INTERNAL, "vulkan: validation (%u messages): %s", messages->n, messages->first);
        pthread_mutex_unlock(&messages->lock);
    }
    pthread_mutex_unlock(&vk->lock);
    return status;
}

/* Nothing that was submitted still runs; errors are kept for whoever can report them. */
static void wait_for_all(tern_vulkan *vk)
{
    tern_error ignored = {0};
    tern_vulkan__idle(vk, &ignored);
    tern_vulkan__upload_wait(vk, &ignored);
}

static void vulkan_close(tern_backend *b)
{
    if (!b) return;
    tern_vulkan *vk = tern_vulkan__self(b);
    if (vk->hangs) return;
    if (vk->device && vk->fn.DeviceWaitIdle) {
        wait_for_all(vk);
        vk->fn.DeviceWaitIdle(vk->device);
        tern_vulkan__upload_close(vk);
        tern_vulkan__pipelines_close(vk);
        if (vk->run_fence) vk->fn.DestroyFence(vk->device, vk->run_fence, NULL);
    }
    tern_vulkan__device_close(vk);
    tern_pool_close(vk->workers.pool);
    pthread_mutex_destroy(&vk->lock);
    tern_gpu_choices_deinit(&vk->choices);
    tern_free(vk->submission);
    tern_free(vk->rows);
    tern_free(vk->proof_path);
    tern_free(vk);
}

static tern_status buffer_create(tern_backend *b, uint64_t bytes, tern_buffer **out, tern_error *err)
{
    tern_vulkan *vk = lock(b);
    tern_buffer *buffer = NULL;
    tern_status status = tern_vulkan__alive(vk, err);
    if (status == TERN_OK) status = tern_vulkan__buffer_make(vk, bytes, TERN_VULKAN_DEVICE, &buffer, err);
    if (status == TERN_OK) status = tern_vulkan__buffer_zero(vk, buffer, err);
    if (status == TERN_OK) *out = buffer;
    else tern_vulkan__buffer_free(vk, buffer);
    return unlock(vk, status, err);
}

static tern_status weight_create(tern_backend *b, const tern_weight *w, tern_buffer **out, tern_error *err)
{
    tern_vulkan *vk = lock(b);
    tern_status status = tern_vulkan__alive(vk, err);
    if (status == TERN_OK) status = tern_vulkan__weight_make(vk, w, out, err);
    return unlock(vk, status, err);
}

static tern_status weight_write(tern_backend *b, tern_buffer *buffer, const tern_weight *part, uint32_t first,
                                tern_error *err)
{
    tern_vulkan *vk = lock(b);
    tern_status status = tern_vulkan__alive(vk, err);
    if (status == TERN_OK) status = tern_vulkan__weight_write(vk, buffer, part, first, err);
    return unlock(vk, status, err);
}

static void buffer_free(tern_backend *b, tern_buffer *buffer)
{
    if (!buffer) return;
    tern_vulkan *vk = lock(b);
    wait_for_all(vk);
    tern_vulkan__buffer_free(vk, buffer);
    unlock(vk, TERN_OK, NULL);
}

static tern_status buffer_write(tern_backend *b, tern_buffer *buffer, uint64_t offset, const void *data, uint64_t bytes,
                                tern_error *err)
{
    tern_vulkan *vk = lock(b);
    tern_status status = tern_vulkan__alive(vk, err);
    if (status == TERN_OK) status = tern_vulkan__buffer_write(vk, buffer, offset, data, bytes, err);
    return unlock(vk, status, err);
}

static tern_status buffer_read(tern_backend *b, const tern_buffer *buffer, uint64_t offset, void *data, uint64_t bytes,
                               tern_error *err)
{
    tern_vulkan *vk = lock(b);
    return unlock(vk, tern_vulkan__buffer_read(vk, buffer, offset, data, bytes, err), err);
}

static uint64_t memory_free(const tern_backend *b)
{
    tern_vulkan *vk = lock((tern_backend *)(uintptr_t)b);
    const uint64_t bytes = tern_vulkan__memory_free(vk);
    unlock(vk, TERN_OK, NULL);
    return bytes;
}

static tern_status weight_bytes(const tern_backend *b, const tern_weight *w, uint64_t *bytes, tern_error *err)
{
    tern_gpu_layout layout;
    TERN_TRY(tern_gpu_layout_of(&layout, w, &((const tern_vulkan *)b)->caps, err));
    *bytes = layout.bytes;
    return TERN_OK;
}

static tern_status supports(tern_backend *b, const tern_graph *graph, const tern_op *op, tern_error *err)
{
    return tern_gpu_supports(graph, op, &tern_vulkan__self(b)->caps, err);
}

static tern_status prepare(tern_backend *b, const tern_graph *graph, const tern_binding *bindings, tern_prepared **out,
                           tern_error *err)
{
    tern_vulkan *vk = lock(b);
    tern_status status = tern_vulkan__idle(vk, err);
    if (status == TERN_OK) status = tern_vulkan__prepare(vk, graph, bindings, out, err);
    return unlock(vk, status, err);
}

static void prepared_free(tern_backend *b, tern_prepared *prepared)
{
    if (!prepared) return;
    tern_vulkan *vk = lock(b);
    wait_for_all(vk);
    tern_vulkan__prepared_free(vk, prepared);
    unlock(vk, TERN_OK, NULL);
}

static tern_status run(tern_backend *b, tern_prepared *prepared, uint32_t n_steps, tern_error *err)
{
    tern_vulkan *vk = lock(b);
    return unlock(vk, tern_vulkan__run(vk, prepared, n_steps, err), err);
}

static tern_status wait(tern_backend *b, tern_error *err)
{
    tern_vulkan *vk = lock(b);
    return unlock(vk, tern_vulkan__idle(vk, err), err);
}

static void counters(const tern_backend *b, tern_backend_counters *out)
{
    tern_vulkan *vk = (tern_vulkan *)(uintptr_t)b;
    pthread_mutex_lock(&vk->lock);
    *out = vk->counters;
    pthread_mutex_unlock(&vk->lock);
}

static size_t profile(const tern_backend *b, tern_profile_row *rows, size_t cap)
{
    tern_vulkan *vk = (tern_vulkan *)(uintptr_t)b;
    pthread_mutex_lock(&vk->lock);
    size_t n = vk->n_rows;
    for (size_t i = 0; i < n && i < cap; i++) rows[i] = vk->rows[i];
    pthread_mutex_unlock(&vk->lock);
    return n;
}

static double measure(tern_backend *b, tern_measure what, tern_buffer *const *buffers, size_t n, double seconds)
{
    tern_vulkan *vk = lock(b);
    double rate = tern_vulkan__measure(vk, what, buffers, n, seconds);
    unlock(vk, TERN_OK, NULL);
    return rate;
}

static void key_of(const tern_vulkan *vk, char out[static TERN_KERNEL_DEVICE_BYTES])
{
    snprintf(out, TERN_KERNEL_DEVICE_BYTES, "%.100s, %.150s", vk->physical.properties.deviceName, vk->physical.driver);
}

void tern_vulkan_key(const tern_backend *b, char out[static TERN_KERNEL_DEVICE_BYTES])
{
    key_of((const tern_vulkan *)b, out);
}

tern_status tern_vulkan_choose(tern_backend *b, const tern_kernel_choice *choices, size_t n, tern_error *err)
{
    tern_vulkan *vk = lock(b);
    char key[TERN_KERNEL_DEVICE_BYTES];
    key_of(vk, key);
    return unlock(vk, tern_gpu_choices_take(&vk->choices, choices, n, key, err), err);
}

tern_status tern_vulkan_try_waits(tern_backend *b, tern_error *err)
{
    tern_vulkan *vk = lock(b);
    return unlock(vk, tern_vulkan__try_waits(vk, err), err);
}

bool tern_vulkan_alternative(const tern_backend *b, const char *kernel, size_t i,
                             char out[static TERN_KERNEL_NAME_BYTES])
{
    const tern_gpu_pipeline from = tern_gpu_kernel_by_name(kernel);
    for (tern_gpu_pipeline p = 0; from < TERN_GPU_PIPELINE_COUNT && p < TERN_GPU_PIPELINE_COUNT; p++) {
        if (!tern_gpu_interchangeable(from, p) || !tern_gpu_pipeline_fits(p, &((const tern_vulkan *)b)->caps)) continue;
        if (i-- > 0) continue;
        tern_gpu_kernel_name(p, out);
        return true;
    }
    return false;
}

static tern_status take_choices(tern_vulkan *vk, const tern_vulkan_options *o, tern_error *err)
{
    char key[TERN_KERNEL_DEVICE_BYTES];
    vk->caps.choices = &vk->choices;
    key_of(vk, key);
    if (o->kernel) return tern_gpu_choices_parse(&vk->choices, o->kernel, &vk->caps, err);
    return tern_gpu_choices_take(&vk->choices, o->choices, o->n_choices, key, err);
}

static tern_status open_parts(tern_vulkan *vk, const tern_vulkan_options *options, tern_error *err)
{
    TERN_TRY(tern_vulkan__device_open(vk, options, err));
    TERN_TRY(take_choices(vk, options, err));
    TERN_TRY(tern_vulkan__fence_create(vk, &vk->run_fence, err));
    char *folder = options->cache_dir ? tern_strdup(options->cache_dir) : tern_vulkan__cache_folder();
    tern_status status = tern_vulkan__cache_open(vk, folder, err);
    tern_vulkan__proofs_open(vk, folder);
    tern_free(folder);
    TERN_TRY(status);
    vk->submission = tern_calloc(vk->base.info.max_steps + 1, sizeof *vk->submission);
    if (!vk->submission) return tern_fail_alloc(err, (vk->base.info.max_steps + 1) * sizeof *vk->submission);
    return tern_vulkan__waits_open(vk, options->waits, err);
}

tern_status tern_vulkan_open(tern_backend **backend, const tern_vulkan_options *options, tern_error *err)
{
    tern_vulkan_options how = *options;
    tern_vulkan__environment(&how);
    *backend = NULL;
    tern_vulkan *vk = tern_calloc(1, sizeof *vk);
    if (!vk) return tern_fail_alloc(err, sizeof *vk);
    pthread_mutex_init(&vk->lock, NULL);
    vk->base = (tern_backend){.info.name = "vulkan",
                              .info.fusions = how.unfused ? 0 : TERN_FUSION_LINEAR_NORM | TERN_FUSION_ROPE_ATTENTION,
                              .info.max_steps = TERN_SAMPLE_MAX_STEPS,
                              .info.batch_invariant = true,
                              .info.cache_blocks = TERN_GPU_BLOCK_HEADS,
                              .info.samples_rows = true,
                              .info.groups_rows = true,
                              .close = vulkan_close,
                              .buffer_create = buffer_create,
                              .weight_create = weight_create,
                              .weight_write = weight_write,
                              .buffer_free = buffer_free,
                              .buffer_write = buffer_write,
                              .buffer_read = buffer_read,
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
    vk->profile = how.profile;
    vk->validation = how.validation;
    vk->workers.n_threads = how.n_threads;
    if (!how.trusting) vk->base.trial = &tern_vulkan__trial;
    tern_status status = open_parts(vk, &how, err);
    vk->base.info.device = vk->physical.properties.deviceName;
    vk->base.info.driver = vk->physical.driver;
    vk->base.info.copies_weights = true;
    vk->base.info.unified = vk->unified;
    if (status == TERN_OK) vk->base.info.memory = tern_vulkan__memory(&vk->physical);
    if (status == TERN_OK) vk->base.info.max_buffer = tern_vulkan__max_buffer(&vk->physical);
    vk->base.info.max_allocation = vk->base.info.max_buffer;
    if (status == TERN_OK) *backend = &vk->base;
    else vulkan_close(&vk->base);
    return status;
}
