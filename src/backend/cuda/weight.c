/* Weights on the device: rows packed by several threads, then copied. */
#include <stdatomic.h>
#include <string.h>

#include "backend/cuda/cuda_internal.h"
#include "base/cpu.h"

enum { TASK_BYTES = 1 << 20, MOST_THREADS = 16 };

static const tern_gpu_caps whole = {.max_binding = UINT64_MAX / 4, .binding_alignment = 256, .max_groups = 65535};

tern_status tern_cuda__layout(tern_gpu_layout *layout, const tern_weight *w, tern_error *err)
{
    TERN_TRY(tern_gpu_layout_of(layout, w, &whole, err));
    if (w->trained)
        return tern_fail(err, TERN_UNSUPPORTED, "%s: cuda: training expected on --backend cpu or vulkan", w->name);
    if (tern_cuda_has_linear(layout->format, false)) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED, "%s: cuda: no kernel for %s", w->name, w->encoding->name);
}

typedef struct packing {
    const tern_gpu_layout *layout;
    const tern_weight *weight;
    uint32_t first, n, rows_of_task;
    uint8_t *out;
    atomic_int status;
} packing;

static void pack_task(void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    packing *p = context;
    const uint32_t begin = task * p->rows_of_task, left = p->n - begin,
                   n = left < p->rows_of_task ? left : p->rows_of_task;
    uint8_t *out = p->out + (size_t)begin * p->layout->row_bytes;
    const tern_status status = tern_gpu_pack_rows(p->layout, p->weight, p->first + begin, n, out, NULL);
    if (status != TERN_OK) atomic_store(&p->status, (int)status);
}

static tern_status ready(tern_cuda *cuda, tern_error *err)
{
    const uint32_t cores = tern_cpu_cores(), usual = cores < MOST_THREADS ? cores : MOST_THREADS;
    if (!cuda->threads) TERN_TRY(tern_pool_open(&cuda->threads, cuda->n_threads ? cuda->n_threads : usual, false, err));
    if (cuda->staging) return TERN_OK;
    void *staging = NULL;
    TERN_TRY(tern_cuda__status(cudaMallocHost(&staging, TERN_CUDA_STAGING_BYTES), "pinned memory", err));
    cuda->staging = staging;
    return TERN_OK;
}

/* Rows [at, at + n) of `part` through the staging memory. */
static tern_status copy_rows(tern_cuda *cuda, uint8_t *to, const tern_gpu_layout *l, const tern_weight *part,
                             uint32_t at, uint32_t n, tern_error *err)
{
    const uint32_t task = TASK_BYTES / l->row_bytes;
    packing p = {
        .layout = l, .weight = part, .first = at, .n = n, .out = cuda->staging, .rows_of_task = task ? task : 1};
    TERN_TRY(tern_cuda__status(cudaStreamSynchronize(cuda->stream), "the device", err)); /* staging is free again */
    tern_pool_for(cuda->threads, (n + p.rows_of_task - 1) / p.rows_of_task, pack_task, &p);
    const tern_status status = (tern_status)atomic_load(&p.status);
    if (status != TERN_OK) return tern_fail(err, status, "%s: packing for the device", part->name);
    return tern_cuda__write(cuda, to, cuda->staging, (uint64_t)n * l->row_bytes, err);
}

tern_status tern_cuda__weight_write(tern_cuda *cuda, tern_buffer *buffer, const tern_weight *part, uint32_t first,
                                    tern_error *err)
{
    const tern_gpu_layout *l = &buffer->layout;
    if (part->cols != l->cols || first > l->rows || part->rows > l->rows - first)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: %u rows of %u from row %u on: there are %u of %u", part->name,
                         part->rows, part->cols, first, l->rows, l->cols);
    const uint32_t most = TERN_CUDA_STAGING_BYTES / l->row_bytes;
    if (!most) return tern_fail(err, TERN_UNSUPPORTED, "%s: rows of %u bytes", part->name, l->row_bytes);
    TERN_TRY(ready(cuda, err));
    for (uint32_t at = 0; part->data && at < part->rows; at += most) {
        const uint32_t left = part->rows - at, n = left < most ? left : most;
        TERN_TRY(copy_rows(cuda, buffer->data + (size_t)(first + at) * l->row_bytes, l, part, at, n, err));
    }
    if (!part->row_scales || !l->scales_offset) return TERN_OK;
    TERN_TRY(tern_cuda__write(cuda, buffer->data + l->scales_offset + first * sizeof(float), part->row_scales,
                              part->rows * sizeof(float), err));
    return tern_cuda__status(cudaStreamSynchronize(cuda->stream), "the device", err); /* row_scales may go */
}

tern_status tern_cuda__weight_make(tern_cuda *cuda, const tern_weight *w, tern_buffer **out, tern_error *err)
{
    tern_gpu_layout layout;
    tern_buffer *buffer;
    TERN_TRY(tern_cuda__layout(&layout, w, err));
    if (tern_cuda__buffer_make(cuda, layout.bytes, &buffer, err) != TERN_OK)
        return tern_error_prefix(err, "%s", w->name);
    buffer->is_weight = true;
    buffer->layout = layout;
    const tern_status status = tern_cuda__weight_write(cuda, buffer, w, 0, err);
    if (status == TERN_OK) *out = buffer;
    else tern_cuda__buffer_free(buffer);
    return status;
}
