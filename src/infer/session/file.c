/* A session in a file: its tokens and their keys and values.
 *
 * All numbers little-endian:
 *   head:        "TERNSESS", u32 version, u32 flags (the types of the cache: tern_kv_flags), u64 fingerprint of the
 *                model and its adapters, u32 tokens n, u32 caches, u64 bytes of a page of keys
 *   version 3:   u32 caches of layers with a window, u32 the first page of them
 *   version 4:   u64 bytes of states, of models with layers that recur
 *   tokens:      i32 ids [n], zeros up to a multiple of 64
 *   each cache:  (K and V of each layer) the pages of the first n - 1 positions; version 3: of layers with a window
 *                from their first page on
 *   version 4:   the state of each layer that recurs, after n - 1 tokens (none of 0)
 *   end:         u64 tern_hash of all bytes before (base/hash.h)
 *
 * Version 1, which is still read, ends without the hash. Version 4 is otherwise version 2. Version 2 is written where
 * the first page is 0, so where no layer has lost anything. The last token's keys and values are not there: restoring
 * evaluates it, which gives the logits. */
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "infer/session/internal.h"
#include "infer/session/runner_pages.h"

enum {
    UNCHECKED_VERSION = 1,
    VERSION,
    WINDOW_VERSION,
    STATE_VERSION,
    HASH_BYTES = 8,
    HEADER_BYTES = 40,
    WINDOW_HEADER_BYTES = 8, /* also of states */
    ALIGNMENT = 64
};
static const char magic[8] = {'T', 'E', 'R', 'N', 'S', 'E', 'S', 'S'};

/* The properties that a file must share with the session. */
typedef struct file_shape {
    uint32_t version, flags;
    uint64_t fingerprint;
    uint32_t n_tokens, n_caches;
    uint64_t page_bytes;
    uint32_t n_window_caches, first_page; /* of layers with a window */
    uint64_t state_bytes;                 /* of layers that recur, after n_tokens - 1 */
} file_shape;

static uint64_t page_bytes(const tern_runner *r, uint32_t cache)
{
    return tern_kv_page_bytes(tern_engine_config(r->engine), tern_kv_type_at(r->params.kv, cache));
}

/* Caches are those of K and V, layer by layer. */
static bool has_window(const tern_runner *r, uint32_t cache)
{
    const tern_config *c = tern_engine_config(r->engine);
    return tern_config_layer(c, tern_config_cache_layer(c, cache / 2)).window != 0;
}

static uint32_t count_window_caches(const tern_runner *r)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->caches.n; i++) n += has_window(r, i);
    return n;
}

static file_shape shape_of(const tern_session *s)
{
    const tern_runner *r = &s->runner;
    return (file_shape){.version = r->states.n     ? STATE_VERSION
                                   : r->first_kept ? WINDOW_VERSION
                                                   : VERSION,
                        .flags = tern_kv_flags(r->params.kv),
                        .fingerprint = tern_session__fingerprint(r),
                        .n_tokens = s->n_tokens,
                        .n_caches = (uint32_t)r->caches.n,
                        .page_bytes = page_bytes(r, 0),
                        .n_window_caches = count_window_caches(r),
                        .first_page = r->first_kept / TERN_PAGE_SIZE,
                        .state_bytes = tern_runner_state_bytes(r)};
}

static uint32_t used_pages(uint32_t n_tokens)
{
    return n_tokens ? (n_tokens - 1 + TERN_PAGE_SIZE - 1) / TERN_PAGE_SIZE : 0;
}

/* The pages of one cache that are in the file; the first of them, and what is one past the last. */
typedef struct page_range {
    uint32_t first, end;
} page_range;

static page_range pages_of(const tern_runner *r, const file_shape *shape, uint32_t cache)
{
    return (page_range){has_window(r, cache) ? shape->first_page : 0, used_pages(shape->n_tokens)};
}

/* Where a page lies in its cache. */
static uint32_t cache_page(const tern_runner *r, uint32_t cache, uint32_t page)
{
    return page % (r->n_ring_pages && has_window(r, cache) ? r->n_ring_pages : r->n_pages);
}

