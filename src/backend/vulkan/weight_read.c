/* Weights that came piece by piece, read back from the device: the CPU needs them whole to try a kernel with them. */
#include "backend/vulkan/device.h"
#include "base/alloc.h"
#include "base/bytes.h"
#include "quant/encoding.h"
#include "quant/weight.h"

enum { PIECE_BYTES = 4 << 20 };

/* Rows [first, first + n), which lie in one slice. */
static tern_status read_rows(tern_backend *b, const tern_buffer *buffer, const tern_weight *w, uint32_t first,
                             uint32_t n, uint8_t *piece, uint8_t *data, tern_error *err)
{
    const tern_gpu_layout *l = &buffer->layout;
    size_t row_bytes;
    const uint64_t offset = first / l->slice_rows * l->slice_bytes + (uint64_t)(first % l->slice_rows) * l->row_bytes;
    TERN_TRY(tern_encoding_row_bytes(w->encoding, w->cols, &row_bytes, err));
    TERN_TRY(b->buffer_read(b, buffer, offset, piece, (uint64_t)n * l->row_bytes, err));
    return tern_gpu_unpack_rows(l, w, piece, n, data + first * row_bytes, err);
}

static tern_status read_all(tern_backend *b, const tern_buffer *buffer, const tern_weight *w, uint8_t *data,
                            tern_error *err)
{
    const tern_gpu_layout *l = &buffer->layout;
    const uint32_t most = PIECE_BYTES / l->row_bytes ? PIECE_BYTES / l->row_bytes : 1;
    uint8_t *piece = tern_alloc((size_t)most * l->row_bytes);
    tern_status status = piece ? TERN_OK : tern_fail_alloc(err, (size_t)most * l->row_bytes);
    for (uint32_t at = 0, n; at < w->rows && status == TERN_OK; at += n) {
        const uint32_t left = w->rows - at, slice = l->slice_rows - at % l->slice_rows;
        n = left < slice ? left : slice;
        if (n > most) n = most;
        status = read_rows(b, buffer, w, at, n, piece, data, err);
    }
    tern_free(piece);
    return status;
}

tern_status tern_vulkan__weight_read(tern_backend *b, const tern_buffer *buffer, const tern_weight *weight,
                                     tern_weight *out, tern_error *err)
{
    tern_weight w = *weight;
    w.encoding = tern_gpu_unpacked(&buffer->layout, &w);
    TERN_TRY(tern_encoding_bytes(w.encoding, w.rows, w.cols, &w.bytes, err));
    uint8_t *data = tern_alloc_aligned(w.bytes, 64);
    if (!data) return tern_fail_alloc(err, w.bytes);
    const tern_status status = read_all(b, buffer, &w, data, err);
    if (status != TERN_OK) {
        tern_free_aligned(data);
        return status;
    }
    if (w.encoding->tail_bytes) tern_store_f32(data + w.bytes - w.encoding->tail_bytes, 1);
    w.data = data;
    *out = w;
    return TERN_OK;
}
