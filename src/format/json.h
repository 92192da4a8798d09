/* JSON documents as jansson values: parsing of untrusted bytes under limits, and typed getters whose errors name the
 * key. */
#ifndef TERN_FORMAT_JSON_H
#define TERN_FORMAT_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct tern_buf tern_buf;   /* tern/bytes.h */
typedef struct tern_span tern_span; /* base/bytes.h */

/* Gives jansson the allocator of base/alloc.h; before the first value that is not parsed but made. */
void tern_json_use_allocator(void);

/* Parses `size` bytes of UTF-8 JSON, any kind of value at the top. `what` names the document in messages, which give
 * line and column.
 *
 * Every number becomes a json_real (config files hold integers beyond 64 bits): read them with the getters or
 * tern_json_int, never with json_is_integer. Strings may hold NULs (use json_string_length); keys may not.
 * Errors: MALFORMED (syntax, UTF-8, duplicate keys), LIMIT (nested deeper than 64; more than 1 GiB; a tree that would
 * take more than 24 times the text plus 64 MiB), OUT_OF_MEMORY. Thread-safe. Jansson's allocator is base/alloc.h from
 * the first call on. */
tern_status tern_json_parse(json_t **root, const void *data, size_t size, const char *what, tern_error *err);
/* As above; of a key that is there twice the last value counts, as for Python's json. For documents that scripts in
 * Python write and read: the config.json of HF1BitLLM/Llama3-8B-1.58 has "quantization_config" twice. */
tern_status tern_json_parse_last(json_t **root, const void *data, size_t size, const char *what, tern_error *err);
/* As tern_json_parse, of a file of at most max_bytes. Errors: also NOT_FOUND, IO. */
tern_status tern_json_read(json_t **root, const char *path, size_t max_bytes, tern_error *err);
/* As above for the file `name` in folder `dir`. */
tern_status tern_json_read_in(json_t **root, const char *dir, const char *name, size_t max_bytes, tern_error *err);
/* As above, read as by tern_json_parse_last. */
tern_status tern_json_read_last_in(json_t **root, const char *dir, const char *name, size_t max_bytes, tern_error *err);
/* Safe on NULL. */
void tern_json_free(json_t *root);

/* "object", "array", "string", "number", "true", "false", "null"; "nothing" for NULL. */
const char *tern_json_kind(const json_t *value);
/* True, with the number in *out, for a number that is a whole one of at most 2^53 in size. */
bool tern_json_int(const json_t *value, int64_t *out);

/* True when the object has the key and its value is not null. */
bool tern_json_has(const json_t *object, const char *key);

/* Typed getters. NOT_FOUND when `object` lacks the key or it is null, MALFORMED (key, kind or value found and
 * expected) when it does not fit or `object` is none. Outputs are untouched on failure; what they borrow lives as long
 * as the root. */
tern_status tern_json_get_u32(const json_t *object, const char *key, uint32_t *out, tern_error *err);
tern_status tern_json_get_i64(const json_t *object, const char *key, int64_t *out, tern_error *err);
tern_status tern_json_get_f64(const json_t *object, const char *key, double *out, tern_error *err);
tern_status tern_json_get_f32(const json_t *object, const char *key, float *out, tern_error *err);
tern_status tern_json_get_bool(const json_t *object, const char *key, bool *out, tern_error *err);
tern_status tern_json_get_string(const json_t *object, const char *key, tern_span *out, tern_error *err);
tern_status tern_json_get_array(const json_t *object, const char *key, const json_t **out, tern_error *err);
tern_status tern_json_get_object(const json_t *object, const char *key, const json_t **out, tern_error *err);

/* Adds s to buf as a JSON string with its quotes. Errors: INVALID_ARGUMENT (not UTF-8), OUT_OF_MEMORY. */
tern_status tern_json_add_string(tern_buf *buf, const void *s, size_t n, tern_error *err);

/* Writes a document and a newline, whole or not at all, and takes it: safe on NULL, what jansson makes when it is out
 * of memory. `flags`: of json_dumps. Errors: OUT_OF_MEMORY, IO. */
tern_status tern_json_write(json_t *document, const char *path, size_t flags, tern_error *err);
/* As above for the file `name` in folder `dir`. */
tern_status tern_json_write_in(json_t *document, const char *dir, const char *name, size_t flags, tern_error *err);

/* Walks the members of one object without building a tree, for documents with very many of them: raw views of
 * key (with its quotes) and value, which are to be parsed each for itself. */
typedef struct tern_json_walk {
    const uint8_t *data;
    size_t size, at;
    bool started;
} tern_json_walk;

/* The next member: *more is false after the last one, when only white space follows the object. Errors: MALFORMED (byte
 * found and expected, with its place). A bracket, quote or comma that is out of place inside a value is left for its
 * parser to find. */
tern_status tern_json_walk_next(tern_json_walk *walk, bool *more, tern_span *key, tern_span *value, tern_error *err);

#endif
