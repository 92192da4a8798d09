/* The GGUF reader: header, metadata, tensor list, and where each tensor's data lies. */
#include "format/gguf.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/form.h"
#include "base/show.h"
#include "format/gguf_internal.h"

/* The fewest bytes that one pair (key length, a letter, kind, u8) and one tensor (name length, a letter, number of
 * dimensions, type, offset) can take. */
enum { MIN_KV_BYTES = 8 + 1 + 4 + 1, MIN_TENSOR_BYTES = 8 + 1 + 4 + 4 + 8 };

static unsigned long long file_bytes(const tern_cursor *c)
{
    return c->size + c->more;
}

static tern_status check_count(const tern_cursor *c, const char *what, uint64_t n, size_t each, size_t most,
                               tern_error *err)
{
    uint64_t left = tern_cursor_rest(c);
    if (n > left / each)
        return tern_fail(err, TERN_MALFORMED, "header: %llu %s do not fit in the %llu bytes left",
                         (unsigned long long)n, what, (unsigned long long)left);
    if (n > most)
        return tern_fail(err, TERN_LIMIT, "header: %llu %s, at most %zu expected", (unsigned long long)n, what, most);
    return TERN_OK;
}

static tern_status refuse_form(const uint8_t *bytes, size_t n, tern_error *err)
{
    const tern_span all = {bytes, n < 512 ? n : 512};
    const char *form = tern_form_of_bytes(all);
    if (!form) form = tern_form_of_text(all);
    return tern_fail(err, TERN_MALFORMED, "header: magic '%s' found, 'GGUF' expected%s%s",
                     tern_show((tern_span){bytes, 4}).text, form ? ": this is " : "", form ? form : "");
}

static tern_status read_version(tern_gguf *g, tern_cursor *c, tern_error *err)
{
    const uint8_t *magic = tern_cursor_take(c, 4);
    if (!magic) return tern_fail(err, TERN_MALFORMED, "header: %llu bytes, a GGUF file has at least 24", file_bytes(c));
    if (memcmp(magic, "GGUF", 4) != 0) return refuse_form(magic, tern_cursor_left(c) + 4, err);
    g->version = tern_cursor_u32(c);
    if (c->bad) return tern_fail(err, TERN_MALFORMED, "header: the file ends after %llu bytes", file_bytes(c));
    if (g->version && (g->version & 0xffff) == 0)
        return tern_fail(err, TERN_UNSUPPORTED, "header: big-endian GGUF (version word 0x%08x), little-endian expected",
                         g->version);
    if (g->version != 2 && g->version != 3)
        return tern_fail(err, TERN_UNSUPPORTED, "header: GGUF version %u, 2 or 3 expected", g->version);
    return TERN_OK;
}

static tern_status read_header(tern_gguf *g, tern_cursor *c, tern_error *err)
{
    TERN_TRY(read_version(g, c, err));
    uint64_t n_tensors = tern_cursor_u64(c), n_kv = tern_cursor_u64(c);
    if (c->bad) return tern_fail(err, TERN_MALFORMED, "header: the file ends after %llu bytes", file_bytes(c));
    TERN_TRY(check_count(c, "tensors", n_tensors, MIN_TENSOR_BYTES, TERN_GGUF_MAX_TENSORS, err));
    TERN_TRY(check_count(c, "metadata pairs", n_kv, MIN_KV_BYTES, TERN_GGUF_MAX_KV, err));
    g->n_tensors = (size_t)n_tensors;
    g->n_kv = (size_t)n_kv;
    g->kv = tern_calloc(g->n_kv, sizeof *g->kv);
    g->tensors = tern_calloc(g->n_tensors, sizeof *g->tensors);
    if (!g->kv || !g->tensors) return tern_fail_alloc(err, g->n_kv * sizeof *g->kv + g->n_tensors * sizeof *g->tensors);
    TERN_TRY(tern_map_reserve(&g->keys, g->n_kv, err));
    return tern_map_reserve(&g->names, g->n_tensors, err);
}

