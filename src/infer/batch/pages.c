/* The pool of KV pages. */
#include "infer/batch/pages.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"

tern_status tern_pages_init(tern_pages *pages, uint32_t n, tern_error *err)
{
    *pages = (tern_pages){.n = n, .n_free = n, .oldest = TERN_NO_PAGE, .newest = TERN_NO_PAGE};
    pages->items = tern_calloc((size_t)n + 1, sizeof *pages->items);
    pages->free = tern_calloc(n, sizeof *pages->free);
    if (!pages->items || !pages->free) {
        tern_pages_deinit(pages);
        return tern_fail_alloc(err, (uint64_t)n * sizeof *pages->items);
    }
    for (uint32_t i = 0; i < n; i++) pages->free[i] = n - 1 - i;
    for (uint32_t i = 0; i <= n; i++) {
        pages->items[i].child = TERN_NO_PAGE;
        pages->items[i].state = TERN_NO_ROW;
    }
    return TERN_OK;
}

void tern_pages_deinit(tern_pages *pages)
{
    tern_states_deinit(&pages->states);
    tern_free(pages->items);
    tern_free(pages->free);
    *pages = (tern_pages){0};
}

static void push_idle(tern_pages *pages, uint32_t page)
{
    tern_page *p = &pages->items[page];
    p->older = pages->newest;
    p->newer = TERN_NO_PAGE;
    *(pages->newest == TERN_NO_PAGE ? &pages->oldest : &pages->items[pages->newest].newer) = page;
    pages->newest = page;
    pages->n_idle++;
}

static void remove_idle(tern_pages *pages, uint32_t page)
{
    const tern_page *p = &pages->items[page];
    *(p->older == TERN_NO_PAGE ? &pages->oldest : &pages->items[p->older].newer) = p->newer;
    *(p->newer == TERN_NO_PAGE ? &pages->newest : &pages->items[p->newer].older) = p->older;
    pages->n_idle--;
}

static void remove_from_tree(tern_pages *pages, uint32_t page)
{
    tern_page *p = &pages->items[page];
    assert(p->child == TERN_NO_PAGE);
    *(p->before == TERN_NO_PAGE ? &pages->items[p->parent].child : &pages->items[p->before].next) = p->next;
    if (p->next != TERN_NO_PAGE) pages->items[p->next].before = p->before;
    tern_states_drop(&pages->states, &p->state);
    p->n_ids = 0;
}

uint32_t tern_pages_take(tern_pages *pages)
{
    uint32_t page = pages->oldest;
    if (pages->n_free) page = pages->free[--pages->n_free];
    else if (page == TERN_NO_PAGE) return page;
    else {
        remove_idle(pages, page);
        remove_from_tree(pages, page);
    }
    pages->items[page].n_holders = 1;
    return page;
}

void tern_pages_hold(tern_pages *pages, uint32_t page)
{
    if (pages->items[page].n_holders++ == 0) remove_idle(pages, page);
}

void tern_pages_release(tern_pages *pages, uint32_t page)
{
    tern_page *p = &pages->items[page];
    assert(p->n_holders > 0);
    if (--p->n_holders) return;
    if (p->n_ids) push_idle(pages, page);
    else pages->free[pages->n_free++] = page;
}

uint32_t tern_pages_forget(tern_pages *pages)
{
    const uint32_t n = pages->n_idle;
    while (pages->oldest != TERN_NO_PAGE) {
        const uint32_t page = pages->oldest;
        remove_idle(pages, page);
        remove_from_tree(pages, page);
        pages->free[pages->n_free++] = page;
    }
    return n;
}

/* The root is the last one. */
static uint32_t node_of(const tern_pages *pages, uint32_t parent)
{
    return parent == TERN_NO_PAGE ? pages->n : parent;
}

static uint32_t count_same(const int32_t *a, const int32_t *b, uint32_t n)
{
    uint32_t i = 0;
    while (i < n && a[i] == b[i]) i++;
    return i;
}

uint32_t tern_pages_find(const tern_pages *pages, uint32_t parent, uint64_t salt, const int32_t *ids)
{
    uint32_t page = pages->items[node_of(pages, parent)].child;
    for (; page != TERN_NO_PAGE; page = pages->items[page].next) {
        const tern_page *p = &pages->items[page];
        if (p->n_ids == TERN_PAGE_SIZE && p->salt == salt && memcmp(p->ids, ids, sizeof p->ids) == 0) break;
    }
    return page;
}

uint32_t tern_pages_find_beginning(const tern_pages *pages, uint32_t parent, uint64_t salt, const int32_t *ids,
                                   uint32_t n, uint32_t *n_same)
{
    uint32_t best = TERN_NO_PAGE;
    *n_same = 0;
    for (uint32_t i = pages->items[node_of(pages, parent)].child; i != TERN_NO_PAGE; i = pages->items[i].next) {
        const tern_page *p = &pages->items[i];
        const uint32_t same = p->salt == salt ? count_same(p->ids, ids, p->n_ids < n ? p->n_ids : n) : 0;
        if (same <= *n_same) continue;
        *n_same = same;
        best = i;
    }
    return best;
}

void tern_pages_add(tern_pages *pages, uint32_t page, uint32_t parent, uint64_t salt, const int32_t *ids, uint32_t n)
{
    const uint32_t node = node_of(pages, parent);
    tern_page *p = &pages->items[page];
    assert(p->n_ids == 0 && n >= 1 && n <= TERN_PAGE_SIZE);
    memcpy(p->ids, ids, n * sizeof *ids);
    p->n_ids = n;
    p->salt = salt;
    p->parent = node;
    p->child = p->before = TERN_NO_PAGE;
    p->next = pages->items[node].child;
    if (p->next != TERN_NO_PAGE) pages->items[p->next].before = page;
    pages->items[node].child = page;
}

void tern_pages_keep_state(tern_pages *pages, uint32_t page, uint32_t n, uint32_t row)
{
    tern_page *p = &pages->items[page];
    assert(p->n_ids && n >= 1 && n <= p->n_ids);
    if (p->state != TERN_NO_ROW && p->state_ids >= n) return;
    tern_states_keep(&pages->states, row, &p->state);
    p->state_ids = n;
}
