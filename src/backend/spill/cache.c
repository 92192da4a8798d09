/* Keys and values on the host's side: all pages of them, and which of them the device has. */
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
    *half = (tern_buffer){.bytes = bytes, .page_bytes = page_bytes};
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

static void cache_free(tern_spill_cache *cache)
{
    if (!cache) return;
    for (int i = 0; i < TERN_SPILL_HALVES; i++) cache->halves[i]->cache = NULL;
    tern_frames_remove(&cache->pool->frames, &cache->pages);
    tern_free(cache->known);
    tern_free(cache->covered);
    tern_free(cache);
}

void tern_spill__half_free(tern_spill *s, tern_buffer *half)
{
    cache_free(half->cache);
    *half->self = half->next;
    if (half->next) half->next->self = half->self;
    tern_spill__unpin(s, half);
    tern_backing_close(&half->host);
    tern_free(half);
}

static tern_status fail_room(const tern_spill *s, const tern_buffer *k, const tern_buffer *v, uint64_t room,
                             tern_error *err)
{
    const double mib = 1 << 20;
    return tern_fail(err, TERN_OUT_OF_MEMORY,
                     "%s: the keys and values of a layer take %.2f MiB of the device, of which %.2f MiB are for them: "
                     "more (--kv-memory), or a shorter context (-c) expected",
                     s->name, (double)(k->bytes + v->bytes) / mib, (double)room / mib);
}

tern_status tern_spill__cache_of_halves(tern_spill *s, tern_buffer *k, tern_buffer *v, tern_spill_cache **out,
                                        tern_error *err)
{
    const uint32_t n_pages = (uint32_t)(k->bytes / k->page_bytes);
    tern_spill_pool *pool = tern_spill__pool_for(s, k, v);
    if (k->cache != v->cache || v->bytes / v->page_bytes != n_pages || !pool)
        return tern_fail(err, TERN_INTERNAL, "%s: keys and values that do not belong together", s->name);
    *out = k->cache;
    if (k->cache) return TERN_OK;
    if (n_pages > pool->frames.n) return fail_room(s, k, v, pool->frames.n * (k->page_bytes + v->page_bytes), err);
    tern_spill_cache *cache = tern_calloc(1, sizeof *cache);
    if (!cache) return tern_fail_alloc(err, sizeof *cache);
    *cache = (tern_spill_cache){.pool = pool, .halves = {k, v}};
    cache->known = tern_calloc(n_pages, sizeof *cache->known);
    cache->covered = tern_calloc(n_pages, sizeof *cache->covered);
    tern_status status = cache->known && cache->covered ? TERN_OK : tern_fail_alloc(err, n_pages);
    if (status == TERN_OK) status = tern_frames_add(&pool->frames, &cache->pages, n_pages, err);
    for (uint32_t i = 0; i < n_pages && status == TERN_OK; i++) cache->known[i] = k->written || v->written;
    if (status == TERN_OK) {
        *out = k->cache = v->cache = cache;
        return TERN_OK;
    }
    tern_free(cache->known);
    tern_free(cache->covered);
    tern_free(cache);
    return status;
}

tern_status tern_spill__half_read(tern_spill *s, const tern_buffer *half, uint64_t offset, void *data, uint64_t bytes,
                                  tern_error *err)
{
    TERN_TRY(tern_backend_check_range(half->bytes, offset, bytes, err));
    if (bytes == 0) return TERN_OK;
    const uint32_t end = (uint32_t)((offset + bytes - 1) / half->page_bytes);
    for (uint32_t page = (uint32_t)(offset / half->page_bytes); half->cache && page <= end; page++)
        TERN_TRY(tern_spill__save(s, half->cache, page, err));
    memcpy(data, half->host.data + offset, (size_t)bytes);
    return TERN_OK;
}

tern_status tern_spill__half_write(tern_spill *s, tern_buffer *half, uint64_t offset, const void *data, uint64_t bytes,
                                   tern_error *err)
{
    TERN_TRY(tern_backend_check_range(half->bytes, offset, bytes, err));
    if (bytes == 0) return TERN_OK;
    const uint32_t first = (uint32_t)(offset / half->page_bytes),
                   end = (uint32_t)((offset + bytes - 1) / half->page_bytes);
    for (uint32_t page = first; half->cache && page <= end; page++)
        TERN_TRY(tern_spill__save(s, half->cache, page, err));
    TERN_TRY(s->inner->wait(s->inner, err)); /* pages may still be on their way from where the bytes go */
    memcpy(half->host.data + offset, data, (size_t)bytes);
    half->written = true;
    for (uint32_t page = first; half->cache && page <= end; page++) {
        half->cache->known[page] = true;
        tern_frames_drop(&half->cache->pool->frames, &half->cache->pages, page);
    }
    return TERN_OK;
}
