/* The bytes of a training data file: shared by its reader and its writer. */
#ifndef TERN_TRAIN_DATA_LAYOUT_H
#define TERN_TRAIN_DATA_LAYOUT_H

#include "base/bytes.h"

enum { TERN_TRAIN_DATA_VERSION = 1, TERN_TRAIN_DATA_HEADER = 128, TERN_TRAIN_DATA_ALIGN = 64 };
enum { TERN_TRAIN_DATA_WIDE = 1, TERN_TRAIN_DATA_SEQUENCES = 2 }; /* flags: ids are u32; one document, one row */
#define TERN_TRAIN_DATA_MAGIC "TERNDATA"

/* FNV-1a, eight bytes at a time where there are eight. */
static inline uint64_t tern_train__hash(uint64_t hash, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;
    for (; n >= 8; n -= 8, p += 8) {
        hash = (hash ^ tern_load_u64(p)) * 0x100000001b3u;
        hash ^= hash >> 29;
    }
    for (; n; n--, p++) hash = (hash ^ *p) * 0x100000001b3u;
    return hash;
}
#define TERN_TRAIN_HASH_START 0xcbf29ce484222325u

#endif