/* Header and ids, a multiple of ALIGNMENT. */
static tern_status add_header(tern_buf *out, const tern_session *s, const file_shape *shape, tern_error *err)
{
    static const uint8_t zeros[ALIGNMENT];
    uint8_t header[HEADER_BYTES], windows[WINDOW_HEADER_BYTES], id[4];
    memcpy(header, magic, sizeof magic);
    tern_store_u32(header + 8, shape->version);
    tern_store_u32(header + 12, shape->flags);
    tern_store_u64(header + 16, shape->fingerprint);
    tern_store_u32(header + 24, shape->n_tokens);
    tern_store_u32(header + 28, shape->n_caches);
    tern_store_u64(header + 32, shape->page_bytes);
    tern_store_u32(windows, shape->n_window_caches);
    tern_store_u32(windows + 4, shape->first_page);
    TERN_TRY(tern_buf_add(out, header, sizeof header, err));
    if (shape->version == STATE_VERSION) tern_store_u64(windows, shape->state_bytes);
    if (shape->version >= WINDOW_VERSION) TERN_TRY(tern_buf_add(out, windows, sizeof windows, err));
    for (uint32_t i = 0; i < s->n_tokens; i++) {
        tern_store_u32(id, (uint32_t)s->tokens[i]);
        TERN_TRY(tern_buf_add(out, id, sizeof id, err));
    }
    return tern_buf_add(out, zeros, (ALIGNMENT - out->size % ALIGNMENT) % ALIGNMENT, err);
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

static tern_status write_cache(hashed_writer *w, const tern_runner *r, const file_shape *shape, uint32_t cache,
                               uint8_t *page, tern_error *err)
{
    const page_range pages = pages_of(r, shape, cache);
    for (uint32_t p = pages.first; p < pages.end; p++) {
        TERN_TRY(tern_runner_read_page(r, cache, cache_page(r, cache, p), page, err));
        add_bytes(w, page, tern_size_of(page_bytes(r, cache)));
    }
    return TERN_OK;
}

static tern_status write_caches(hashed_writer *w, tern_session *s, const file_shape *shape, tern_error *err)
{
    const uint64_t bytes = tern_runner_page_room(&s->runner);
    uint8_t *page = tern_alloc(tern_size_of(bytes));
    if (!page) return tern_fail_alloc(err, bytes);
    tern_status status = TERN_OK;
    for (uint32_t i = 0; i < shape->n_caches && status == TERN_OK; i++)
        status = write_cache(w, &s->runner, shape, i, page, err);
    tern_free(page);
    return status;
}

/* The state that the last token goes on from. */
static tern_status write_state(hashed_writer *w, const tern_runner *r, const file_shape *shape, tern_error *err)
{
    if (!shape->state_bytes || shape->n_tokens < 2) return TERN_OK;
    uint8_t *state = tern_alloc(tern_size_of(shape->state_bytes));
    if (!state) return tern_fail_alloc(err, shape->state_bytes);
    const tern_status status = tern_runner_read_state(r, shape->n_tokens - 1, state, err);
    if (status == TERN_OK) add_bytes(w, state, tern_size_of(shape->state_bytes));
    tern_free(state);
    return status;
}

static tern_status write_all(hashed_writer *w, tern_session *s, tern_error *err)
{
    tern_buf head = {0};
    uint8_t hash[HASH_BYTES];
    TERN_TRY(tern_session__evaluate_last(s, err));
    file_shape shape = shape_of(s);
    tern_status status = add_header(&head, s, &shape, err);
    if (status == TERN_OK) add_bytes(w, head.data, head.size);
    tern_buf_deinit(&head);
    TERN_TRY(status);
    TERN_TRY(write_caches(w, s, &shape, err));
    TERN_TRY(write_state(w, &s->runner, &shape, err));
    tern_store_u64(hash, w->hash);
    tern_file_writer_add(&w->file, hash, sizeof hash);
    return tern_file_writer_commit(&w->file, err);
}

tern_status tern_session_save(tern_session *session, const char *path, tern_error *err)
{
    TERN_NEED(session, err);
    TERN_NEED(path, err);
    hashed_writer w = {.hash = TERN_HASH_START};
    TERN_TRY(tern_engine__needs_waiting(session->runner.engine, "saving a session", err));
    TERN_TRY(tern_file_writer_open(&w.file, path, err));
    tern_status status = write_all(&w, session, err);
    tern_file_writer_abort(&w.file);
    return status;
}

tern_status tern_session__save_bytes(tern_session *session, tern_buf *out, tern_error *err)
{
    hashed_writer w = {.hash = TERN_HASH_START};
    TERN_TRY(tern_file_writer_open_memory(&w.file, out, "session", err));
    tern_status status = write_all(&w, session, err);
    tern_file_writer_abort(&w.file);
    return status;
}

static tern_status read_header(tern_cursor *c, file_shape *out, tern_error *err)
{
    const uint8_t *found = tern_cursor_take(c, sizeof magic);
    if (!found || memcmp(found, magic, sizeof magic) != 0) return tern_fail(err, TERN_MALFORMED, "not a session file");
    out->version = tern_cursor_u32(c);
    out->flags = tern_cursor_u32(c);
    out->fingerprint = tern_cursor_u64(c);
    out->n_tokens = tern_cursor_u32(c);
    out->n_caches = tern_cursor_u32(c);
    out->page_bytes = tern_cursor_u64(c);
    out->n_window_caches = out->version == WINDOW_VERSION ? tern_cursor_u32(c) : 0;
    out->first_page = out->version == WINDOW_VERSION ? tern_cursor_u32(c) : 0;
    out->state_bytes = out->version == STATE_VERSION ? tern_cursor_u64(c) : 0;
    if (c->bad) return tern_fail(err, TERN_MALFORMED, "%zu bytes: a header of %d expected", c->size, HEADER_BYTES);
    return TERN_OK;
}

/* n_tokens aside, which is the file's own. */
static tern_status check_windows(const file_shape *found, const file_shape *want, uint32_t window, tern_error *err)
{
    const uint32_t least = window && found->n_tokens > window ? (found->n_tokens - window) / TERN_PAGE_SIZE : 0;
    if (found->version != WINDOW_VERSION) return TERN_OK;
    if (found->n_window_caches != want->n_window_caches)
        return tern_fail(err, TERN_MALFORMED, "%u caches of layers with a window: %u expected", found->n_window_caches,
                         want->n_window_caches);
    if (found->first_page <= least) return TERN_OK;
    return tern_fail(err, TERN_MALFORMED,
                     "layers with a window begin with page %u: 0 to %u expected for %u tokens and a window of %u",
                     found->first_page, least, found->n_tokens, window);
}

static tern_status check_shape(const file_shape *found, const file_shape *want, uint32_t n_ctx, tern_error *err)
{
    if (found->version < UNCHECKED_VERSION || found->version > STATE_VERSION)
        return tern_fail(err, TERN_UNSUPPORTED, "session file version %u: %d to %d expected", found->version,
                         UNCHECKED_VERSION, STATE_VERSION);
    if (found->flags != want->flags)
        return tern_fail(err, TERN_MALFORMED, "the cache is %s: %s expected", tern_kv_name_of(found->flags).text,
                         tern_kv_name_of(want->flags).text);
    if (found->fingerprint != want->fingerprint)
        return tern_fail(err, TERN_MALFORMED,
                         "the model's fingerprint is %016llx: %016llx expected; another model wrote it, or other "
                         "adapters or --activations",
                         (unsigned long long)found->fingerprint, (unsigned long long)want->fingerprint);
    if (found->n_caches != want->n_caches || found->page_bytes != want->page_bytes)
        return tern_fail(err, TERN_MALFORMED, "%u caches with pages of %llu bytes: %u of %llu expected",
                         found->n_caches, (unsigned long long)found->page_bytes, want->n_caches,
                         (unsigned long long)want->page_bytes);
    if (found->state_bytes != want->state_bytes)
        return tern_fail(err, TERN_MALFORMED, "states of %llu bytes: %llu expected",
                         (unsigned long long)found->state_bytes, (unsigned long long)want->state_bytes);
    if (found->n_tokens > n_ctx)
        return tern_fail(err, TERN_MALFORMED, "%u tokens: at most %u, the session's context, expected", found->n_tokens,
                         n_ctx);
    return TERN_OK;
}

static tern_status read_ids(tern_cursor *c, uint32_t n, uint32_t n_vocab, int32_t *out, tern_error *err)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t id = tern_cursor_u32(c);
        if (id >= n_vocab)
            return tern_fail(err, TERN_MALFORMED, "token %u is id %d: 0 to %u expected", i, (int32_t)id, n_vocab - 1);
        out[i] = (int32_t)id;
    }
    tern_cursor_take(c, (ALIGNMENT - c->at % ALIGNMENT) % ALIGNMENT);
    return TERN_OK;
}

