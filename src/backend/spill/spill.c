/* Opening a backend around another one, and its table of functions: most of them are the inner one's. */
#include "backend/spill/spill.h"

#include <stdio.h>
#include <string.h>

#include "backend/range.h"
#include "backend/spill/spill_internal.h"
#include "base/alloc.h"

static void spill_close(tern_backend *b)
{
    if (!b) return;
    tern_spill *s = tern_spill__of(b);
    tern_spill__free_pools(s);
    s->inner->close(s->inner);
    pthread_mutex_destroy(&s->lock);
    tern_free(s->disk);
    tern_free(s);
}

static tern_status give(tern_status status, tern_buffer *made, tern_buffer **out)
{
    if (status == TERN_OK) *out = made;
    else tern_free(made);
    return status;
}

static tern_status buffer_create(tern_backend *b, uint64_t bytes, tern_buffer **out, tern_error *err)
{
    tern_backend *inner = tern_spill__of(b)->inner;
    tern_buffer *made = tern_calloc(1, sizeof *made);
    if (!made) return tern_fail_alloc(err, sizeof *made);
    made->bytes = bytes;
    return give(inner->buffer_create(inner, bytes, &made->inner, err), made, out);
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
        (void)s->inner->wait(s->inner, NULL); /* its pages may be on their way */
        tern_spill__half_free(s, buffer);
        pthread_mutex_unlock(&s->lock);
        return;
    }
    s->inner->buffer_free(s->inner, buffer->inner);
    tern_free(buffer->copy);
    tern_free(buffer);
}

static tern_status weight_create(tern_backend *b, const tern_weight *w, tern_buffer **out, tern_error *err)
{
    tern_backend *inner = tern_spill__of(b)->inner;
    tern_buffer *made = tern_calloc(1, sizeof *made);
    if (!made) return tern_fail_alloc(err, sizeof *made);
    made->bytes = w->bytes;
    return give(inner->weight_create(inner, w, &made->inner, err), made, out);
}

static tern_status weight_write(tern_backend *b, tern_buffer *buffer, const tern_weight *part, uint32_t first,
                                tern_error *err)
{
    tern_backend *inner = tern_spill__of(b)->inner;
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
    if (!buffer->page_bytes) return s->inner->buffer_write(s->inner, buffer->inner, offset, data, bytes, err);
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
    if (!buffer->page_bytes) return s->inner->buffer_read(s->inner, buffer->inner, offset, data, bytes, err);
    pthread_mutex_lock(&s->lock);
    const tern_status status = tern_spill__half_read(s, buffer, offset, data, bytes, err);
    pthread_mutex_unlock(&s->lock);
    return status;
}

static tern_status supports(tern_backend *b, const tern_graph *graph, const tern_op *op, tern_error *err)
{
    tern_backend *inner = tern_spill__of(b)->inner;
    if (op->kind == TERN_OP_SAMPLE) /* the host has to copy pages before each layer of each step */
        return tern_fail(err, TERN_UNSUPPORTED, "%s: op %s: the host samples where pages are copied when needed",
                         b->info.name, tern_op_name(op->kind));
    return inner->supports(inner, graph, op, err);
}

static tern_status wait(tern_backend *b, tern_error *err)
{
    tern_backend *inner = tern_spill__of(b)->inner;
    return inner->wait(inner, err);
}

static uint64_t memory_free(const tern_backend *b)
{
    const tern_backend *inner = ((const tern_spill *)b)->inner;
    return inner->memory_free(inner);
}

static tern_status weight_bytes(const tern_backend *b, const tern_weight *w, uint64_t *bytes, tern_error *err)
{
    const tern_backend *inner = ((const tern_spill *)b)->inner;
    return inner->weight_bytes(inner, w, bytes, err);
}