/* A key or tensor name, 1 to 65,535 bytes, not seen before. */
static tern_status read_name(tern_cursor *c, const char *what, size_t i, tern_map *seen, tern_span *name,
                             tern_error *err)
{
    uint64_t bytes = tern_cursor_u64(c);
    if (c->bad || bytes > tern_cursor_rest(c))
        return tern_fail(err, TERN_MALFORMED, "%s %zu: a name of %llu bytes, %llu left", what, i,
                         (unsigned long long)bytes, (unsigned long long)tern_cursor_rest(c));
    if (bytes == 0 || bytes > TERN_GGUF_MAX_NAME_BYTES)
        return tern_fail(err, TERN_MALFORMED, "%s %zu: a name of %llu bytes, 1 to %d expected", what, i,
                         (unsigned long long)bytes, TERN_GGUF_MAX_NAME_BYTES);
    *name = (tern_span){tern_cursor_take(c, bytes), (size_t)bytes};
    if (!name->data) return tern_fail(err, TERN_MALFORMED, "%s %zu: its name is cut short", what, i);
    bool added = false;
    TERN_TRY(tern_map_add(seen, *name, (uint32_t)i, &added, err));
    if (!added) return tern_fail(err, TERN_MALFORMED, "%s: duplicate %s", tern_show(*name).text, what);
    return TERN_OK;
}

static tern_status read_array(tern_cursor *c, tern_gguf_kv *kv, tern_error *err)
{
    uint32_t element = tern_cursor_u32(c);
    kv->count = tern_cursor_u64(c);
    if (c->bad) return tern_fail(err, TERN_MALFORMED, "array is cut short");
    size_t start = c->at;
    TERN_TRY(tern_gguf__skip_values(c, element, kv->count, 1, err));
    kv->element = (tern_gguf_kind)element;
    kv->value = (tern_span){c->data + start, c->at - start};
    return TERN_OK;
}

static tern_status read_value(tern_cursor *c, tern_gguf_kv *kv, tern_error *err)
{
    uint32_t kind = tern_cursor_u32(c);
    if (c->bad) return tern_fail(err, TERN_MALFORMED, "the file ends before its kind");
    if (kind > TERN_GGUF_F64)
        return tern_fail(err, TERN_MALFORMED, "kind %u, at most %d expected", kind, TERN_GGUF_F64);
    kv->kind = (tern_gguf_kind)kind;
    kv->count = 1;
    if (kind == TERN_GGUF_ARRAY) return read_array(c, kv, err);
    size_t start = c->at + (kind == TERN_GGUF_STRING ? 8 : 0);
    TERN_TRY(tern_gguf__skip_values(c, kind, 1, 0, err));
    kv->value = (tern_span){c->data + start, c->at - start};
    return TERN_OK;
}

static tern_status read_kv(tern_gguf *g, tern_cursor *c, size_t i, tern_error *err)
{
    tern_gguf_kv *kv = &g->kv[i];
    TERN_TRY(read_name(c, "key", i, &g->keys, &kv->key, err));
    if (read_value(c, kv, err) != TERN_OK) return tern_error_prefix(err, "%s", tern_show(kv->key).text);
    return TERN_OK;
}

static tern_status read_shape(tern_cursor *c, tern_gguf_tensor *t, uint64_t *offset, tern_error *err)
{
    t->n_dims = tern_cursor_u32(c);
    if (t->n_dims > TERN_GGUF_MAX_DIMS)
        return tern_fail(err, TERN_MALFORMED, "%u dimensions, at most %d expected", t->n_dims, TERN_GGUF_MAX_DIMS);
    for (uint32_t i = 0; i < TERN_GGUF_MAX_DIMS; i++) t->dims[i] = i < t->n_dims ? tern_cursor_u64(c) : 1;
    t->type = tern_cursor_u32(c);
    *offset = tern_cursor_u64(c);
    if (c->bad) return tern_fail(err, TERN_MALFORMED, "the file ends inside its description");
    return tern_gguf__tensor_size(t, err);
}

