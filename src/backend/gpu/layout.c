/* How weights lie in device memory: whole rows in slices that a binding can hold. */
#include <string.h>

#include "backend/gpu/blocks.h"
#include "base/alloc.h"
#include "base/bytes.h"
#include "quant/encoding.h"
#include "quant/weight.h"

enum { ROW_ALIGNMENT = 16, SLICE_ALIGNMENT = 256, TILE_ROWS = 128 };
enum { GROUP = 128, GROUP_BYTES = 32 }; /* i2_s */

static bool format_of(const tern_encoding *e, tern_gpu_format *format)
{
    const tern_gpu_blocks *blocks = tern_gpu_blocks_of(e);
    if (blocks) *format = blocks->format;
    else if (e->ternary) *format = TERN_GPU_TERNARY;
    else if (e->id == TERN_ENC_F32) *format = TERN_GPU_F32;
    else if (e->id == TERN_ENC_F16) *format = TERN_GPU_F16;
    else if (e->id == TERN_ENC_BF16) *format = TERN_GPU_BF16;
    else return false;
    return true;
}

/* Bytes of a row before it is padded. */
static uint64_t content_bytes(const tern_encoding *e, uint64_t cols)
{
    const tern_gpu_blocks *blocks = tern_gpu_blocks_of(e);
    if (blocks) return cols / e->block_elements * tern_gpu_blocks_bytes(blocks);
    return e->ternary ? tern_round_up(cols, GROUP) / GROUP * GROUP_BYTES : cols * e->block_bytes;
}

/* The most rows that a binding holds, whole tiles of them when that many fit. */
static uint32_t rows_of_slice(uint64_t max_binding, uint64_t row_bytes, bool row_scales, uint32_t rows)
{
    uint64_t most = max_binding / SLICE_ALIGNMENT * SLICE_ALIGNMENT / (row_bytes + (row_scales ? 4 : 0));
    if (most >= rows) return rows;
    if (most > TILE_ROWS) most -= most % TILE_ROWS;
    return (uint32_t)most;
}

/* Weights that ops write have to lie as the ops take them. */
static tern_status check_trained(const tern_gpu_layout *l, const tern_weight *w, tern_error *err)
{
    const uint64_t content = content_bytes(w->encoding, w->cols);
    if (l->format == TERN_GPU_TERNARY)
        return w->row_scales
                   ? TERN_OK
                   : tern_fail(err, TERN_UNSUPPORTED,
                               "%s: a ternary weight that is trained: a scale for each row expected", w->name);
    if (l->format != TERN_GPU_F32 && l->format != TERN_GPU_BF16)
        return tern_fail(err, TERN_UNSUPPORTED, "%s: a weight in %s that is trained: f32 or bf16 expected", w->name,
                         w->encoding->name);
    if (content != l->row_bytes && w->rows > 1)
        return tern_fail(err, TERN_UNSUPPORTED,
                         "%s: a dense weight that is trained, with rows of %llu bytes: a multiple of %d expected; "
                         "--freeze, or --backend cpu, does without",
                         w->name, (unsigned long long)content, ROW_ALIGNMENT);
    if (l->n_slices > 1)
        return tern_fail(err, TERN_UNSUPPORTED,
                         "%s: a dense weight of %llu bytes that is trained: the device binds at most %llu; "
                         "--freeze, or --backend cpu, does without",
                         w->name, (unsigned long long)(content * w->rows),
                         (unsigned long long)l->slice_rows * l->row_bytes);
    return TERN_OK;
}

tern_status tern_gpu_layout_of(tern_gpu_layout *layout, const tern_weight *w, const tern_gpu_caps *caps,
                               tern_error *err)
{
    tern_gpu_layout l = {.rows = w->rows, .cols = w->cols};
    if (!format_of(w->encoding, &l.format))
        return tern_fail(err, TERN_UNSUPPORTED,
                         "%s: encoding %s: one of " TERN_ENCODING_TERNARY_NAMES ", " TERN_ENCODING_DENSE_NAMES
                         " expected",
                         w->name, w->encoding->name);
    uint64_t row_bytes = tern_round_up(content_bytes(w->encoding, w->cols), ROW_ALIGNMENT);
    if (row_bytes <= UINT32_MAX)
        l.slice_rows = rows_of_slice(caps->max_binding, row_bytes, w->row_scales != NULL, w->rows);
    if (l.slice_rows == 0)
        return tern_fail(err, TERN_UNSUPPORTED, "%s: rows of %llu bytes: the device binds at most %llu", w->name,
                         (unsigned long long)row_bytes, (unsigned long long)caps->max_binding);
    l.row_bytes = (uint32_t)row_bytes;
    l.n_slices = (w->rows + l.slice_rows - 1) / l.slice_rows;
    uint64_t bytes = l.slice_rows * row_bytes;
    if (w->row_scales) {
        l.scales_offset = bytes;
        bytes += l.slice_rows * sizeof(float);
    }
    l.slice_bytes = tern_round_up(bytes, SLICE_ALIGNMENT);
    l.bytes = l.n_slices * l.slice_bytes;
    if (w->trained) TERN_TRY(check_trained(&l, w, err));
    *layout = l;
    return TERN_OK;
}

