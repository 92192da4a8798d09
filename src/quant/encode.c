/* Whole tensors from floats or codes to bytes. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/half.h"
#include "quant/layout.h"
#include "quant/ternary.h"

static tern_status fail_at(const tern_encoding *e, float value, size_t i, uint64_t cols, const char *expected,
                           tern_error *err)
{
    return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: found %g at element %zu (row %zu, column %zu), expected %s",
                     e->name, (double)value, i, i / (size_t)cols, i % (size_t)cols, expected);
}

static tern_status check_finite(const tern_encoding *e, const float *x, size_t n, uint64_t cols, tern_error *err)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return fail_at(e, x[i], i, cols, "a finite value", err);
    return TERN_OK;
}

/* weights[cols]: what the errors of a row count for. */
static void weigh(const float *x, const float *importance, size_t cols, float *weights)
{
    float squares = 0, sum = 0;
    for (size_t c = 0; c < cols; c++) squares += x[c] * x[c], sum += importance[c];
    const float mean = squares / (float)cols, least = 1e-4f * sum / (float)cols;
    for (size_t c = 0; c < cols; c++) weights[c] = fmaxf(importance[c], least) * sqrtf(mean + x[c] * x[c]);
}

static void pack_weighted(const tern_encoding *e, const float *x, const float *importance, const tern_layout *layout,
                          float *weights, uint8_t *out)
{
    for (size_t r = 0; r < layout->n_rows; r++) {
        weigh(x + r * layout->row_elements, importance, layout->row_elements, weights);
        e->pack_weighted(x + r * layout->row_elements, weights, layout->n_blocks, out + r * layout->row_bytes);
    }
}

/* weights NULL: there is no importance. */
static tern_status encode_floats(const tern_encoding *e, const float *x, const float *importance, float *weights,
                                 const tern_layout *layout, uint64_t cols, void *out, tern_error *err)
{
    size_t n_blocks = layout->n_rows * layout->n_blocks;
    if (weights) pack_weighted(e, x, importance, layout, weights, out);
    else e->pack(x, n_blocks, out);
    size_t bad = e->find_nonfinite(out, n_blocks);
    if (bad == n_blocks) return TERN_OK;
    memset(out, 0, layout->n_rows * layout->row_bytes);
    size_t first = bad * e->block_elements, i = first;
    for (size_t k = first; k < first + e->block_elements; k++)
        if (fabsf(x[k]) > fabsf(x[i])) i = k;
    return fail_at(e, x[i], i, cols, "a value in the encoding's range", err);
}

static tern_status encode_ternarised(const tern_encoding *e, const float *x, size_t n, uint64_t rows, uint64_t cols,
                                     void *out, tern_error *err)
{
    float scale;
    int8_t *codes = tern_alloc(n);
    if (!codes) return tern_fail_alloc(err, n);
    tern_ternarise(x, n, codes, &scale);
    tern_status status = tern_encode_codes(e, codes, scale, rows, cols, out, err);
    tern_free(codes);
    return status;
}

tern_status tern_encode(const tern_encoding *e, const float *x, uint64_t rows, uint64_t cols, void *out,
                        tern_error *err)
{
    tern_layout layout = {0};
    TERN_TRY(tern_layout__of(e, rows, cols, &layout, err));
    size_t n = (size_t)rows * (size_t)cols;
    TERN_TRY(check_finite(e, x, n, cols, err));
    if (e->ternary) return encode_ternarised(e, x, n, rows, cols, out, err);
    return encode_floats(e, x, NULL, NULL, &layout, cols, out, err);
}

tern_status tern_encode_weighted(const tern_encoding *e, const float *x, const float *importance, uint64_t rows,
                                 uint64_t cols, void *out, tern_error *err)
{
    tern_layout layout = {0};
    if (!importance || !e->pack_weighted) return tern_encode(e, x, rows, cols, out, err);
    TERN_TRY(tern_layout__of(e, rows, cols, &layout, err));
    TERN_TRY(check_finite(e, x, (size_t)rows * (size_t)cols, cols, err));
    float *weights = tern_alloc((size_t)cols * sizeof *weights);
    if (!weights) return tern_fail_alloc(err, cols * sizeof *weights);
    const tern_status status = encode_floats(e, x, importance, weights, &layout, cols, out, err);
    tern_free(weights);
    return status;
}

/* Whether the encoding can hold the scale: finite, and not lost where it becomes an f16. */
static bool holds_scale(const tern_encoding *e, float scale)
{
    float stored = e->codec->scale ? tern_f16_to_f32(tern_f32_to_f16(scale)) : scale;
    return isfinite(stored) && (stored == 0) == (scale == 0);
}

static tern_status check_codes(const tern_encoding *e, const int8_t *codes, float scale, size_t n, uint64_t cols,
                               tern_error *err)
{
    if (!e->ternary)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: found codes, expected a ternary encoding", e->name);
    if (!holds_scale(e, scale))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: found scale %g, expected one in the range of %s", e->name,
                         (double)scale, e->codec->scale ? "f16" : "f32");
    for (size_t i = 0; i < n; i++)
        if (codes[i] < -1 || codes[i] > 1) return fail_at(e, codes[i], i, cols, "a code -1, 0 or 1", err);
    return TERN_OK;
}

static void put_tail(const tern_encoding *e, const tern_layout *layout, float scale, void *out)
{
    if (!e->tail_bytes) return;
    uint8_t *tail = (uint8_t *)out + layout->n_rows * layout->row_bytes;
    memset(tail, 0, e->tail_bytes);
    tern_store_f32(tail, scale);
}

tern_status tern_encode_codes(const tern_encoding *e, const int8_t *codes, float scale, uint64_t rows, uint64_t cols,
                              void *out, tern_error *err)
{
    tern_layout layout = {0};
    TERN_TRY(tern_layout__of(e, rows, cols, &layout, err));
    TERN_TRY(check_codes(e, codes, scale, (size_t)rows * (size_t)cols, cols, err));
    for (size_t r = 0; r < layout.n_rows; r++) {
        const int8_t *row = codes + r * layout.row_elements;
        uint8_t *to = (uint8_t *)out + r * layout.row_bytes;
        e->pack_codes(row, layout.n_blocks, scale, to);
        if (layout.rest)
            e->codec->pack_short(row + layout.n_blocks * e->block_elements, layout.rest,
                                 to + layout.n_blocks * e->block_bytes);
    }
    put_tail(e, &layout, scale, out);
    return TERN_OK;
}
