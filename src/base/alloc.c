/* Every heap allocation of the library, counted, and failed on request. */
#include "base/alloc.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

enum { HUGE_PAGE_BYTES = 2 << 20 };

static atomic_uint_least64_t n_allocs;
static atomic_int_least64_t n_live;
static atomic_uint_least64_t fail_countdown; /* 0: never */
static atomic_bool fail_sticky;

static bool must_fail(void)
{
    atomic_fetch_add_explicit(&n_allocs, 1, memory_order_relaxed);
    uint64_t left = atomic_load_explicit(&fail_countdown, memory_order_relaxed);
    if (left == 0) return false;
    if (left > 1) {
        atomic_store_explicit(&fail_countdown, left - 1, memory_order_relaxed);
        return false;
    }
    if (!atomic_load_explicit(&fail_sticky, memory_order_relaxed))
        atomic_store_explicit(&fail_countdown, 0, memory_order_relaxed);
    return true;
}

static void *counted(void *p)
{
    if (p) atomic_fetch_add_explicit(&n_live, 1, memory_order_relaxed);
    return p;
}

void *tern_alloc(size_t bytes)
{
    return must_fail() ? NULL : counted(malloc(bytes ? bytes : 1));
}

void *tern_calloc(size_t count, size_t bytes)
{
    size_t total;
    if (!tern_size_mul(count, bytes, &total)) return NULL;
    return must_fail() ? NULL : counted(calloc(1, total ? total : 1));
}

void *tern_realloc(void *p, size_t bytes)
{
    if (!p) return tern_alloc(bytes);
    return must_fail() ? NULL : realloc(p, bytes ? bytes : 1);
}

void tern_free(void *p)
{
    if (p) atomic_fetch_sub_explicit(&n_live, 1, memory_order_relaxed);
    free(p);
}

char *tern_strndup(const char *s, size_t n)
{
    char *copy = tern_alloc(n + 1);
    if (!copy) return NULL;
    memcpy(copy, s, n);
    copy[n] = 0;
    return copy;
}

char *tern_strdup(const char *s)
{
    return tern_strndup(s, strlen(s));
}

/* `after` bytes (whole pages) behind a multiple of the alignment, of blocks of HUGE_PAGE_BYTES and more. The block that
 * calloc gave stands right before the address. Large blocks are never touched here: their pages come zeroed from the
 * system when they are first used. */
static void *alloc_at(size_t bytes, size_t alignment, size_t after)
{
    enum { PAGE = 4096 };
    if (must_fail()) return NULL;
    if (bytes < HUGE_PAGE_BYTES) after = 0;
    else if (alignment < HUGE_PAGE_BYTES) alignment = HUGE_PAGE_BYTES;
    if (alignment < sizeof(void *)) alignment = sizeof(void *);
    size_t total;
    if (!tern_size_add(bytes, alignment + sizeof(void *), &total)) return NULL;
    char *block = calloc(1, total);
    if (!block) return NULL;
    size_t misplaced = ((uintptr_t)block + sizeof(void *) - after) % alignment;
    char *p = block + sizeof(void *) + (misplaced ? alignment - misplaced : 0);
    memcpy(p - sizeof(void *), &block, sizeof block);
#if defined(__linux__)
    if (bytes >= HUGE_PAGE_BYTES) madvise(p, bytes / PAGE * PAGE, MADV_HUGEPAGE);
#else
    (void)PAGE;
#endif
    return counted(p);
}

void *tern_alloc_aligned(size_t bytes, size_t alignment)
{
    return alloc_at(bytes, alignment, 0);
}

/* Multiples of the golden ratio, modulo 1, fill the large page evenly, however many blocks there are. */
void *tern_alloc_spread(size_t bytes, uint32_t index)
{
    return alloc_at(bytes, 64, (size_t)(index * 2654435769u >> 23) * (HUGE_PAGE_BYTES / 512));
}

void tern_use_small_pages(void *p, size_t bytes)
{
#if defined(__linux__)
    enum { PAGE = 4096 };
    const size_t before = (PAGE - (uintptr_t)p % PAGE) % PAGE;
    if (bytes > before) madvise((char *)p + before, (bytes - before) / PAGE * PAGE, MADV_NOHUGEPAGE);
#else
    (void)p;
    (void)bytes;
#endif
}

void tern_free_aligned(void *p)
{
    if (!p) return;
    char *block;
    memcpy(&block, (char *)p - sizeof block, sizeof block);
    tern_free(block);
}

tern_status tern_grow(void **items, size_t *cap, size_t need, size_t item_bytes, tern_error *err)
{
    if (need <= *cap) return TERN_OK;
    size_t want = *cap ? *cap : 8;
    while (want < need)
        if (!tern_size_mul(want, 2, &want)) want = need;
    size_t bytes;
    if (!tern_size_mul(want, item_bytes, &bytes)) return tern_fail_alloc(err, SIZE_MAX);
    void *grown = tern_realloc(*items, bytes);
    if (!grown) return tern_fail_alloc(err, bytes);
    *items = grown;
    *cap = want;
    return TERN_OK;
}

uint64_t tern_alloc_count(void)
{
    return atomic_load(&n_allocs);
}

int64_t tern_alloc_live(void)
{
    return atomic_load(&n_live);
}

void tern_alloc_fail_after(uint64_t n, bool sticky)
{
    atomic_store(&fail_sticky, sticky);
    atomic_store(&fail_countdown, n);
}
