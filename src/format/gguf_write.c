/* The GGUF writer: metadata and tensor list gathered in memory, data streamed to a file that appears whole or not at
 * all. */
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/file.h"
#include "base/show.h"
#include "format/gguf.h"
#include "format/gguf_internal.h"

typedef struct pending_tensor {
    tern_span name;
    size_t bytes;
} pending_tensor;

struct tern_gguf_writer {
    tern_file_writer file;
    tern_arena strings;
    tern_map keys, names;
    tern_buf kv, infos;
    pending_tensor *tensors;
    size_t n_tensors, cap_tensors;
    size_t alignment;
    uint64_t data_bytes; /* of the tensors added so far, padding included */
    bool broken;         /* an allocation failed half-way through a header record */
    bool writing;
    size_t at;   /* the tensor whose data comes next */
    size_t done; /* bytes of it already written */
};

/* path NULL: to `out`. */
static tern_status open_writer(tern_gguf_writer **writer, const char *path, tern_buf *out, tern_error *err)
{
    *writer = NULL;
    tern_gguf_writer *w = tern_calloc(1, sizeof *w);
    if (!w) return tern_fail_alloc(err, sizeof *w);
    w->alignment = TERN_GGUF_ALIGNMENT;
    tern_status status = path ? tern_file_writer_open(&w->file, path, err)
                              : tern_file_writer_open_memory(&w->file, out, "GGUF in memory", err);
    if (status == TERN_OK) *writer = w;
    else tern_gguf_writer_abort(w);
    return status;
}

tern_status tern_gguf_writer_open(tern_gguf_writer **writer, const char *path, tern_error *err)
{
    return open_writer(writer, path, NULL, err);
}

tern_status tern_gguf_writer_open_memory(tern_gguf_writer **writer, tern_buf *out, tern_error *err)
{
    return open_writer(writer, NULL, out, err);
}

static tern_status add_le32(tern_buf *buf, uint32_t v, tern_error *err)
{
    uint8_t bytes[4];
    tern_store_u32(bytes, v);
    return tern_buf_add(buf, bytes, sizeof bytes, err);
}

static tern_status add_le64(tern_buf *buf, uint64_t v, tern_error *err)
{
    uint8_t bytes[8];
    tern_store_u64(bytes, v);
    return tern_buf_add(buf, bytes, sizeof bytes, err);
}

static tern_status add_text(tern_buf *buf, tern_span text, tern_error *err)
{
    TERN_TRY(add_le64(buf, text.size, err));
    return tern_buf_add(buf, text.data, text.size, err);
}

/* Remembers a key or name that was not used before, and points *name to a copy. A failure after this leaves the header
 * half written, so the file is given up: see `broken`. */
static tern_status claim(tern_gguf_writer *w, tern_map *seen, const char *what, tern_span *claimed, tern_error *err)
{
    tern_span name = *claimed;
    if (w->writing)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: added after the data was begun", tern_show(name).text);
    if (name.size == 0 || name.size > TERN_GGUF_MAX_NAME_BYTES)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "a %s of %zu bytes, 1 to %d expected", what, name.size,
                         TERN_GGUF_MAX_NAME_BYTES);
    char *copy = tern_arena_strndup(&w->strings, (const char *)name.data, name.size);
    if (!copy) return tern_fail_alloc(err, name.size);
    bool added = false;
    TERN_TRY(tern_map_add(seen, (tern_span){(const uint8_t *)copy, name.size}, (uint32_t)seen->count, &added, err));
    if (!added) return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: duplicate %s", tern_show(name).text, what);
    claimed->data = (const uint8_t *)copy;
    return TERN_OK;
}

/* The value must read back as what it claims to be. */
static tern_status check_value(const tern_gguf_kv *kv, tern_error *err)
{
    if (kv->kind == TERN_GGUF_STRING) return TERN_OK;
    bool array = kv->kind == TERN_GGUF_ARRAY;
    tern_cursor c = tern_cursor_open(kv->value.data, kv->value.size);
    tern_status status = tern_gguf__skip_values(&c, array ? kv->element : kv->kind, array ? kv->count : 1, array, err);
    if (status == TERN_OK && c.at == c.size) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: its %zu bytes are not a value of kind %s",
                     tern_show(kv->key).text, kv->value.size, tern_gguf_kind_name(kv->kind));
}

static tern_status note_alignment(tern_gguf_writer *w, const tern_gguf_kv *kv, tern_error *err)
{
    static const char key[] = TERN_GGUF_ALIGNMENT_KEY;
    if (kv->key.size != sizeof key - 1 || memcmp(kv->key.data, key, sizeof key - 1) != 0) return TERN_OK;
    if (w->n_tensors) return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: added after a tensor", key);
    return tern_gguf__alignment(kv, &w->alignment, err);
}

