/* Opening a backend around another one, and its table of functions: most of them are the inner one's. */
#include "backend/paged/paged.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "backend/counters.h"
#include "backend/paged/paged_internal.h"
#include "base/alloc.h"

static_assert(offsetof(struct tern_buffer, inner) == 0, "as backend/wrap.h has it");

static void paged_close(tern_backend *b)
{
    if (!b) return;
    tern_paged *p = tern_paged__of(b);
    tern_paged__rooms_deinit(&p->rooms, p->wrap.inner);
    p->wrap.inner->close(p->wrap.inner);
    pthread_mutex_destroy(&p->lock);
    tern_predict_deinit(&p->predict);
    tern_free(p->layers);
    tern_free(p);
}

static tern_status make_buffer(uint32_t layer, uint32_t index, tern_buffer **out, tern_error *err)
{
    *out = tern_calloc(1, sizeof **out);
    if (!*out) return tern_fail_alloc(err, sizeof **out);
    (*out)->layer = layer;
    (*out)->index = index;
    return TERN_OK;
}

static tern_status buffer_create(tern_backend *b, uint64_t bytes, tern_buffer **out, tern_error *err)
{
    tern_buffer *made;
    tern_backend *inner = tern_wrap__inner(b);
    TERN_TRY(make_buffer(TERN_PAGED_NOWHERE, 0, &made, err));
    return tern_wrap__give(inner->buffer_create(inner, bytes, &made->inner, err), made, out);
}

static tern_status cache_create(tern_backend *b, uint64_t bytes, uint64_t page_bytes, tern_buffer **out,
                                tern_error *err)
{
    tern_buffer *made;
    tern_backend *inner = tern_wrap__inner(b);
    TERN_TRY(make_buffer(TERN_PAGED_NOWHERE, 0, &made, err));
    return tern_wrap__give(inner->cache_create(inner, bytes, page_bytes, &made->inner, err), made, out);
}

static void buffer_free(tern_backend *b, tern_buffer *buffer)
{
    if (!buffer) return;
    tern_backend *inner = tern_wrap__inner(b);
    if (buffer->inner) inner->buffer_free(inner, buffer->inner);
    tern_free(buffer);
}

/* Whether a weight is that of a layer's experts, and where. */
static bool is_paged(const tern_paged *p, const tern_weight *w, uint32_t *layer, uint32_t *index)
{
    *index = 0;
    for (*layer = 0; *layer < p->options.n_layers; ++*layer)
        for (*index = 0; *index < p->layers[*layer].n; ++*index)
            if (p->layers[*layer].weights[*index] == w) return true;
    return false;
}

static tern_status weight_create(tern_backend *b, const tern_weight *w, tern_buffer **out, tern_error *err)
{
    tern_paged *p = tern_paged__of(b);
    tern_buffer *made;
    uint32_t layer, index;
    const bool paged = is_paged(p, w, &layer, &index);
    TERN_TRY(make_buffer(paged ? layer : TERN_PAGED_NOWHERE, index, &made, err));
    if (!paged) return tern_wrap__give(p->wrap.inner->weight_create(p->wrap.inner, w, &made->inner, err), made, out);
    pthread_mutex_lock(&p->lock);
    const tern_status status = tern_paged__room_make(p, &p->rooms.rooms[p->rooms.places[layer].room], index, err);
    pthread_mutex_unlock(&p->lock);
    return tern_wrap__give(status, made, out);
}

static tern_status no_access(const tern_backend *b, tern_error *err)
{
    return tern_fail(err, TERN_UNSUPPORTED, "%s: a weight of which not all experts are on the device, as a whole",
                     b->info.name);
}

static tern_status weight_write(tern_backend *b, tern_buffer *buffer, const tern_weight *part, uint32_t first,
                                tern_error *err)
{
    tern_backend *inner = tern_wrap__inner(b);
    return buffer->inner ? inner->weight_write(inner, buffer->inner, part, first, err) : no_access(b, err);
}

static tern_status buffer_write(tern_backend *b, tern_buffer *buffer, uint64_t offset, const void *data, uint64_t bytes,
                                tern_error *err)
{
    tern_backend *inner = tern_wrap__inner(b);
    return buffer->inner ? inner->buffer_write(inner, buffer->inner, offset, data, bytes, err) : no_access(b, err);
}

static tern_status buffer_read(tern_backend *b, const tern_buffer *buffer, uint64_t offset, void *data, uint64_t bytes,
                               tern_error *err)
{
    tern_backend *inner = tern_wrap__inner(b);
    TERN_TRY(tern_paged__go_on(tern_paged__of(b), err));
    return buffer->inner ? inner->buffer_read(inner, buffer->inner, offset, data, bytes, err) : no_access(b, err);
}

