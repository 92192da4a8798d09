/* RSR in plain C: by sorting, and slice by slice. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ops/ref/lanes.h"
#include "ops/ref/ref.h"
#include "ops/ref/rsr.h"

void tern_ref_rsr_i8(const tern_rsr_unit *u, const int8_t *x, int32_t *y)
{
    const uint16_t *masks = u->masks, *index = u->index;
    uint32_t rows[16] = {0}; /* unsigned: sums of the numbers of a damaged file may wrap */
    for (uint32_t slice = 0; slice < u->n_slices; slice++, masks += 2 * u->k) {
        uint32_t sums[TERN_LANES] = {0};
        for (uint32_t s = 0; s < u->steps[slice]; s++, index += TERN_LANES)
            for (int l = 0; l < TERN_LANES; l++) {
                const int32_t value = x[index[l]];
                sums[l] += (uint32_t)value;
            }
        for (uint32_t r = 0; r < u->k; r++)
            for (int l = 0; l < TERN_LANES; l++) {
                const uint32_t plus = masks[r] >> l & 1u, minus = masks[u->k + r] >> l & 1u;
                rows[r] += (plus - minus) * sums[l];
            }
    }
    for (uint32_t r = 0; r < u->k; r++) y[r] = (int32_t)((uint32_t)y[r] + rows[r]);
}

/* Adds one slice's sums of 4 tokens to a row of each. */
static void add_slice(const uint32_t sums[TERN_LANES][4], uint16_t pos, uint16_t neg, uint32_t row[4])
{
    for (int l = 0; l < TERN_LANES; l++) {
        const uint32_t sign = (pos >> l & 1u) - (neg >> l & 1u);
        for (int t = 0; t < 4; t++) row[t] += sign * sums[l][t];
    }
}

void tern_ref_rsr_i8x4(const tern_rsr_unit *u, const int8_t *x, int32_t *y)
{
    const uint16_t *masks = u->masks, *index = u->index;
    uint32_t rows[16][4] = {{0}};
    for (uint32_t slice = 0; slice < u->n_slices; slice++, masks += 2 * u->k) {
        uint32_t sums[TERN_LANES][4] = {{0}};
        for (uint32_t s = 0; s < u->steps[slice]; s++, index += TERN_LANES)
            for (int l = 0; l < TERN_LANES; l++)
                for (int t = 0; t < 4; t++) {
                    const int32_t value = x[4 * (size_t)index[l] + (size_t)t];
                    sums[l][t] += (uint32_t)value;
                }
        for (uint32_t r = 0; r < u->k; r++) add_slice(sums, masks[r], masks[u->k + r], rows[r]);
    }
    for (uint32_t t = 0; t < 4; t++)
        for (uint32_t r = 0; r < u->k; r++)
            y[t * TERN_RSR_Y + r] = (int32_t)((uint32_t)y[t * TERN_RSR_Y + r] + rows[r][t]);
}

void tern_ref_rsr_f32(const tern_rsr_unit *u, const float *x, float *y)
{
    const uint16_t *masks = u->masks, *index = u->index;
    float rows[16][TERN_LANES] = {{0}};
    for (uint32_t slice = 0; slice < u->n_slices; slice++, masks += 2 * u->k) {
        float sums[TERN_LANES] = {0};
        for (uint32_t s = 0; s < u->steps[slice]; s++, index += TERN_LANES)
            for (int l = 0; l < TERN_LANES; l++) sums[l] += x[index[l]];
        for (uint32_t r = 0; r < u->k; r++)
            for (int l = 0; l < TERN_LANES; l++) {
                if (masks[r] >> l & 1u) rows[r][l] += sums[l];
                if (masks[u->k + r] >> l & 1u) rows[r][l] -= sums[l];
            }
    }
    for (uint32_t r = 0; r < u->k; r++) y[r] += tern_ref__lanes_sum(rows[r]);
}

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

tern_status tern_ref_rsr_sorted(const int8_t *codes, uint32_t rows, uint32_t cols, uint32_t k, const int32_t *x,
                                int64_t *y, tern_error *err)
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
