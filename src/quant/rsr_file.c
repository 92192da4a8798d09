/* Reading the bytes of an RSR matrix, which are not to be trusted. */
#include "quant/rsr_file.h"

#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"

static const char magic[8] = {'T', 'E', 'R', 'N', '-', 'R', 'S', 'R'};

typedef struct header {
    uint32_t version, kind, k, rows, cols, panel_cols, n_slices, n_vectors;
    uint64_t origin;
} header;

static bool place(size_t *at, size_t *here, uint64_t count, size_t bytes)
{
    size_t size;
    if (count > SIZE_MAX || !tern_size_mul((size_t)count, bytes, &size) || !tern_size_add(*at, size, &size) ||
        size > SIZE_MAX - 64)
        return false;
    *here = *at;
    *at = (size + 63) / 64 * 64;
    return true;
}

bool tern_rsr__offsets_of(tern_rsr__offsets *out, uint64_t n_units, uint64_t n_slices, uint64_t n_vectors, uint32_t k)
{
    size_t at = TERN_RSR__HEADER_BYTES;
    if (!place(&at, &out->first_slice, n_units + 1, 4) || !place(&at, &out->first_vector, n_units + 1, 4) ||
        !place(&at, &out->lengths, n_slices, 2) || !place(&at, &out->masks, n_slices, (size_t)4 * k) ||
        !place(&at, &out->index, n_vectors, 2 * TERN_RSR_LANES))
        return false;
    out->bytes = at;
    return true;
}

void tern_rsr__header_write(uint8_t *to, const tern_rsr_slices *s, uint32_t n_slices, uint32_t n_vectors,
                            uint64_t origin)
{
    memcpy(to, magic, sizeof magic);
    const uint32_t words[] = {TERN_RSR__VERSION, s->kind, s->k, s->rows, s->cols, s->panel_cols, n_slices, n_vectors};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) tern_store_u32(to + 8 + 4 * i, words[i]);
    tern_store_u64(to + 40, origin);
}

void tern_rsr__point(tern_rsr_slices *s, const uint8_t *bytes, const tern_rsr__offsets *at)
{
    s->bytes = bytes;
    s->n_bytes = at->bytes;
    s->first_slice = (const uint32_t *)(const void *)(bytes + at->first_slice);
    s->first_vector = (const uint32_t *)(const void *)(bytes + at->first_vector);
    s->lengths = (const uint16_t *)(const void *)(bytes + at->lengths);
    s->masks = (const uint16_t *)(const void *)(bytes + at->masks);
    s->index = (const uint16_t *)(const void *)(bytes + at->index);
}

uint64_t tern_rsr_slices_origin(const tern_rsr_slices *s)
{
    return tern_load_u64(s->bytes + 40);
}

uint64_t tern_rsr_origin(const void *bytes, size_t n)
{
    const uint8_t *p = bytes;
    uint64_t h = 0x9e3779b97f4a7c15u ^ n;
    for (; n >= 8; n -= 8, p += 8) {
        h = (h ^ tern_load_u64(p)) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    for (; n; n--, p++) h = (h ^ *p) * 0xff51afd7ed558ccdu;
    h ^= h >> 29;
    return h ? h : 1;
}

static tern_status read_header(header *h, const uint8_t *bytes, size_t n, tern_error *err)
{
    tern_cursor c = tern_cursor_open(bytes, n);
    const uint8_t *name = tern_cursor_take(&c, sizeof magic);
    uint32_t *const words[] = {&h->version, &h->kind,       &h->k,        &h->rows,
                               &h->cols,    &h->panel_cols, &h->n_slices, &h->n_vectors};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) *words[i] = tern_cursor_u32(&c);
    h->origin = tern_cursor_u64(&c);
    (void)tern_cursor_take(&c, 16);
    if (c.bad)
        return tern_fail(err, TERN_MALFORMED, "rsr: %zu bytes found, a header of %d expected", n,
                         TERN_RSR__HEADER_BYTES);
    if (memcmp(name, magic, sizeof magic) != 0)
        return tern_fail(err, TERN_MALFORMED, "rsr: other bytes found, TERN-RSR expected");
    if (h->version != TERN_RSR__VERSION)
        return tern_fail(err, TERN_UNSUPPORTED, "rsr: version %u found, %d expected", h->version, TERN_RSR__VERSION);
    return TERN_OK;
}

static tern_status check_header(const header *h, tern_error *err)
{
    if (h->kind > TERN_RSR_SIGNS)
        return tern_fail(err, TERN_MALFORMED, "rsr: kind %u found, 0 to %d expected", h->kind, TERN_RSR_SIGNS);
    if (h->k < 1 || h->k > TERN_RSR_MAX_K)
        return tern_fail(err, TERN_MALFORMED, "rsr: k %u found, 1 to %d expected", h->k, TERN_RSR_MAX_K);
    if (!h->rows || !h->cols)
        return tern_fail(err, TERN_MALFORMED, "rsr: %u rows of %u found, at least 1 row of 1 expected", h->rows,
                         h->cols);
    if (!h->panel_cols || h->panel_cols > TERN_RSR_MAX_PANEL || h->panel_cols > h->cols)
        return tern_fail(err, TERN_MALFORMED, "rsr: panels of %u columns found, 1 to %u expected", h->panel_cols,
                         h->cols < TERN_RSR_MAX_PANEL ? h->cols : TERN_RSR_MAX_PANEL);
    return TERN_OK;
}

