/* A hash map from byte strings to numbers: open addressing, linear probing, at most two thirds full. */
#include "base/map.h"

#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"

enum { MIN_CAP = 16 };

/* Both halves of a 128-bit product, folded. */
static uint64_t mix(uint64_t a, uint64_t b)
{
    __extension__ typedef unsigned __int128 u128;
    u128 r = (u128)a * b;
    return (uint64_t)r ^ (uint64_t)(r >> 64);
}

static uint32_t hash_key(uint64_t seed, tern_span key)
{
    const uint64_t odd = 0x9e3779b97f4a7c15u;
    uint64_t h = mix(seed ^ odd, key.size ^ odd);
    size_t at = 0;
    for (; key.size - at >= 8; at += 8) h = mix(h ^ tern_load_u64(key.data + at), seed ^ odd);
    uint64_t tail = 0;
    for (size_t shift = 0; at < key.size; at++, shift += 8) tail |= (uint64_t)key.data[at] << shift;
    h = mix(h ^ tail, seed ^ 0xd6e8feb86659fd93u);
    return (uint32_t)(h ^ h >> 32);
}

/* The slot that holds the key, or the empty one where it would go. */
static tern_map_slot *probe(const tern_map *map, tern_span key, uint32_t hash)
{
    for (size_t i = hash & (map->cap - 1);; i = (i + 1) & (map->cap - 1)) {
        tern_map_slot *slot = &map->slots[i];
        if (!slot->used) return slot;
        if (slot->hash == hash && slot->key_bytes == key.size && !memcmp(slot->key, key.data, key.size)) return slot;
    }
}

static void move_slots(tern_map *to, const tern_map *from)
{
    for (size_t i = 0; i < from->cap; i++) {
        const tern_map_slot *old = &from->slots[i];
        if (!old->used) continue;
        size_t at = old->hash & (to->cap - 1);
        while (to->slots[at].used) at = (at + 1) & (to->cap - 1);
        to->slots[at] = *old;
    }
}

tern_status tern_map_reserve(tern_map *map, size_t n, tern_error *err)
{
    if (n <= map->cap / 3 * 2) return TERN_OK;
    tern_map grown = {.cap = map->cap ? map->cap : MIN_CAP, .count = map->count, .seed = map->seed};
    while (grown.cap / 3 * 2 < n)
        if (!tern_size_mul(grown.cap, 2, &grown.cap)) return tern_fail_alloc(err, SIZE_MAX);
    grown.slots = tern_calloc(grown.cap, sizeof *grown.slots);
    if (!grown.slots) return tern_fail_alloc(err, grown.cap * sizeof *grown.slots);
    if (!map->slots) grown.seed = (uint64_t)(uintptr_t)grown.slots;
    move_slots(&grown, map);
    tern_free(map->slots);
    *map = grown;
    return TERN_OK;
}

tern_status tern_map_add(tern_map *map, tern_span key, uint32_t value, bool *added, tern_error *err)
{
    if (key.size > UINT32_MAX)
        return tern_fail(err, TERN_LIMIT, "a key of %zu bytes, at most %u expected", key.size, UINT32_MAX);
    if (!key.data) key.data = (const uint8_t *)"";
    TERN_TRY(tern_map_reserve(map, map->count + 1, err));
    uint32_t hash = hash_key(map->seed, key);
    tern_map_slot *slot = probe(map, key, hash);
    *added = !slot->used;
    if (slot->used) return TERN_OK;
    *slot =
        (tern_map_slot){.key = key.data, .key_bytes = (uint32_t)key.size, .hash = hash, .value = value, .used = true};
    map->count++;
    return TERN_OK;
}

bool tern_map_find(const tern_map *map, tern_span key, uint32_t *value)
{
    if (!map->slots || key.size > UINT32_MAX) return false;
    if (!key.data) key.data = (const uint8_t *)"";
    const tern_map_slot *slot = probe(map, key, hash_key(map->seed, key));
    if (!slot->used) return false;
    *value = slot->value;
    return true;
}

void tern_map_deinit(tern_map *map)
{
    tern_free(map->slots);
    *map = (tern_map){0};
}