static tern_status read_tensor(tern_gguf *g, tern_cursor *c, size_t i, uint64_t *offset, tern_error *err)
{
    tern_gguf_tensor *t = &g->tensors[i];
    TERN_TRY(read_name(c, "tensor", i, &g->names, &t->name, err));
    if (read_shape(c, t, offset, err) != TERN_OK) return tern_error_prefix(err, "%s", tern_show(t->name).text);
    return TERN_OK;
}

/* The data section starts at `start` and has `room` bytes. */
static tern_status place_tensor(const tern_gguf *g, tern_gguf_tensor *t, const tern_cursor *c, uint64_t start,
                                uint64_t offset, tern_error *err)
{
    const uint64_t room = file_bytes(c) - start;
    if (offset % g->alignment)
        return tern_fail(err, TERN_MALFORMED, "%s: offset %llu, a multiple of %zu expected", tern_show(t->name).text,
                         (unsigned long long)offset, g->alignment);
    if (offset > room || t->bytes > room - offset)
        return tern_fail(err, TERN_MALFORMED,
                         "%s: %zu bytes at offset %llu are outside the file, which has %llu bytes of data",
                         tern_show(t->name).text, t->bytes, (unsigned long long)offset, (unsigned long long)room);
    t->offset = start + offset;
    if (t->offset + t->bytes <= c->size) t->data = c->data + t->offset;
    return TERN_OK;
}

static int by_place(const void *a, const void *b)
{
    const tern_gguf_tensor *x = *(const tern_gguf_tensor *const *)a, *y = *(const tern_gguf_tensor *const *)b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return x < y ? -1 : x > y;
}

static tern_status check_overlap(const tern_gguf *g, tern_error *err)
{
    const tern_gguf_tensor **order = tern_alloc(g->n_tensors * sizeof *order);
    if (!order) return tern_fail_alloc(err, g->n_tensors * sizeof *order);
    for (size_t i = 0; i < g->n_tensors; i++) order[i] = &g->tensors[i];
    qsort(order, g->n_tensors, sizeof *order, by_place);
    tern_status status = TERN_OK;
    for (size_t i = 1; i < g->n_tensors && status == TERN_OK; i++)
        if (order[i]->offset < order[i - 1]->offset + order[i - 1]->bytes)
            status = tern_fail(err, TERN_MALFORMED, "%s: overlaps %s", tern_show(order[i]->name).text,
                               tern_show(order[i - 1]->name).text);
    tern_free(order);
    return status;
}

static uint64_t data_start(const tern_gguf *g, const tern_cursor *c)
{
    uint64_t start = ((uint64_t)c->at + g->alignment - 1) / g->alignment * g->alignment, end = file_bytes(c);
    return start < end ? start : end;
}

static tern_status read_tensors(tern_gguf *g, tern_cursor *c, uint64_t *offsets, tern_error *err)
{
    for (size_t i = 0; i < g->n_tensors; i++) TERN_TRY(read_tensor(g, c, i, &offsets[i], err));
    const uint64_t start = data_start(g, c);
    TERN_TRY(tern_gguf__settle_groups(g, offsets, file_bytes(c) - start, err));
    for (size_t i = 0; i < g->n_tensors; i++) TERN_TRY(place_tensor(g, &g->tensors[i], c, start, offsets[i], err));
    return check_overlap(g, err);
}

