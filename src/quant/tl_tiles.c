/* The tiles of bitnet.cpp's look-up kernels: its presets, and files of its own that say them. */
#include <string.h>

#include "base/bytes.h"
#include "base/show.h"
#include "quant/foreign_internal.h"

/* Source: setup_env.py (what a build of bitnet.cpp makes) with the shapes of utils/codegen_tl1.py and codegen_tl2.py.
 */
static const struct {
    uint32_t type;
    tern_tl_tile tile;
} presets[] = {
    {TERN_TL1, {1536, 4096, 256, 128, 32}},  {TERN_TL1, {1536, 1536, 128, 64, 64}},
    {TERN_TL1, {4096, 1536, 256, 128, 32}},  {TERN_TL1, {3200, 8640, 160, 64, 32}},
    {TERN_TL1, {3200, 3200, 320, 128, 64}},  {TERN_TL1, {8640, 3200, 320, 64, 32}},
    {TERN_TL1, {14336, 4096, 256, 128, 32}}, {TERN_TL1, {4096, 14336, 128, 64, 64}},
    {TERN_TL1, {1024, 4096, 256, 128, 32}},  {TERN_TL1, {4096, 4096, 128, 64, 64}},
    {TERN_TL2, {1536, 4096, 256, 96, 32}},   {TERN_TL2, {1536, 1536, 128, 192, 32}},
    {TERN_TL2, {4096, 1536, 256, 96, 32}},   {TERN_TL2, {3200, 8640, 160, 96, 32}},
    {TERN_TL2, {3200, 3200, 320, 96, 32}},   {TERN_TL2, {8640, 3200, 320, 96, 32}},
    {TERN_TL2, {14336, 4096, 256, 96, 32}},  {TERN_TL2, {4096, 14336, 128, 96, 32}},
    {TERN_TL2, {1024, 4096, 256, 96, 32}},   {TERN_TL2, {4096, 4096, 128, 96, 32}},
};

const tern_tl_tile *tern_tl__tile(const tern_tl_tiles *tiles, uint32_t type, uint64_t rows, uint64_t cols)
{
    for (uint32_t i = 0; tiles && i < tiles->n; i++)
        if (tiles->items[i].rows == rows && tiles->items[i].cols == cols) return &tiles->items[i];
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++)
        if (presets[i].type == type && presets[i].tile.rows == rows && presets[i].tile.cols == cols)
            return &presets[i].tile;
    return NULL;
}

/* The field that a key names; NULL when there is none. */
static uint32_t *field(tern_tl_tile *t, const char *key, size_t n)
{
    const struct {
        const char *key;
        uint32_t *value;
    } fields[] = {
        {"m", &t->rows}, {"k", &t->cols}, {"bm", &t->tile_rows}, {"bk", &t->tile_cols}, {"bmm", &t->strip_rows}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (strlen(fields[i].key) == n && memcmp(fields[i].key, key, n) == 0) return fields[i].value;
    return NULL;
}

static void trim(const char **text, size_t *n)
{
    while (*n && (**text == ' ' || **text == '\t')) ++*text, --*n;
    while (*n && ((*text)[*n - 1] == ' ' || (*text)[*n - 1] == '\t' || (*text)[*n - 1] == '\r')) --*n;
}

/* 1 .. 2^24; 0: it is not such a number. */
static uint32_t number(const char *text, size_t n)
{
    uint32_t v = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9' || v > 1u << 24) return 0;
        v = v * 10 + (uint32_t)(text[i] - '0');
    }
    return v <= 1u << 24 ? v : 0;
}

static tern_status refuse(unsigned line, const char *text, size_t n, tern_error *err)
{
    return tern_fail(err, TERN_MALFORMED,
                     "kernel configuration, line %u: %s found, [a section] or m, k, bm, bk or bmm = a number expected",
                     line, tern_show((tern_span){(const uint8_t *)text, n}).text);
}

static tern_status read_line(tern_tl_tiles *tiles, const char *text, size_t n, unsigned line, tern_error *err)
{
    const char *whole = text, *equals = memchr(text, '=', n);
    const size_t all = n;
    if (n == 0 || *text == '#' || *text == ';') return TERN_OK;
    if (*text == '[') {
        if (tiles->n == sizeof tiles->items / sizeof *tiles->items)
            return tern_fail(err, TERN_LIMIT, "kernel configuration, line %u: more than %u sections found", line,
                             tiles->n);
        tiles->items[tiles->n++] = (tern_tl_tile){0};
        return TERN_OK;
    }
    if (!equals || tiles->n == 0) return refuse(line, whole, all, err);
    size_t key = (size_t)(equals - text), value = n - key - 1;
    const char *v = equals + 1;
    trim(&text, &key);
    trim(&v, &value);
    uint32_t *to = field(&tiles->items[tiles->n - 1], text, key);
    if (!to || !(*to = number(v, value))) return refuse(line, whole, all, err);
    return TERN_OK;
}

tern_status tern_tl_tiles_parse(tern_tl_tiles *tiles, const char *text, size_t n, tern_error *err)
{
    *tiles = (tern_tl_tiles){0};
    for (unsigned line = 1; n; line++) {
        const char *end = memchr(text, '\n', n), *from = text;
        size_t length = end ? (size_t)(end - text) : n;
        text += length + (end != NULL);
        n -= length + (end != NULL);
        trim(&from, &length);
        TERN_TRY(read_line(tiles, from, length, line, err));
    }
    for (uint32_t i = 0; i < tiles->n; i++) {
        const tern_tl_tile *t = &tiles->items[i];
        if (!t->rows || !t->cols || !t->tile_rows || !t->tile_cols || !t->strip_rows)
            return tern_fail(err, TERN_MALFORMED, "kernel configuration, section %u: m, k, bm, bk and bmm expected",
                             i + 1);
    }
    return TERN_OK;
}
