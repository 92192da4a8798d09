/* SentencePiece's precompiled character map, read with bounds checked at every step. */
#include "text/tokenizer/normal/charsmap.h"

#include <string.h>

#include "base/show.h"
#include "text/utf8.h"

tern_status tern_charsmap__open(tern_charsmap *map, tern_span blob, tern_error *err)
{
    if (blob.size == 0) return TERN_OK;
    tern_cursor c = tern_cursor_open(blob.data, blob.size);
    size_t trie_bytes = tern_cursor_u32(&c);
    if (c.bad || trie_bytes % 4 || trie_bytes >= tern_cursor_left(&c))
        return tern_fail(err, TERN_MALFORMED, "precompiled_charsmap: trie of %zu bytes in %zu", trie_bytes, blob.size);
    map->n_units = trie_bytes / 4;
    return tern_buf_add(&map->blob, blob.data, blob.size, err);
}

/* One unit of a Darts-clone double array: offset to the children, label, and whether a value hangs below. */
static uint32_t unit_at(const tern_charsmap *map, size_t i)
{
    return tern_load_u32(map->blob.data + 4 + 4 * i);
}

static size_t offset_of(uint32_t unit)
{
    return (size_t)(unit >> 10) << ((unit & 1u << 9) >> 6);
}

static tern_span replacement_at(const tern_charsmap *map, size_t at)
{
    size_t start = 4 + 4 * map->n_units;
    if (at >= map->blob.size - start) return (tern_span){(const uint8_t *)"", 0};
    const uint8_t *text = (const uint8_t *)map->blob.data + start + at;
    size_t left = map->blob.size - start - at;
    if (left > TERN_CHARSMAP_MAX_BYTES + 1) left = TERN_CHARSMAP_MAX_BYTES + 1;
    const uint8_t *end = memchr(text, 0, left);
    return (tern_span){text, end ? (size_t)(end - text) : left};
}

tern_status tern_charsmap__match(const tern_charsmap *map, tern_span text, size_t *taken, tern_span *becomes,
                                 tern_error *err)
{
    *taken = 0;
    if (map->n_units == 0) return TERN_OK;
    size_t node = offset_of(unit_at(map, 0));
    for (size_t i = 0; i < text.size; i++) {
        node ^= text.data[i];
        if (node >= map->n_units) break;
        uint32_t unit = unit_at(map, node);
        if ((unit & 0x800000FFu) != text.data[i]) break;
        if (i == TERN_CHARSMAP_MAX_BYTES) /* the units may lead back to where they came from */
            return tern_fail(err, TERN_LIMIT,
                             "precompiled_charsmap: a rule for more than %d bytes of text, at most %d expected",
                             TERN_CHARSMAP_MAX_BYTES, TERN_CHARSMAP_MAX_BYTES);
        node ^= offset_of(unit);
        if (!(unit >> 8 & 1) || node >= map->n_units) continue;
        *taken = i + 1;
        *becomes = replacement_at(map, unit_at(map, node) & 0x7FFFFFFFu);
    }
    if (*taken == 0) return TERN_OK;
    if (becomes->size > TERN_CHARSMAP_MAX_BYTES)
        return tern_fail(err, TERN_LIMIT,
                         "precompiled_charsmap: %zu bytes of text become more than %d, at most %d expected", *taken,
                         TERN_CHARSMAP_MAX_BYTES, TERN_CHARSMAP_MAX_BYTES);
    if (tern_utf8__valid_run(becomes->data, becomes->size) == becomes->size) return TERN_OK;
    return tern_fail(err, TERN_MALFORMED, "precompiled_charsmap: \"%s\" becomes \"%s\", UTF-8 expected",
                     tern_show((tern_span){text.data, *taken}).text, tern_show(*becomes).text);
}

void tern_charsmap__deinit(tern_charsmap *map)
{
    tern_buf_deinit(&map->blob);
    *map = (tern_charsmap){0};
}
