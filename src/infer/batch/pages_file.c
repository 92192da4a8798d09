/* The kept pages of a batch in a file: a tree of tokens, with their keys and values.
 *
 * All numbers little-endian:
 *   head:       "TERNPAGE", u32 version, u32 flags (the types of the cache: tern_kv_flags), u64 fingerprint of the
 *               model and the backend, u32 pages, u32 caches, u64 bytes of a page of keys
 *   each page:  u32 parent (a page before it; 2^32 - 1: none), u32 ids n, u64 salt (its adapters), i32 ids [32], 0 from
 *               n on
 *   each page:  its bytes in each cache (K and V of each layer)
 *   end:        u64 tern_hash of all bytes before (base/hash.h)
 *
 * Parents stand before their children, and later used pages before earlier ones: the first pages of a file are a tree
 * as well, for a smaller pool.
 *
 * Version 2 is that of models with layers that recur. It adds:
 *   head:       u64 bytes of a state, u32 states, u32 0
 *   each page:  u32 tokens of the page that it has the state after (0: it has none), u32 0
 *   end:        before the hash, the states in the order of their pages, each with zeros up to a multiple of 8 bytes */
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/show.h"
#include "infer/batch/batch_internal.h"
#include "infer/session/internal.h"
#include "infer/session/runner_pages.h"

enum {
    VERSION = 1,
    STATE_VERSION = 2,
    HEADER_BYTES = 40,
    STATE_HEADER_BYTES = 16,
    RECORD_BYTES = 16 + 4 * TERN_PAGE_SIZE,
    STATE_RECORD_BYTES = 8, /* runs of bytes that are hashed are multiples of 8 */
    HASH_BYTES = 8,
    PRIVATE = 0600 /* it holds what people wrote */
};
static const char magic[8] = {'T', 'E', 'R', 'N', 'P', 'A', 'G', 'E'};

/* The properties that a file must share with the batch, except for n_pages and n_states. */
typedef struct file_shape {
    uint32_t version, flags;
    uint64_t fingerprint;
    uint32_t n_pages, n_caches;
    uint64_t page_bytes;
    uint64_t state_bytes; /* 0: no layer recurs, version 1 */
    uint32_t n_states;
} file_shape;

/* Keys and values of other backends have other bits, and some models turn them otherwise where texts may be long. */
static uint64_t fingerprint_of(const tern_batch *b)
{
    const tern_backend_info *info = &tern_engine_backend(b->engine)->info;
    const tern_config *c = tern_engine_config(b->engine);
    uint64_t hash = tern_hash(tern_session__fingerprint(&b->runner), info->name, strlen(info->name));
    if (info->device) hash = tern_hash(hash, info->device, strlen(info->device));
    for (uint32_t i = 0; i < 2; i++) {
        const uint8_t is_long = c->rope[i].scaling == TERN_ROPE_LONG && b->params.n_ctx > c->rope[i].original_ctx;
        hash = tern_hash(hash, &is_long, 1);
    }
    return hash;
}

static bool has_states(const tern_batch *b)
{
    return b->kv.pages.states.n > 0;
}

static file_shape shape_of(const tern_batch *b, uint32_t n_pages)
{
    return (file_shape){.version = has_states(b) ? STATE_VERSION : VERSION,
                        .flags = tern_kv_flags(b->runner.params.kv),
                        .fingerprint = fingerprint_of(b),
                        .n_pages = n_pages,
                        .n_caches = (uint32_t)b->runner.caches.n,
                        .page_bytes = b->kv.page_bytes[0],
                        .state_bytes = has_states(b) ? (tern_runner_state_bytes(&b->runner) + 7) / 8 * 8 : 0};
}

static tern_status check_keeps_pages(const tern_batch *b, tern_error *err)
{
    if (has_states(b) && tern_engine_ranks(b->engine))
        return tern_fail(err, TERN_UNSUPPORTED,
                         "pages of a model whose layers recur, in several processes: one process expected");
    if (!b->params.no_prefix_reuse) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "this batch keeps no pages: one with reuse of prefixes expected");
}

/* ---- saving */

