/* Converting one tensor from the encoding it has to the one it gets. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/pool.h"
#include "format/gguf.h"
#include "model/write/export_internal.h"
#include "quant/absmean.h"
#include "quant/encoding.h"
#include "quant/rsr.h"

enum { SLICE_ELEMENTS = 1 << 20, TASK_ROWS = 16 };

/* Where output row `row` comes from. Split halves hold a pair's two rows half a head apart, adjacent pairs next to each
 * other: out[head][pair][half] = in[head][half][pair]. */
uint32_t tern_export__source_row(const tern_export_plan *p, uint32_t row)
{
    if (p->permuted_heads == 0) return p->heads.columns ? row : tern_head_order_source(&p->heads, row);
    uint32_t head_dim = p->weight->rows / p->permuted_heads;
    assert(head_dim > 0); /* heads divide the rows of a checked configuration */
    uint32_t at = row % head_dim;
    return row - at + at % 2 * (head_dim / 2) + at / 2;
}

/* Whether output rows come from other rows. */
static bool moves_rows(const tern_export_plan *p)
{
    return p->permuted_heads || (p->heads.run && !p->heads.columns);
}

/* Columns of n rows of items of a size, where those of heads are moved. */
static tern_status move_columns(const tern_export_plan *p, void *rows, uint32_t n, size_t item, tern_error *err)
{
    const size_t bytes = p->weight->cols * item;
    if (!p->heads.run || !p->heads.columns) return TERN_OK;
    void *room = tern_alloc(bytes);
    if (!room) return tern_fail_alloc(err, bytes);
    tern_head_order_columns(&p->heads, rows, n, p->weight->cols, item, room);
    tern_free(room);
    return TERN_OK;
}

static tern_status source_codes(const tern_export_plan *p, uint32_t first, uint32_t n, int8_t *codes, tern_error *err)
{
    const tern_weight *w = p->weight;
    if (!moves_rows(p))
        return tern_decode_codes(w->encoding, w->data, w->rows, w->cols, first, n, codes, NULL, NULL, NULL, err);
    for (uint32_t i = 0; i < n; i++)
        TERN_TRY(tern_decode_codes(w->encoding, w->data, w->rows, w->cols, tern_export__source_row(p, first + i), 1,
                                   codes + (size_t)i * w->cols, NULL, NULL, NULL, err));
    return TERN_OK;
}

static tern_status rows_to_codes(const tern_export_plan *p, uint32_t first, uint32_t n, int8_t *codes, tern_error *err)
{
    TERN_TRY(source_codes(p, first, n, codes, err));
    return move_columns(p, codes, n, sizeof *codes, err);
}

/* The codes wait in the last quarter of `values`, each read before its place is overwritten. */
static tern_status codes_to_values(const tern_export_plan *p, uint32_t first, uint32_t n, float *values,
                                   tern_error *err)
{
    const tern_weight *w = p->weight;
    size_t total = (size_t)n * w->cols;
    const int8_t *codes = (int8_t *)(values + total) - total;
    TERN_TRY(rows_to_codes(p, first, n, (int8_t *)(values + total) - total, err));
    for (uint32_t row = 0; row < n; row++) {
        float scale = w->row_scales ? w->row_scales[tern_export__source_row(p, first + row)] : w->scale;
        for (uint32_t col = 0; col < w->cols; col++) *values++ = (float)*codes++ * scale;
    }
    return TERN_OK;
}

static tern_status source_values(const tern_export_plan *p, uint32_t first, uint32_t n, float *values, tern_error *err)
{
    const tern_weight *w = p->weight;
    if (!moves_rows(p)) return tern_decode_rows(w->encoding, w->data, w->rows, w->cols, first, n, values, err);
    for (uint32_t i = 0; i < n; i++)
        TERN_TRY(tern_decode_rows(w->encoding, w->data, w->rows, w->cols, tern_export__source_row(p, first + i), 1,
                                  values + (size_t)i * w->cols, err));
    return TERN_OK;
}

static tern_status rows_to_values(const tern_export_plan *p, uint32_t first, uint32_t n, float *values, tern_error *err)
{
    if (p->weight->encoding->ternary) return codes_to_values(p, first, n, values, err);
    TERN_TRY(source_values(p, first, n, values, err));
    return move_columns(p, values, n, sizeof *values, err);
}

/* Rows whose blocks change places: those of a run of columns are whole blocks. */
static tern_status write_moved_blocks(const tern_export_plan *p, size_t row_bytes, tern_gguf_writer *out,
                                      tern_error *err)
{
    const tern_weight *w = p->weight;
    const tern_encoding *e = p->encoding;
    tern_head_order blocks = p->heads;
    blocks.run /= e->block_elements;
    uint8_t *row = tern_alloc(2 * row_bytes);
    if (!row) return tern_fail_alloc(err, 2 * row_bytes);
    tern_status status = TERN_OK;
    for (uint32_t r = 0; r < w->rows && status == TERN_OK; r++) {
        memcpy(row, w->data + r * row_bytes, row_bytes);
        tern_head_order_columns(&blocks, row, 1, w->cols / e->block_elements, e->block_bytes, row + row_bytes);
        status = tern_gguf_writer_data(out, row, row_bytes, err);
    }
    tern_free(row);
    return status;
}

