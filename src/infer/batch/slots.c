/* Slots of running sequences and the pages that they hold. */
#include "infer/batch/batch_internal.h"

enum { LEAST_COPIED = 8 }; /* positions for which copying a page is worth it */

static void take_slot(tern_batch *b, tern_sequence *s)
{
    uint32_t slot = 0, at = b->n_running++;
    while (b->slots[slot]) slot++;
    b->slots[slot] = s;
    s->slot = slot;
    s->pages = b->kv.tables + (size_t)slot * b->kv.max_pages;
    s->n_pages = s->n_indexed = s->n_evaluated = s->n_states = 0;
    for (; at > 0 && b->running[at - 1]->age > s->age; at--) b->running[at] = b->running[at - 1];
    b->running[at] = s;
}

static uint32_t parent_of(const tern_sequence *s, uint32_t page)
{
    return page ? s->pages[page - 1] : TERN_NO_PAGE;
}

uint32_t tern_sequence__first_wanted(const tern_sequence *s)
{
    const tern_request_params *p = &s->request->params;
    if (p->embed) return p->pooling == TERN_POOLING_MEAN ? 0 : s->n_tokens - 1;
    if (!p->echo || !p->logprobs || s->n_echoed == s->result.n_prompt) return s->n_tokens - 1;
    return s->n_echoed ? s->n_echoed - 1 : 0;
}

/* Full pages of the tree, as long as they have its tokens before the first one of which something is wanted. */
static void share_pages(tern_batch *b, tern_sequence *s, uint32_t most)
{
    while ((s->n_pages + 1) * TERN_PAGE_SIZE <= most) {
        const uint32_t page =
            tern_pages_find(&b->kv.pages, parent_of(s, s->n_pages), s->salt, s->tokens + s->n_pages * TERN_PAGE_SIZE);
        if (page == TERN_NO_PAGE) break;
        tern_pages_hold(&b->kv.pages, page);
        s->pages[s->n_pages++] = page;
    }
    s->n_indexed = s->n_pages;
    s->n_evaluated = s->n_pages * TERN_PAGE_SIZE;
}

/* The page after them, which begins as a page of the tree does, is copied. */
static tern_status copy_partial_page(tern_batch *b, tern_sequence *s, uint32_t most, tern_error *err)
{
    uint32_t n_same;
    const uint32_t left = most - s->n_evaluated;
    const uint32_t like = tern_pages_find_beginning(&b->kv.pages, parent_of(s, s->n_pages), s->salt,
                                                    s->tokens + s->n_evaluated, left, &n_same);
    if (n_same < LEAST_COPIED) return TERN_OK;
    tern_pages_hold(&b->kv.pages, like);
    const uint32_t page = tern_pages_take(&b->kv.pages);
    const tern_status status = page == TERN_NO_PAGE ? TERN_OK : tern_batch__copy_page(b, like, page, err);
    tern_pages_release(&b->kv.pages, like);
    if (page == TERN_NO_PAGE) return TERN_OK;
    s->pages[s->n_pages++] = page;
    if (status != TERN_OK) return status;
    s->n_evaluated += n_same;
    tern_sequence__share_page_state(b, s, s->n_pages - 1, like);
    return TERN_OK;
}

tern_status tern_batch__assign_slot(tern_batch *b, tern_sequence *s, tern_error *err)
{
    const uint32_t most = tern_sequence__first_wanted(s);
    take_slot(b, s);
    if (b->params.no_prefix_reuse) return TERN_OK;
    share_pages(b, s, most);
    TERN_TRY(copy_partial_page(b, s, most, err));
    tern_sequence__share_state(b, s);
    return TERN_OK;
}

void tern_batch__fork_slot(tern_batch *b, tern_sequence *s, const tern_sequence *other)
{
    take_slot(b, s);
    for (uint32_t i = 0; i < other->n_pages; i++) {
        tern_pages_hold(&b->kv.pages, other->pages[i]);
        s->pages[i] = other->pages[i];
    }
    s->n_pages = other->n_pages;
    s->n_indexed = other->n_indexed;
    s->n_evaluated = other->n_evaluated;
    tern_sequence__fork_state(b, s, other);
}

