/* Opening a backend around another one, and its table of functions: most of them are the inner one's. */
#include "backend/spill/spill.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "backend/counters.h"
#include "backend/range.h"
#include "backend/spill/spill_internal.h"
#include "base/alloc.h"
#include "quant/weight.h"

static_assert(offsetof(struct tern_buffer, inner) == 0, "as backend/wrap.h has it");

static void spill_close(tern_backend *b)
{
    if (!b) return;
    tern_spill *s = tern_spill__of(b);
    tern_spill__free_pools(s);
    s->wrap.inner->close(s->wrap.inner);
    pthread_mutex_destroy(&s->lock);
    tern_free(s->disk);
    tern_free(s);
}

static tern_status buffer_create(tern_backend *b, uint64_t bytes, tern_buffer **out, tern_error *err)
{
    tern_backend *inner = tern_wrap__inner(b);
    tern_buffer *made = tern_calloc(1, sizeof *made);
    if (!made) return tern_fail_alloc(err, sizeof *made);
    made->bytes = bytes;
    return tern_wrap__give(inner->buffer_create(inner, bytes, &made->inner, err), made, out);
}

static tern_status cache_create(tern_backend *b, uint64_t bytes, uint64_t page_bytes, tern_buffer **out,
                                tern_error *err)
{
    tern_spill *s = tern_spill__of(b);
    pthread_mutex_lock(&s->lock);
    const tern_status status = tern_spill__half_make(s, bytes, page_bytes, out, err);
    pthread_mutex_unlock(&s->lock);
    return status;
}

static void buffer_free(tern_backend *b, tern_buffer *buffer)
{
    tern_spill *s = tern_spill__of(b);
    if (!buffer) return;
    if (buffer->page_bytes) {
        pthread_mutex_lock(&s->lock);
        (void)s->wrap.inner->wait(s->wrap.inner, NULL); /* its pages may be on their way */
        tern_spill__half_free(s, buffer);
        pthread_mutex_unlock(&s->lock);
        return;
    }
    s->wrap.inner->buffer_free(s->wrap.inner, buffer->inner);
    tern_free(buffer->copy);
    tern_free(buffer);
}

static tern_status weight_create(tern_backend *b, const tern_weight *w, tern_buffer **out, tern_error *err)
{
    tern_backend *inner = tern_wrap__inner(b);
    tern_buffer *made = tern_calloc(1, sizeof *made);
    if (!made) return tern_fail_alloc(err, sizeof *made);
    made->bytes = w->bytes;
    return tern_wrap__give(inner->weight_create(inner, w, &made->inner, err), made, out);
}

static tern_status weight_write(tern_backend *b, tern_buffer *buffer, const tern_weight *part, uint32_t first,
                                tern_error *err)
{
    tern_backend *inner = tern_wrap__inner(b);
    return inner->weight_write(inner, buffer->inner, part, first, err);
}

static tern_status buffer_write(tern_backend *b, tern_buffer *buffer, uint64_t offset, const void *data, uint64_t bytes,
                                tern_error *err)
{
    tern_spill *s = tern_spill__of(b);
    if (buffer->copy) { /* runs bring it to the device */
        TERN_TRY(tern_backend_check_range(buffer->bytes, offset, bytes, err));
        memcpy(buffer->copy + offset, data, (size_t)bytes);
        return TERN_OK;
    }
    if (!buffer->page_bytes) return s->wrap.inner->buffer_write(s->wrap.inner, buffer->inner, offset, data, bytes, err);
    pthread_mutex_lock(&s->lock);
    const tern_status status = tern_spill__half_write(s, buffer, offset, data, bytes, err);
    pthread_mutex_unlock(&s->lock);
    return status;
}

static tern_status buffer_read(tern_backend *b, const tern_buffer *buffer, uint64_t offset, void *data, uint64_t bytes,
                               tern_error *err)
{
    tern_spill *s = tern_spill__of(b);
    if (buffer->copy) {
        TERN_TRY(tern_backend_check_range(buffer->bytes, offset, bytes, err));
        memcpy(data, buffer->copy + offset, (size_t)bytes);
        return TERN_OK;
    }
    if (!buffer->page_bytes) return s->wrap.inner->buffer_read(s->wrap.inner, buffer->inner, offset, data, bytes, err);
    pthread_mutex_lock(&s->lock);
    const tern_status status = tern_spill__half_read(s, buffer, offset, data, bytes, err);
    pthread_mutex_unlock(&s->lock);
    return status;
}

static void counters(const tern_backend *b, tern_backend_counters *out)
{
    tern_spill *s = (tern_spill *)(uintptr_t)b;
    s->wrap.inner->counters(s->wrap.inner, out);
    pthread_mutex_lock(&s->lock);
    out->kv_hits = s->hits;
    out->kv_misses = s->misses;
    out->kv_prefetched = s->prefetched;
    out->kv_in_bytes = s->in_bytes;
    out->kv_out_bytes = s->out_bytes;
    out->kv_wait_ns = s->wait_ns;
    for (const tern_spill_pool *pool = s->pools; pool; pool = pool->next) out->kv_evictions += pool->frames.evictions;
    pthread_mutex_unlock(&s->lock);
}

static tern_wrap_parts parts_of(const tern_prepared *p)
{
    return (tern_wrap_parts){
        .parts = &p->parts->base, .n = p->n_parts, .part_bytes = sizeof *p->parts, .ops = p->ops, .copies = p->copies};
}

static void fill_table(tern_spill *s, tern_backend *inner)
{
    tern_wrap__init(&s->wrap, inner, "spill", "the host samples where pages are copied when needed", parts_of);
    tern_backend *b = &s->wrap.base;
    b->close = spill_close;
    b->buffer_create = buffer_create;
    b->cache_create = cache_create;
    b->buffer_free = buffer_free;
    b->buffer_write = buffer_write;
    b->buffer_read = buffer_read;
    b->weight_create = weight_create;
    b->weight_write = inner->weight_write ? weight_write : NULL;
    b->prepare = tern_spill__prepare;
    b->prepared_free = tern_spill__prepared_free;
    b->run = tern_spill__run;
    b->counters = counters;
    b->info.spill = &s->info;
}

tern_status tern_spill_open(tern_backend **backend, tern_backend *inner, const tern_spill_options *options,
                            tern_error *err)
{
    *backend = NULL;
    if (inner->info.never_waits)
        return tern_fail(err, TERN_UNSUPPORTED,
                         "%s: keys and values that are not all on the device: it cannot be "
                         "waited for",
                         inner->info.name);
    tern_spill *s = tern_calloc(1, sizeof *s);
    if (!s) return tern_fail_alloc(err, sizeof *s);
    if (options->disk && !(s->disk = tern_strdup(options->disk))) {
        tern_free(s);
        return tern_fail_alloc(err, strlen(options->disk));
    }
    s->room = options->bytes;
    s->info = (tern_spill_info){.room = options->bytes, .disk = s->disk};
    pthread_mutex_init(&s->lock, NULL);
    fill_table(s, inner);
    *backend = &s->wrap.base;
    return TERN_OK;
}
