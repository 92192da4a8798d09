/* Pages on their way: to the device before a layer needs them, back where they make way. Those that lie side by side on
 * both sides go together. */
#include <string.h>
#include <time.h>

#include "backend/spill/spill_internal.h"
#include "base/alloc.h"

enum { CHUNK_BYTES = 64 << 20 };

/* Pages of a cache and the frames that they are, or were, in. */
typedef struct span {
    tern_spill_cache *cache; /* NULL: none */
    uint32_t page, frame, n;
} span;

typedef struct mover {
    tern_spill *s;
    bool beside;
    span in, out; /* not moved yet; out goes first */
} mover;

static uint32_t chunk_pages(const tern_buffer *half)
{
    return half->unit_bytes < CHUNK_BYTES ? (uint32_t)(CHUNK_BYTES / half->unit_bytes) : 1;
}

static uint64_t chunk_bytes(const tern_buffer *half, uint32_t chunk)
{
    const uint64_t all = chunk_pages(half) * half->unit_bytes, left = half->bytes - chunk * all;
    return left < all ? left : all;
}

/* A device copies to and from memory that stays where it is faster. Memory that cannot be pinned is copied too. */
static void pin(const tern_spill *s, tern_buffer *half, uint64_t unit)
{
    const tern_backend_copies *copies = s->wrap.inner->copies;
    const uint32_t n = chunk_pages(half), chunk = (uint32_t)(unit / n);
    if (!copies || half->host.on_disk) return;
    if (!half->pinned)
        half->pinned = tern_calloc(tern_size_of(half->bytes / half->unit_bytes / n + 1), sizeof *half->pinned);
    if (!half->pinned || half->pinned[chunk]) return;
    half->pinned[chunk] = true;
    copies->pin(s->wrap.inner, half->host.data + chunk * n * half->unit_bytes, chunk_bytes(half, chunk), true);
}

void tern_spill__unpin(const tern_spill *s, tern_buffer *half)
{
    const uint32_t n = chunk_pages(half);
    for (uint32_t i = 0; half->pinned && i * (uint64_t)n * half->unit_bytes < half->bytes; i++)
        if (half->pinned[i])
            s->wrap.inner->copies->pin(s->wrap.inner, half->host.data + i * n * half->unit_bytes, chunk_bytes(half, i),
                                       false);
    tern_free(half->pinned);
    half->pinned = NULL;
}

static tern_status write(const mover *m, tern_buffer *to, uint64_t at, const void *data, uint64_t bytes,
                         tern_error *err)
{
    tern_backend *b = m->s->wrap.inner;
    m->s->in_bytes += bytes;
    if (m->beside) return b->copies->write_beside(b, to, at, data, bytes, err);
    return b->buffer_write(b, to, at, data, bytes, err);
}

static tern_status read(const mover *m, const tern_buffer *from, uint64_t at, void *data, uint64_t bytes,
                        tern_error *err)
{
    tern_backend *b = m->s->wrap.inner;
    m->s->out_bytes += bytes;
    if (m->beside) return b->copies->read_beside(b, from, at, data, bytes, err);
    return b->buffer_read(b, from, at, data, bytes, err);
}

static tern_status move_out(mover *m, tern_error *err)
{
    const span out = m->out;
    m->out = (span){0};
    for (int i = 0; out.cache && i < TERN_SPILL_HALVES; i++) {
        tern_buffer *half = out.cache->halves[i];
        const uint64_t bytes = half->unit_bytes, unit = out.cache->first + out.page;
        pin(m->s, half, unit);
        TERN_TRY(read(m, out.cache->pool->buffers[i], out.frame * bytes, half->host.data + unit * bytes, out.n * bytes,
                      err));
    }
    return TERN_OK;
}

/* Pages that did not come have no frame. */
static tern_status fail_in(const span *in, tern_status status)
{
    for (uint32_t i = 0; i < in->n; i++) tern_frames_drop(&in->cache->pool->frames, &in->cache->pages, in->page + i);
    return status;
}

static tern_status move_in(mover *m, tern_error *err)
{
    const span in = m->in;
    m->in = (span){0};
    tern_status status = move_out(m, err);
    for (int i = 0; in.cache && i < TERN_SPILL_HALVES && status == TERN_OK; i++) {
        tern_buffer *half = in.cache->halves[i];
        const uint64_t bytes = half->unit_bytes, unit = in.cache->first + in.page;
        pin(m->s, half, unit);
        status =
            write(m, in.cache->pool->buffers[i], in.frame * bytes, half->host.data + unit * bytes, in.n * bytes, err);
    }
    return status == TERN_OK || !in.cache ? status : fail_in(&in, status);
}

static bool goes_on(const span *s, const tern_spill_cache *cache, uint32_t page, uint32_t frame)
{
    const uint64_t unit = cache->first + page;
    return s->cache == cache && page == s->page + s->n && frame == s->frame + s->n &&
           unit % chunk_pages(cache->halves[0]) && unit % chunk_pages(cache->halves[1]);
}

