/* Parts of a GGUF file: what they say of themselves, and one file made of them. */
#include "format/gguf_parts.h"

#include <string.h>

#include "base/alloc.h"
#include "base/show.h"
#include "format/gguf_internal.h"

#define KEY_NO      "split.no"
#define KEY_COUNT   "split.count"
#define KEY_TENSORS "split.tensors.count"

static bool is_key(tern_span key, const char *text)
{
    return key.size == strlen(text) && memcmp(key.data, text, key.size) == 0;
}

/* A key that every part has. */
static tern_status number_of(const tern_gguf *g, const char *key, uint32_t *out, tern_error *err)
{
    if (!tern_gguf_find(g, key)) return tern_fail(err, TERN_MALFORMED, "%s: not found beside %s", key, KEY_COUNT);
    return tern_gguf_get_u32(g, key, out, err);
}

tern_status tern_gguf_place_of(const tern_gguf *g, tern_gguf_place *place, tern_error *err)
{
    *place = (tern_gguf_place){.count = 1};
    if (!tern_gguf_find(g, KEY_COUNT)) return TERN_OK;
    tern_gguf_place found = {0};
    TERN_TRY(tern_gguf_get_u32(g, KEY_COUNT, &found.count, err));
    if (found.count <= 1) return TERN_OK;
    if (found.count > TERN_GGUF_MAX_PARTS)
        return tern_fail(err, TERN_LIMIT, "%s %u, at most %d expected", KEY_COUNT, found.count, TERN_GGUF_MAX_PARTS);
    TERN_TRY(number_of(g, KEY_NO, &found.index, err));
    TERN_TRY(number_of(g, KEY_TENSORS, &found.n_tensors, err));
    if (found.index >= found.count)
        return tern_fail(err, TERN_MALFORMED, "%s %u found, less than %s %u expected", KEY_NO, found.index, KEY_COUNT,
                         found.count);
    *place = found;
    return TERN_OK;
}

tern_status tern_gguf_check_whole(const tern_gguf *g, tern_error *err)
{
    tern_gguf_place place;
    TERN_TRY(tern_gguf_place_of(g, &place, err));
    if (place.count == 1 || g->n_parts == place.count) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED, "only part %u of %u found, all parts expected", place.index + 1,
                     place.count);
}

static tern_status check_place(const tern_gguf_place *first, const tern_gguf_place *p, size_t i, tern_error *err)
{
    if (p->count != first->count)
        return tern_fail(err, TERN_MALFORMED, "%s %u found, %u expected as in the first part", KEY_COUNT, p->count,
                         first->count);
    if (p->index != i) return tern_fail(err, TERN_MALFORMED, "%s %u found, %zu expected", KEY_NO, p->index, i);
    if (p->n_tensors != first->n_tensors)
        return tern_fail(err, TERN_MALFORMED, "%s %u found, %u in the first part: a part of another model", KEY_TENSORS,
                         p->n_tensors, first->n_tensors);
    return TERN_OK;
}

static bool same_value(const tern_gguf_kv *a, const tern_gguf_kv *b)
{
    return a->kind == b->kind && a->element == b->element && a->count == b->count && a->value.size == b->value.size &&
           (a->value.size == 0 || memcmp(a->value.data, b->value.data, a->value.size) == 0);
}

/* Both must describe the model alike. */
static tern_status check_keys(const tern_gguf *first, const tern_gguf *part, tern_error *err)
{
    for (size_t i = 0; i < part->n_kv; i++) {
        const tern_gguf_kv *kv = &part->kv[i];
        uint32_t at;
        if (is_key(kv->key, KEY_NO) || is_key(kv->key, KEY_COUNT) || is_key(kv->key, KEY_TENSORS) ||
            is_key(kv->key, TERN_GGUF_ALIGNMENT_KEY))
            continue;
        if (!tern_map_find(&first->keys, kv->key, &at) || same_value(kv, &first->kv[at])) continue;
        return tern_fail(err, TERN_MALFORMED, "%s: another value than in the first part: a part of another model",
                         tern_show(kv->key).text);
    }
    return TERN_OK;
}

static tern_status reserve(tern_gguf *whole, size_t n, tern_error *err)
{
    tern_gguf_tensor *grown = tern_realloc(whole->tensors, (n ? n : 1) * sizeof *grown);
    if (!grown) return tern_fail_alloc(err, n * sizeof *grown);
    whole->tensors = grown;
    return tern_map_reserve(&whole->names, n, err);
}

static tern_status add_tensors(tern_gguf *whole, const tern_gguf *part, tern_error *err)
{
    for (size_t i = 0; i < part->n_tensors; i++) {
        bool added = false;
        tern_gguf_tensor *t = &whole->tensors[whole->n_tensors];
        *t = part->tensors[i];
        t->offset += whole->file_bytes;
        TERN_TRY(tern_map_add(&whole->names, t->name, (uint32_t)whole->n_tensors, &added, err));
        if (!added)
            return tern_fail(err, TERN_MALFORMED, "%s: a tensor that an earlier part has", tern_show(t->name).text);
        whole->n_tensors++;
    }
    if (__builtin_add_overflow(whole->file_bytes, part->file_bytes, &whole->file_bytes))
        return tern_fail(err, TERN_LIMIT, "its %llu bytes and those before overflow",
                         (unsigned long long)part->file_bytes);
    return TERN_OK;
}

static tern_status add_part(tern_gguf *whole, const tern_gguf_place *first, const tern_gguf *part, size_t i,
                            tern_error *err)
{
    tern_gguf_place place;
    TERN_TRY(tern_gguf_place_of(part, &place, err));
    TERN_TRY(check_place(first, &place, i, err));
    TERN_TRY(check_keys(whole, part, err));
    return add_tensors(whole, part, err);
}

/* Room for the tensors of all parts. */
static tern_status make_room(tern_gguf *const *parts, size_t n, tern_error *err)
{
    size_t n_tensors = 0;
    for (size_t i = 0; i < n; i++) n_tensors += parts[i]->n_tensors;
    if (n_tensors <= TERN_GGUF_MAX_TENSORS) return reserve(parts[0], n_tensors, err);
    return tern_fail(err, TERN_LIMIT, "%zu tensors in %zu parts, at most %d expected", n_tensors, n,
                     TERN_GGUF_MAX_TENSORS);
}

static tern_status join(tern_gguf *const *parts, size_t n, const tern_gguf_place *first, tern_error *err)
{
    tern_gguf *whole = parts[0];
    if (n != first->count)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%zu of its parts found, all %u expected", n, first->count);
    if (first->index != 0)
        return tern_fail(err, TERN_MALFORMED, "part 1 of %u: " KEY_NO " %u found, 0 expected", first->count,
                         first->index);
    TERN_TRY(make_room(parts, n, err));
    for (size_t i = 1; i < n; i++)
        if (add_part(whole, first, parts[i], i, err) != TERN_OK)
            return tern_error_prefix(err, "part %zu of %u", i + 1, first->count);
    if (whole->n_tensors != first->n_tensors)
        return tern_fail(err, TERN_MALFORMED, "%zu tensors found in %zu parts, %u expected (" KEY_TENSORS ")",
                         whole->n_tensors, n, first->n_tensors);
    whole->n_parts = (uint32_t)n;
    return TERN_OK;
}

tern_status tern_gguf_join(tern_gguf *const *parts, size_t n, tern_error *err)
{
    tern_gguf_place first;
    tern_error local;
    if (!err) err = &local;
    TERN_TRY(tern_gguf_place_of(parts[0], &first, err));
    return n == 1 && first.count == 1 ? TERN_OK : join(parts, n, &first, err);
}
