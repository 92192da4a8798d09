/* SafeTensors: one file, or the shards of a model with their index; reader over untrusted bytes, and writer. */
#ifndef TERN_FORMAT_SAFETENSORS_H
#define TERN_FORMAT_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/file.h"

typedef enum tern_st_dtype {
    TERN_ST_BOOL,
    TERN_ST_U8,
    TERN_ST_I8,
    TERN_ST_I16,
    TERN_ST_U16,
    TERN_ST_F16,
    TERN_ST_BF16,
    TERN_ST_I32,
    TERN_ST_U32,
    TERN_ST_F32,
    TERN_ST_F64,
    TERN_ST_I64,
    TERN_ST_U64
} tern_st_dtype;

typedef struct tern_st_tensor {
    const char *name;
    tern_st_dtype dtype;
    uint32_t n_dims;
    uint64_t dims[8]; /* slowest first, as in the file */
    uint64_t n_elements;
    const uint8_t *data; /* into the mapped file; may be unaligned */
    size_t bytes;
} tern_st_tensor;

typedef struct tern_safetensors tern_safetensors;

/* Parses one file's bytes (kept by the caller). Tensors are listed in the order of their data. Checks, as the reference
 * does: header length inside the file and at most 100 MB, JSON well-formed, shape * size = end - begin, data without
 * holes or overlaps to the end of the file; no duplicates. Memory: at most twice
 * the file plus 64 MiB.
 *
 * Errors, each naming the tensor: MALFORMED; UNSUPPORTED (a dtype or a number of dimensions that is not read here);
 * LIMIT (more than 262,144 tensors, a description of more than 64 KiB); OUT_OF_MEMORY. */
tern_status tern_safetensors_parse(tern_safetensors **st, const void *data, size_t size, tern_error *err);
/* Opens a model folder: model.safetensors, or the shards named by model.safetensors.index.json (names with a path
 * separator are refused; a tensor that the index promises and its shard lacks is an error), or a single .safetensors
 * path. Owns its maps. Errors: also NOT_FOUND, IO; each names the file. */
tern_status tern_safetensors_open(tern_safetensors **st, const char *path, tern_error *err);
void tern_safetensors_close(tern_safetensors *st);
size_t tern_safetensors_count(const tern_safetensors *st);
const tern_st_tensor *tern_safetensors_at(const tern_safetensors *st, size_t i);
const tern_st_tensor *tern_safetensors_find(const tern_safetensors *st, const char *name);
const char *tern_st_dtype_name(tern_st_dtype dtype);
size_t tern_st_dtype_bytes(tern_st_dtype dtype);
/* n elements from `first` on to f32 (F32, F16, BF16, F64, integers and BOOL). */
void tern_st_to_f32(const tern_st_tensor *t, uint64_t first, size_t n, float *out);

/* Writes one file piece by piece; it appears whole or not at all. `data` of the tensors is not looked at: their bytes
 * follow in the order given. Errors: INVALID_ARGUMENT (a tensor, by name), LIMIT, IO, OUT_OF_MEMORY; those of writing
 * are kept for commit, which also wants exactly the bytes of all tensors. */
typedef struct tern_safetensors_writer {
    tern_file_writer file;
    uint64_t written, expected;
} tern_safetensors_writer;

tern_status tern_safetensors_writer_open(tern_safetensors_writer *w, const char *path, const tern_st_tensor *tensors,
                                         size_t n, const char *const *metadata, tern_error *err);
void tern_safetensors_writer_add(tern_safetensors_writer *w, const void *bytes, size_t n);
tern_status tern_safetensors_writer_commit(tern_safetensors_writer *w, tern_error *err);
/* Safe on a failed and a committed writer. */
void tern_safetensors_writer_abort(tern_safetensors_writer *w);

/* Writes one file atomically: tensors in the order given, data from each tensor's `data` pointer; `metadata` is a list
 * of key, value, ..., NULL, or NULL. */
tern_status tern_safetensors_write(const char *path, const tern_st_tensor *tensors, size_t n,
                                   const char *const *metadata, tern_error *err);

#endif
