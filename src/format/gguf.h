/* GGUF files: a reader over untrusted bytes and a writer. */
#ifndef TERN_FORMAT_GGUF_H
#define TERN_FORMAT_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/error.h"

typedef enum tern_gguf_kind {
    TERN_GGUF_U8 = 0,
    TERN_GGUF_I8,
    TERN_GGUF_U16,
    TERN_GGUF_I16,
    TERN_GGUF_U32,
    TERN_GGUF_I32,
    TERN_GGUF_F32,
    TERN_GGUF_BOOL,
    TERN_GGUF_STRING,
    TERN_GGUF_ARRAY,
    TERN_GGUF_U64,
    TERN_GGUF_I64,
    TERN_GGUF_F64
} tern_gguf_kind;

typedef struct tern_gguf tern_gguf;
typedef struct tern_gguf_tensor tern_gguf_tensor;

/* One metadata pair. `value` are the raw little-endian bytes (for strings: the text without its length; for arrays: the
 * elements as they stand in the file). */
typedef struct tern_gguf_kv {
    tern_span key;
    tern_gguf_kind kind;
    tern_gguf_kind element; /* arrays */
    uint64_t count;         /* arrays: elements; else 1 */
    tern_span value;
} tern_gguf_kv;

/* One tensor: dims[0] is the fastest (columns). rows = the product of the others. `data` points into the file, NULL
 * where its bytes are not at hand; bytes is what its type and shape need; offset counts from the file's first byte. */
struct tern_gguf_tensor {
    tern_span name;
    uint32_t n_dims;
    uint64_t dims[4];
    uint64_t rows, cols;
    uint32_t type;
    const uint8_t *data;
    size_t bytes;
    uint64_t offset;
};

/* Parses `size` bytes (kept by the caller for the life of *gguf). Versions 2 and 3, little endian. Every count is
 * compared with what the remaining bytes can hold before anything is allocated; offsets, sizes and alignment (a power
 * of two, 1 to 2^20) are checked; tensors must lie inside the file and not overlap; duplicate names and keys and arrays
 * nested deeper than 4 are refused. Plain integers and F64 are listed beside our encodings.
 *
 * Errors, each naming the key or tensor: MALFORMED; UNSUPPORTED (version, byte order, a tensor type of other programs);
 * LIMIT (more than 65,536 keys or 262,144 tensors, an array nested too deep); OUT_OF_MEMORY. Memory: at most 64 MiB. */
tern_status tern_gguf_parse(tern_gguf **gguf, const void *data, size_t size, tern_error *err);
/* As above, from the first n of a file's bytes: tensors whose bytes are not among them have no data. PENDING: the
 * header is longer; *wanted bytes, at most file_bytes, are likely to be enough. A header that is wrong whatever follows
 * is an error at once. */
tern_status tern_gguf_parse_head(tern_gguf **gguf, const void *head, size_t n, uint64_t file_bytes, uint64_t *wanted,
                                 tern_error *err);
void tern_gguf_close(tern_gguf *gguf);

uint32_t tern_gguf_version(const tern_gguf *g);
/* Bytes of the file, or of all parts of one that was joined (format/gguf_parts.h), and how many parts those are. */
uint64_t tern_gguf_bytes(const tern_gguf *g);
uint32_t tern_gguf_n_parts(const tern_gguf *g);
size_t tern_gguf_n_kv(const tern_gguf *g);
const tern_gguf_kv *tern_gguf_kv_at(const tern_gguf *g, size_t i);
/* NULL when there is none. */
const tern_gguf_kv *tern_gguf_find(const tern_gguf *g, const char *key);
size_t tern_gguf_n_tensors(const tern_gguf *g);
const tern_gguf_tensor *tern_gguf_tensor_at(const tern_gguf *g, size_t i);
const tern_gguf_tensor *tern_gguf_find_tensor(const tern_gguf *g, const char *name);

