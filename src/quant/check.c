/* The checker of encoded tensors: invalid codes, scales and values that are not finite. */
#include <math.h>
#include <stdatomic.h>

#include "base/pool.h"
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

static tern_status check_blocks(const scan *s, const uint8_t *row, size_t first, size_t n, tern_error *err)
{
    const tern_ternary *codec = s->e->codec;
    if (!codec->any_invalid || !codec->any_invalid(row + first * s->e->block_bytes, n)) return TERN_OK;
    size_t b = first;
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

/* Blocks first .. first + n - 1 of a stored row, and what is left behind its last one. */
static tern_status check_row(const scan *s, const uint8_t *row, size_t first, size_t n, tern_error *err)
{
    if (s->e->find_nonfinite) {
        size_t bad = s->e->find_nonfinite(row + first * s->e->block_bytes, n);
        if (bad < n) return bad_scale(s, first + bad, err);
    }
    if (s->e->ternary) TERN_TRY(check_blocks(s, row, first, n, err));
    return s->layout.rest && first + n == s->layout.n_blocks ? check_short(s, row, err) : TERN_OK;
}

/* Stored rows, or, where all is one, its blocks. */
typedef struct span {
    size_t first_row, n_rows, first_block, n_blocks;
} span;

static tern_status check_span(scan s, const uint8_t *in, uint64_t first, span of, tern_error *err)
{
    for (size_t r = of.first_row; r < of.first_row + of.n_rows; r++) {
        s.at = (size_t)(first * s.cols) + r * s.layout.row_elements;
        TERN_TRY(check_row(&s, in + r * s.layout.row_bytes, of.first_block, of.n_blocks, err));
    }
    return TERN_OK;
}

tern_status tern_encoding_check(const tern_encoding *e, const void *in, uint64_t rows, uint64_t cols, tern_error *err)
{
    return tern_encoding_check_part(e, in, 0, rows, cols, NULL, err);
}

/* A tensor in tasks, of which the first with a bad element is kept. */
typedef struct shared_check {
    scan s;
    const uint8_t *in;
    uint64_t first;
    size_t n, each;     /* rows, or blocks of the only one, and those of a task */
    _Atomic size_t bad; /* the task's number; SIZE_MAX: all are good */
} shared_check;

static span span_of(const shared_check *c, size_t task)
{
    const size_t from = task * c->each, n = c->n - from < c->each ? c->n - from : c->each;
    if (c->s.layout.n_rows == 1) return (span){0, 1, from, n};
    return (span){from, n, 0, c->s.layout.n_blocks};
}

static void check_task(void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    shared_check *c = context;
    size_t bad = atomic_load_explicit(&c->bad, memory_order_relaxed);
    if (task > bad || check_span(c->s, c->in, c->first, span_of(c, task), NULL) == TERN_OK) return;
    while (task < bad && !atomic_compare_exchange_weak(&c->bad, &bad, task)) {}
}

static tern_status check_shared(const scan *s, const uint8_t *in, uint64_t first, tern_pool *pool, tern_error *err)
{
    enum { TASK_BYTES = 1 << 20 };
    const tern_layout *l = &s->layout;
    shared_check c = {.s = *s, .in = in, .first = first, .bad = SIZE_MAX};
    c.n = l->n_rows == 1 ? l->n_blocks : l->n_rows;
    c.each = 1 + TASK_BYTES / (l->n_rows == 1 ? s->e->block_bytes : l->row_bytes + 1);
    const size_t n_tasks = (c.n + c.each - 1) / c.each;
    if (!pool || n_tasks < 2 || n_tasks > UINT32_MAX)
        return check_span(*s, in, first, (span){0, l->n_rows, 0, l->n_blocks}, err);
    tern_pool_for(pool, (uint32_t)n_tasks, check_task, &c);
    return c.bad == SIZE_MAX ? TERN_OK : check_span(*s, in, first, span_of(&c, c.bad), err);
}

tern_status tern_encoding_check_part(const tern_encoding *e, const void *in, uint64_t first, uint64_t rows,
                                     uint64_t cols, tern_pool *pool, tern_error *err)
{
    scan s = {.e = e, .cols = (size_t)cols};
    TERN_TRY(tern_layout__of(e, rows, cols, &s.layout, err));
    TERN_TRY(check_shared(&s, in, first, pool, err));
    if (!e->tail_bytes) return TERN_OK;
    float scale = tern_layout__tail_scale(&s.layout, in);
    if (isfinite(scale)) return TERN_OK;
    return tern_fail(err, TERN_MALFORMED, "%s: found scale %g, expected a finite value", e->name, (double)scale);
}
