/* The SafeTensors reader: one file's header, entry by entry, and where each tensor's data lies. */
#include "format/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/show.h"
#include "format/json.h"
#include "format/safetensors_internal.h"

enum { LENGTH_BYTES = 8, MAX_ENTRY_BYTES = 64 << 10, MAX_NAME_BYTES = 64 << 10 };

/* Element types of the format that are not read here. */
static const char *const other_dtypes[] = {"F4", "F6_E2M3", "F6_E3M2", "F8_E5M2", "F8_E4M3", "F8_E8M0", "C64"};

static bool span_is(tern_span s, const char *word)
{
    return s.size == strlen(word) && memcmp(s.data, word, s.size) == 0;
}

static tern_status find_dtype(tern_span name, tern_st_dtype *dtype, tern_error *err)
{
    for (int i = 0; i <= TERN_ST_U64; i++) {
        if (!span_is(name, tern_st_dtype_name((tern_st_dtype)i))) continue;
        *dtype = (tern_st_dtype)i;
        return TERN_OK;
    }
    for (size_t i = 0; i < sizeof other_dtypes / sizeof *other_dtypes; i++)
        if (span_is(name, other_dtypes[i]))
            return tern_fail(err, TERN_UNSUPPORTED, "dtype %s cannot be read here", other_dtypes[i]);
    return tern_fail(err, TERN_MALFORMED, "dtype '%s' is unknown", tern_show(name).text);
}

static tern_status read_count(const json_t *array, size_t i, const char *what, uint64_t *out, tern_error *err)
{
    int64_t v = 0;
    if (!tern_json_int(json_array_get(array, i), &v) || v < 0)
        return tern_fail(err, TERN_MALFORMED, "%s[%zu] is not a whole number from 0 to 2^53", what, i);
    *out = (uint64_t)v;
    return TERN_OK;
}

static tern_status read_shape(const json_t *entry, tern_st_tensor *t, tern_error *err)
{
    const json_t *shape = NULL;
    TERN_TRY(tern_json_get_array(entry, "shape", &shape, err));
    size_t n = json_array_size(shape);
    if (n > TERN_ST_MAX_DIMS)
        return tern_fail(err, TERN_UNSUPPORTED, "%zu dimensions, at most %d expected", n, TERN_ST_MAX_DIMS);
    t->n_dims = (uint32_t)n;
    for (size_t i = 0; i < n; i++) TERN_TRY(read_count(shape, i, "shape", &t->dims[i], err));
    if (!tern_safetensors__size(t)) return tern_fail(err, TERN_MALFORMED, "the product of its shape overflows");
    return TERN_OK;
}

static tern_status read_offsets(const json_t *entry, tern_st_tensor *t, tern_span data, tern_error *err)
{
    const json_t *offsets = NULL;
    uint64_t begin = 0, end = 0;
    TERN_TRY(tern_json_get_array(entry, "data_offsets", &offsets, err));
    if (json_array_size(offsets) != 2)
        return tern_fail(err, TERN_MALFORMED, "data_offsets has %zu numbers, 2 expected", json_array_size(offsets));
    TERN_TRY(read_count(offsets, 0, "data_offsets", &begin, err));
    TERN_TRY(read_count(offsets, 1, "data_offsets", &end, err));
    if (begin > end || end > data.size)
        return tern_fail(err, TERN_MALFORMED,
                         "data_offsets %llu to %llu are outside the file, which has %zu bytes of data",
                         (unsigned long long)begin, (unsigned long long)end, data.size);
    if (end - begin != t->bytes)
        return tern_fail(err, TERN_MALFORMED, "data_offsets hold %llu bytes, its shape needs %zu",
                         (unsigned long long)(end - begin), t->bytes);
    t->data = data.data + begin;
    return TERN_OK;
}

static tern_status read_entry(const json_t *entry, tern_st_tensor *t, tern_span data, tern_error *err)
{
    if (!json_is_object(entry))
        return tern_fail(err, TERN_MALFORMED, "%s found, an object expected", tern_json_kind(entry));
    tern_span dtype = {0};
    TERN_TRY(tern_json_get_string(entry, "dtype", &dtype, err));
    TERN_TRY(find_dtype(dtype, &t->dtype, err));
    TERN_TRY(read_shape(entry, t, err));
    return read_offsets(entry, t, data, err);
}

