/* Memory between two unreadable pages. */
#include "support/guard.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CANARY = 0xa5 };

#if defined(__EMSCRIPTEN__) /* has no unreadable pages: what is written there shows, not what is read */
enum { OUTSIDE_READABLE = 1 };
static uint8_t *make_map(size_t page, size_t inside)
{
    uint8_t *map = malloc(inside + 2 * page);
    if (!map) abort();
    memset(map, CANARY, inside + 2 * page);
    return map;
}

static void free_map(uint8_t *map, size_t bytes)
{
    (void)bytes;
    free(map);
}
#else
enum { OUTSIDE_READABLE = 0 };
static uint8_t *make_map(size_t page, size_t inside)
{
    uint8_t *map = mmap(NULL, inside + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED || mprotect(map + page, inside, PROT_READ | PROT_WRITE)) abort();
    return map;
}

static void free_map(uint8_t *map, size_t bytes)
{
    munmap(map, bytes);
}
#endif

test_guard test_guard_open(size_t max_bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), inside = (max_bytes + page - 1) / page * page;
    uint8_t *map = make_map(page, inside);
    const test_guard g = {map, map + page, map + page + inside};
    memset(g.begin, CANARY, inside);
    return g;
}

void test_guard_close(test_guard *g)
{
    const size_t page = (size_t)(g->begin - g->map);
    if (g->map) free_map(g->map, (size_t)(g->end - g->map) + page);
    memset(g, 0, sizeof *g);
}

void *test_guard_lend(test_guard *g, size_t bytes, bool at_begin)
{
    if (bytes > (size_t)(g->end - g->begin)) abort();
    memset(g->begin, CANARY, (size_t)(g->end - g->begin));
    return at_begin ? g->begin : g->end - bytes;
}

static bool all_canaries(const uint8_t *from, const uint8_t *to)
{
    while (from < to)
        if (*from++ != CANARY) return false;
    return true;
}

bool test_guard_intact(const test_guard *g, const void *lent, size_t bytes)
{
    const uint8_t *p = lent;
    const ptrdiff_t page = OUTSIDE_READABLE ? g->begin - g->map : 0;
    return all_canaries(g->begin - page, p) && all_canaries(p + bytes, g->end + page);
}