bool tern_gpu_layout_is_file(const tern_gpu_layout *layout, const tern_weight *w)
{
    const tern_gpu_blocks *blocks = tern_gpu_blocks_of(w->encoding);
    if (layout->format == TERN_GPU_TERNARY) return w->encoding->id == TERN_ENC_I2_S && w->cols % GROUP == 0;
    if (blocks && (blocks->encoding != w->encoding->id || !tern_gpu_blocks_are_file(blocks))) return false;
    return content_bytes(w->encoding, w->cols) == layout->row_bytes;
}

/* Rows of any ternary encoding as i2_s groups, the last one filled up with zero codes. */
static tern_status pack_ternary(const tern_gpu_layout *layout, const tern_weight *w, uint32_t first, uint32_t n,
                                uint8_t *out, tern_error *err)
{
    const tern_encoding *i2_s = tern_encoding_find(TERN_ENC_I2_S);
    size_t n_groups = ((size_t)w->cols + GROUP - 1) / GROUP;
    int8_t *codes = tern_calloc(n_groups, GROUP);
    if (!codes) return tern_fail_alloc(err, n_groups * GROUP);
    tern_status status = TERN_OK;
    for (uint32_t r = 0; r < n && status == TERN_OK; r++) {
        size_t bad;
        status = tern_decode_codes(w->encoding, w->data, w->rows, w->cols, first + r, 1, codes, NULL, NULL, &bad, err);
        i2_s->pack_codes(codes, n_groups, 1.0f, out + (size_t)r * layout->row_bytes);
    }
    tern_free(codes);
    return status;
}

/* Rows of blocks. */
static tern_status pack_blocks(const tern_gpu_blocks *blocks, const tern_gpu_layout *layout, const tern_weight *w,
                               uint32_t first, uint32_t n, uint8_t *out, tern_error *err)
{
    const tern_encoding *e = w->encoding, *as = tern_encoding_find(blocks->encoding);
    const size_t n_blocks = w->cols / e->block_elements, content = n_blocks * tern_gpu_blocks_bytes(blocks);
    uint8_t *rewritten = as == e ? NULL : tern_alloc(n_blocks * as->block_bytes);
    if (as != e && !rewritten) return tern_fail_alloc(err, n_blocks * as->block_bytes);
    for (uint32_t r = 0; r < n; r++, out += layout->row_bytes) {
        const uint8_t *in = w->data + (size_t)(first + r) * n_blocks * e->block_bytes;
        if (rewritten) e->rewrite(in, n_blocks, rewritten);
        tern_gpu_blocks_split(blocks, rewritten ? rewritten : in, n_blocks, out);
        memset(out + content, 0, layout->row_bytes - content);
    }
    tern_free(rewritten);
    return TERN_OK;
}

tern_status tern_gpu_pack_rows(const tern_gpu_layout *layout, const tern_weight *w, uint32_t first, uint32_t n,
                               uint8_t *out, tern_error *err)
{
    size_t row = layout->row_bytes, content = (size_t)content_bytes(w->encoding, w->cols);
    if (tern_gpu_layout_is_file(layout, w)) {
        memcpy(out, w->data + first * row, n * row);
        return TERN_OK;
    }
    if (layout->format == TERN_GPU_TERNARY) return pack_ternary(layout, w, first, n, out, err);
    const tern_gpu_blocks *blocks = tern_gpu_blocks_of(w->encoding);
    if (blocks) return pack_blocks(blocks, layout, w, first, n, out, err);
    for (uint32_t r = 0; r < n; r++, out += row) {
        memcpy(out, w->data + (first + r) * content, content);
        memset(out + content, 0, row - content);
    }
    return TERN_OK;
}
