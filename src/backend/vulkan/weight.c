/* Weights on the device: rows packed by several threads while earlier ones are being copied. */
#include <string.h>

#include "backend/vulkan/device.h"
#include "quant/weight.h"

static tern_status copy_bytes(tern_vulkan *vk, tern_buffer *buffer, uint64_t offset, const void *data, uint64_t bytes,
                              tern_error *err)
{
    if (!buffer->memory.mapped) return tern_vulkan__upload(vk, buffer, offset, data, bytes, err);
    memcpy(buffer->memory.mapped + offset, data, (size_t)bytes);
    return TERN_OK;
}

/* Rows [first, first + n) to `offset`, straight into memory that is mapped, else a staging buffer full at a time. */
static tern_status copy_rows(tern_vulkan *vk, tern_buffer *buffer, const tern_gpu_layout *layout, const tern_weight *w,
                             uint32_t first, uint32_t n, uint64_t offset, tern_error *err)
{
    uint8_t *mapped = buffer->memory.mapped;
    uint32_t most = mapped ? n : TERN_VULKAN_UPLOAD_BYTES / layout->row_bytes;
    if (most == 0)
        return tern_fail(err, TERN_UNSUPPORTED, "%s: rows of %u bytes: at most %d expected", w->name, layout->row_bytes,
                         TERN_VULKAN_UPLOAD_BYTES);
    for (uint32_t done = 0; done < n; done += most) {
        const uint32_t now = n - done < most ? n - done : most;
        const uint64_t at = offset + (uint64_t)done * layout->row_bytes;
        uint8_t *out = mapped ? mapped + at : NULL;
        if (!mapped)
            TERN_TRY(tern_vulkan__upload_reserve(vk, buffer, at, (uint64_t)now * layout->row_bytes, &out, err));
        TERN_TRY(tern_gpu_workers_pack(&vk->workers, layout, w, first + done, now, out, err));
    }
    return TERN_OK;
}

/* Rows [first, first + n) of the layout that lie in one slice, `at` from the first of `part`. */
static tern_status write_slice(tern_vulkan *vk, tern_buffer *buffer, const tern_weight *part, uint32_t at,
                               uint32_t first, uint32_t n, tern_error *err)
{
    const tern_gpu_layout *l = &buffer->layout;
    const uint32_t row = first % l->slice_rows;
    const uint64_t slice = first / l->slice_rows * l->slice_bytes;
    if (part->data) TERN_TRY(copy_rows(vk, buffer, l, part, at, n, slice + (uint64_t)row * l->row_bytes, err));
    if (!l->scales_offset || !part->row_scales) return TERN_OK;
    return copy_bytes(vk, buffer, slice + l->scales_offset + row * sizeof(float), part->row_scales + at,
                      n * sizeof(float), err);
}

tern_status tern_vulkan__weight_write(tern_vulkan *vk, tern_buffer *buffer, const tern_weight *part, uint32_t first,
                                      tern_error *err)
{
    const tern_gpu_layout *l = &buffer->layout;
    if (part->cols != l->cols || first > l->rows || part->rows > l->rows - first)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: %u rows of %u from row %u on: there are %u of %u", part->name,
                         part->rows, part->cols, first, l->rows, l->cols);
    for (uint32_t at = 0, n; at < part->rows; at += n) {
        const uint32_t left = part->rows - at, fits = l->slice_rows - (first + at) % l->slice_rows;
        n = left < fits ? left : fits;
        if (write_slice(vk, buffer, part, at, first + at, n, err) != TERN_OK)
            return tern_error_prefix(err, "%s", part->name);
    }
    if (part->data) vk->counters.uploaded_bytes += (uint64_t)part->rows * l->row_bytes;
    return tern_vulkan__flush(vk, &buffer->memory, err);
}

static tern_status make_room(tern_vulkan *vk, const tern_weight *w, tern_buffer **out, tern_error *err)
{
    tern_gpu_layout layout;
    TERN_TRY(tern_gpu_layout_of(&layout, w, &vk->caps, err));
    if (tern_vulkan__buffer_make(vk, layout.bytes, TERN_VULKAN_DEVICE, out, err) != TERN_OK)
        return tern_error_prefix(err, "%s", w->name);
    (*out)->layout = layout;
    return TERN_OK;
}

tern_status tern_vulkan__weight_make(tern_vulkan *vk, const tern_weight *w, tern_buffer **out, tern_error *err)
{
    tern_buffer *buffer = NULL;
    TERN_TRY(make_room(vk, w, &buffer, err));
    tern_status status = w->data ? tern_vulkan__weight_write(vk, buffer, w, 0, err) : TERN_OK;
    if (status == TERN_OK) *out = buffer;
    else tern_vulkan__buffer_free(vk, buffer);
    return status;
}
