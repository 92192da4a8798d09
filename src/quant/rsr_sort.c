/* Sorting the columns of one block of rows by their patterns: counting where patterns are few, radix where they are
 * many.
 *
 * A pattern's number is written in base 3 (binary: 2). There are then 3^k buckets and not the 4^k of two bit masks
 * side by side: 531,441 and not 16,777,216 for k = 12. Clearing the buckets must not cost more than the columns do, so
 * with more than 4 buckets for a column the numbers are sorted 8 bits at a time. */
#include <string.h>

#include "base/alloc.h"
#include "quant/rsr_internal.h"

enum { BUCKETS_OF_A_COLUMN = 4, RADIX = 256 };

static uint32_t power(uint32_t base, uint32_t k)
{
    uint32_t p = 1;
    while (k--) p *= base;
    return p;
}

static bool counts(const tern_rsr_options *o, uint32_t n_patterns, uint32_t panel_cols)
{
    if (o->sort != TERN_RSR_SORT_AUTO) return o->sort == TERN_RSR_SORT_COUNTING;
    return o->k <= TERN_RSR_MAX_COUNTING_K && n_patterns <= BUCKETS_OF_A_COLUMN * panel_cols;
}

tern_status tern_rsr__sorter_init(tern_rsr__sorter *s, const tern_rsr_options *o, uint32_t panel_cols, tern_error *err)
{
    *s = (tern_rsr__sorter){.k = o->k, .base = o->kind == TERN_RSR_TERNARY ? 3 : 2, .panel_cols = panel_cols};
    s->n_patterns = power(s->base, s->k);
    s->counting = counts(o, s->n_patterns, panel_cols);
    const size_t n_counts = s->counting ? (size_t)s->n_patterns + 1 : RADIX + 1;
    s->keys = tern_calloc(panel_cols, sizeof *s->keys);
    s->counts = tern_calloc(n_counts, sizeof *s->counts);
    s->perm = tern_calloc(panel_cols, sizeof *s->perm);
    s->other = tern_calloc(panel_cols, sizeof *s->other);
    s->groups = tern_calloc(panel_cols, sizeof *s->groups);
    if (s->keys && s->counts && s->perm && s->other && s->groups) return TERN_OK;
    return tern_fail_alloc(err, (size_t)panel_cols * (sizeof *s->keys + 4 + sizeof *s->groups) +
                                    n_counts * sizeof *s->counts);
}

void tern_rsr__sorter_deinit(tern_rsr__sorter *s)
{
    tern_free(s->keys);
    tern_free(s->counts);
    tern_free(s->perm);
    tern_free(s->other);
    tern_free(s->groups);
}

/* Row 0 is the highest digit; -1 is digit 1, +1 digit 2 (binary: 1). */
static void number_columns(tern_rsr__sorter *s, const int8_t *rows, size_t stride, uint32_t n_rows, uint32_t width)
{
    uint32_t *restrict keys = s->keys;
    memset(keys, 0, width * sizeof *keys);
    for (uint32_t i = 0; i < n_rows; i++) {
        const uint32_t minus = power(s->base, s->k - 1 - i), plus = (s->base - 1) * minus;
        const int8_t *restrict row = rows + i * stride;
        for (uint32_t c = 0; c < width; c++) {
            const uint32_t positive = row[c] > 0 ? plus : 0, negative = row[c] < 0 ? minus : 0;
            keys[c] += positive | negative; /* one of them is 0 */
        }
    }
}

static void add_up(uint32_t *n, size_t count)
{
    uint32_t total = 0;
    for (size_t i = 0; i < count; i++) {
        const uint32_t here = n[i];
        n[i] = total;
        total += here;
    }
}

static void count_columns(tern_rsr__sorter *s, uint32_t width)
{
    const uint32_t *restrict keys = s->keys;
    uint32_t *restrict n = s->counts;
    uint16_t *restrict perm = s->perm;
    memset(n, 0, ((size_t)s->n_patterns + 1) * sizeof *n);
    for (uint32_t c = 0; c < width; c++) n[keys[c]]++;
    add_up(n, s->n_patterns);
    for (uint32_t c = 0; c < width; c++) perm[n[keys[c]]++] = (uint16_t)c;
}

static void radix_pass(tern_rsr__sorter *s, uint32_t width, uint32_t shift)
{
    memset(s->counts, 0, (RADIX + 1) * sizeof *s->counts);
    for (uint32_t i = 0; i < width; i++) s->counts[s->keys[i] >> shift & (RADIX - 1)]++;
    add_up(s->counts, RADIX);
    for (uint32_t i = 0; i < width; i++) s->other[s->counts[s->keys[s->perm[i]] >> shift & (RADIX - 1)]++] = s->perm[i];
    uint16_t *swap = s->perm;
    s->perm = s->other;
    s->other = swap;
}

static void radix_columns(tern_rsr__sorter *s, uint32_t width)
{
    for (uint32_t c = 0; c < width; c++) s->perm[c] = (uint16_t)c;
    for (uint32_t shift = 0; shift < 32 && (s->n_patterns - 1) >> shift; shift += 8) radix_pass(s, width, shift);
}

/* Masks of a column: bit i is row i. */
static tern_rsr_group group_of(const int8_t *column, size_t stride, uint32_t n_rows, uint32_t end)
{
    uint32_t pos = 0, neg = 0;
    for (uint32_t i = 0; i < n_rows; i++) {
        pos |= (uint32_t)(column[i * stride] > 0) << i;
        neg |= (uint32_t)(column[i * stride] < 0) << i;
    }
    return (tern_rsr_group){.end = (uint16_t)end, .pos = (uint16_t)pos, .neg = (uint16_t)neg};
}

void tern_rsr__sort(tern_rsr__sorter *s, const int8_t *rows, size_t stride, uint32_t n_rows, uint32_t width,
                    tern_rsr__unit *out)
{
    number_columns(s, rows, stride, n_rows, width);
    if (s->counting) count_columns(s, width);
    else radix_columns(s, width);
    uint32_t zeros = 0, n = 0;
    while (zeros < width && s->keys[s->perm[zeros]] == 0) zeros++;
    for (uint32_t i = zeros; i < width; i++) {
        const uint32_t key = s->keys[s->perm[i]];
        if (i + 1 < width && s->keys[s->perm[i + 1]] == key) continue;
        s->groups[n++] = group_of(rows + s->perm[i], stride, n_rows, i + 1 - zeros);
    }
    *out = (tern_rsr__unit){.k = s->k,
                            .width = width,
                            .n_columns = width - zeros,
                            .n_groups = n,
                            .perm = s->perm + zeros,
                            .groups = s->groups};
}
