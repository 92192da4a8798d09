/* The table of foreign layouts, their sizes, and whole tensors of them. Sources: ik_llama.cpp (ggml/src/ggml.c, row
 * sizes), bitnet.cpp's llama.cpp (ggml/src/ggml.c, ggml_nbytes). */
#include "quant/foreign.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "quant/foreign_internal.h"

static const tern_foreign table[] = {
    {"tl1", "bitnet.cpp", TERN_TL1, true},
    {"tl2", "bitnet.cpp", TERN_TL2, true},
    {"iq1_bn", "ik_llama.cpp", TERN_IQ1_BN, false},
    {"iq2_bn", "ik_llama.cpp", TERN_IQ2_BN, false},
    {"iq2_bn_r4", "ik_llama.cpp", TERN_IQ2_BN_R4, false},
};

enum { BLOCK = 64, TAIL = 32, TL2_PAIRS = 256 };

const tern_foreign *tern_foreign_at(size_t i)
{
    return i < sizeof table / sizeof *table ? &table[i] : NULL;
}

const tern_foreign *tern_foreign_find(uint32_t gguf_type)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].id == gguf_type) return &table[i];
    return NULL;
}

static tern_status refuse(const tern_foreign *f, uint64_t rows, uint64_t cols, const char *expected, tern_error *err)
{
    return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: found %llu rows of %llu columns, expected %s", f->name,
                     (unsigned long long)rows, (unsigned long long)cols, expected);
}

static tern_status check_shape(const tern_foreign *f, uint64_t rows, uint64_t cols, tern_error *err)
{
    if (rows > UINT32_MAX || cols > UINT32_MAX || (rows && cols > (uint64_t)SIZE_MAX / 2 / rows))
        return tern_fail(err, TERN_LIMIT, "%s: a tensor of %llu x %llu does not fit in memory", f->name,
                         (unsigned long long)rows, (unsigned long long)cols);
    switch (f->id) {
    case TERN_TL1:
        return rows && cols && rows * cols % 4 == 0 ? TERN_OK : refuse(f, rows, cols, "a multiple of 4", err);
    case TERN_TL2: return rows && cols >= TL2_PAIRS ? TERN_OK : refuse(f, rows, cols, "at least 256 columns", err);
    case TERN_IQ2_BN_R4:
        if (rows == 0 || rows % 4) return refuse(f, rows, cols, "a multiple of 4 rows", err);
        break;
    default: break;
    }
    return cols && cols % BLOCK == 0 ? TERN_OK : refuse(f, rows, cols, "a multiple of 64 columns", err);
}

static uint64_t up_to_32(uint64_t n)
{
    return (n + 31) / 32 * 32;
}

/* Where the scale of a tiled tensor lies: its bytes, rounded up, as bitnet.cpp counts them. */
static uint64_t tl_bytes(const tern_foreign *f, uint64_t rows, uint64_t cols)
{
    if (f->id == TERN_TL1) return up_to_32(rows * cols / 4);
    return up_to_32((cols - TL2_PAIRS) * rows / 3 * 5 / 8 + TL2_PAIRS * rows / 2 * 4 / 8);
}

static uint64_t row_bytes(const tern_foreign *f, uint64_t cols)
{
    return f->id == TERN_IQ1_BN ? 2 + cols / BLOCK * 13 : 4 + cols / 4;
}

tern_status tern_foreign_bytes(const tern_foreign *f, uint64_t rows, uint64_t cols, size_t *bytes, tern_error *err)
{
    TERN_TRY(check_shape(f, rows, cols, err));
    *bytes = (size_t)(f->tiled ? tl_bytes(f, rows, cols) + TAIL : rows * row_bytes(f, cols));
    return TERN_OK;
}

static tern_status decode_tiles(const tern_foreign *f, const uint8_t *in, uint64_t rows, uint64_t cols,
                                const tern_tl_tiles *tiles, int8_t *codes, float *scales, size_t *bad, tern_error *err)
{
    const tern_tl_tile *tile = tern_tl__tile(tiles, f->id, rows, cols);
    const unsigned long long m = rows, k = cols;
    if (!tile)
        return tern_fail(err, TERN_UNSUPPORTED,
                         "%s: the tiles of %llu x %llu are unknown; they are in the kernel_config.ini of the "
                         "bitnet.cpp that wrote the file (tern convert --kernel-config FILE)",
                         f->name, m, k);
    if (!tern_tl__fits(tile, f->id))
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "%s: bm %u, bk %u, bmm %u found for %llu x %llu, which they do not cut", f->name,
                         tile->tile_rows, tile->tile_cols, tile->strip_rows, m, k);
    if (f->id == TERN_TL1) tern_foreign__tl1(in, tile, codes, bad);
    else tern_foreign__tl2(in, tile, codes, bad);
    const float scale = tern_load_f32(in + tl_bytes(f, rows, cols));
    for (uint64_t r = 0; r < rows; r++) scales[r] = scale;
    return TERN_OK;
}

tern_status tern_foreign_decode(const tern_foreign *f, const uint8_t *in, uint64_t rows, uint64_t cols,
                                const tern_tl_tiles *tiles, int8_t *codes, float *row_scales, tern_error *err)
{
    size_t bytes, bad = SIZE_MAX;
    TERN_TRY(tern_foreign_bytes(f, rows, cols, &bytes, err));
    const size_t m = (size_t)rows, k = (size_t)cols;
    if (f->tiled) TERN_TRY(decode_tiles(f, in, rows, cols, tiles, codes, row_scales, &bad, err));
    else if (f->id == TERN_IQ1_BN) tern_foreign__iq1_bn(in, m, k, codes, row_scales, &bad);
    else if (f->id == TERN_IQ2_BN) tern_foreign__iq2_bn(in, m, k, codes, row_scales, &bad);
    else tern_foreign__iq2_bn_r4(in, m, k, codes, row_scales, &bad);
    if (bad == SIZE_MAX) return TERN_OK;
    return tern_fail(err, TERN_MALFORMED, "%s: found %u at byte %zu, which stands for no codes", f->name,
                     (unsigned)in[bad], bad);
}
