/* Builds GGUF files byte by byte, right or wrong on purpose, without the writer under test. */
#ifndef TERN_TESTS_FORMAT_GGUF_BYTES_H
#define TERN_TESTS_FORMAT_GGUF_BYTES_H

#include <string.h>

#include "base/bytes.h"

static inline void put(tern_buf *b, const void *bytes, size_t n)
{
    if (tern_buf_add(b, bytes, n, NULL) != TERN_OK) abort();
}

static inline void put8(tern_buf *b, uint8_t v)
{
    put(b, &v, 1);
}

static inline void put32(tern_buf *b, uint32_t v)
{
    uint8_t bytes[4];
    tern_store_u32(bytes, v);
    put(b, bytes, 4);
}

static inline void put64(tern_buf *b, uint64_t v)
{
    uint8_t bytes[8];
    tern_store_u64(bytes, v);
    put(b, bytes, 8);
}

static inline void put_text(tern_buf *b, const char *s)
{
    put64(b, strlen(s));
    put(b, s, strlen(s));
}

static inline void put_header(tern_buf *b, uint32_t version, uint64_t n_tensors, uint64_t n_kv)
{
    put(b, "GGUF", 4);
    put32(b, version);
    put64(b, n_tensors);
    put64(b, n_kv);
}

/* A key and its kind; the value follows. */
static inline void put_key(tern_buf *b, const char *key, uint32_t kind)
{
    put_text(b, key);
    put32(b, kind);
}

static inline void put_array(tern_buf *b, uint32_t element, uint64_t count)
{
    put32(b, element);
    put64(b, count);
}

static inline void put_tensor(tern_buf *b, const char *name, uint32_t type, uint64_t offset, uint32_t n_dims,
                              const uint64_t *dims)
{
    put_text(b, name);
    put32(b, n_dims);
    for (uint32_t i = 0; i < n_dims; i++) put64(b, dims[i]);
    put32(b, type);
    put64(b, offset);
}

static inline void put_pad(tern_buf *b, size_t alignment)
{
    while (b->size % alignment) put8(b, 0);
}

#endif