/* "u32", "string", ...; "unknown" past the last kind. */
const char *tern_gguf_kind_name(uint32_t kind);
/* "i2_s", "Q4_0", ...: the name of a tensor type, ours or of other programs; "unknown" for others. */
const char *tern_gguf_type_name(uint32_t type);

/* Typed getters. NOT_FOUND when the key is missing, MALFORMED (key, kind found, kind expected) when the type or range
 * does not fit. Integers accept any integer kind whose value fits; f32 accepts f32, f64 and integers. Outputs are
 * untouched on failure. */
tern_status tern_gguf_get_u32(const tern_gguf *g, const char *key, uint32_t *out, tern_error *err);
tern_status tern_gguf_get_f32(const tern_gguf *g, const char *key, float *out, tern_error *err);
tern_status tern_gguf_get_bool(const tern_gguf *g, const char *key, bool *out, tern_error *err);
tern_status tern_gguf_get_string(const tern_gguf *g, const char *key, tern_span *out, tern_error *err);
/* The array under `key` whose elements are of `element` kind (for integers of any width use get_array +
 * tern_gguf_array_int). */
tern_status tern_gguf_get_array(const tern_gguf *g, const char *key, tern_gguf_kind element, const tern_gguf_kv **out,
                                tern_error *err);
/* Walks an array of strings: cursor = tern_cursor_open(kv->value.data, kv->value.size), then one call for each element.
 */
tern_span tern_gguf_next_string(tern_cursor *c);
/* One scalar element of an integer or bool array; 0 for other arrays and past the end. */
int64_t tern_gguf_array_int(const tern_gguf_kv *kv, uint64_t i);

/* The writer collects metadata and tensor descriptions, then streams the data in order, so that no model is ever whole
 * in memory. Version 3, alignment 32 unless general.alignment is added before the first tensor. Strings and names are
 * copied. Equal calls give equal bytes. Errors: INVALID_ARGUMENT (a duplicate, a shape, a type or a piece of data that
 * does not fit), OUT_OF_MEMORY, IO. */
typedef struct tern_gguf_writer tern_gguf_writer;

tern_status tern_gguf_writer_open(tern_gguf_writer **w, const char *path, tern_error *err);
/* To the end of a buffer, which abort leaves as it was. */
tern_status tern_gguf_writer_open_memory(tern_gguf_writer **w, tern_buf *out, tern_error *err);
tern_status tern_gguf_add_u32(tern_gguf_writer *w, const char *key, uint32_t v, tern_error *err);
tern_status tern_gguf_add_f32(tern_gguf_writer *w, const char *key, float v, tern_error *err);
tern_status tern_gguf_add_bool(tern_gguf_writer *w, const char *key, bool v, tern_error *err);
tern_status tern_gguf_add_string(tern_gguf_writer *w, const char *key, const void *s, size_t n, tern_error *err);
/* `values`: `count` elements of `element` kind, little-endian; for strings an array of tern_span. */
tern_status tern_gguf_add_array(tern_gguf_writer *w, const char *key, tern_gguf_kind element, const void *values,
                                uint64_t count, tern_error *err);
/* A pair copied as it is from another file. */
tern_status tern_gguf_add_kv(tern_gguf_writer *w, const tern_gguf_kv *kv, tern_error *err);
tern_status tern_gguf_add_tensor(tern_gguf_writer *w, const char *name, uint32_t type, const uint64_t *dims,
                                 uint32_t n_dims, tern_error *err);
/* Ends the header; after this, write the tensors' data in the order they were added, each call being the whole of one
 * tensor or a piece of it. */
tern_status tern_gguf_writer_begin_data(tern_gguf_writer *w, tern_error *err);
tern_status tern_gguf_writer_data(tern_gguf_writer *w, const void *bytes, size_t n, tern_error *err);
/* Checks that every tensor got exactly its bytes, syncs and renames. Frees w in every case. */
tern_status tern_gguf_writer_commit(tern_gguf_writer *w, tern_error *err);
/* Leaves no file behind. Safe on NULL. */
void tern_gguf_writer_abort(tern_gguf_writer *w);

#endif