static void counters(const tern_backend *b, tern_backend_counters *out)
{
    tern_spill *s = (tern_spill *)(uintptr_t)b;
    s->inner->counters(s->inner, out);
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

static double measure(tern_backend *b, tern_measure what, tern_buffer *const *buffers, size_t n, double seconds)
{
    tern_spill *s = tern_spill__of(b);
    size_t n_inner = 0;
    tern_buffer **inner = tern_calloc(n + 1, sizeof *inner);
    if (!inner) return 0;
    for (size_t i = 0; i < n; i++)
        if (buffers[i]->inner) inner[n_inner++] = buffers[i]->inner;
    const double rate = s->inner->measure(s->inner, what, inner, n_inner, seconds);
    tern_free(inner);
    return rate;
}

static size_t profile(const tern_backend *b, tern_profile_row *rows, size_t cap)
{
    const tern_backend *inner = ((const tern_spill *)b)->inner;
    return inner->profile(inner, rows, cap);
}

/* The part of a prepared graph that one of its ops is in, and its number there. */
static const tern_spill_part *part_of(const tern_prepared *p, size_t op, size_t *number)
{
    size_t i = 0;
    while (i + 1 < p->n_parts && p->parts[i + 1].graph.ops <= p->ops + op) i++;
    *number = (size_t)(p->ops + op - p->parts[i].graph.ops);
    return &p->parts[i];
}

/* Of all ops that op `at` of the graph has become. */
static const char *doubt(tern_backend *b, const tern_prepared *p, size_t at)
{
    tern_backend *inner = tern_spill__of(b)->inner;
    const char *found = NULL;
    for (size_t op = p->copies[at], number; op < p->copies[at + 1] && !found; op++) {
        const tern_spill_part *part = part_of(p, op, &number);
        found = inner->trial->doubt(inner, part->prepared, number);
    }
    return found;
}

static void prove(tern_backend *b, const tern_prepared *prepared)
{
    tern_backend *inner = tern_spill__of(b)->inner;
    for (size_t i = 0; i < prepared->n_parts; i++) inner->trial->prove(inner, prepared->parts[i].prepared);
}

static void give_up(tern_backend *b, const tern_prepared *p, size_t at)
{
    tern_backend *inner = tern_spill__of(b)->inner;
    for (size_t op = p->copies[at], number; op < p->copies[at + 1]; op++) {
        const tern_spill_part *part = part_of(p, op, &number);
        inner->trial->give_up(inner, part->prepared, number);
    }
}

static tern_status weight_read(tern_backend *b, const tern_buffer *buffer, const tern_weight *weight, tern_weight *out,
                               tern_error *err)
{
    tern_backend *inner = tern_spill__of(b)->inner;
    if (inner->trial->weight_read) return inner->trial->weight_read(inner, buffer->inner, weight, out, err);
    return tern_fail(err, TERN_UNSUPPORTED, "%s: its weights cannot be read", b->info.name);
}

static const tern_backend_trial trial = {
    .doubt = doubt, .prove = prove, .give_up = give_up, .weight_read = weight_read};

static void fill_table(tern_spill *s)
{
    const tern_backend *inner = s->inner;
    s->base = (tern_backend){.info = inner->info,
                             .trial = inner->trial ? &trial : NULL,
                             .close = spill_close,
                             .buffer_create = buffer_create,
                             .cache_create = cache_create,
                             .buffer_free = buffer_free,
                             .buffer_write = buffer_write,
                             .buffer_read = buffer_read,
                             .weight_create = weight_create,
                             .weight_write = inner->weight_write ? weight_write : NULL,
                             .supports = supports,
                             .prepare = tern_spill__prepare,
                             .prepared_free = tern_spill__prepared_free,
                             .run = tern_spill__run,
                             .wait = wait,
                             .memory_free = inner->memory_free ? memory_free : NULL,
                             .weight_bytes = inner->weight_bytes ? weight_bytes : NULL,
                             .counters = counters,
                             .measure = measure,
                             .profile = profile};
    snprintf(s->name, sizeof s->name, "spill %s", inner->info.name);
    s->base.info.name = s->name;
    s->base.info.max_steps = 1;
    s->base.info.samples_rows = false;
    s->base.info.spill = &s->info;
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
    s->inner = inner;
    s->room = options->bytes;
    s->info = (tern_spill_info){.room = options->bytes, .disk = s->disk};
    pthread_mutex_init(&s->lock, NULL);
    fill_table(s);
    *backend = &s->base;
    return TERN_OK;
}