static tern_status check_hash(const tern_cursor *c, tern_error *err)
{
    size_t n = c->size - HASH_BYTES;
    if (tern_hash(TERN_HASH_START, c->data, n) == tern_load_u64(c->data + n)) return TERN_OK;
    return tern_fail(err, TERN_MALFORMED, "the file is damaged: its checksum does not fit its bytes");
}

static uint64_t cache_bytes(const tern_runner *r, const file_shape *shape)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < shape->n_caches; i++)
        bytes += (pages_of(r, shape, i).end - pages_of(r, shape, i).first) * page_bytes(r, i);
    return bytes;
}

/* A ring takes the last pages, as many as it has. */
static tern_status read_cache(const tern_runner *r, tern_cursor *c, const file_shape *shape, uint32_t cache,
                              tern_error *err)
{
    const page_range pages = pages_of(r, shape, cache);
    const bool ring = r->n_ring_pages && has_window(r, cache);
    const uint64_t bytes = page_bytes(r, cache);
    for (uint32_t p = pages.first; p < pages.end; p++) {
        const uint8_t *page = tern_cursor_take(c, (size_t)bytes);
        if (ring && p + r->n_ring_pages < pages.end) continue;
        TERN_TRY(tern_runner_write_page(r, cache, cache_page(r, cache, p), page, err));
    }
    return TERN_OK;
}

