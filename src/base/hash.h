/* A hash that tells damaged bytes from whole ones; not one that withstands an attacker (base/sha256.h). */
#ifndef TERN_BASE_HASH_H
#define TERN_BASE_HASH_H

#include "base/bytes.h"

#define TERN_HASH_START 0xcbf29ce484222325u

/* FNV-1a over little-endian words of 64 bits, with one more shift, then over the bytes that are left. Goes on from
 * `hash`, TERN_HASH_START at first: a run of bytes may come in parts, each but the last a multiple of 8. */
static inline uint64_t tern_hash(uint64_t hash, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;
    for (; n >= 8; n -= 8, p += 8) {
        hash = (hash ^ tern_load_u64(p)) * 0x100000001b3u;
        hash ^= hash >> 29;
    }
    for (; n; n--, p++) hash = (hash ^ *p) * 0x100000001b3u;
    return hash;
}

#endif
