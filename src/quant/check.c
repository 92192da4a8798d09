/* The checker of encoded tensors: invalid codes, scales and values that are not finite. */
#include <math.h>

#include "quant/layout.h"
#include "quant/ternary.h"

/* The tensor under check, and where in it the scan stands. */
typedef struct scan {
    const tern_encoding *e;
    tern_layout layout;
    size_t cols;
    size_t at; /* first element of the stored row */
} scan;

static tern_status bad_code(const scan *s, size_t element, tern_error *err)
{
    bool two_bits = s->e->id == TERN_ENC_I2_S || s->e->id == TERN_ENC_TQ2_0;
    return tern_fail(err, TERN_MALFORMED, "%s: found %s at element %zu (row %zu, column %zu), expected -1, 0 or 1",
                     s->e->name, two_bits ? "code 11" : "a byte without codes", element, element / s->cols,
                     element % s->cols);
}

static tern_status bad_scale(const scan *s, size_t block, tern_error *err)
{
    size_t element = s->at + block * s->e->block_elements;
    return tern_fail(err, TERN_MALFORMED, "%s: found a NaN or infinite %s at element %zu (row %zu, column %zu)",
                     s->e->name, s->e->block_elements == 1 ? "value" : "scale", element, element / s->cols,
                     element % s->cols);
}

static size_t first_invalid(const uint8_t *raw, size_t n)
{
    size_t i = 0;
    while (i < n && raw[i] != TERN_RAW_INVALID) i++;
    return i;
}

static tern_status check_blocks(const scan *s, const uint8_t *row, tern_error *err)
{
    const tern_ternary *codec = s->e->codec;
    if (!codec->any_invalid || !codec->any_invalid(row, s->layout.n_blocks)) return TERN_OK;
    size_t b = 0;
    while (!codec->any_invalid(row + b * s->e->block_bytes, 1)) b++;
    uint8_t raw[TERN_TERNARY_MAX_BLOCK];
    codec->unpack(row + b * s->e->block_bytes, raw);
    return bad_code(s, s->at + b * s->e->block_elements + first_invalid(raw, s->e->block_elements), err);
}

static tern_status check_short(const scan *s, const uint8_t *row, tern_error *err)
{
    uint8_t raw[TERN_TERNARY_MAX_BLOCK];
    size_t rest = s->layout.rest, begin = s->layout.n_blocks * s->e->block_elements;
    s->e->codec->unpack_short(row + s->layout.n_blocks * s->e->block_bytes, rest, raw);
    size_t bad = first_invalid(raw, rest);
    if (bad < rest) return bad_code(s, s->at + begin + bad, err);
    for (size_t i = rest; i < s->e->codec->short_capacity(rest); i++)
        if (raw[i] != 1)
            return tern_fail(err, TERN_MALFORMED, "%s: found code %d in the padding of row %zu, expected 0", s->e->name,
                             raw[i] - 1, s->at / s->cols);
    return TERN_OK;
}

static tern_status check_row(const scan *s, const uint8_t *row, tern_error *err)
{
    if (s->e->find_nonfinite) {
        size_t bad = s->e->find_nonfinite(row, s->layout.n_blocks);
        if (bad < s->layout.n_blocks) return bad_scale(s, bad, err);
    }
    if (s->e->ternary) TERN_TRY(check_blocks(s, row, err));
    return s->layout.rest ? check_short(s, row, err) : TERN_OK;
}

tern_status tern_encoding_check(const tern_encoding *e, const void *in, uint64_t rows, uint64_t cols, tern_error *err)
{
    return tern_encoding_check_part(e, in, 0, rows, cols, err);
}

tern_status tern_encoding_check_part(const tern_encoding *e, const void *in, uint64_t first, uint64_t rows,
                                     uint64_t cols, tern_error *err)
{
    scan s = {.e = e, .cols = (size_t)cols};
    TERN_TRY(tern_layout__of(e, rows, cols, &s.layout, err));
    for (size_t r = 0; r < s.layout.n_rows; r++) {
        s.at = (size_t)(first * cols) + r * s.layout.row_elements;
        TERN_TRY(check_row(&s, (const uint8_t *)in + r * s.layout.row_bytes, err));
    }
    if (!e->tail_bytes) return TERN_OK;
    float scale = tern_layout__tail_scale(&s.layout, in);
    if (isfinite(scale)) return TERN_OK;
    return tern_fail(err, TERN_MALFORMED, "%s: found scale %g, expected a finite value", e->name, (double)scale);
}