static void extend(span *s, tern_spill_cache *cache, uint32_t page, uint32_t frame)
{
    if (!s->n) *s = (span){.cache = cache, .page = page, .frame = frame};
    s->n++;
}

static tern_status add_out(mover *m, tern_spill_cache *cache, uint32_t page, uint32_t frame, tern_error *err)
{
    if (m->out.n && !goes_on(&m->out, cache, page, frame)) TERN_TRY(move_out(m, err));
    extend(&m->out, cache, page, frame);
    return TERN_OK;
}

static tern_status add_in(mover *m, tern_spill_cache *cache, uint32_t page, uint32_t frame, tern_error *err)
{
    if (m->in.n && !goes_on(&m->in, cache, page, frame)) TERN_TRY(move_in(m, err));
    extend(&m->in, cache, page, frame);
    return TERN_OK;
}

/* A page that nobody has written, and that the step does not write as a whole. */
static tern_status clear(mover *m, const tern_spill_cache *cache, uint32_t frame, tern_error *err)
{
    TERN_TRY(move_out(m, err));
    for (int i = 0; i < TERN_SPILL_HALVES; i++) {
        const uint64_t bytes = cache->pool->unit_bytes[i];
        TERN_TRY(write(m, cache->pool->buffers[i], frame * bytes, m->s->zeros, bytes, err));
    }
    return TERN_OK;
}

/* The frame's contents are saved, if they must be, and the page has it. */
static tern_status give(mover *m, tern_spill_cache *cache, uint32_t page, uint32_t frame, tern_error *err)
{
    tern_frames *f = &cache->pool->frames;
    const tern_frame before = f->frames[frame];
    if (before.layer && before.dirty) TERN_TRY(add_out(m, tern_spill__cache_of(before.layer), before.page, frame, err));
    tern_frames_give(f, frame, &cache->pages, page);
    if (cache->known[page]) return add_in(m, cache, page, frame, err);
    return cache->covered[page] == TERN_PAGE_SIZE ? TERN_OK : clear(m, cache, frame, err);
}

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static tern_status bring_pages(mover *m, tern_spill_need *need, tern_error *err)
{
    tern_spill_cache *cache = need->part->cache;
    tern_frames *f = &cache->pool->frames;
    uint64_t *n = m->beside ? &m->s->prefetched : &m->s->misses;
    bool waited = m->s->wrap.inner->copies != NULL; /* else what runs may use the frames */
    for (uint32_t i = 0; i < need->n; i++) {
        if (cache->pages.frame_of[need->pages[i]] != TERN_NO_FRAME) continue;
        if (!waited) TERN_TRY(m->s->wrap.inner->wait(m->s->wrap.inner, err));
        waited = true;
        const uint32_t frame = tern_frames_victim(f);
        if (frame == TERN_NO_FRAME && m->beside) break;
        if (frame == TERN_NO_FRAME)
            return tern_fail(err, TERN_INTERNAL, "%s: no room for page %u of %u", m->s->wrap.name, i, need->n);
        TERN_TRY(give(m, cache, need->pages[i], frame, err));
        *n += cache->known[need->pages[i]];
        need->n_brought++;
    }
    return move_in(m, err);
}

tern_status tern_spill__bring(tern_spill *s, tern_spill_need *need, bool beside, tern_error *err)
{
    mover m = {.s = s, .beside = beside};
    const uint64_t begun = now();
    const tern_status status = bring_pages(&m, need, err);
    if (!beside) s->wait_ns += now() - begun;
    return status;
}

tern_status tern_spill__save(tern_spill *s, tern_spill_cache *cache, uint32_t page, tern_error *err)
{
    mover m = {.s = s};
    const uint32_t frame = cache->pages.frame_of[page];
    if (frame == TERN_NO_FRAME || !cache->pool->frames.frames[frame].dirty) return TERN_OK;
    m.out = (span){.cache = cache, .page = page, .frame = frame, .n = 1};
    TERN_TRY(move_out(&m, err));
    cache->pool->frames.frames[frame].dirty = false;
    return TERN_OK;
}

void tern_spill__want(const tern_spill_need *need)
{
    const tern_spill_cache *cache = need->part->cache;
    for (int h = 0; h < TERN_SPILL_HALVES; h++) {
        const tern_buffer *half = cache->halves[h];
        for (uint32_t i = 0, n; half->host.on_disk && i < need->n; i += n) {
            const uint32_t page = need->pages[i];
            for (n = 1; i + n < need->n && need->pages[i + n] == page + n; n++) {}
            if (cache->pages.frame_of[page] == TERN_NO_FRAME)
                tern_backing_want(&half->host, (cache->first + page) * half->unit_bytes, n * half->unit_bytes);
        }
    }
}