static tern_status describe_kv(tern_gguf_writer *w, const tern_gguf_kv *kv, tern_error *err)
{
    TERN_TRY(add_text(&w->kv, kv->key, err));
    TERN_TRY(add_le32(&w->kv, kv->kind, err));
    if (kv->kind == TERN_GGUF_STRING) return add_text(&w->kv, kv->value, err);
    if (kv->kind == TERN_GGUF_ARRAY) {
        TERN_TRY(add_le32(&w->kv, kv->element, err));
        TERN_TRY(add_le64(&w->kv, kv->count, err));
    }
    return tern_buf_add(&w->kv, kv->value.data, kv->value.size, err);
}

tern_status tern_gguf_add_kv(tern_gguf_writer *w, const tern_gguf_kv *kv, tern_error *err)
{
    TERN_TRY(check_value(kv, err));
    TERN_TRY(note_alignment(w, kv, err));
    tern_span key = kv->key;
    TERN_TRY(claim(w, &w->keys, "key", &key, err));
    tern_status status = describe_kv(w, kv, err);
    if (status != TERN_OK) w->broken = true;
    return status;
}

static tern_gguf_kv pair(const char *key, tern_gguf_kind kind, const void *value, size_t bytes)
{
    return (tern_gguf_kv){
        .key = {(const uint8_t *)key, strlen(key)}, .kind = kind, .count = 1, .value = {value, bytes}};
}

tern_status tern_gguf_add_u32(tern_gguf_writer *w, const char *key, uint32_t v, tern_error *err)
{
    uint8_t bytes[4];
    tern_store_u32(bytes, v);
    tern_gguf_kv kv = pair(key, TERN_GGUF_U32, bytes, sizeof bytes);
    return tern_gguf_add_kv(w, &kv, err);
}

tern_status tern_gguf_add_f32(tern_gguf_writer *w, const char *key, float v, tern_error *err)
{
    uint8_t bytes[4];
    tern_store_f32(bytes, v);
    tern_gguf_kv kv = pair(key, TERN_GGUF_F32, bytes, sizeof bytes);
    return tern_gguf_add_kv(w, &kv, err);
}

tern_status tern_gguf_add_bool(tern_gguf_writer *w, const char *key, bool v, tern_error *err)
{
    uint8_t byte = v;
    tern_gguf_kv kv = pair(key, TERN_GGUF_BOOL, &byte, 1);
    return tern_gguf_add_kv(w, &kv, err);
}

tern_status tern_gguf_add_string(tern_gguf_writer *w, const char *key, const void *s, size_t n, tern_error *err)
{
    tern_gguf_kv kv = pair(key, TERN_GGUF_STRING, s, n);
    return tern_gguf_add_kv(w, &kv, err);
}

static tern_status add_strings(tern_gguf_writer *w, tern_gguf_kv *kv, const tern_span *strings, tern_error *err)
{
    tern_buf bytes = {0};
    tern_status status = TERN_OK;
    for (uint64_t i = 0; i < kv->count && status == TERN_OK; i++) status = add_text(&bytes, strings[i], err);
    kv->value = (tern_span){(const uint8_t *)bytes.data, bytes.size};
    if (status == TERN_OK) status = tern_gguf_add_kv(w, kv, err);
    tern_buf_deinit(&bytes);
    return status;
}

tern_status tern_gguf_add_array(tern_gguf_writer *w, const char *key, tern_gguf_kind element, const void *values,
                                uint64_t count, tern_error *err)
{
    tern_gguf_kv kv = pair(key, TERN_GGUF_ARRAY, values, 0);
    kv.element = element;
    kv.count = count;
    if (element == TERN_GGUF_STRING) return add_strings(w, &kv, values, err);
    size_t each = tern_gguf__kind_bytes(element);
    if (each == 0 || !tern_size_mul(tern_size_of(count), each, &kv.value.size))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: array of %llu %s", key, (unsigned long long)count,
                         tern_gguf_kind_name(element));
    return tern_gguf_add_kv(w, &kv, err);
}

static tern_status shape_of(tern_gguf_tensor *t, const uint64_t *dims, tern_error *err)
{
    if (t->n_dims > TERN_GGUF_MAX_DIMS)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: %u dimensions, at most %d expected", tern_show(t->name).text,
                         t->n_dims, TERN_GGUF_MAX_DIMS);
    for (uint32_t i = 0; i < t->n_dims; i++) t->dims[i] = dims[i];
    tern_error local;
    tern_error *inner = err ? err : &local;
    if (tern_gguf__tensor_size(t, inner) != TERN_OK) return tern_error_prefix(inner, "%s", tern_show(t->name).text);
    return TERN_OK;
}