/* The node after `at` in the tree, parents first; below pages that nobody holds, and beside them, none is held. */
static uint32_t next_held(const tern_pages *t, uint32_t at)
{
    uint32_t next = t->items[at].child;
    for (;;) {
        while (next != TERN_NO_PAGE && !t->items[next].n_holders) next = t->items[next].next;
        if (next != TERN_NO_PAGE || at == t->n) return next;
        next = t->items[at].next;
        at = t->items[at].parent;
    }
}

/* All pages of the tree in the order of the file; returns how many. order: [pages->n]. */
static uint32_t list_pages(const tern_pages *t, uint32_t *order)
{
    uint32_t n = 0;
    for (uint32_t i = next_held(t, t->n); i != TERN_NO_PAGE; i = next_held(t, i)) order[n++] = i;
    for (uint32_t i = t->newest; i != TERN_NO_PAGE; i = t->items[i].older) order[n++] = i;
    return n;
}

/* A file in the making, and the hash of its bytes so far. */
typedef struct hashed_writer {
    tern_file_writer file;
    uint64_t hash;
} hashed_writer;

static void add_bytes(hashed_writer *w, const void *bytes, size_t n)
{
    w->hash = tern_hash(w->hash, bytes, n);
    tern_file_writer_add(&w->file, bytes, n);
}

static void add_header(hashed_writer *w, const file_shape *shape)
{
    uint8_t h[HEADER_BYTES];
    memcpy(h, magic, sizeof magic);
    tern_store_u32(h + 8, shape->version);
    tern_store_u32(h + 12, shape->flags);
    tern_store_u64(h + 16, shape->fingerprint);
    tern_store_u32(h + 24, shape->n_pages);
    tern_store_u32(h + 28, shape->n_caches);
    tern_store_u64(h + 32, shape->page_bytes);
    add_bytes(w, h, sizeof h);
    if (shape->version != STATE_VERSION) return;
    tern_store_u64(h, shape->state_bytes);
    tern_store_u32(h + 8, shape->n_states);
    tern_store_u32(h + 12, 0);
    add_bytes(w, h, STATE_HEADER_BYTES);
}

static bool has_state(const tern_pages *t, uint32_t page)
{
    return t->items[page].state != TERN_NO_ROW;
}

/* file_index: of each page in the file. */
static void add_record(hashed_writer *w, const tern_pages *t, uint32_t page, const uint32_t *file_index)
{
    const tern_page *p = &t->items[page];
    uint8_t r[RECORD_BYTES] = {0}, state[STATE_RECORD_BYTES] = {0};
    tern_store_u32(r, p->parent == t->n ? TERN_NO_PAGE : file_index[p->parent]);
    tern_store_u32(r + 4, p->n_ids);
    tern_store_u64(r + 8, p->salt);
    for (uint32_t i = 0; i < p->n_ids; i++) tern_store_u32(r + 16 + 4 * (size_t)i, (uint32_t)p->ids[i]);
    add_bytes(w, r, sizeof r);
    tern_store_u32(state, has_state(t, page) ? p->state_ids : 0);
    if (t->states.n) add_bytes(w, state, sizeof state);
}

static tern_status add_page(hashed_writer *w, tern_batch *b, uint32_t page, tern_error *err)
{
    for (uint32_t i = 0; i < b->runner.caches.n; i++) {
        TERN_TRY(tern_runner_read_page(&b->runner, i, page, b->kv.page_copy, err));
        add_bytes(w, b->kv.page_copy, tern_size_of(b->kv.page_bytes[i % 2]));
    }
    return TERN_OK;
}

/* The states of the pages that have one. */
static tern_status add_states(hashed_writer *w, const tern_batch *b, const file_shape *shape, const uint32_t *order,
                              tern_error *err)
{
    const tern_pages *t = &b->kv.pages;
    if (!shape->n_states) return TERN_OK;
    uint8_t *state = tern_calloc(1, tern_size_of(shape->state_bytes));
    if (!state) return tern_fail_alloc(err, shape->state_bytes);
    tern_status status = TERN_OK;
    for (uint32_t i = 0; i < shape->n_pages && status == TERN_OK; i++) {
        if (!has_state(t, order[i])) continue;
        status = tern_runner_copy_state(&b->runner, t->items[order[i]].state, state, NULL, err);
        if (status == TERN_OK) add_bytes(w, state, tern_size_of(shape->state_bytes));
    }
    tern_free(state);
    return status;
}

