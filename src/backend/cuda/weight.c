/* Weights on the device: rows packed by several threads, then copied. */
#include <string.h>

#include "backend/cuda/cuda_internal.h"
#include "quant/encoding.h"
#include "quant/weight.h"

static const tern_gpu_caps whole = {.max_binding = UINT64_MAX / 4, .binding_alignment = 256, .max_groups = 65535};

tern_status tern_cuda__layout(tern_gpu_layout *layout, const tern_weight *w, tern_error *err)
{
    TERN_TRY(tern_gpu_layout_of(layout, w, &whole, err));
    if (tern_cuda_has_linear(layout->format, false)) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED, "%s: cuda: no kernel for %s", w->name, w->encoding->name);
}

/* The next part of the staging memory, once what was in it is on the device. */
static tern_status staging(tern_cuda *cuda, uint32_t *i, tern_error *err)
{
    void *memory = NULL;
    *i = cuda->next_staging;
    cuda->next_staging = (*i + 1) % TERN_CUDA_STAGINGS;
    if (cuda->staging[*i]) return tern_cuda__status(cudaEventSynchronize(cuda->copied[*i]), "the device", err);
    if (!cuda->copied[*i])
        TERN_TRY(
            tern_cuda__status(cudaEventCreateWithFlags(&cuda->copied[*i], cudaEventDisableTiming), "an event", err));
    TERN_TRY(tern_cuda__status(cudaMallocHost(&memory, TERN_CUDA_STAGING_BYTES), "pinned memory", err));
    cuda->staging[*i] = memory;
    return TERN_OK;
}

static tern_status send(tern_cuda *cuda, uint8_t *to, uint32_t i, uint64_t bytes, tern_error *err)
{
    TERN_TRY(tern_cuda__write(cuda, to, cuda->staging[i], bytes, err));
    return tern_cuda__status(cudaEventRecord(cuda->copied[i], cuda->stream), "an event", err);
}

/* Rows [at, at + n) of `part` through the staging memory. */
static tern_status copy_rows(tern_cuda *cuda, uint8_t *to, const tern_gpu_layout *l, const tern_weight *part,
                             uint32_t at, uint32_t n, tern_error *err)
{
    uint32_t i;
    TERN_TRY(staging(cuda, &i, err));
    TERN_TRY(tern_gpu_workers_pack(&cuda->workers, l, part, at, n, cuda->staging[i], err));
    return send(cuda, to, i, (uint64_t)n * l->row_bytes, err);
}

/* The scales may go once this has returned. */
static tern_status copy_scales(tern_cuda *cuda, uint8_t *to, const float *scales, uint64_t bytes, tern_error *err)
{
    uint32_t i;
    TERN_TRY(staging(cuda, &i, err));
    memcpy(cuda->staging[i], scales, bytes);
    return send(cuda, to, i, bytes, err);
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
    for (uint32_t at = 0; part->data && at < part->rows; at += most) {
        const uint32_t left = part->rows - at, n = left < most ? left : most;
        TERN_TRY(copy_rows(cuda, buffer->data + (size_t)(first + at) * l->row_bytes, l, part, at, n, err));
    }
    if (!part->row_scales || !l->scales_offset) return TERN_OK;
    const uint32_t most_scales = TERN_CUDA_STAGING_BYTES / sizeof(float);
    for (uint32_t at = 0; at < part->rows; at += most_scales) {
        const uint32_t left = part->rows - at, n = left < most_scales ? left : most_scales;
        TERN_TRY(copy_scales(cuda, buffer->data + l->scales_offset + (size_t)(first + at) * sizeof(float),
                             part->row_scales + at, n * sizeof(float), err));
    }
    return TERN_OK;
}

tern_status tern_cuda__weight_make(tern_cuda *cuda, const tern_weight *w, tern_buffer **out, tern_error *err)
{
    tern_gpu_layout layout;
    tern_buffer *buffer;
    TERN_TRY(tern_cuda__layout(&layout, w, err));
    if (tern_cuda__buffer_make(cuda, layout.bytes, &buffer, err) != TERN_OK)
        return tern_error_prefix(err, "%s", w->name);
    buffer->layout = layout;
    const tern_status status = tern_cuda__weight_write(cuda, buffer, w, 0, err);
    if (status == TERN_OK) *out = buffer;
    else tern_cuda__buffer_free(buffer);
    return status;
}
