/* Declarations that the GGUF reader and writer share: the constants of the format, values, tensor types. */
#ifndef TERN_FORMAT_GGUF_INTERNAL_H
#define TERN_FORMAT_GGUF_INTERNAL_H

#include "base/map.h"
#include "format/gguf.h"

#define TERN_GGUF_ALIGNMENT_KEY "general.alignment"

enum {
    TERN_GGUF_MAGIC = 0x46554747, /* "GGUF" */
    TERN_GGUF_ALIGNMENT = 32,
    TERN_GGUF_MAX_ALIGNMENT = 1 << 20,
    TERN_GGUF_MAX_DEPTH = 4,
    TERN_GGUF_MAX_DIMS = 4,
    TERN_GGUF_MAX_NAME_BYTES = 65535,
    TERN_GGUF_MAX_KV = 1 << 16,
    TERN_GGUF_MAX_TENSORS = 1 << 18
};

struct tern_gguf {
    uint32_t version;
    size_t alignment;
    tern_gguf_kv *kv;
    size_t n_kv;
    tern_gguf_tensor *tensors;
    size_t n_tensors;
    tern_map keys, names;
    uint64_t file_bytes; /* with those of parts that were joined to it */
    uint32_t n_parts;    /* 0: not joined */
};

/* Bytes of one value of a scalar kind; 0 for strings, arrays and unknown kinds. */
size_t tern_gguf__kind_bytes(uint32_t kind);
/* Moves the cursor past `count` values of one kind and checks them on the way; depth is how many arrays they lie in.
 * Errors: MALFORMED (kind, bool other than 0 and 1, past the end), LIMIT (depth). */
tern_status tern_gguf__skip_values(tern_cursor *c, uint32_t kind, uint64_t count, uint32_t depth, tern_error *err);
/* Alignment from the value of general.alignment. Errors: MALFORMED (kind, power of two, range). */
tern_status tern_gguf__alignment(const tern_gguf_kv *kv, size_t *alignment, tern_error *err);
/* Fills rows, cols and bytes from n_dims, dims and type. Errors: MALFORMED (shape), UNSUPPORTED (type), LIMIT
 * (overflow). */
tern_status tern_gguf__tensor_size(tern_gguf_tensor *t, tern_error *err);
/* Type 42 is Q2_0: groups of 64, in older files of PrismML's programs groups of 128, in files of bitnet.cpp since 2026
 * TL2, which takes less. Type 39 is MXFP4, in older files of bitnet.cpp TL2, less than half of that. offsets[i]
 * is a tensor's place from the start of the data_bytes of data. If all tensors of such a type have room for the latter
 * only, all become PQ2_0 or TL2; one tensor with room for the former leaves all as they are. Errors:
 * OUT_OF_MEMORY. */
tern_status tern_gguf__settle_groups(tern_gguf *g, const uint64_t *offsets, uint64_t data_bytes, tern_error *err);

#endif
