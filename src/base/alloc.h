/* Every heap allocation of the library goes through these, so that tests can count and fail them. */
#ifndef TERN_BASE_ALLOC_H
#define TERN_BASE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Checked size arithmetic: false, with *out untouched, when the result does not fit. */
static inline bool tern_size_mul(size_t a, size_t b, size_t *out)
{
    size_t r;
    if (__builtin_mul_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}

static inline bool tern_size_add(size_t a, size_t b, size_t *out)
{
    size_t r;
    if (__builtin_add_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}

/* A number of bytes or items as size_t. Sizes that this machine cannot address become SIZE_MAX, which no allocation
 * gives and no file has. */
static inline size_t tern_size_of(uint64_t n)
{
    size_t r;
    return __builtin_add_overflow(n, 0u, &r) ? SIZE_MAX : r;
}

/* malloc, zeroing calloc (count * bytes, checked), realloc, free. 0 bytes gives a non-NULL pointer.
 * NULL when out of memory. */
void *tern_alloc(size_t bytes);
void *tern_calloc(size_t count, size_t bytes);
void *tern_realloc(void *p, size_t bytes);
void tern_free(void *p);
char *tern_strdup(const char *s);
char *tern_strndup(const char *s, size_t n);

/* Zeroed memory aligned to `alignment` (a power of two); freed with tern_free_aligned. Blocks of 2 MiB and more ask
 * the kernel for huge pages. */
void *tern_alloc_aligned(size_t bytes, size_t alignment);
/* As above, aligned to 64 bytes, for the index-th of many blocks that are filled at the same time, such as the caches
 * of all layers. Blocks of 2 MiB and more begin at different places within large pages, so that the system clears the
 * large pages of only a few blocks at a time. */
void *tern_alloc_spread(size_t bytes, uint32_t index);
void tern_free_aligned(void *p);
/* Takes back the large pages that tern_alloc_aligned asks for, before the memory is first written: as a mapped file has
 * it. */
void tern_use_small_pages(void *p, size_t bytes);

/* Grows *items to hold at least `need` items of item_bytes each; doubles *cap.
 * On failure everything is unchanged. */
tern_status tern_grow(void **items, size_t *cap, size_t need, size_t item_bytes, tern_error *err);

/* How many allocations were made since the program started; for tests. */
uint64_t tern_alloc_count(void);
/* How many blocks are alive now; for leak tests. */
int64_t tern_alloc_live(void);
/* The n-th allocation from now fails, and all after it while `sticky`; 0 switches it off. For tests. */
void tern_alloc_fail_after(uint64_t n, bool sticky);

#endif
