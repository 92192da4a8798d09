/* Rows of encoded tensors back to floats or codes. */
#include <string.h>

#include "quant/layout.h"
#include "quant/ternary.h"

/* Reads one stored row of a ternary tensor, a piece at a time; a piece never crosses the end of a block. */
typedef struct reader {
    const tern_encoding *e;
    const tern_layout *layout;
    const uint8_t *row;
    float tail_scale;
    uint8_t raw[TERN_TERNARY_MAX_BLOCK];
    int8_t codes[TERN_TERNARY_MAX_BLOCK];
    float scale;  /* of the piece */
    size_t n_bad; /* in the piece */
} reader;

static float block_scale(const reader *r, const uint8_t *block)
{
    return r->e->codec->scale ? r->e->codec->scale(block) : r->tail_scale;
}

/* Elements at .. at + n - 1 of the row, as many of the `most` asked for as the block has: r->codes, r->scale, r->n_bad.
 * Returns n. */
static size_t read_piece(reader *r, size_t at, size_t most)
{
    size_t block_elements = r->e->block_elements, block = at / block_elements, begin = at % block_elements;
    const uint8_t *bytes = r->row + block * r->e->block_bytes;
    bool is_short = block == r->layout->n_blocks;
    size_t end = is_short ? r->layout->rest : block_elements;
    size_t n = most < end - begin ? most : end - begin;
    if (is_short) r->e->codec->unpack_short(bytes, end, r->raw);
    else r->e->codec->unpack(bytes, r->raw);
    r->n_bad = tern_ternary__codes(r->raw + begin, n, r->codes);
    r->scale = block_scale(r, bytes);
    if (r->scale == 0) memset(r->codes, 0, n);
    return n;
}

/* Points r at the stored row with element 0 of row `i` of the tensor; its place in that row. */
static size_t seek(reader *r, const void *in, uint64_t i, uint64_t cols)
{
    size_t stored = r->e->linear ? 0 : (size_t)i;
    r->row = (const uint8_t *)in + stored * r->layout->row_bytes;
    return r->e->linear ? (size_t)i * (size_t)cols : 0;
}

static reader reader_open(const tern_encoding *e, const tern_layout *layout, const void *in)
{
    return (reader){.e = e, .layout = layout, .tail_scale = e->tail_bytes ? tern_layout__tail_scale(layout, in) : 0};
}

static tern_status check_range(const tern_encoding *e, uint64_t rows, uint64_t first, uint64_t n, tern_error *err)
{
    if (first <= rows && n <= rows - first) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: found rows %llu + %llu, expected at most %llu", e->name,
                     (unsigned long long)first, (unsigned long long)n, (unsigned long long)rows);
}

static void ternary_row(reader *r, size_t at, size_t cols, float *out)
{
    for (size_t done = 0; done < cols;) {
        size_t n = read_piece(r, at + done, cols - done);
        for (size_t i = 0; i < n; i++) out[done + i] = (float)r->codes[i] * r->scale;
        done += n;
    }
}

tern_status tern_decode_rows(const tern_encoding *e, const void *in, uint64_t rows, uint64_t cols, uint64_t first,
                             uint64_t n, float *out, tern_error *err)
{
    tern_layout layout = {0};
    TERN_TRY(tern_layout__of(e, rows, cols, &layout, err));
    TERN_TRY(check_range(e, rows, first, n, err));
    if (!e->ternary) {
        e->unpack((const uint8_t *)in + (size_t)first * layout.row_bytes, (size_t)n * layout.n_blocks, out);
        return TERN_OK;
    }
    reader r = reader_open(e, &layout, in);
    for (uint64_t i = 0; i < n; i++) {
        size_t at = seek(&r, in, first + i, cols);
        ternary_row(&r, at, (size_t)cols, out + i * cols);
    }
    return TERN_OK;
}

/* The scale that the pieces of a row have given so far. */
typedef struct row_scale {
    float value; /* 0 until a piece has a scale that is not 0 */
    bool uniform;
} row_scale;

static void add_scale(row_scale *s, float scale)
{
    if (scale == 0) return;
    if (s->value == 0) s->value = scale;
    else if (!(s->value == scale)) s->uniform = false;
}

static size_t codes_row(reader *r, size_t at, size_t cols, int8_t *codes, row_scale *scale)
{
    size_t n_bad = 0;
    for (size_t done = 0; done < cols;) {
        size_t n = read_piece(r, at + done, cols - done);
        memcpy(codes + done, r->codes, n);
        add_scale(scale, r->scale);
        n_bad += r->n_bad;
        done += n;
    }
    return n_bad;
}

tern_status tern_decode_codes(const tern_encoding *e, const void *in, uint64_t rows, uint64_t cols, uint64_t first,
                              uint64_t n, int8_t *codes, float *row_scales, bool *uniform, size_t *n_bad,
                              tern_error *err)
{
    tern_layout layout = {0};
    TERN_TRY(tern_layout__of(e, rows, cols, &layout, err));
    TERN_TRY(check_range(e, rows, first, n, err));
    if (!e->ternary)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: found no codes, expected a ternary encoding", e->name);
    reader r = reader_open(e, &layout, in);
    bool all_uniform = true;
    size_t bad = 0;
    for (uint64_t i = 0; i < n; i++) {
        row_scale scale = {0, true};
        size_t at = seek(&r, in, first + i, cols);
        bad += codes_row(&r, at, (size_t)cols, codes + i * cols, &scale);
        if (row_scales) row_scales[i] = scale.value;
        all_uniform = all_uniform && scale.uniform;
    }
    if (uniform) *uniform = all_uniform;
    if (n_bad) *n_bad = bad;
    return TERN_OK;
}
