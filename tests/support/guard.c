/* Memory between two unreadable pages. */
#include "support/guard.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CANARY = 0xa5 };

test_guard test_guard_open(size_t max_bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), inside = (max_bytes + page - 1) / page * page;
    uint8_t *map = mmap(NULL, inside + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED || mprotect(map + page, inside, PROT_READ | PROT_WRITE)) abort();
    const test_guard g = {map, map + page, map + page + inside};
    memset(g.begin, CANARY, inside);
    return g;
}

void test_guard_close(test_guard *g)
{
    const size_t page = (size_t)(g->begin - g->map);
    if (g->map) munmap(g->map, (size_t)(g->end - g->map) + page);
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
    return all_canaries(g->begin, p) && all_canaries(p + bytes, g->end);
}