/* The part after the ids: exactly the pages, and the hash. The counts were checked, so that nothing here can wrap. */
static tern_status read_caches(tern_session *s, tern_cursor *c, const file_shape *shape, tern_error *err)
{
    const bool hashed = shape->version != UNCHECKED_VERSION;
    const uint64_t states = shape->n_tokens > 1 ? shape->state_bytes : 0;
    const uint64_t bytes = cache_bytes(&s->runner, shape) + states + (hashed ? HASH_BYTES : 0);
    if (c->bad || tern_cursor_left(c) != bytes)
        return tern_fail(err, TERN_MALFORMED, "%zu bytes of caches, states and checksum: %llu expected for %u tokens",
                         tern_cursor_left(c), (unsigned long long)bytes, shape->n_tokens);
    if (hashed) TERN_TRY(check_hash(c, err));
    for (uint32_t i = 0; i < shape->n_caches; i++) TERN_TRY(read_cache(&s->runner, c, shape, i, err));
    const uint32_t n = shape->n_tokens ? shape->n_tokens - 1 : 0, held = shape->first_page * TERN_PAGE_SIZE;
    tern_runner_mark_written(&s->runner, 0, n);
    if (states) TERN_TRY(tern_runner_write_state(&s->runner, n, tern_cursor_take(c, (size_t)states), err));
    if (s->runner.first_kept < held) s->runner.first_kept = held;
    return TERN_OK;
}

tern_status tern_session__restore_bytes(tern_session *s, const void *bytes, size_t n, tern_error *err)
{
    file_shape found = {0}, want = shape_of(s);
    tern_cursor c = tern_cursor_open(bytes, n);
    tern_session_truncate(s, 0);
    TERN_TRY(read_header(&c, &found, err));
    TERN_TRY(check_shape(&found, &want, s->runner.params.n_ctx, err));
    TERN_TRY(check_windows(&found, &want, s->runner.window, err));
    TERN_TRY(read_ids(&c, found.n_tokens, tern_engine_config(s->runner.engine)->n_vocab, s->tokens, err));
    TERN_TRY(read_caches(s, &c, &found, err));
    if (found.n_tokens == 0) return TERN_OK;
    s->n_tokens = s->n_evaluated = found.n_tokens - 1;
    tern_status status = tern_session_append(s, s->tokens + s->n_tokens, 1, err);
    if (status != TERN_OK) tern_session_truncate(s, 0);
    return status;
}

tern_status tern_session_restore(tern_session *session, const char *path, tern_error *err)
{
    TERN_NEED(session, err);
    TERN_NEED(path, err);
    tern_file_map map;
    tern_session_truncate(session, 0);
    TERN_TRY(tern_engine__needs_waiting(session->runner.engine, "restoring a session", err));
    TERN_TRY(tern_file_map_open(&map, path, err));
    tern_status status = tern_session__restore_bytes(session, map.data, map.size, err);
    tern_file_map_close(&map);
    if (status != TERN_OK) tern_error_prefix(err, "%s", path);
    return status;
}
