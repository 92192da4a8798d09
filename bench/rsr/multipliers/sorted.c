/* RSR by its definition. */
#include "rsr/multipliers/sorted.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

typedef struct column {
    uint32_t code, col;
} column;

static int by_code(const void *a, const void *b)
{
    const column *p = a, *q = b;
    if (p->code != q->code) return p->code < q->code ? -1 : 1;
    return p->col < q->col ? -1 : p->col > q->col;
}

static uint32_t code_of(const int8_t *codes, uint32_t cols, uint32_t n_rows, uint32_t k, uint32_t col)
{
    uint32_t pos = 0, neg = 0;
    for (uint32_t i = 0; i < n_rows; i++) {
        const int8_t code = codes[(size_t)i * cols + col];
        if (code > 0) pos |= 1u << (k - 1 - i);
        if (code < 0) neg |= 1u << (k - 1 - i);
    }
    return pos << k | neg;
}

static void add_pattern(uint32_t code, uint32_t n_rows, uint32_t k, int64_t sum, int64_t *y)
{
    for (uint32_t i = 0; i < n_rows; i++) {
        if (code >> k >> (k - 1 - i) & 1u) y[i] += sum;
        if (code >> (k - 1 - i) & 1u) y[i] -= sum;
    }
}

tern_status rsr_sorted(const int8_t *codes, uint32_t rows, uint32_t cols, uint32_t k, const int32_t *x, int64_t *y,
                       tern_error *err)
{
    if (k < 1 || k > 16) return tern_fail(err, TERN_LIMIT, "rsr: k %u found, 1 to 16 expected", k);
    column *columns = tern_calloc(cols, sizeof *columns);
    if (!columns) return tern_fail_alloc(err, cols * sizeof *columns);
    memset(y, 0, rows * sizeof *y);
    for (uint32_t first = 0; first < rows; first += k) {
        const uint32_t n = rows - first < k ? rows - first : k;
        for (uint32_t c = 0; c < cols; c++)
            columns[c] = (column){code_of(codes + (size_t)first * cols, cols, n, k, c), c};
        qsort(columns, cols, sizeof *columns, by_code);
        for (uint32_t c = 0, end; c < cols; c = end) {
            int64_t sum = 0;
            for (end = c; end < cols && columns[end].code == columns[c].code; end++) sum += x[columns[end].col];
            add_pattern(columns[c].code, n, k, sum, y + first);
        }
    }
    tern_free(columns);
    return TERN_OK;
}