/* The encoding stays: bytes are copied row by row. */
static tern_status write_same(const tern_export_plan *p, tern_gguf_writer *out, tern_error *err)
{
    const tern_weight *w = p->weight;
    size_t row_bytes;
    if (!p->permuted_heads && !p->heads.run) return tern_gguf_writer_data(out, w->data, w->bytes, err);
    TERN_TRY(tern_encoding_row_bytes(p->encoding, w->cols, &row_bytes, err));
    if (p->heads.columns) return write_moved_blocks(p, row_bytes, out, err);
    for (uint32_t row = 0; row < w->rows; row++)
        TERN_TRY(tern_gguf_writer_data(out, w->data + tern_export__source_row(p, row) * row_bytes, row_bytes, err));
    return TERN_OK;
}

/* Rows that are encoded by all threads, TASK_ROWS a task. */
typedef struct slice {
    const tern_export_plan *plan;
    const float *importance;
    uint32_t first, n;
    float *values;
    uint8_t *bytes;
    size_t row_bytes;
} slice;

static tern_status encode_task(void *context, uint32_t task, uint32_t thread, tern_error *err)
{
    (void)thread;
    const slice *s = context;
    const tern_weight *w = s->plan->weight;
    const uint32_t at = task * TASK_ROWS, n = s->n - at < TASK_ROWS ? s->n - at : TASK_ROWS;
    float *values = s->values + (size_t)at * w->cols;
    TERN_TRY(rows_to_values(s->plan, s->first + at, n, values, err));
    if (tern_encode_weighted(s->plan->encoding, values, s->importance, n, w->cols, s->bytes + at * s->row_bytes, err) !=
        TERN_OK)
        return tern_error_prefix(err, "%s", w->name);
    return TERN_OK;
}

static tern_status write_slices(const tern_export_plan *p, tern_gguf_writer *out, uint32_t n_slice, float *values,
                                uint8_t *bytes, size_t row_bytes, tern_error *err)
{
    const tern_weight *w = p->weight;
    const uint32_t each = p->importance ? w->rows / p->n_experts : w->rows;
    slice s = {.plan = p, .values = values, .bytes = bytes, .row_bytes = row_bytes};
    for (; s.first < w->rows; s.first += s.n) { /* of no two experts, which have other importances */
        const uint32_t left = each - s.first % each;
        s.importance = p->importance ? p->importance + (size_t)(s.first / each) * w->cols : NULL;
        s.n = left < n_slice ? left : n_slice;
        TERN_TRY(tern_pool_try(p->pool, (s.n + TASK_ROWS - 1) / TASK_ROWS, encode_task, &s, err));
        TERN_TRY(tern_gguf_writer_data(out, bytes, s.n * row_bytes, err));
    }
    return TERN_OK;
}

static tern_status write_dense(const tern_export_plan *p, tern_gguf_writer *out, tern_error *err);

/* A bias has a number for each row of its matrix: it is permuted as a matrix of one column. */
static tern_status write_bias(const tern_export_plan *p, tern_gguf_writer *out, tern_error *err)
{
    tern_weight column = *p->weight;
    tern_export_plan plan = *p;
    column.rows = p->weight->cols;
    column.cols = 1;
    plan.weight = &column;
    return write_dense(&plan, out, err);
}

static tern_status write_dense(const tern_export_plan *p, tern_gguf_writer *out, tern_error *err)
{
    const tern_weight *w = p->weight;
    const bool split = p->heads.columns && p->heads.run % p->encoding->block_elements != 0; /* blocks of two heads */
    if (moves_rows(p) && w->rows == 1) return write_bias(p, out, err);
    if (p->encoding == w->encoding && !split) return write_same(p, out, err);
    size_t row_bytes;
    TERN_TRY(tern_encoding_row_bytes(p->encoding, w->cols, &row_bytes, err));
    uint32_t n_slice = w->cols < SLICE_ELEMENTS ? SLICE_ELEMENTS / w->cols : 1;
    if (n_slice > w->rows) n_slice = w->rows;
    float *values = tern_alloc((size_t)n_slice * w->cols * sizeof *values);
    uint8_t *bytes = tern_alloc(n_slice * row_bytes);
    tern_status status = TERN_OK;
    if (!values || !bytes)
        status = tern_fail_alloc(err, (size_t)n_slice * w->cols * sizeof *values + n_slice * row_bytes);
    else status = write_slices(p, out, n_slice, values, bytes, row_bytes, err);
    tern_free(values);
    tern_free(bytes);
    return status;
}