/* order, file_index: [pages.n] */
static tern_status write_all(hashed_writer *w, tern_batch *b, uint32_t *order, uint32_t *file_index, uint32_t *n_pages,
                             tern_error *err)
{
    const uint32_t n = list_pages(&b->kv.pages, order);
    file_shape shape = shape_of(b, n);
    uint8_t hash[HASH_BYTES];
    for (uint32_t i = 0; i < n; i++) file_index[order[i]] = i;
    for (uint32_t i = 0; i < n; i++) shape.n_states += has_state(&b->kv.pages, order[i]);
    add_header(w, &shape);
    for (uint32_t i = 0; i < n; i++) add_record(w, &b->kv.pages, order[i], file_index);
    for (uint32_t i = 0; i < n; i++) TERN_TRY(add_page(w, b, order[i], err));
    TERN_TRY(add_states(w, b, &shape, order, err));
    tern_store_u64(hash, w->hash);
    tern_file_writer_add(&w->file, hash, sizeof hash);
    TERN_TRY(tern_file_writer_commit(&w->file, err));
    *n_pages = n;
    return TERN_OK;
}

static tern_status save_to(hashed_writer *w, tern_batch *b, uint32_t *n_pages, tern_error *err)
{
    uint32_t *order = tern_calloc(2 * (size_t)b->kv.pages.n, sizeof *order);
    if (!order) return tern_fail_alloc(err, 2 * (uint64_t)b->kv.pages.n * sizeof *order);
    const tern_status status = write_all(w, b, order, order + b->kv.pages.n, n_pages, err);
    tern_free(order);
    return status;
}

/* The existing file is one of pages, sound or not, or empty: else somebody else needs it. */
static tern_status check_replaceable(const char *path, tern_error *err)
{
    tern_file_map map;
    if (!tern_file_exists(path)) return TERN_OK;
    TERN_TRY(tern_file_map_open(&map, path, err));
    const bool ours = map.size == 0 || (map.size >= sizeof magic && memcmp(map.data, magic, sizeof magic) == 0);
    tern_file_map_close(&map);
    if (ours) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: not a file of saved pages: it was not changed",
                     tern_show_z(path).text);
}

tern_status tern_batch_save(tern_batch *batch, const char *path, uint32_t *n_pages, tern_error *err)
{
    TERN_NEED(batch, err);
    TERN_NEED(path, err);
    TERN_NEED(n_pages, err);
    *n_pages = 0;
    hashed_writer w = {.hash = TERN_HASH_START};
    TERN_TRY(check_keeps_pages(batch, err));
    TERN_TRY(check_replaceable(path, err));
    const bool is_new = !tern_file_exists(path);
    TERN_TRY(tern_file_writer_open(&w.file, path, err));
    if (is_new) (void)fchmod(fileno(w.file.stream), PRIVATE);
    const tern_status status = save_to(&w, batch, n_pages, err);
    tern_file_writer_abort(&w.file);
    return status;
}

tern_status tern_batch__save_bytes(tern_batch *b, tern_buf *out, uint32_t *n_pages, tern_error *err)
{
    hashed_writer w = {.hash = TERN_HASH_START};
    TERN_TRY(tern_file_writer_open_memory(&w.file, out, "pages", err));
    const tern_status status = save_to(&w, b, n_pages, err);
    tern_file_writer_abort(&w.file);
    return status;
}

/* ---- restoring */