static tern_status check_masks(const tern_rsr_slices *s, uint32_t slice, uint32_t n_rows, tern_error *err)
{
    const uint16_t *pos = s->masks + (size_t)slice * 2 * s->k, *neg = pos + s->k;
    for (uint32_t r = 0; r < s->k; r++) {
        if (pos[r] & neg[r])
            return tern_fail(err, TERN_MALFORMED, "rsr: slice %u: +1 and -1 found in row %u of one group", slice, r);
        if (s->kind != TERN_RSR_TERNARY && neg[r])
            return tern_fail(err, TERN_MALFORMED, "rsr: slice %u: -1 found in row %u of a binary matrix", slice, r);
        if (r >= n_rows && (pos[r] | neg[r]))
            return tern_fail(err, TERN_MALFORMED, "rsr: slice %u: row %u of a block of %u rows found", slice, r,
                             n_rows);
    }
    return TERN_OK;
}

/* Columns of the unit in range, and none twice. seen: for each column the last unit that had it, counted from 1. */
static tern_status check_unit(const tern_rsr_slices *s, uint32_t unit, uint32_t *seen, tern_error *err)
{
    const uint32_t block = unit / s->n_panels, width = tern_rsr_panel_width(s->cols, s->panel_cols, unit % s->n_panels);
    const uint32_t n_rows = s->rows - block * s->k < s->k ? s->rows - block * s->k : s->k;
    uint64_t vector = s->first_vector[unit];
    for (uint32_t slice = s->first_slice[unit]; slice < s->first_slice[unit + 1]; slice++) {
        TERN_TRY(check_masks(s, slice, n_rows, err));
        vector += s->lengths[slice];
        if (vector > s->first_vector[unit + 1])
            return tern_fail(err, TERN_MALFORMED, "rsr: unit %u: %llu vectors found in its slices, %u expected", unit,
                             (unsigned long long)(vector - s->first_vector[unit]),
                             s->first_vector[unit + 1] - s->first_vector[unit]);
    }
    if (vector != s->first_vector[unit + 1])
        return tern_fail(err, TERN_MALFORMED, "rsr: unit %u: %llu vectors found in its slices, %u expected", unit,
                         (unsigned long long)(vector - s->first_vector[unit]),
                         s->first_vector[unit + 1] - s->first_vector[unit]);
    const uint16_t *at = s->index + (size_t)s->first_vector[unit] * TERN_RSR_LANES;
    const uint16_t *end = s->index + (size_t)s->first_vector[unit + 1] * TERN_RSR_LANES;
    for (; at < end; at++) {
        if (*at == width) continue;
        if (*at > width || seen[*at] == unit + 1)
            return tern_fail(err, TERN_MALFORMED, "rsr: unit %u: column %u found%s, each below %u once expected", unit,
                             *at, *at > width ? "" : " twice", width);
        seen[*at] = unit + 1;
    }
    return TERN_OK;
}

static tern_status check_firsts(const char *what, const uint32_t *first, size_t n_units, uint32_t total,
                                tern_error *err)
{
    bool ordered = first[0] == 0 && first[n_units] == total;
    for (size_t u = 0; u < n_units && ordered; u++) ordered = first[u] <= first[u + 1];
    if (ordered) return TERN_OK;
    return tern_fail(err, TERN_MALFORMED, "rsr: first %s of the units found out of order, 0 up to %u expected", what,
                     total);
}

static tern_status check_units(const tern_rsr_slices *s, const header *h, tern_error *err)
{
    const size_t n_units = (size_t)s->n_blocks * s->n_panels;
    TERN_TRY(check_firsts("slices", s->first_slice, n_units, h->n_slices, err));
    TERN_TRY(check_firsts("vectors", s->first_vector, n_units, h->n_vectors, err));
    uint32_t *seen = tern_calloc(s->panel_cols, sizeof *seen);
    if (!seen) return tern_fail_alloc(err, s->panel_cols * sizeof *seen);
    tern_status status = TERN_OK;
    for (size_t u = 0; u < n_units && status == TERN_OK; u++) status = check_unit(s, (uint32_t)u, seen, err);
    tern_free(seen);
    return status;
}

tern_status tern_rsr_slices_open(tern_rsr_slices *out, const void *bytes, size_t n, tern_error *err)
{
    header h = {0};
    *out = (tern_rsr_slices){0};
    if ((uintptr_t)bytes % 4)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "rsr: an address that is not a multiple of 4");
    TERN_TRY(read_header(&h, bytes, n, err));
    TERN_TRY(check_header(&h, err));
    tern_rsr_slices s = {.kind = (tern_rsr_kind)h.kind,
                         .k = h.k,
                         .rows = h.rows,
                         .cols = h.cols,
                         .panel_cols = h.panel_cols,
                         .n_blocks = (h.rows - 1) / h.k + 1,
                         .n_panels = (h.cols - 1) / h.panel_cols + 1};
    const uint64_t n_units = (uint64_t)s.n_blocks * s.n_panels;
    tern_rsr__offsets at;
    if (n_units > UINT32_MAX || !tern_rsr__offsets_of(&at, n_units, h.n_slices, h.n_vectors, h.k) || at.bytes != n)
        return tern_fail(err, TERN_MALFORMED,
                         "rsr: %zu bytes found, other than what %u slices and %u vectors of %llu units take", n,
                         h.n_slices, h.n_vectors, (unsigned long long)n_units);
    tern_rsr__point(&s, bytes, &at);
    TERN_TRY(check_units(&s, &h, err));
    *out = s;
    return TERN_OK;
}