static void read_cancel(tern_backend *b)
{
    tern_paged__give_up(tern_paged__of(b));
}

static tern_status wait(tern_backend *b, tern_error *err)
{
    tern_backend *inner = tern_wrap__inner(b);
    TERN_TRY(tern_paged__go_on(tern_paged__of(b), err));
    return inner->wait(inner, err);
}

/* The room of a layer's share of a weight of experts. */
static tern_status weight_bytes(const tern_backend *b, const tern_weight *w, uint64_t *bytes, tern_error *err)
{
    const tern_paged *p = (const tern_paged *)b;
    uint32_t layer, index;
    const bool paged = is_paged(p, w, &layer, &index);
    const tern_paged_room *room = paged ? &p->rooms.rooms[p->rooms.places[layer].room] : NULL;
    const tern_weight *held = paged ? &room->weights[index] : w;
    *bytes = held->bytes;
    if (p->wrap.inner->weight_bytes && (!paged || p->wrap.inner->weight_write))
        TERN_TRY(p->wrap.inner->weight_bytes(p->wrap.inner, held, bytes, err));
    if (paged) *bytes = (*bytes + room->n_layers - 1) / room->n_layers;
    return TERN_OK;
}

static void counters(const tern_backend *b, tern_backend_counters *out)
{
    tern_paged *p = (tern_paged *)(uintptr_t)b;
    p->wrap.inner->counters(p->wrap.inner, out);
    pthread_mutex_lock(&p->lock);
    out->runs = p->runs;
    out->expert_hits = p->hits;
    out->expert_misses = p->misses;
    out->expert_bytes = p->copied_bytes;
    out->expert_prefetched = p->prefetched;
    out->expert_evictions = p->evictions;
    for (uint32_t i = 0; i < p->rooms.n; i++) out->expert_evictions += p->rooms.rooms[i].slots.evictions;
    pthread_mutex_unlock(&p->lock);
}

static tern_wrap_parts parts_of(const tern_prepared *p)
{
    return (tern_wrap_parts){.parts = &p->parts->base, .n = p->n_parts, .part_bytes = sizeof *p->parts, .ops = p->ops};
}

static void fill_table(tern_paged *p, tern_backend *inner)
{
    tern_wrap__init(&p->wrap, inner, "paged", "the host samples where experts are copied when needed", parts_of);
    tern_backend *b = &p->wrap.base;
    b->close = paged_close;
    b->buffer_create = buffer_create;
    b->cache_create = inner->cache_create ? cache_create : NULL;
    b->buffer_free = buffer_free;
    b->buffer_write = buffer_write;
    b->buffer_read = buffer_read;
    b->read_cancel = read_cancel;
    b->weight_create = weight_create;
    b->weight_write = inner->weight_write ? weight_write : NULL;
    b->prepare = tern_paged__prepare;
    b->prepared_free = tern_paged__prepared_free;
    b->run = tern_paged__run;
    b->wait = wait;
    b->weight_bytes = weight_bytes;
    b->counters = counters;
    b->info.copies_weights = false;
}

static tern_status check(const tern_paged_options *o, tern_error *err)
{
    const uint32_t least = tern_paged_slots_least(o), all = o->n_layers * o->n_experts;
    if (o->n_slots >= least && o->n_slots <= all) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "%u experts on the device at once: %u to %u expected", o->n_slots,
                     least, all);
}

static tern_status open_parts(tern_paged *p, const tern_paged_options *o, tern_error *err)
{
    p->layers = tern_calloc(o->n_layers, sizeof *p->layers);
    if (!p->layers) return tern_fail_alloc(err, o->n_layers * sizeof *p->layers);
    memcpy(p->layers, o->layers, o->n_layers * sizeof *p->layers);
    p->options = *o;
    p->options.layers = p->layers;
    TERN_TRY(tern_predict_init(&p->predict, o->n_layers, o->n_experts, err));
    return tern_paged__rooms_init(&p->rooms, &p->options, o->n_slots, err);
}

tern_status tern_paged_open(tern_backend **backend, tern_backend *inner, const tern_paged_options *options,
                            tern_error *err)
{
    *backend = NULL;
    TERN_TRY(check(options, err));
    tern_paged *p = tern_calloc(1, sizeof *p);
    if (!p) return tern_fail_alloc(err, sizeof *p);
    const tern_status status = open_parts(p, options, err);
    if (status != TERN_OK) {
        tern_predict_deinit(&p->predict);
        tern_free(p->layers);
        tern_free(p);
        return status;
    }
    pthread_mutex_init(&p->lock, NULL);
    fill_table(p, inner);
    tern_paged__describe(p);
    *backend = &p->wrap.base;
    return TERN_OK;
}