static tern_status read_header(tern_cursor *c, file_shape *out, tern_error *err)
{
    const uint8_t *found = tern_cursor_take(c, sizeof magic);
    if (!found || memcmp(found, magic, sizeof magic) != 0)
        return tern_fail(err, TERN_MALFORMED, "not a file of saved pages");
    out->version = tern_cursor_u32(c);
    out->flags = tern_cursor_u32(c);
    out->fingerprint = tern_cursor_u64(c);
    out->n_pages = tern_cursor_u32(c);
    out->n_caches = tern_cursor_u32(c);
    out->page_bytes = tern_cursor_u64(c);
    out->state_bytes = out->version == STATE_VERSION ? tern_cursor_u64(c) : 0;
    out->n_states = out->version == STATE_VERSION ? tern_cursor_u32(c) : 0;
    if (out->version == STATE_VERSION) tern_cursor_u32(c);
    if (c->bad) return tern_fail(err, TERN_MALFORMED, "%zu bytes: a header of %d expected", c->size, HEADER_BYTES);
    return TERN_OK;
}

static tern_status check_shape(const file_shape *found, const file_shape *want, tern_error *err)
{
    if (found->version != want->version)
        return tern_fail(err, TERN_UNSUPPORTED, "version %u of saved pages: %u expected", found->version,
                         want->version);
    if (found->flags != want->flags)
        return tern_fail(err, TERN_MALFORMED, "the cache is %s: %s expected", tern_kv_name_of(found->flags).text,
                         tern_kv_name_of(want->flags).text);
    if (found->fingerprint != want->fingerprint)
        return tern_fail(err, TERN_MALFORMED, "pages of another model, device or way to compute");
    if (found->n_caches != want->n_caches || found->page_bytes != want->page_bytes)
        return tern_fail(err, TERN_MALFORMED, "%u caches with pages of %llu bytes: %u with %llu expected",
                         found->n_caches, (unsigned long long)found->page_bytes, want->n_caches,
                         (unsigned long long)want->page_bytes);
    if (found->state_bytes == want->state_bytes) return TERN_OK;
    return tern_fail(err, TERN_MALFORMED, "states of %llu bytes: %llu expected", (unsigned long long)found->state_bytes,
                     (unsigned long long)want->state_bytes);
}

static uint32_t record_bytes(const tern_batch *b)
{
    return RECORD_BYTES + (has_states(b) ? STATE_RECORD_BYTES : 0);
}

/* The file is as long as its pages are, and its hash is right. */
static tern_status check_bytes(const tern_batch *b, const tern_cursor *c, const file_shape *shape, tern_error *err)
{
    const uint64_t left = tern_cursor_left(c), each = record_bytes(b) + b->kv.total_page_bytes;
    const uint64_t states = (uint64_t)shape->n_states * shape->state_bytes; /* u32 times that of the model */
    const bool fits = left >= HASH_BYTES && left - HASH_BYTES >= states;
    const uint64_t pages = fits ? left - HASH_BYTES - states : 0;
    if (!fits || pages % each || pages / each != shape->n_pages)
        return tern_fail(err, TERN_MALFORMED,
                         "%llu bytes behind the header: %u pages of %llu, %u states of %llu, and %d, expected",
                         (unsigned long long)left, shape->n_pages, (unsigned long long)each, shape->n_states,
                         (unsigned long long)shape->state_bytes, HASH_BYTES);
    const size_t n = c->size - HASH_BYTES;
    if (tern_hash(TERN_HASH_START, c->data, n) == tern_load_u64(c->data + n)) return TERN_OK;
    return tern_fail(err, TERN_MALFORMED, "the file is damaged: its checksum does not fit its bytes");
}

/* Page `at` of the file, with the number that it has there as parent. */
static tern_status read_record(const tern_batch *b, tern_cursor *c, uint32_t at, tern_page *out, tern_error *err)
{
    out->parent = tern_cursor_u32(c);
    out->n_ids = tern_cursor_u32(c);
    out->salt = tern_cursor_u64(c);
    if (out->n_ids < 1 || out->n_ids > TERN_PAGE_SIZE)
        return tern_fail(err, TERN_MALFORMED, "page %u has %u tokens: 1 to %d expected", at, out->n_ids,
                         TERN_PAGE_SIZE);
    if (out->parent != TERN_NO_PAGE && out->parent >= at)
        return tern_fail(err, TERN_MALFORMED, "page %u follows page %u: one before it expected", at, out->parent);
    for (uint32_t i = 0; i < TERN_PAGE_SIZE; i++) {
        const uint32_t id = tern_cursor_u32(c);
        if (i >= out->n_ids ? id != 0 : id >= b->n_vocab)
            return tern_fail(err, TERN_MALFORMED, "page %u: token %u is id %u", at, i, id);
        out->ids[i] = (int32_t)id;
    }
    out->state_ids = has_states(b) ? tern_cursor_u32(c) : 0;
    if (has_states(b)) tern_cursor_u32(c);
    if (out->state_ids <= out->n_ids) return TERN_OK;
    return tern_fail(err, TERN_MALFORMED, "page %u has the state after %u tokens: at most its %u expected", at,
                     out->state_ids, out->n_ids);
}

