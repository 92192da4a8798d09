/* Opening a backend around another one, and its table of functions: most of them are the inner one's. */
#include "backend/paged/paged.h"

#include <stdio.h>
#include <string.h>

#include "backend/paged/paged_internal.h"
#include "base/alloc.h"

static void paged_close(tern_backend *b)
{
    if (!b) return;
    tern_paged *p = tern_paged__of(b);
    tern_paged__rooms_deinit(&p->rooms, p->inner);
    p->inner->close(p->inner);
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

static tern_status give(tern_status status, tern_buffer *made, tern_buffer **out)
{
    if (status == TERN_OK) *out = made;
    else tern_free(made);
    return status;
}

static tern_status buffer_create(tern_backend *b, uint64_t bytes, tern_buffer **out, tern_error *err)
{
    tern_buffer *made;
    tern_backend *inner = tern_paged__of(b)->inner;
    TERN_TRY(make_buffer(TERN_PAGED_NOWHERE, 0, &made, err));
    return give(inner->buffer_create(inner, bytes, &made->inner, err), made, out);
}

static tern_status cache_create(tern_backend *b, uint64_t bytes, uint64_t page_bytes, tern_buffer **out,
                                tern_error *err)
{
    tern_buffer *made;
    tern_backend *inner = tern_paged__of(b)->inner;
    TERN_TRY(make_buffer(TERN_PAGED_NOWHERE, 0, &made, err));
    return give(inner->cache_create(inner, bytes, page_bytes, &made->inner, err), made, out);
}

static void buffer_free(tern_backend *b, tern_buffer *buffer)
{
    if (!buffer) return;
    tern_backend *inner = tern_paged__of(b)->inner;
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
    if (!paged) return give(p->inner->weight_create(p->inner, w, &made->inner, err), made, out);
    pthread_mutex_lock(&p->lock);
    const tern_status status = tern_paged__room_make(p, &p->rooms.rooms[p->rooms.places[layer].room], index, err);
    pthread_mutex_unlock(&p->lock);
    return give(status, made, out);
}

static tern_status no_access(const tern_backend *b, tern_error *err)
{
    return tern_fail(err, TERN_UNSUPPORTED, "%s: a weight of which not all experts are on the device, as a whole",
                     b->info.name);
}

static tern_status weight_write(tern_backend *b, tern_buffer *buffer, const tern_weight *part, uint32_t first,
                                tern_error *err)
{
    tern_backend *inner = tern_paged__of(b)->inner;
    return buffer->inner ? inner->weight_write(inner, buffer->inner, part, first, err) : no_access(b, err);
}

static tern_status buffer_write(tern_backend *b, tern_buffer *buffer, uint64_t offset, const void *data, uint64_t bytes,
                                tern_error *err)
{
    tern_backend *inner = tern_paged__of(b)->inner;
    return buffer->inner ? inner->buffer_write(inner, buffer->inner, offset, data, bytes, err) : no_access(b, err);
}

static tern_status buffer_read(tern_backend *b, const tern_buffer *buffer, uint64_t offset, void *data, uint64_t bytes,
                               tern_error *err)
{
    tern_backend *inner = tern_paged__of(b)->inner;
    TERN_TRY(tern_paged__go_on(tern_paged__of(b), err));
    return buffer->inner ? inner->buffer_read(inner, buffer->inner, offset, data, bytes, err) : no_access(b, err);
}

static void read_cancel(tern_backend *b)
{
    tern_paged__give_up(tern_paged__of(b));
}

static tern_status supports(tern_backend *b, const tern_graph *graph, const tern_op *op, tern_error *err)
{
    tern_backend *inner = tern_paged__of(b)->inner;
    if (op->kind == TERN_OP_SAMPLE) /* the host has to look at each layer of each step */
        return tern_fail(err, TERN_UNSUPPORTED, "%s: op %s: the host samples where experts are copied when needed",
                         b->info.name, tern_op_name(op->kind));
    return inner->supports(inner, graph, op, err);
}

static tern_status wait(tern_backend *b, tern_error *err)
{
    tern_backend *inner = tern_paged__of(b)->inner;
    TERN_TRY(tern_paged__go_on(tern_paged__of(b), err));
    return inner->wait(inner, err);
}

static uint64_t memory_free(const tern_backend *b)
{
    const tern_backend *inner = ((const tern_paged *)b)->inner;
    return inner->memory_free ? inner->memory_free(inner) : 0;
}

/* Of a weight of experts its layer's share of the room. */
static tern_status weight_bytes(const tern_backend *b, const tern_weight *w, uint64_t *bytes, tern_error *err)
{
    const tern_paged *p = (const tern_paged *)b;
    uint32_t layer, index;
    const bool paged = is_paged(p, w, &layer, &index);
    const tern_paged_room *room = paged ? &p->rooms.rooms[p->rooms.places[layer].room] : NULL;
    const tern_weight *held = paged ? &room->weights[index] : w;
    *bytes = held->bytes;
    if (p->inner->weight_bytes && (!paged || p->inner->weight_write))
        TERN_TRY(p->inner->weight_bytes(p->inner, held, bytes, err));
    if (paged) *bytes = (*bytes + room->n_layers - 1) / room->n_layers;
    return TERN_OK;
}

static void counters(const tern_backend *b, tern_backend_counters *out)
{
    tern_paged *p = (tern_paged *)(uintptr_t)b;
    p->inner->counters(p->inner, out);
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

static double measure(tern_backend *b, tern_measure what, tern_buffer *const *buffers, size_t n, double seconds)
{
    tern_paged *p = tern_paged__of(b);
    size_t n_inner = 0;
    tern_buffer **inner = tern_calloc(n + 1, sizeof *inner);
    if (!inner) return 0;
    for (size_t i = 0; i < n; i++)
        if (buffers[i]->inner) inner[n_inner++] = buffers[i]->inner;
    const double rate = p->inner->measure(p->inner, what, inner, n_inner, seconds);
    tern_free(inner);
    return rate;
}

static size_t profile(const tern_backend *b, tern_profile_row *rows, size_t cap)
{
    const tern_backend *inner = ((const tern_paged *)b)->inner;
    return inner->profile(inner, rows, cap);
}

/* The part of a prepared graph that op `at` of it is in, and its number there. */
static const tern_paged_part *part_of(const tern_prepared *p, size_t at, size_t *number)
{
    size_t i = 0;
    while (i + 1 < p->n_parts && p->parts[i + 1].graph.ops <= p->ops + at) i++;
    *number = (size_t)(p->ops + at - p->parts[i].graph.ops);
    return &p->parts[i];
}

static const char *doubt(tern_backend *b, const tern_prepared *prepared, size_t op)
{
    size_t number;
    tern_backend *inner = tern_paged__of(b)->inner;
    const tern_paged_part *part = part_of(prepared, op, &number);
    return inner->trial->doubt(inner, part->prepared, number);
}

static void prove(tern_backend *b, const tern_prepared *prepared)
{
    tern_backend *inner = tern_paged__of(b)->inner;
    for (size_t i = 0; i < prepared->n_parts; i++) inner->trial->prove(inner, prepared->parts[i].prepared);
}

static void give_up(tern_backend *b, const tern_prepared *prepared, size_t op)
{
    size_t number;
    tern_backend *inner = tern_paged__of(b)->inner;
    const tern_paged_part *part = part_of(prepared, op, &number);
    inner->trial->give_up(inner, part->prepared, number);
}

static tern_status weight_read(tern_backend *b, const tern_buffer *buffer, const tern_weight *weight, tern_weight *out,
                               tern_error *err)
{
    tern_backend *inner = tern_paged__of(b)->inner;
    if (!buffer->inner || !inner->trial->weight_read) return no_access(b, err);
    return inner->trial->weight_read(inner, buffer->inner, weight, out, err);
}

static const tern_backend_trial trial = {
    .doubt = doubt, .prove = prove, .give_up = give_up, .weight_read = weight_read};

static void fill_table(tern_paged *p)
{
    const tern_backend *inner = p->inner;
    p->base = (tern_backend){.info = inner->info,
                             .trial = inner->trial ? &trial : NULL,
                             .close = paged_close,
                             .buffer_create = buffer_create,
                             .cache_create = inner->cache_create ? cache_create : NULL,
                             .buffer_free = buffer_free,
                             .buffer_write = buffer_write,
                             .buffer_read = buffer_read,
                             .read_cancel = read_cancel,
                             .weight_create = weight_create,
                             .weight_write = inner->weight_write ? weight_write : NULL,
                             .supports = supports,
                             .prepare = tern_paged__prepare,
                             .prepared_free = tern_paged__prepared_free,
                             .run = tern_paged__run,
                             .wait = wait,
                             .memory_free = memory_free,
                             .weight_bytes = weight_bytes,
                             .counters = counters,
                             .measure = measure,
                             .profile = profile};
    snprintf(p->name, sizeof p->name, "paged %s", inner->info.name);
    p->base.info.name = p->name;
    p->base.info.max_steps = 1;
    p->base.info.samples_rows = false;
    p->base.info.copies_weights = false;
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
    p->inner = inner;
    pthread_mutex_init(&p->lock, NULL);
    fill_table(p);
    tern_paged__describe(p);
    *backend = &p->base;
    return TERN_OK;
}
