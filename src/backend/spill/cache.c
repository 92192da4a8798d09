/* Keys and values on the host's side: all pages of them, and which of them the device has. */
#include <assert.h>
#include <string.h>

#include "backend/range.h"
#include "backend/spill/spill_internal.h"
#include "base/alloc.h"

tern_status tern_spill__half_make(tern_spill *s, uint64_t bytes, uint64_t page_bytes, tern_buffer **out,
                                  tern_error *err)
{
    if (page_bytes == 0 || bytes % page_bytes || bytes / page_bytes > UINT32_MAX)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "a cache of %llu bytes: whole pages of %llu expected",
                         (unsigned long long)bytes, (unsigned long long)page_bytes);
    tern_buffer *half = tern_calloc(1, sizeof *half);
    if (!half) return tern_fail_alloc(err, sizeof *half);
    *half = (tern_buffer){.bytes = bytes, .page_bytes = page_bytes, .unit_bytes = page_bytes};
    const tern_status status = tern_backing_open(&half->host, bytes, s->disk, err);
    if (status != TERN_OK) {
        tern_free(half);
        return status;
    }
    half->next = s->halves;
    half->self = &s->halves;
    if (half->next) half->next->self = &half->next;
    s->halves = *out = half;
    return TERN_OK;
}

static void caches_free(tern_spill_cache *caches)
{
    if (!caches) return;
    tern_spill_pool *pool = caches->pool;
    for (int i = 0; i < TERN_SPILL_HALVES; i++) caches->halves[i]->caches = NULL;
    for (uint32_t i = 0; i < pool->groups; i++) {
        tern_frames_remove(&pool->frames, &caches[i].pages);
        tern_free(caches[i].known);
        tern_free(caches[i].covered);
    }
    tern_free(caches);
}

void tern_spill__half_free(tern_spill *s, tern_buffer *half)
{
    caches_free(half->caches);
    *half->self = half->next;
    if (half->next) half->next->self = half->self;
    tern_spill__unpin(s, half);
    tern_backing_close(&half->host);
    tern_free(half);
}

static tern_status fail_room(const tern_spill *s, const tern_spill_pool *pool, uint32_t n_pages, tern_error *err)
{
    const double mib = 1 << 20;
    const uint64_t page = pool->unit_bytes[TERN_SPILL_K] + pool->unit_bytes[TERN_SPILL_V];
    return tern_fail(
        err, TERN_OUT_OF_MEMORY,
        "%s: the keys and values of %s take %.2f MiB of the device's memory, and %.2f MiB are reserved for them: more "
        "(--kv-memory), or a shorter context (-c) expected",
        s->wrap.name, pool->groups > 1 ? "a head of a layer" : "a layer", (double)(n_pages * page) / mib,
        (double)(pool->frames.n * page) / mib);
}

/* Units in their order, where the host wrote pages before it was known that they would be cut. */
static tern_status regroup(tern_buffer *half, uint32_t groups, tern_error *err)
{
    assert(groups > 0);
    const uint64_t n_pages = half->bytes / half->page_bytes, unit = half->page_bytes / groups;
    uint8_t *pages = NULL;
    if (half->unit_bytes == unit) return TERN_OK;
    if (half->written && !(pages = tern_calloc(1, tern_size_of(half->bytes)))) return tern_fail_alloc(err, half->bytes);
    half->unit_bytes = unit;
    if (!pages) return TERN_OK;
    memcpy(pages, half->host.data, tern_size_of(half->bytes));
    for (uint64_t page = 0; page < n_pages; page++)
        for (uint64_t i = 0; i < groups; i++)
            memcpy(half->host.data + (i * n_pages + page) * unit, pages + (page * groups + i) * unit, (size_t)unit);
    tern_free(pages);
    return TERN_OK;
}

static tern_status fill_cache(tern_spill_cache *cache, uint32_t n_pages, tern_error *err)
{
    cache->known = tern_calloc(n_pages, sizeof *cache->known);
    cache->covered = tern_calloc(n_pages, sizeof *cache->covered);
    if (!cache->known || !cache->covered) return tern_fail_alloc(err, n_pages);
    const bool known = cache->halves[TERN_SPILL_K]->written || cache->halves[TERN_SPILL_V]->written;
    for (uint32_t i = 0; i < n_pages; i++) cache->known[i] = known;
    return tern_frames_add(&cache->pool->frames, &cache->pages, n_pages, err);
}