/* Where the tensor after this one starts. */
static bool next_offset(const tern_gguf_writer *w, size_t bytes, uint64_t *next)
{
    uint64_t end, padded;
    if (__builtin_add_overflow(w->data_bytes, bytes, &end)) return false;
    if (__builtin_add_overflow(end, w->alignment - 1, &padded)) return false;
    *next = padded / w->alignment * w->alignment;
    return true;
}

static tern_status describe_tensor(tern_gguf_writer *w, const tern_gguf_tensor *t, tern_error *err)
{
    TERN_TRY(add_text(&w->infos, t->name, err));
    TERN_TRY(add_le32(&w->infos, t->n_dims, err));
    for (uint32_t i = 0; i < t->n_dims; i++) TERN_TRY(add_le64(&w->infos, t->dims[i], err));
    TERN_TRY(add_le32(&w->infos, t->type, err));
    return add_le64(&w->infos, w->data_bytes, err);
}

tern_status tern_gguf_add_tensor(tern_gguf_writer *w, const char *name, uint32_t type, const uint64_t *dims,
                                 uint32_t n_dims, tern_error *err)
{
    tern_gguf_tensor t = {.name = {(const uint8_t *)name, strlen(name)}, .n_dims = n_dims, .type = type};
    TERN_TRY(shape_of(&t, dims, err));
    uint64_t next;
    if (!next_offset(w, t.bytes, &next))
        return tern_fail(err, TERN_LIMIT, "%s: %zu bytes overflow the file", name, t.bytes);
    void *tensors = w->tensors;
    TERN_TRY(tern_grow(&tensors, &w->cap_tensors, w->n_tensors + 1, sizeof *w->tensors, err));
    w->tensors = tensors;
    TERN_TRY(claim(w, &w->names, "tensor", &t.name, err));
    tern_status status = describe_tensor(w, &t, err);
    if (status != TERN_OK) {
        w->broken = true;
        return status;
    }
    w->tensors[w->n_tensors++] = (pending_tensor){.name = t.name, .bytes = t.bytes};
    w->data_bytes = next;
    return TERN_OK;
}

tern_status tern_gguf_writer_begin_data(tern_gguf_writer *w, tern_error *err)
{
    if (w->writing) return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: the data was begun before", w->file.path);
    uint8_t header[24];
    tern_store_u32(header, TERN_GGUF_MAGIC);
    tern_store_u32(header + 4, 3);
    tern_store_u64(header + 8, w->n_tensors);
    tern_store_u64(header + 16, w->keys.count);
    tern_file_writer_add(&w->file, header, sizeof header);
    tern_file_writer_add(&w->file, w->kv.data, w->kv.size);
    tern_file_writer_add(&w->file, w->infos.data, w->infos.size);
    tern_file_writer_pad(&w->file, w->alignment);
    w->writing = true;
    return TERN_OK;
}

tern_status tern_gguf_writer_data(tern_gguf_writer *w, const void *bytes, size_t n, tern_error *err)
{
    if (!w->writing) return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: data before its begin", w->file.path);
    if (w->at == w->n_tensors)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: %zu bytes of data after the last tensor", w->file.path, n);
    const pending_tensor *t = &w->tensors[w->at];
    if (n > t->bytes - w->done)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: %zu bytes of data, %zu expected", tern_show(t->name).text, n,
                         t->bytes - w->done);
    tern_file_writer_add(&w->file, bytes, n);
    w->done += n;
    if (w->done < t->bytes) return TERN_OK;
    tern_file_writer_pad(&w->file, w->alignment);
    w->at++;
    w->done = 0;
    return TERN_OK;
}

static tern_status check_complete(const tern_gguf_writer *w, tern_error *err)
{
    if (w->broken) return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: an addition to it failed", w->file.path);
    if (w->at == w->n_tensors) return TERN_OK;
    const pending_tensor *t = &w->tensors[w->at];
    return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: %zu bytes of data written, %zu expected", tern_show(t->name).text,
                     w->done, t->bytes);
}

tern_status tern_gguf_writer_commit(tern_gguf_writer *w, tern_error *err)
{
    tern_status status;
    TERN_GOTO(w->writing ? TERN_OK : tern_gguf_writer_begin_data(w, err));
    TERN_GOTO(check_complete(w, err));
    TERN_GOTO(tern_file_writer_commit(&w->file, err));
fail:
    tern_gguf_writer_abort(w);
    return status;
}

void tern_gguf_writer_abort(tern_gguf_writer *w)
{
    if (!w) return;
    tern_file_writer_abort(&w->file);
    tern_arena_deinit(&w->strings);
    tern_map_deinit(&w->keys);
    tern_map_deinit(&w->names);
    tern_buf_deinit(&w->kv);
    tern_buf_deinit(&w->infos);
    tern_free(w->tensors);
    tern_free(w);
}
