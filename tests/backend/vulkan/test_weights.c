/* Weights in device memory: every row where its layout says, whichever way it went there. */
#include <string.h>

#include "backend/gpu/layout.h"
#include "backend/vulkan/vulkan.h"
#include "quant/encoding.h"
#include "quant/weight.h"
#include "support/op_case.h"
#include "support/test.h"

static tern_error err;

static tern_backend *open_with(bool staged, const tern_gpu_caps *limits)
{
    tern_backend *b;
    const tern_vulkan_options options = {.cache_dir = "", .staged = staged, .limits = limits};
    tern_status status = tern_vulkan_open(&b, &options, &err);
    if (status == TERN_NOT_FOUND) test_missing(err.message);
    assert_ok(status, err);
    return b;
}

static void check_slice(const tern_gpu_layout *layout, const tern_weight *w, const uint8_t *bytes, uint32_t slice)
{
    uint32_t first = slice * layout->slice_rows, left = layout->rows - first;
    uint32_t n = left < layout->slice_rows ? left : layout->slice_rows;
    const uint8_t *at = bytes + slice * layout->slice_bytes;
    uint8_t *rows = malloc((size_t)n * layout->row_bytes);
    assert_ok(tern_gpu_pack_rows(layout, w, first, n, rows, &err), err);
    for (uint32_t r = 0; r < n; r++)
        if (memcmp(at + (size_t)r * layout->row_bytes, rows + (size_t)r * layout->row_bytes, layout->row_bytes) != 0)
            fail_msg("%s: row %u is not as it was packed", w->encoding->name, first + r);
    if (layout->scales_offset)
        assert_memory_equal(at + layout->scales_offset, w->row_scales + first, n * sizeof(float));
    free(rows);
}

/* Room first, then pieces of an odd number of rows, and scales at the end. */
static tern_buffer *create_in_pieces(tern_backend *b, const tern_weight *w)
{
    enum { ROWS = 61 };
    tern_buffer *buffer;
    tern_weight room = *w, part = *w;
    const size_t row_bytes = (w->bytes - 32) / w->rows;
    room.data = NULL;
    assert_ok(b->weight_create(b, &room, &buffer, &err), err);
    part.row_scales = NULL;
    for (uint32_t at = 0; at < w->rows; at += part.rows) {
        part.rows = w->rows - at < ROWS ? w->rows - at : ROWS;
        uint8_t *copy = malloc(part.rows * row_bytes); /* gone after the call */
        memcpy(copy, w->data + at * row_bytes, part.rows * row_bytes);
        part.data = copy;
        assert_ok(b->weight_write(b, buffer, &part, at, &err), err);
        memset(copy, 0xa5, part.rows * row_bytes);
        free(copy);
    }
    if (w->row_scales) assert_ok(b->weight_write(b, buffer, &room, 0, &err), err);
    part.rows = 2;
    assert_int_equal(b->weight_write(b, buffer, &part, w->rows - 1, &err), TERN_INVALID_ARGUMENT);
    return buffer;
}

static void check_weight(tern_backend *b, const tern_gpu_caps *limits, const tern_weight *w, uint32_t n_slices,
                         bool pieces)
{
    tern_gpu_layout layout;
    tern_buffer *buffer;
    assert_ok(tern_gpu_layout_of(&layout, w, limits, &err), err);
    assert_int_equal(layout.n_slices, n_slices);
    if (pieces) buffer = create_in_pieces(b, w);
    else assert_ok(b->weight_create(b, w, &buffer, &err), err);
    uint8_t *bytes = malloc(layout.bytes);
    assert_ok(b->buffer_read(b, buffer, 0, bytes, layout.bytes, &err), err);
    for (uint32_t i = 0; i < layout.n_slices; i++) check_slice(&layout, w, bytes, i);
    free(bytes);
    b->buffer_free(b, buffer);
}

static tern_weight make_weight(tern_encoding_id id, uint32_t rows, uint32_t cols, const float *row_scales)
{
    tern_weight w = {
        .encoding = tern_encoding_find(id), .rows = rows, .cols = cols, .scale = 1, .row_scales = row_scales};
    size_t row_bytes;
    assert_ok(tern_encoding_row_bytes(w.encoding, cols, &row_bytes, &err), err);
    w.bytes = rows * row_bytes + 32;
    uint8_t *data = malloc(w.bytes);
    for (size_t i = 0; i < w.bytes; i++)
        data[i] = (uint8_t)((i * 2654435761u) >> 15) & (id == TERN_ENC_I2_S ? 0xaa : 0x3f);
    w.data = data;
    return w;
}

/* More than two staging buffers full, in one slice or several, copied as they are or packed; with scales of rows. */
static void rows_arrive(void **state)
{
    (void)state;
    const uint32_t rows = test_quick() ? 500 : 5000;
    float *scales = malloc(rows * sizeof *scales);
    for (uint32_t r = 0; r < rows; r++) scales[r] = 1 + (float)r;
    tern_weight weights[] = {make_weight(TERN_ENC_F16, rows, 4096, NULL), make_weight(TERN_ENC_Q8_0, rows, 4096, NULL),
                             make_weight(TERN_ENC_I2_S, rows, 4096, scales), make_weight(TERN_ENC_F32, 1, 77, NULL)};
    const tern_gpu_caps whole = {
        .workgroup_bytes = 16384, .workgroup_invocations = 128, .max_groups = 65535, .max_binding = 128 << 20};
    tern_gpu_caps sliced = whole;
    sliced.max_binding = rows * 140; /* fewer bytes than any of the matrices has */
    for (int staged = 0; staged < 2; staged++)
        for (int s = 0; s < 2; s++) {
            const tern_gpu_caps *limits = s ? &sliced : &whole;
            tern_backend *b = open_with(staged, limits);
            for (size_t i = 0; i < sizeof weights / sizeof *weights; i++) {
                tern_gpu_layout layout;
                assert_ok(tern_gpu_layout_of(&layout, &weights[i], limits, &err), err);
                for (int pieces = 0; pieces < 2; pieces++)
                    check_weight(b, limits, &weights[i], s ? layout.n_slices : 1, pieces);
                if (s && i < 3) assert_true(layout.n_slices > 1);
            }
            b->close(b);
        }
    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++) free((void *)(uintptr_t)weights[i].data);
    free(scales);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(rows_arrive)};

TEST_GROUP(weights, "gpu swiftshader", tests);