/* All records of the file into pages[n_pages], each checked against its parent. */
static tern_status read_records(const tern_batch *b, tern_cursor *c, const file_shape *shape, tern_page *pages,
                                tern_error *err)
{
    uint32_t n_states = 0;
    for (uint32_t i = 0; i < shape->n_pages; i++) {
        tern_page *p = &pages[i];
        TERN_TRY(read_record(b, c, i, p, err));
        n_states += p->state_ids > 0;
        const tern_page *parent = p->parent == TERN_NO_PAGE ? NULL : &pages[p->parent];
        if (parent && (parent->n_ids < TERN_PAGE_SIZE || parent->salt != p->salt))
            return tern_fail(err, TERN_MALFORMED, "page %u follows page %u, which is not full or has other adapters", i,
                             p->parent);
    }
    if (n_states == shape->n_states) return TERN_OK;
    return tern_fail(err, TERN_MALFORMED, "%u pages have a state: %u expected", n_states, shape->n_states);
}

/* The page of the pool that has these tokens below this parent; TERN_NO_PAGE: none. */
static uint32_t find_page(const tern_pages *t, uint32_t parent, const tern_page *p)
{
    uint32_t same;
    if (p->n_ids == TERN_PAGE_SIZE) return tern_pages_find(t, parent, p->salt, p->ids);
    const uint32_t found = tern_pages_find_beginning(t, parent, p->salt, p->ids, p->n_ids, &same);
    return same == p->n_ids ? found : TERN_NO_PAGE;
}

/* Puts a page of the file into the pool: *page has one more holder; TERN_NO_PAGE: there is no room. */
static tern_status place_page(tern_batch *b, tern_cursor *c, uint32_t parent, const tern_page *p, uint32_t *page,
                              tern_error *err)
{
    tern_pages *t = &b->kv.pages;
    const uint8_t *bytes = tern_cursor_take(c, tern_size_of(b->kv.total_page_bytes));
    *page = find_page(t, parent, p);
    if (*page != TERN_NO_PAGE) {
        tern_pages_hold(t, *page);
        return TERN_OK;
    }
    *page = tern_pages_take(t);
    if (*page == TERN_NO_PAGE) return TERN_OK;
    tern_status status = TERN_OK;
    for (uint32_t i = 0; status == TERN_OK && i < b->runner.caches.n; i++) {
        status = tern_runner_write_page(&b->runner, i, *page, bytes, err);
        bytes += tern_size_of(b->kv.page_bytes[i % 2]);
    }
    if (status == TERN_OK) {
        tern_pages_add(t, *page, parent, p->salt, p->ids, p->n_ids);
    } else {
        tern_pages_release(t, *page);
        *page = TERN_NO_PAGE;
    }
    return status;
}

/* The states of the pages that were placed, what was used last in the end: the batch may have fewer rows than there are
 * states, and gives up what it got first. */
static tern_status place_states(tern_batch *b, tern_cursor *c, const file_shape *shape, const tern_page *pages,
                                const uint32_t *places, tern_error *err)
{
    tern_pages *t = &b->kv.pages;
    const size_t bytes = tern_size_of(shape->state_bytes);
    const uint8_t *state = tern_cursor_take(c, bytes * shape->n_states);
    if (!shape->n_states) return TERN_OK;
    state += bytes * shape->n_states;
    for (uint32_t i = shape->n_pages; i-- > 0;) {
        if (!pages[i].state_ids) continue;
        state -= bytes;
        const uint32_t row = places[i] == TERN_NO_PAGE ? TERN_NO_ROW : tern_states_take(&t->states);
        if (row == TERN_NO_ROW) continue;
        const tern_status status = tern_runner_copy_state(&b->runner, row, NULL, state, err);
        if (status == TERN_OK) tern_pages_keep_state(t, places[i], pages[i].state_ids, row);
        tern_states_release(&t->states, row);
        TERN_TRY(status);
    }
    return TERN_OK;
}

