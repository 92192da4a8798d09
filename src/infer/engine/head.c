/* The output table in another encoding (--head), made when a model opens. */
#include "infer/engine/head.h"

#include "base/alloc.h"
#include "base/pool.h"
#include "quant/encoding.h"
#include "quant/weight.h"

enum { SLICE_ROWS = 64 };

typedef struct requantizing {
    const tern_weight *in;
    const tern_encoding *to;
    uint8_t *out;
    size_t row_bytes;
    float *values; /* [threads][SLICE_ROWS * cols] */
} requantizing;

/* A slice of rows. */
static tern_status requantize_slice(void *context, uint32_t task, uint32_t thread, tern_error *err)
{
    const requantizing *q = context;
    const tern_weight *in = q->in;
    const uint32_t first = task * SLICE_ROWS, left = in->rows - first, n = left < SLICE_ROWS ? left : SLICE_ROWS;
    float *values = q->values + (size_t)thread * SLICE_ROWS * in->cols;
    TERN_TRY(tern_decode_rows(in->encoding, in->data, in->rows, in->cols, first, n, values, err));
    return tern_encode(q->to, values, n, in->cols, q->out + first * q->row_bytes, err);
}

static tern_status requantize_all(requantizing *q, tern_pool *pool, tern_error *err)
{
    const size_t n_threads = pool ? tern_pool_threads(pool) : 1;
    const size_t bytes = n_threads * SLICE_ROWS * q->in->cols * sizeof *q->values;
    if (!(q->values = tern_alloc(bytes))) return tern_fail_alloc(err, bytes);
    const tern_status status =
        tern_pool_try(pool, (q->in->rows + SLICE_ROWS - 1) / SLICE_ROWS, requantize_slice, q, err);
    tern_free(q->values);
    return status;
}

tern_status tern_engine__requantize(tern_weight *out, uint8_t **out_data, const tern_weight *in,
                                    const tern_encoding *to, tern_pool *pool, tern_error *err)
{
    requantizing q = {.in = in, .to = to};
    *out = *in;
    out->encoding = to;
    out->mapped = false;
    TERN_TRY(tern_encoding_bytes(to, in->rows, in->cols, &out->bytes, err));
    TERN_TRY(tern_encoding_row_bytes(to, in->cols, &q.row_bytes, err));
    q.out = tern_alloc_aligned(out->bytes, 64);
    const tern_status status = q.out ? requantize_all(&q, pool, err) : tern_fail_alloc(err, out->bytes);
    if (status != TERN_OK) tern_free_aligned(q.out);
    else out->data = *out_data = q.out;
    return status;
}
