/* A hash map from byte strings to numbers. */
#ifndef TERN_BASE_MAP_H
#define TERN_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct tern_span tern_span; /* base/bytes.h */

typedef struct tern_map_slot {
    const uint8_t *key;
    uint32_t key_bytes, hash, value;
    bool used;
} tern_map_slot;

/* Zero-initialised is empty. Keys are borrowed and must outlive the map. Slots are placed by a hash that is seeded with
 * an address, so that a file cannot be made to collide; nothing that the map answers depends on the placement. */
typedef struct tern_map {
    tern_map_slot *slots;
    size_t cap, count;
    uint64_t seed;
} tern_map;

/* Makes room for n keys in all. Errors: OUT_OF_MEMORY. */
tern_status tern_map_reserve(tern_map *map, size_t n, tern_error *err);
/* Adds the key unless it is there already: *added says which; a value that is there stays. Errors: OUT_OF_MEMORY,
 * LIMIT (a key of 4 GiB or more). */
tern_status tern_map_add(tern_map *map, tern_span key, uint32_t value, bool *added, tern_error *err);
/* False, with *value untouched, when there is none. Thread-safe on a map that is not being changed. */
bool tern_map_find(const tern_map *map, tern_span key, uint32_t *value);
void tern_map_deinit(tern_map *map);

#endif