/* places[n_pages]: of each page of the file in the pool. Parents come first, and what was used last; so does what finds
 * room, and is given back last. */
static tern_status place_pages(tern_batch *b, tern_cursor *c, const file_shape *shape, const tern_page *pages,
                               uint32_t *places, tern_error *err)
{
    tern_status status = TERN_OK;
    uint32_t done = 0;
    for (; status == TERN_OK && done < shape->n_pages; done++) {
        const uint32_t above = pages[done].parent, parent = above == TERN_NO_PAGE ? above : places[above];
        places[done] = TERN_NO_PAGE;
        if (above != TERN_NO_PAGE && parent == TERN_NO_PAGE) tern_cursor_take(c, tern_size_of(b->kv.total_page_bytes));
        else status = place_page(b, c, parent, &pages[done], &places[done], err);
    }
    if (status == TERN_OK) status = place_states(b, c, shape, pages, places, err);
    for (uint32_t i = done; i > 0; i--)
        if (places[i - 1] != TERN_NO_PAGE) tern_pages_release(&b->kv.pages, places[i - 1]);
    return status;
}

/* How many pages of the pool the file's n pages are: one may be the beginning of another. counted: [pages.n] false. */
static uint32_t count_placed(const uint32_t *places, uint32_t n, bool *counted)
{
    uint32_t n_placed = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (places[i] == TERN_NO_PAGE || counted[places[i]]) continue;
        counted[places[i]] = true;
        n_placed++;
    }
    return n_placed;
}

tern_status tern_batch__restore_bytes(tern_batch *b, const void *bytes, size_t size, uint32_t *n_pages, tern_error *err)
{
    file_shape found = {0};
    const file_shape want = shape_of(b, 0);
    tern_cursor c = tern_cursor_open(bytes, size);
    *n_pages = 0;
    TERN_TRY(check_keeps_pages(b, err));
    TERN_TRY(read_header(&c, &found, err));
    TERN_TRY(check_shape(&found, &want, err));
    TERN_TRY(check_bytes(b, &c, &found, err));
    tern_page *pages = tern_calloc((size_t)found.n_pages + 1, sizeof *pages);
    uint32_t *places = tern_calloc((size_t)found.n_pages + 1, sizeof *places);
    bool *counted = tern_calloc(b->kv.pages.n, sizeof *counted);
    tern_status status = pages && places && counted
                             ? TERN_OK
                             : tern_fail_alloc(err, (uint64_t)found.n_pages * (sizeof *pages + sizeof *places));
    if (status == TERN_OK) status = read_records(b, &c, &found, pages, err);
    if (status == TERN_OK) status = place_pages(b, &c, &found, pages, places, err);
    if (status == TERN_OK) *n_pages = count_placed(places, found.n_pages, counted);
    tern_free(pages);
    tern_free(places);
    tern_free(counted);
    tern_batch__publish(b);
    return status;
}

tern_status tern_batch_forget(tern_batch *batch, uint32_t *n_pages, tern_error *err)
{
    TERN_NEED(batch, err);
    TERN_NEED(n_pages, err);
    *n_pages = tern_pages_forget(&batch->kv.pages);
    tern_batch__publish(batch);
    return TERN_OK;
}

tern_status tern_batch_restore(tern_batch *batch, const char *path, uint32_t *n_pages, tern_error *err)
{
    TERN_NEED(batch, err);
    TERN_NEED(path, err);
    TERN_NEED(n_pages, err);
    tern_file_map map;
    *n_pages = 0;
    TERN_TRY(tern_file_map_open(&map, path, err));
    const tern_status status = tern_batch__restore_bytes(batch, map.data, map.size, n_pages, err);
    tern_file_map_close(&map);
    if (status != TERN_OK) tern_error_prefix(err, "%s", path);
    return status;
}
