/* Weights on the device: rows as they come, packed where the layout is not the file's. */
#include "quant/weight.h"
#include "backend/webgpu/device.h"
#include "base/alloc.h"

/* A weight larger than a GPUBuffer is cut between slices. */
static uint64_t part_of(const tern_webgpu *gpu, const tern_gpu_layout *layout)
{
    uint64_t slices = gpu->host.max_buffer / layout->slice_bytes;
    return slices >= layout->n_slices ? 0 : slices * layout->slice_bytes;
}

tern_status tern_webgpu__make_room(tern_webgpu *gpu, const tern_weight *w, tern_buffer **out, tern_error *err)
{
    tern_gpu_layout layout;
    TERN_TRY(tern_gpu_layout_of(&layout, w, &gpu->caps, err));
    TERN_TRY(tern_webgpu__buffer_make(gpu, layout.bytes, part_of(gpu, &layout), w->name, out, err));
    (*out)->layout = layout;
    return TERN_OK;
}

/* Rows [at, at + n) of the part, through the bounce. */
static tern_status write_packed(tern_webgpu *gpu, tern_buffer *buffer, const tern_weight *part, uint32_t at, uint32_t n,
                                uint64_t offset, tern_error *err)
{
    const uint32_t row = buffer->layout.row_bytes, most = TERN_WEBGPU_BOUNCE_BYTES / row;
    if (most == 0)
        return tern_fail(err, TERN_UNSUPPORTED, "%s: rows of %u bytes: at most %d expected", part->name, row,
                         TERN_WEBGPU_BOUNCE_BYTES);
    if (!gpu->bounce) gpu->bounce = tern_alloc(TERN_WEBGPU_BOUNCE_BYTES);
    if (!gpu->bounce) return tern_fail_alloc(err, TERN_WEBGPU_BOUNCE_BYTES);
    for (uint32_t done = 0, now; done < n; done += now) {
        now = n - done < most ? n - done : most;
        TERN_TRY(tern_gpu_pack_rows(&buffer->layout, part, at + done, now, gpu->bounce, err));
        TERN_TRY(tern_webgpu__buffer_write(gpu, buffer, offset + (uint64_t)done * row, gpu->bounce, (uint64_t)now * row,
                                           err));
    }
    return TERN_OK;
}

/* Rows [at, at + n) of the part, which lie in one slice, from its row `row` on. */
static tern_status write_rows(tern_webgpu *gpu, tern_buffer *buffer, const tern_weight *part, uint32_t at, uint32_t n,
                              uint64_t slice, uint32_t row, tern_error *err)
{
    const tern_gpu_layout *l = &buffer->layout;
    const uint64_t start = slice * l->slice_bytes, offset = start + (uint64_t)row * l->row_bytes;
    if (l->scales_offset && part->row_scales)
        TERN_TRY(tern_webgpu__buffer_write(gpu, buffer, start + l->scales_offset + (uint64_t)row * sizeof(float),
                                           part->row_scales + at, n * sizeof(float), err));
    if (!part->data) return TERN_OK;
    if (!tern_gpu_layout_is_file(l, part)) return write_packed(gpu, buffer, part, at, n, offset, err);
    return tern_webgpu__buffer_write(gpu, buffer, offset, part->data + (size_t)at * l->row_bytes,
                                     (uint64_t)n * l->row_bytes, err);
}

tern_status tern_webgpu__weight_write(tern_webgpu *gpu, tern_buffer *buffer, const tern_weight *part, uint32_t first,
                                      tern_error *err)
{
    const tern_gpu_layout *l = &buffer->layout;
    if (first > l->rows || part->rows > l->rows - first || part->cols != l->cols)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "%s: rows %u to %u of %u columns: a weight of %u rows of %u columns expected", part->name,
                         first, first + part->rows, part->cols, l->rows, l->cols);
    for (uint32_t done = 0, n; done < part->rows; done += n) {
        uint32_t row = (first + done) % l->slice_rows, left = part->rows - done;
        n = left < l->slice_rows - row ? left : l->slice_rows - row;
        TERN_TRY(write_rows(gpu, buffer, part, done, n, (first + done) / l->slice_rows, row, err));
    }
    return TERN_OK;
}
