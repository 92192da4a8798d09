/* A bump allocator: many small blocks of one lifetime, freed together. */
#ifndef TERN_BASE_ARENA_H
#define TERN_BASE_ARENA_H

#include <stddef.h>

typedef struct tern_arena_chunk tern_arena_chunk;

/* Zero-initialised is an empty arena. */
typedef struct tern_arena {
    tern_arena_chunk *chunks;
} tern_arena;

/* Zeroed memory, aligned to 16 bytes, alive until deinit. NULL when out of memory. */
void *tern_arena_alloc(tern_arena *arena, size_t count, size_t bytes);
/* A NUL-terminated copy of n bytes of s. */
char *tern_arena_strndup(tern_arena *arena, const char *s, size_t n);
void tern_arena_deinit(tern_arena *arena);

#endif