/* A missing key of an entry is a fault of the file. */
static tern_status read_tensor(tern_span value, tern_st_tensor *t, tern_span data, tern_error *err)
{
    if (value.size > MAX_ENTRY_BYTES)
        return tern_fail(err, TERN_LIMIT, "%zu bytes of description, at most %d expected", value.size, MAX_ENTRY_BYTES);
    json_t *entry = NULL;
    TERN_TRY(tern_json_parse(&entry, value.data, value.size, "its entry", err));
    tern_status status = read_entry(entry, t, data, err);
    tern_json_free(entry);
    if (status == TERN_NOT_FOUND) err->code = status = TERN_MALFORMED;
    return status;
}

/* A copy of the key, unquoted. Names with a NUL are refused, since a tensor's name is a C string. */
static tern_status read_name(tern_safetensors *st, tern_span key, const char **name, tern_error *err)
{
    if (key.size > MAX_NAME_BYTES)
        return tern_fail(err, TERN_LIMIT, "a tensor name of %zu bytes, at most %d expected", key.size, MAX_NAME_BYTES);
    json_t *text = NULL;
    TERN_TRY(tern_json_parse(&text, key.data, key.size, "a tensor's name", err));
    size_t n = json_string_length(text);
    tern_status status = TERN_OK;
    if (memchr(json_string_value(text), 0, n))
        status = tern_fail(err, TERN_MALFORMED, "%s: a tensor name with a NUL", tern_show(key).text);
    else if (!(*name = tern_arena_strndup(&st->strings, json_string_value(text), n))) status = tern_fail_alloc(err, n);
    tern_json_free(text);
    return status;
}

static tern_status add_tensor(tern_safetensors *st, tern_span key, tern_span value, tern_span data, tern_error *err)
{
    tern_st_tensor t = {0};
    TERN_TRY(read_name(st, key, &t.name, err));
    if (read_tensor(value, &t, data, err) != TERN_OK) return tern_error_prefix(err, "%s", tern_show_z(t.name).text);
    if (st->count == TERN_ST_MAX_TENSORS)
        return tern_fail(err, TERN_LIMIT, "more than %d tensors", TERN_ST_MAX_TENSORS);
    void *tensors = st->tensors;
    TERN_TRY(tern_grow(&tensors, &st->cap, st->count + 1, sizeof t, err));
    st->tensors = tensors;
    st->tensors[st->count++] = t;
    return TERN_OK;
}

static tern_status check_text(tern_span key, tern_span value, tern_error *err)
{
    tern_span text[] = {key, value};
    for (int i = 0; i < 2; i++) {
        json_t *parsed = NULL;
        TERN_TRY(tern_json_parse(&parsed, text[i].data, text[i].size, "__metadata__", err));
        bool is_string = json_is_string(parsed);
        const char *kind = tern_json_kind(parsed);
        tern_json_free(parsed);
        if (!is_string)
            return tern_fail(err, TERN_MALFORMED, "__metadata__: %s: %s found, a string expected", tern_show(key).text,
                             kind);
    }
    return TERN_OK;
}

/* The metadata is checked and not kept: it has no meaning to us. */
static tern_status check_metadata(tern_span object, tern_error *err)
{
    tern_json_walk walk = {.data = object.data, .size = object.size};
    tern_span key, value;
    bool more = true;
    while (more) {
        if (tern_json_walk_next(&walk, &more, &key, &value, err) != TERN_OK)
            return tern_error_prefix(err, "__metadata__");
        if (more) TERN_TRY(check_text(key, value, err));
    }
    return TERN_OK;
}

static tern_status read_entries(tern_safetensors *st, tern_span header, tern_span data, tern_error *err)
{
    tern_json_walk walk = {.data = header.data, .size = header.size};
    tern_span key, value;
    bool more = true, metadata = false;
    while (more) {
        if (tern_json_walk_next(&walk, &more, &key, &value, err) != TERN_OK) return tern_error_prefix(err, "header");
        if (!more) break;
        if (!span_is(key, "\"__metadata__\"")) {
            TERN_TRY(add_tensor(st, key, value, data, err));
        } else {
            if (metadata) return tern_fail(err, TERN_MALFORMED, "header: duplicate __metadata__");
            metadata = true;
            TERN_TRY(check_metadata(value, err));
        }
    }
    return TERN_OK;
}

