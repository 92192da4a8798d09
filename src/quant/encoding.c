/* The table of encodings, and the sizes of tensors. */
#include "quant/encoding.h"

#include <stdio.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/show.h"
#include "quant/layout.h"
#include "quant/table.h"
#include "quant/ternary.h"

static const tern_encoding *const table[] = {
#define ROW(name, NAME, id, file_type) &tern_encoding__##name,
    TERN_ENCODING_LIST(ROW)
#undef ROW
};

const tern_encoding *tern_encoding_at(size_t i)
{
    return i < sizeof table / sizeof *table ? table[i] : NULL;
}

const tern_encoding *tern_encoding_find(uint32_t gguf_type)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if ((uint32_t)table[i]->id == gguf_type) return table[i];
    return NULL;
}

const tern_encoding *tern_encoding_by_name(const char *name)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcasecmp(table[i]->name, name) == 0) return table[i];
    return NULL;
}

tern_status tern_encoding_parse(const char *what, const char *name, const tern_encoding **encoding, tern_error *err)
{
    char names[240];
    int at = 0;
    *encoding = NULL;
    if (!name || (*encoding = tern_encoding_by_name(name))) return TERN_OK;
    for (size_t i = 0; i < sizeof table / sizeof *table && at >= 0 && (size_t)at < sizeof names; i++)
        at += snprintf(names + at, sizeof names - (size_t)at, "%s %s", i ? "," : "", table[i]->name);
    return tern_fail(err, TERN_INVALID_ARGUMENT, "%s %s: no such encoding; expected one of%s", what,
                     tern_show_z(name).text, names);
}

static tern_status too_large(const tern_encoding *e, uint64_t rows, uint64_t cols, tern_error *err)
{
    return tern_fail(err, TERN_LIMIT, "%s: a tensor of %llu x %llu does not fit in memory", e->name,
                     (unsigned long long)rows, (unsigned long long)cols);
}

static tern_status does_not_fit(const tern_encoding *e, uint64_t rows, uint64_t cols, tern_error *err)
{
    unsigned long long r = rows, c = cols;
    if (e->linear)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: found %llu x %llu = %llu elements, expected a multiple of %u",
                         e->name, r, c, r * c, e->block_elements);
    return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: found %llu columns, expected a multiple of %u", e->name, c,
                     e->block_elements);
}

tern_status tern_layout__of(const tern_encoding *e, uint64_t rows, uint64_t cols, tern_layout *layout, tern_error *err)
{
    size_t n_elements, bytes;
    if ((size_t)rows != rows || (size_t)cols != cols) return too_large(e, rows, cols, err);
    if (!tern_size_mul((size_t)rows, (size_t)cols, &n_elements)) return too_large(e, rows, cols, err);

    tern_layout l = {.n_rows = e->linear ? 1 : (size_t)rows, .row_elements = e->linear ? n_elements : (size_t)cols};
    l.n_blocks = l.row_elements / e->block_elements;
    l.rest = l.row_elements % e->block_elements;
    if (l.rest && !e->ragged) return does_not_fit(e, rows, cols, err);

    size_t short_bytes = l.rest ? e->codec->short_bytes(l.rest) : 0;
    if (!tern_size_mul(l.n_blocks, e->block_bytes, &l.row_bytes) ||
        !tern_size_add(l.row_bytes, short_bytes, &l.row_bytes) || !tern_size_mul(l.row_bytes, l.n_rows, &bytes) ||
        !tern_size_add(bytes, e->tail_bytes, &bytes))
        return too_large(e, rows, cols, err);
    *layout = l;
    return TERN_OK;
}

float tern_layout__tail_scale(const tern_layout *layout, const void *in)
{
    return tern_load_f32((const uint8_t *)in + layout->n_rows * layout->row_bytes);
}

tern_status tern_encoding_bytes(const tern_encoding *e, uint64_t rows, uint64_t cols, size_t *bytes, tern_error *err)
{
    tern_layout layout = {0};
    TERN_TRY(tern_layout__of(e, rows, cols, &layout, err));
    *bytes = layout.n_rows * layout.row_bytes + e->tail_bytes;
    return TERN_OK;
}

tern_status tern_encoding_row_bytes(const tern_encoding *e, uint64_t cols, size_t *bytes, tern_error *err)
{
    tern_layout layout = {0};
    TERN_TRY(tern_layout__of(e, 1, cols, &layout, err));
    *bytes = layout.row_bytes;
    return TERN_OK;
}
