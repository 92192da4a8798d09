/* Weights of a trial that came piece by piece: the CPU needs them whole, so they are read back from the device. */
#include "backend/vulkan/device.h"
#include "backend/vulkan/trial.h"
#include "base/alloc.h"
#include "base/bytes.h"

enum { PIECE_BYTES = 4 << 20 };

/* Rows [first, first + n), which lie in one slice. */
static tern_status fetch_rows(tern_vulkan_trial *t, tern_backend *b, const tern_buffer *buffer, tern_weight *w,
                              uint32_t first, uint32_t n, uint8_t *piece, tern_error *err)
{
    const tern_gpu_layout *l = &buffer->layout;
    size_t row_bytes;
    const uint64_t offset = first / l->slice_rows * l->slice_bytes + (uint64_t)(first % l->slice_rows) * l->row_bytes;
    TERN_TRY(tern_encoding_row_bytes(w->encoding, w->cols, &row_bytes, err));
    TERN_TRY(b->buffer_read(b, buffer, offset, piece, (uint64_t)n * l->row_bytes, err));
    return tern_gpu_unpack_rows(l, w, piece, n, t->fetched_data[t->n_fetched] + first * row_bytes, err);
}

static tern_status fetch_all(tern_vulkan_trial *t, tern_backend *b, const tern_buffer *buffer, tern_weight *w,
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
        status = fetch_rows(t, b, buffer, w, at, n, piece, err);
    }
    tern_free(piece);
    return status;
}

static tern_status fetch(tern_vulkan_trial *t, const tern_vulkan_side *device, uint32_t value, tern_error *err)
{
    const tern_buffer *buffer = device->weights[value].buffer;
    tern_weight *w = &t->fetched[t->n_fetched];
    *w = *t->values[value].weight;
    w->encoding = tern_gpu_unpacked(&buffer->layout, w);
    TERN_TRY(tern_encoding_bytes(w->encoding, w->rows, w->cols, &w->bytes, err));
    w->data = t->fetched_data[t->n_fetched] = tern_alloc_aligned(w->bytes, 64);
    if (!w->data) return tern_fail_alloc(err, w->bytes);
    TERN_TRY(fetch_all(t, device->backend, buffer, w, err));
    if (w->encoding->tail_bytes) tern_store_f32(t->fetched_data[t->n_fetched] + w->bytes - w->encoding->tail_bytes, 1);
    t->values[value].weight = w;
    t->n_fetched++;
    return TERN_OK;
}

tern_status tern_vulkan__trial_fetch(tern_vulkan_trial *t, const tern_vulkan_side *device, tern_error *err)
{
    for (uint32_t i = 0; i < t->op.n_in; i++) {
        const uint32_t value = t->op.in[i].value;
        const tern_value *v = &t->values[value];
        if (v->kind == TERN_VALUE_WEIGHT && !v->weight->data && device->weights) TERN_TRY(fetch(t, device, value, err));
    }
    return TERN_OK;
}

void tern_vulkan__trial_drop(tern_vulkan_trial *t)
{
    for (size_t i = 0; i < sizeof t->fetched_data / sizeof *t->fetched_data; i++) tern_free_aligned(t->fetched_data[i]);
}