static tern_status read_file(tern_gguf *g, tern_cursor *c, tern_error *err)
{
    g->file_bytes = file_bytes(c);
    TERN_TRY(read_header(g, c, err));
    for (size_t i = 0; i < g->n_kv; i++) TERN_TRY(read_kv(g, c, i, err));
    const tern_gguf_kv *alignment = tern_gguf_find(g, TERN_GGUF_ALIGNMENT_KEY);
    g->alignment = TERN_GGUF_ALIGNMENT;
    if (alignment) TERN_TRY(tern_gguf__alignment(alignment, &g->alignment, err));
    uint64_t *offsets = tern_alloc(g->n_tensors * sizeof *offsets);
    if (!offsets) return tern_fail_alloc(err, g->n_tensors * sizeof *offsets);
    tern_status status = read_tensors(g, c, offsets, err);
    tern_free(offsets);
    return status;
}

/* The read that came to the end of what is at hand: doubling keeps the number of calls small. */
static tern_status need_more(const tern_cursor *c, uint64_t *wanted, tern_error *err)
{
    const uint64_t all = file_bytes(c), twice = 2 * (uint64_t)c->size + 4096;
    *wanted = c->wanted > twice ? c->wanted : twice;
    if (*wanted > all) *wanted = all;
    return tern_fail(err, TERN_PENDING, "header: longer than %zu bytes, %llu wanted", c->size,
                     (unsigned long long)*wanted);
}

tern_status tern_gguf_parse_head(tern_gguf **gguf, const void *head, size_t n, uint64_t bytes, uint64_t *wanted,
                                 tern_error *err)
{
    *gguf = NULL;
    tern_error local;
    if (!err) err = &local;
    tern_gguf *g = tern_calloc(1, sizeof *g);
    if (!g) return tern_fail_alloc(err, sizeof *g);
    tern_cursor c = tern_cursor_open(head, n);
    c.more = bytes > n ? bytes - n : 0;
    tern_status status = read_file(g, &c, err);
    if (status == TERN_OK) *gguf = g;
    else tern_gguf_close(g);
    if (status == TERN_MALFORMED && c.bad && c.wanted <= file_bytes(&c)) return need_more(&c, wanted, err);
    return status;
}

tern_status tern_gguf_parse(tern_gguf **gguf, const void *data, size_t size, tern_error *err)
{
    uint64_t wanted;
    return tern_gguf_parse_head(gguf, data, size, size, &wanted, err);
}

void tern_gguf_close(tern_gguf *g)
{
    if (!g) return;
    tern_free(g->kv);
    tern_free(g->tensors);
    tern_map_deinit(&g->keys);
    tern_map_deinit(&g->names);
    tern_free(g);
}

uint32_t tern_gguf_version(const tern_gguf *g)
{
    return g->version;
}

uint64_t tern_gguf_bytes(const tern_gguf *g)
{
    return g->file_bytes;
}

uint32_t tern_gguf_n_parts(const tern_gguf *g)
{
    return g->n_parts ? g->n_parts : 1;
}

size_t tern_gguf_n_kv(const tern_gguf *g)
{
    return g->n_kv;
}

const tern_gguf_kv *tern_gguf_kv_at(const tern_gguf *g, size_t i)
{
    return i < g->n_kv ? &g->kv[i] : NULL;
}

const tern_gguf_kv *tern_gguf_find(const tern_gguf *g, const char *key)
{
    uint32_t i;
    bool found = tern_map_find(&g->keys, (tern_span){(const uint8_t *)key, strlen(key)}, &i);
    return found ? &g->kv[i] : NULL;
}

size_t tern_gguf_n_tensors(const tern_gguf *g)
{
    return g->n_tensors;
}

const tern_gguf_tensor *tern_gguf_tensor_at(const tern_gguf *g, size_t i)
{
    return i < g->n_tensors ? &g->tensors[i] : NULL;
}

const tern_gguf_tensor *tern_gguf_find_tensor(const tern_gguf *g, const char *name)
{
    uint32_t i;
    bool found = tern_map_find(&g->names, (tern_span){(const uint8_t *)name, strlen(name)}, &i);
    return found ? &g->tensors[i] : NULL;
}
