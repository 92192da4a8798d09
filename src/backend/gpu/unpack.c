/* Rows of a weight back from their layout on a device, in an encoding that the CPU reads. */
#include <string.h>

#include "backend/gpu/blocks.h"
#include "base/alloc.h"
#include "quant/encoding.h"
#include "quant/weight.h"

enum { GROUP = 128 }; /* i2_s */

const tern_encoding *tern_gpu_unpacked(const tern_gpu_layout *layout, const tern_weight *w)
{
    const tern_gpu_blocks *blocks = tern_gpu_blocks_of(w->encoding);
    if (blocks) return tern_encoding_find(blocks->encoding);
    if (layout->format != TERN_GPU_TERNARY) return w->encoding;
    return tern_encoding_find(w->cols % GROUP ? TERN_ENC_T160 : TERN_ENC_I2_S);
}

static tern_status unpack_t160(const uint8_t *in, uint32_t cols, size_t row_bytes, uint8_t *out, tern_error *err)
{
    const tern_encoding *i2_s = tern_encoding_find(TERN_ENC_I2_S), *t160 = tern_encoding_find(TERN_ENC_T160);
    const size_t n_groups = ((size_t)cols + GROUP - 1) / GROUP, n_codes = n_groups * GROUP;
    int8_t *codes = tern_alloc(n_codes);
    float *scales = tern_alloc(n_groups * sizeof *scales);
    uint8_t *row = tern_alloc(row_bytes + t160->tail_bytes);
    tern_status status = codes && scales && row ? TERN_OK : tern_fail_alloc(err, n_codes);
    if (status == TERN_OK) {
        i2_s->unpack_codes(in, n_groups, codes, scales);
        status = tern_encode_codes(t160, codes, 1.0f, 1, cols, row, err);
    }
    if (status == TERN_OK) memcpy(out, row, row_bytes);
    tern_free(codes);
    tern_free(scales);
    tern_free(row);
    return status;
}

tern_status tern_gpu_unpack_rows(const tern_gpu_layout *layout, const tern_weight *w, const uint8_t *in, uint32_t n,
                                 uint8_t *out, tern_error *err)
{
    const tern_encoding *e = tern_gpu_unpacked(layout, w);
    const tern_gpu_blocks *blocks = tern_gpu_blocks_of(e);
    size_t row_bytes;
    TERN_TRY(tern_encoding_row_bytes(e, w->cols, &row_bytes, err));
    for (uint32_t r = 0; r < n; r++, in += layout->row_bytes, out += row_bytes) {
        if (blocks) tern_gpu_blocks_join(blocks, in, w->cols / e->block_elements, out);
        else if (e->id == TERN_ENC_T160) TERN_TRY(unpack_t160(in, w->cols, row_bytes, out, err));
        else memcpy(out, in, row_bytes);
    }
    return TERN_OK;
}