static tern_status fill_caches(tern_spill_cache *caches, uint32_t n_pages, tern_error *err)
{
    tern_spill_pool *pool = caches->pool;
    for (uint32_t i = 0; i < pool->groups; i++) {
        if (i) caches[i] = (tern_spill_cache){.pool = pool, .halves = {caches->halves[0], caches->halves[1]}};
        caches[i].first = i * (uint64_t)n_pages;
        TERN_TRY(fill_cache(&caches[i], n_pages, err));
    }
    for (int i = 0; i < TERN_SPILL_HALVES; i++) TERN_TRY(regroup(caches->halves[i], pool->groups, err));
    return TERN_OK;
}

tern_status tern_spill__caches_of_halves(tern_spill *s, tern_buffer *k, tern_buffer *v, tern_spill_cache **out,
                                         tern_error *err)
{
    const uint32_t n_pages = (uint32_t)(k->bytes / k->page_bytes);
    tern_spill_pool *pool = tern_spill__pool_for(s, k, v);
    if (k->caches != v->caches || v->bytes / v->page_bytes != n_pages || !pool)
        return tern_fail(err, TERN_INTERNAL, "%s: keys and values that do not belong together", s->wrap.name);
    *out = k->caches;
    if (k->caches) return TERN_OK;
    if (n_pages > pool->frames.n) return fail_room(s, pool, n_pages, err);
    tern_spill_cache *caches = tern_calloc(pool->groups, sizeof *caches);
    if (!caches) return tern_fail_alloc(err, pool->groups * sizeof *caches);
    *caches = (tern_spill_cache){.pool = pool, .halves = {k, v}};
    const tern_status status = fill_caches(caches, n_pages, err);
    if (status == TERN_OK) *out = k->caches = v->caches = caches;
    else caches_free(caches);
    return status;
}

/* Where byte `at` of a half is on the host; *n: how many of the `bytes` from there on lie side by side. */
static uint8_t *host_at(const tern_buffer *half, uint64_t at, uint64_t bytes, uint64_t *n)
{
    const uint64_t unit = half->unit_bytes, page = at / half->page_bytes, in_page = at % half->page_bytes,
                   n_pages = half->bytes / half->page_bytes;
    *n = unit == half->page_bytes ? bytes : unit - in_page % unit;
    if (*n > bytes) *n = bytes;
    return half->host.data + (in_page / unit * n_pages + page) * unit + in_page % unit;
}

/* The host has what the device has of these pages. */
static tern_status save_pages(tern_spill *s, const tern_buffer *half, uint32_t first, uint32_t end, tern_error *err)
{
    for (uint32_t i = 0; half->caches && i < half->caches->pool->groups; i++)
        for (uint32_t page = first; page <= end; page++) TERN_TRY(tern_spill__save(s, &half->caches[i], page, err));
    return TERN_OK;
}

tern_status tern_spill__half_read(tern_spill *s, const tern_buffer *half, uint64_t offset, void *data, uint64_t bytes,
                                  tern_error *err)
{
    TERN_TRY(tern_backend_check_range(half->bytes, offset, bytes, err));
    if (bytes == 0) return TERN_OK;
    TERN_TRY(save_pages(s, half, (uint32_t)(offset / half->page_bytes),
                        (uint32_t)((offset + bytes - 1) / half->page_bytes), err));
    for (uint64_t done = 0, n; done < bytes; done += n) {
        const uint8_t *from = host_at(half, offset + done, bytes - done, &n);
        memcpy((uint8_t *)data + done, from, (size_t)n);
    }
    return TERN_OK;
}

/* The device has these pages no more; the host does. */
static void drop_pages(const tern_buffer *half, uint32_t first, uint32_t end)
{
    for (uint32_t i = 0; half->caches && i < half->caches->pool->groups; i++)
        for (uint32_t page = first; page <= end; page++) {
            half->caches[i].known[page] = true;
            tern_frames_drop(&half->caches->pool->frames, &half->caches[i].pages, page);
        }
}

tern_status tern_spill__half_write(tern_spill *s, tern_buffer *half, uint64_t offset, const void *data, uint64_t bytes,
                                   tern_error *err)
{
    TERN_TRY(tern_backend_check_range(half->bytes, offset, bytes, err));
    if (bytes == 0) return TERN_OK;
    const uint32_t first = (uint32_t)(offset / half->page_bytes),
                   end = (uint32_t)((offset + bytes - 1) / half->page_bytes);
    TERN_TRY(save_pages(s, half, first, end, err));
    TERN_TRY(s->wrap.inner->wait(s->wrap.inner, err)); /* pages may still be on their way from where the bytes go */
    for (uint64_t done = 0, n; done < bytes; done += n) {
        uint8_t *to = host_at(half, offset + done, bytes - done, &n);
        memcpy(to, (const uint8_t *)data + done, (size_t)n);
    }
    half->written = true;
    drop_pages(half, first, end);
    return TERN_OK;
}