/* Empty tensors come before the one that starts where they stand. */
static int by_place(const void *a, const void *b)
{
    const tern_st_tensor *x = a, *y = b;
    if (x->data != y->data) return x->data < y->data ? -1 : 1;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

static tern_status check_places(tern_st_tensor *tensors, size_t n, tern_span data, tern_error *err)
{
    qsort(tensors, n, sizeof *tensors, by_place);
    size_t end = 0;
    for (size_t i = 0; i < n; i++) {
        size_t begin = (size_t)(tensors[i].data - data.data);
        if (begin < end)
            return tern_fail(err, TERN_MALFORMED, "%s: overlaps %s", tern_show_z(tensors[i].name).text,
                             tern_show_z(tensors[i - 1].name).text);
        if (begin > end)
            return tern_fail(err, TERN_MALFORMED, "%s: a gap of %zu bytes before it", tern_show_z(tensors[i].name).text,
                             begin - end);
        end = begin + tensors[i].bytes;
    }
    if (end != data.size)
        return tern_fail(err, TERN_MALFORMED, "%zu bytes after the last tensor, none expected", data.size - end);
    return TERN_OK;
}

static tern_status index_names(tern_safetensors *st, size_t first, tern_error *err)
{
    TERN_TRY(tern_map_reserve(&st->names, st->count, err));
    for (size_t i = first; i < st->count; i++) {
        const char *name = st->tensors[i].name;
        bool added = false;
        TERN_TRY(tern_map_add(&st->names, (tern_span){(const uint8_t *)name, strlen(name)}, (uint32_t)i, &added, err));
        if (!added) return tern_fail(err, TERN_MALFORMED, "%s: duplicate tensor", tern_show_z(name).text);
    }
    return TERN_OK;
}

static tern_status find_header(const uint8_t *bytes, size_t size, tern_span *header, tern_error *err)
{
    if (size < LENGTH_BYTES)
        return tern_fail(err, TERN_MALFORMED, "header: a file of %zu bytes, at least %d expected", size, LENGTH_BYTES);
    uint64_t n = tern_load_u64(bytes);
    if (n > TERN_ST_MAX_HEADER_BYTES)
        return tern_fail(err, TERN_MALFORMED, "header: length %llu, at most %d expected", (unsigned long long)n,
                         TERN_ST_MAX_HEADER_BYTES);
    if (n > size - LENGTH_BYTES)
        return tern_fail(err, TERN_MALFORMED, "header: length %llu, the file has %zu bytes after it",
                         (unsigned long long)n, size - LENGTH_BYTES);
    *header = (tern_span){bytes + LENGTH_BYTES, (size_t)n};
    return TERN_OK;
}

tern_status tern_safetensors__add_file(tern_safetensors *st, const void *data, size_t size, tern_error *err)
{
    tern_error local;
    if (!err) err = &local;
    tern_span header = {0};
    TERN_TRY(find_header(data, size, &header, err));
    tern_span rest = {header.data + header.size, size - LENGTH_BYTES - header.size};
    size_t first = st->count;
    TERN_TRY(read_entries(st, header, rest, err));
    if (st->count > first) TERN_TRY(check_places(st->tensors + first, st->count - first, rest, err));
    else if (rest.size) return tern_fail(err, TERN_MALFORMED, "%zu bytes of data and no tensor", rest.size);
    return index_names(st, first, err);
}

tern_status tern_safetensors_parse(tern_safetensors **out, const void *data, size_t size, tern_error *err)
{
    *out = NULL;
    tern_safetensors *st = tern_calloc(1, sizeof *st);
    if (!st) return tern_fail_alloc(err, sizeof *st);
    tern_status status = tern_safetensors__add_file(st, data, size, err);
    if (status == TERN_OK) *out = st;
    else tern_safetensors_close(st);
    return status;
}

void tern_safetensors_close(tern_safetensors *st)
{
    if (!st) return;
    for (size_t i = 0; i < st->n_files; i++) tern_file_map_close(&st->files[i]);
    tern_free(st->files);
    tern_free(st->tensors);
    tern_map_deinit(&st->names);
    tern_arena_deinit(&st->strings);
    tern_free(st);
}

size_t tern_safetensors_count(const tern_safetensors *st)
{
    return st->count;
}

const tern_st_tensor *tern_safetensors_at(const tern_safetensors *st, size_t i)
{
    return i < st->count ? &st->tensors[i] : NULL;
}

const tern_st_tensor *tern_safetensors_find(const tern_safetensors *st, const char *name)
{
    uint32_t i;
    bool found = tern_map_find(&st->names, (tern_span){(const uint8_t *)name, strlen(name)}, &i);
    return found ? &st->tensors[i] : NULL;
}
