/* The SafeTensors writer: one file, whole or not at all. */
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/show.h"
#include "format/json.h"
#include "format/safetensors_internal.h"

enum { HEADER_ALIGNMENT = 8 };

static tern_status add_metadata(tern_buf *header, const char *const *metadata, tern_error *err)
{
    TERN_TRY(tern_buf_addf(header, err, "\"__metadata__\":{"));
    for (size_t i = 0; metadata[i]; i += 2) {
        if (!metadata[i + 1]) return tern_fail(err, TERN_INVALID_ARGUMENT, "metadata %s: no value", metadata[i]);
        if (i) TERN_TRY(tern_buf_add(header, ",", 1, err));
        TERN_TRY(tern_json_add_string(header, metadata[i], strlen(metadata[i]), err));
        TERN_TRY(tern_buf_add(header, ":", 1, err));
        TERN_TRY(tern_json_add_string(header, metadata[i + 1], strlen(metadata[i + 1]), err));
    }
    return tern_buf_add(header, "}", 1, err);
}

static tern_status check_tensor(const tern_st_tensor *t, tern_error *err)
{
    tern_st_tensor sized = *t;
    if ((unsigned)t->dtype > TERN_ST_U64 || t->n_dims > TERN_ST_MAX_DIMS || !tern_safetensors__size(&sized))
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "%s: dtype %d, %u dimensions: at most %d and %d and no overflow expected",
                         tern_show_z(t->name).text, t->dtype, t->n_dims, TERN_ST_U64, TERN_ST_MAX_DIMS);
    if (sized.bytes != t->bytes)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: %zu bytes, its shape needs %zu", tern_show_z(t->name).text,
                         t->bytes, sized.bytes);
    return TERN_OK;
}

static tern_status add_entry(tern_buf *header, const tern_st_tensor *t, uint64_t begin, tern_error *err)
{
    TERN_TRY(tern_json_add_string(header, t->name, strlen(t->name), err));
    TERN_TRY(tern_buf_addf(header, err, ":{\"dtype\":\"%s\",\"shape\":[", tern_st_dtype_name(t->dtype)));
    for (uint32_t i = 0; i < t->n_dims; i++)
        TERN_TRY(tern_buf_addf(header, err, "%s%llu", i ? "," : "", (unsigned long long)t->dims[i]));
    return tern_buf_addf(header, err, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)begin,
                         (unsigned long long)begin + t->bytes);
}

static tern_status claim_name(tern_map *names, const tern_st_tensor *t, tern_error *err)
{
    bool added = false;
    TERN_TRY(tern_map_add(names, (tern_span){(const uint8_t *)t->name, strlen(t->name)}, 0, &added, err));
    if (added && strcmp(t->name, "__metadata__") != 0) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: duplicate tensor", tern_show_z(t->name).text);
}

static tern_status add_entries(tern_buf *header, const tern_st_tensor *tensors, size_t n, bool comma, tern_map *names,
                               tern_error *err)
{
    uint64_t begin = 0;
    for (size_t i = 0; i < n; i++) {
        TERN_TRY(check_tensor(&tensors[i], err));
        TERN_TRY(claim_name(names, &tensors[i], err));
        if (i || comma) TERN_TRY(tern_buf_add(header, ",", 1, err));
        TERN_TRY(add_entry(header, &tensors[i], begin, err));
        begin += tensors[i].bytes;
    }
    return TERN_OK;
}

static tern_status build_header(tern_buf *header, const tern_st_tensor *tensors, size_t n, const char *const *metadata,
                                tern_error *err)
{
    TERN_TRY(tern_buf_add(header, "{", 1, err));
    if (metadata) TERN_TRY(add_metadata(header, metadata, err));
    tern_map names = {0};
    tern_status status = add_entries(header, tensors, n, metadata != NULL, &names, err);
    tern_map_deinit(&names);
    TERN_TRY(status);
    TERN_TRY(tern_buf_add(header, "}", 1, err));
    while (header->size % HEADER_ALIGNMENT) TERN_TRY(tern_buf_add(header, " ", 1, err));
    if (header->size > TERN_ST_MAX_HEADER_BYTES)
        return tern_fail(err, TERN_LIMIT, "a header of %zu bytes, at most %d expected", header->size,
                         TERN_ST_MAX_HEADER_BYTES);
    return TERN_OK;
}

tern_status tern_safetensors_writer_open(tern_safetensors_writer *w, const char *path, const tern_st_tensor *tensors,
                                         size_t n, const char *const *metadata, tern_error *err)
{
    *w = (tern_safetensors_writer){0};
    for (size_t i = 0; i < n; i++) w->expected += tensors[i].bytes;
    tern_buf header = {0};
    tern_status status = build_header(&header, tensors, n, metadata, err);
    if (status == TERN_OK) status = tern_file_writer_open(&w->file, path, err);
    if (status == TERN_OK) {
        uint8_t length[8];
        tern_store_u64(length, header.size);
        tern_file_writer_add(&w->file, length, sizeof length);
        tern_file_writer_add(&w->file, header.data, header.size);
    }
    tern_buf_deinit(&header);
    return status;
}

void tern_safetensors_writer_add(tern_safetensors_writer *w, const void *bytes, size_t n)
{
    tern_file_writer_add(&w->file, bytes, n);
    w->written += n;
}

tern_status tern_safetensors_writer_commit(tern_safetensors_writer *w, tern_error *err)
{
    if (w->written == w->expected) return tern_file_writer_commit(&w->file, err);
    tern_file_writer_abort(&w->file);
    return tern_fail(err, TERN_INVALID_ARGUMENT, "%llu bytes of tensors written, their shapes need %llu",
                     (unsigned long long)w->written, (unsigned long long)w->expected);
}

void tern_safetensors_writer_abort(tern_safetensors_writer *w)
{
    tern_file_writer_abort(&w->file);
}

tern_status tern_safetensors_write(const char *path, const tern_st_tensor *tensors, size_t n,
                                   const char *const *metadata, tern_error *err)
{
    tern_safetensors_writer w;
    TERN_TRY(tern_safetensors_writer_open(&w, path, tensors, n, metadata, err));
    for (size_t i = 0; i < n; i++) tern_safetensors_writer_add(&w, tensors[i].data, tensors[i].bytes);
    return tern_safetensors_writer_commit(&w, err);
}