void tern_batch__index_pages(tern_batch *b, tern_sequence *s)
{
    if (b->params.no_prefix_reuse) return;
    for (; (s->n_indexed + 1) * TERN_PAGE_SIZE <= s->n_evaluated; s->n_indexed++) {
        const int32_t *ids = s->tokens + s->n_indexed * TERN_PAGE_SIZE;
        const uint32_t parent = parent_of(s, s->n_indexed), own = s->pages[s->n_indexed];
        const uint32_t same = tern_pages_find(&b->kv.pages, parent, s->salt, ids);
        if (same == own) continue; /* a completion of the same prompt has put it there */
        if (same == TERN_NO_PAGE) {
            tern_pages_add(&b->kv.pages, own, parent, s->salt, ids, TERN_PAGE_SIZE);
            continue;
        }
        tern_pages_hold(&b->kv.pages, same);
        tern_pages_release(&b->kv.pages, own);
        s->pages[s->n_indexed] = same;
    }
}

/* The page that is not full yet, for a text that goes on from here. */
static void index_last_page(tern_batch *b, tern_sequence *s)
{
    const uint32_t first = s->n_indexed * TERN_PAGE_SIZE;
    uint32_t n_same;
    if (b->params.no_prefix_reuse || s->n_evaluated < first + LEAST_COPIED) return;
    if (b->kv.pages.items[s->pages[s->n_indexed]].n_holders > 1) return;
    const uint32_t parent = parent_of(s, s->n_indexed), n = s->n_evaluated - first;
    tern_pages_find_beginning(&b->kv.pages, parent, s->salt, s->tokens + first, n, &n_same);
    if (n_same == n) return;
    tern_pages_add(&b->kv.pages, s->pages[s->n_indexed], parent, s->salt, s->tokens + first, n);
}

void tern_batch__release_slot(tern_batch *b, tern_sequence *s)
{
    uint32_t at = 0;
    tern_batch__index_pages(b, s);
    index_last_page(b, s);
    tern_sequence__release_states(b, s);
    tern_sequence__leave_block(b, s);
    while (s->n_pages) tern_pages_release(&b->kv.pages, s->pages[--s->n_pages]);
    while (b->running[at] != s) at++;
    for (b->n_running--; at < b->n_running; at++) b->running[at] = b->running[at + 1];
    b->slots[s->slot] = NULL;
    s->n_evaluated = s->n_indexed = s->n_rows = 0;
}

/* A page that others hold as well is copied before it is written. */
static tern_status copy_on_write(tern_batch *b, tern_sequence *s, uint32_t at, bool *ok, tern_error *err)
{
    const uint32_t shared = s->pages[at];
    if (b->kv.pages.items[shared].n_holders == 1) return TERN_OK;
    const uint32_t page = tern_pages_take(&b->kv.pages);
    *ok = page != TERN_NO_PAGE;
    if (!*ok) return TERN_OK;
    const tern_status status = tern_batch__copy_page(b, shared, page, err);
    s->pages[at] = page;
    tern_pages_release(&b->kv.pages, shared);
    return status;
}

tern_status tern_batch__reserve_pages(tern_batch *b, tern_sequence *s, uint32_t end, bool *ok, tern_error *err)
{
    const uint32_t first = s->n_evaluated / TERN_PAGE_SIZE, n = (end + TERN_PAGE_SIZE - 1) / TERN_PAGE_SIZE;
    *ok = true;
    for (uint32_t i = first; i < n && *ok; i++) {
        if (i < s->n_pages) {
            TERN_TRY(copy_on_write(b, s, i, ok, err));
            continue;
        }
        const uint32_t page = tern_pages_take(&b->kv.pages);
        *ok = page != TERN_NO_PAGE;
        if (*ok) s->pages[s->n_pages++] = page;
    }
    return TERN_OK;
}
