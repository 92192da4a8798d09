/* The pool of KV pages: which are free, who holds each, and the tree of those whose contents are known.
 *
 * A page of the tree holds the keys and values of n_ids tokens (a full page: TERN_PAGE_SIZE of them) that follow the
 * tokens of its parent. The first pages of texts are children of the root, kept apart by a salt (the adapters). A page
 * that nobody holds stays in the tree until its memory is wanted: the one that was given back longest ago goes first.
 * Whoever holds a page holds its parents, and gives the last one back first, so that children go before parents. */
#ifndef TERN_INFER_BATCH_PAGES_H
#define TERN_INFER_BATCH_PAGES_H

#include "base/error.h"
#include "infer/batch/states.h"
#include "ops/dtype.h"

#define TERN_NO_PAGE UINT32_MAX

typedef struct tern_page {
    uint32_t n_holders;
    uint32_t n_ids; /* 0: not in the tree */
    int32_t ids[TERN_PAGE_SIZE];
    uint64_t salt;                        /* of children of the root */
    uint32_t parent, child, next, before; /* tree: the first child; siblings */
    uint32_t older, newer;                /* the list of those that nobody holds */
    uint32_t state, state_ids;            /* TERN_NO_ROW, or the state after so many of its ids */
} tern_page;

typedef struct tern_pages {
    tern_page *items; /* [n + 1]; the last one is the root */
    uint32_t *free;   /* [n_free] */
    uint32_t n, n_free, n_idle;
    uint32_t oldest, newest;
    tern_states states; /* that pages and sequences hold */
} tern_pages;

tern_status tern_pages_init(tern_pages *pages, uint32_t n, tern_error *err);
void tern_pages_deinit(tern_pages *pages);

/* How many could be taken now. */
static inline uint32_t tern_pages_available(const tern_pages *pages)
{
    return pages->n_free + pages->n_idle;
}

/* A page of unknown contents with one holder; TERN_NO_PAGE: all are held. */
uint32_t tern_pages_take(tern_pages *pages);
/* One more holder. */
void tern_pages_hold(tern_pages *pages, uint32_t page);
/* One holder less. */
void tern_pages_release(tern_pages *pages, uint32_t page);

/* Takes the pages that nobody holds out of the tree; returns how many. */
uint32_t tern_pages_forget(tern_pages *pages);

/* The child of a page (TERN_NO_PAGE: of the root, with this salt) that is full of these ids. */
uint32_t tern_pages_find(const tern_pages *pages, uint32_t parent, uint64_t salt, const int32_t *ids);
/* The child that begins with the most of the n ids, and with how many; TERN_NO_PAGE and 0: none. */
uint32_t tern_pages_find_beginning(const tern_pages *pages, uint32_t parent, uint64_t salt, const int32_t *ids,
                                   uint32_t n, uint32_t *n_same);
/* Puts a page, which is not in the tree, below its parent: it holds these ids. */
void tern_pages_add(tern_pages *pages, uint32_t page, uint32_t parent, uint64_t salt, const int32_t *ids, uint32_t n);
/* The state in this row is that after n ids of a page of the tree. */
void tern_pages_keep_state(tern_pages *pages, uint32_t page, uint32_t n, uint32_t row);

#endif