/* codes NULL: only the scale. */
static tern_status ternarise(const tern_export_plan *p, int8_t *codes, float *scale, tern_error *err)
{
    const tern_weight *w = p->weight;
    const size_t n = (size_t)w->rows * w->cols;
    size_t bytes;
    if (!tern_size_mul(n, sizeof(float), &bytes)) return tern_fail_alloc(err, SIZE_MAX);
    float *values = tern_alloc(bytes);
    if (!values) return tern_fail_alloc(err, bytes);
    tern_status status = rows_to_values(p, 0, w->rows, values, err);
    if (status == TERN_OK && codes && p->signs) tern_export__take_signs(values, n, codes);
    else if (status == TERN_OK && codes) tern_ternarise(values, n, codes, scale);
    if (status == TERN_OK && !codes) *scale = tern_absmean(values, n);
    tern_free(values);
    if (status == TERN_OK && !p->signs && !isfinite(*scale))
        return tern_fail(err, TERN_MALFORMED, "%s: a mean magnitude of %g found, a finite one expected", w->name,
                         (double)*scale);
    return status;
}

tern_status tern_export__ternarised_scale(const tern_export_plan *p, float *scale, tern_error *err)
{
    return ternarise(p, NULL, scale, err);
}

/* Weights without scales: the codes in the order of the output. */
tern_status tern_export__codes(const tern_export_plan *p, int8_t **out, tern_error *err)
{
    const tern_weight *w = p->weight;
    float scale;
    int8_t *codes = tern_alloc((size_t)w->rows * w->cols);
    if (!codes) return tern_fail_alloc(err, (size_t)w->rows * w->cols);
    const tern_status status =
        p->ternarise ? ternarise(p, codes, &scale, err) : rows_to_codes(p, 0, w->rows, codes, err);
    if (status == TERN_OK) *out = codes;
    else tern_free(codes);
    return status;
}

/* Each row with its own scale in its blocks. */
static tern_status encode_rows(const tern_export_plan *p, const int8_t *codes, uint8_t *bytes, tern_error *err)
{
    const tern_weight *w = p->weight;
    size_t row_bytes;
    TERN_TRY(tern_encoding_row_bytes(p->encoding, w->cols, &row_bytes, err));
    for (uint32_t r = 0; r < w->rows; r++)
        TERN_TRY(tern_encode_codes(p->encoding, codes + (size_t)r * w->cols, tern_export__scale(p, r), 1, w->cols,
                                   bytes + r * row_bytes, err));
    return TERN_OK;
}

static tern_status encode(const tern_export_plan *p, const int8_t *codes, float scale, uint8_t *bytes, tern_error *err)
{
    const tern_weight *w = p->weight;
    if (tern_export__by_row(p) && p->n_scales == 0) return encode_rows(p, codes, bytes, err);
    return tern_encode_codes(p->encoding, codes, p->n_scales ? 1.0f : scale, w->rows, w->cols, bytes, err);
}

static tern_status encode_codes(const tern_export_plan *p, tern_gguf_writer *out, int8_t *codes, uint8_t *bytes,
                                size_t n_bytes, tern_error *err)
{
    const tern_weight *w = p->weight;
    float scale = p->scale;
    if (p->ternarise) TERN_TRY(ternarise(p, codes, &scale, err));
    else TERN_TRY(rows_to_codes(p, 0, w->rows, codes, err));
    if (encode(p, codes, scale, bytes, err) != TERN_OK) return tern_error_prefix(err, "%s", w->name);
    TERN_TRY(tern_gguf_writer_data(out, bytes, n_bytes, err));
    TERN_TRY(tern_export__write_scales(p, scale, out, err));
    return p->rsr_rows ? tern_export__rsr_write(p, codes, tern_rsr_origin(bytes, n_bytes), out, err) : TERN_OK;
}

static tern_status write_ternary(const tern_export_plan *p, tern_gguf_writer *out, tern_error *err)
{
    const tern_weight *w = p->weight;
    size_t n_codes = (size_t)w->rows * w->cols, n_bytes;
    TERN_TRY(tern_encoding_bytes(p->encoding, w->rows, w->cols, &n_bytes, err));
    int8_t *codes = tern_alloc(n_codes);
    uint8_t *bytes = tern_alloc(n_bytes);
    tern_status status = TERN_OK;
    if (!codes || !bytes) status = tern_fail_alloc(err, n_codes + n_bytes);
    else status = encode_codes(p, out, codes, bytes, n_bytes, err);
    tern_free(codes);
    tern_free(bytes);
    return status;
}

tern_status tern_export__write(const tern_export_plan *plan, tern_gguf_writer *w, tern_error *err)
{
    return plan->encoding->ternary ? write_ternary(plan, w, err) : write_dense(plan, w, err);
}
