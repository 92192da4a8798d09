/* A bump allocator: many small blocks of one lifetime, freed together. */
#include "base/arena.h"

#include <stdint.h>
#include <string.h>

#include "base/alloc.h"

enum { CHUNK_BYTES = 64 << 10, ALIGNMENT = 16 };

struct tern_arena_chunk {
    tern_arena_chunk *next;
    size_t used, cap;
    _Alignas(16) unsigned char data[];
};

static tern_arena_chunk *push_chunk(tern_arena *arena, size_t need)
{
    size_t cap = need > CHUNK_BYTES ? need : CHUNK_BYTES;
    size_t total;
    if (!tern_size_add(cap, sizeof(tern_arena_chunk), &total)) return NULL;
    tern_arena_chunk *chunk = tern_calloc(1, total);
    if (!chunk) return NULL;
    chunk->cap = cap;
    chunk->next = arena->chunks;
    arena->chunks = chunk;
    return chunk;
}

void *tern_arena_alloc(tern_arena *arena, size_t count, size_t bytes)
{
    size_t total;
    if (!tern_size_mul(count, bytes, &total) || total > SIZE_MAX - ALIGNMENT) return NULL;
    total = (total + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    tern_arena_chunk *chunk = arena->chunks;
    if (!chunk || chunk->cap - chunk->used < total) chunk = push_chunk(arena, total);
    if (!chunk) return NULL;
    void *p = chunk->data + chunk->used;
    chunk->used += total;
    return p;
}

char *tern_arena_strndup(tern_arena *arena, const char *s, size_t n)
{
    if (n == SIZE_MAX) return NULL;
    char *copy = tern_arena_alloc(arena, n + 1, 1);
    if (copy && n) memcpy(copy, s, n);
    return copy;
}

void tern_arena_deinit(tern_arena *arena)
{
    while (arena->chunks) {
        tern_arena_chunk *next = arena->chunks->next;
        tern_free(arena->chunks);
        arena->chunks = next;
    }
}
