/* Reading, writing and copying pages of caches, on all ranks that have a part of them. */
#include "infer/session/runner_pages.h"

#include <string.h>

#include "base/alloc.h"
#include "infer/engine/kv_types.h"
#include "infer/follow/follow.h"
#include "model/cut.h"

static uint64_t page_bytes(const tern_runner *r, uint32_t cache)
{
    return tern_kv_page_bytes(tern_engine_config(r->engine), tern_kv_type_at(r->params.kv, cache));
}

/* The part of a page that a rank has: heads that follow each other. */
typedef struct page_part {
    uint64_t first, bytes;
} page_part;

static page_part part_of(const tern_runner *r, uint32_t cache, tern_cut cut)
{
    const tern_config *c = tern_engine_config(r->engine);
    const uint64_t head = page_bytes(r, cache) / c->n_kv_heads;
    const tern_share kv = tern_cut_heads_of(c, cut).kv;
    return (page_part){kv.first * head, kv.n * head};
}

static page_part own_part(const tern_runner *r, uint32_t cache)
{
    return part_of(r, cache, tern_model_cut(tern_engine_model(r->engine)));
}

/* Where several ranks have the same heads, the first one sends its part; of other layers nobody does. */
static void sizes_of_parts(const tern_runner *r, uint32_t cache, size_t bytes[TERN_MAX_RANKS])
{
    const tern_model *model = tern_engine_model(r->engine);
    const uint32_t layer = tern_config_cache_layer(tern_model_config(model), cache / 2);
    const uint32_t stage = tern_stage_of(tern_model_stages(model), layer);
    tern_cut cut = tern_model_cut(model);
    uint64_t end = 0;
    if (cut.n == 0) cut.n = 1;
    memset(bytes, 0, TERN_MAX_RANKS * sizeof *bytes);
    for (cut.rank = 0; cut.rank < cut.n; cut.rank++) {
        const page_part p = part_of(r, cache, cut);
        if (p.first != end) continue;
        bytes[stage * cut.n + cut.rank] = (size_t)p.bytes;
        end += p.bytes;
    }
}

static tern_status read_own(const tern_runner *r, uint32_t cache, uint32_t page, void *out, tern_error *err)
{
    tern_backend *b = tern_engine_backend(r->engine);
    const page_part own = own_part(r, cache);
    return b->buffer_read(b, r->caches.buffers[cache], page * own.bytes, out, own.bytes, err);
}

static tern_status gather_parts(const tern_runner *r, uint32_t cache, uint32_t page, uint8_t *all, tern_error *err)
{
    tern_ranks *ranks = tern_engine_ranks(r->engine);
    size_t bytes[TERN_MAX_RANKS];
    uint8_t *mine = all + own_part(r, cache).first;
    sizes_of_parts(r, cache, bytes);
    if (r->caches.buffers[cache]) TERN_TRY(read_own(r, cache, page, mine, err));
    return ranks->gather(ranks, mine, bytes, all, err);
}

tern_status tern_runner_read_page(const tern_runner *r, uint32_t cache, uint32_t page, void *out, tern_error *err)
{
    const tern_bound_message message = {TERN_MESSAGE_READ_PAGE, r->number, cache, page};
    if (!tern_engine_ranks(r->engine)) return read_own(r, cache, page, out, err);
    TERN_TRY(tern_follow__send(r->engine, message, NULL, 0, err));
    return gather_parts(r, cache, page, out, err);
}

tern_status tern_runner__send_page(const tern_runner *r, uint32_t cache, uint32_t page, tern_error *err)
{
    const uint64_t bytes = page_bytes(r, cache);
    uint8_t *all = tern_alloc(tern_size_of(bytes));
    if (!all) return tern_fail_alloc(err, bytes);
    const tern_status status = gather_parts(r, cache, page, all, err);
    tern_free(all);
    return status;
}

tern_status tern_runner_write_page(const tern_runner *r, uint32_t cache, uint32_t page, const void *bytes,
                                   tern_error *err)
{
    tern_backend *b = tern_engine_backend(r->engine);
    const page_part own = own_part(r, cache);
    const tern_bound_message message = {TERN_MESSAGE_WRITE_PAGE, r->number, cache, page};
    TERN_TRY(tern_follow__send(r->engine, message, bytes, tern_size_of(page_bytes(r, cache)), err));
    if (!r->caches.buffers[cache]) return TERN_OK;
    return b->buffer_write(b, r->caches.buffers[cache], page * own.bytes, (const uint8_t *)bytes + own.first, own.bytes,
                           err);
}

static tern_status copy_within_cache(const tern_runner *r, uint32_t cache, uint32_t from, uint32_t to, void *room,
                                     tern_error *err)
{
    tern_backend *b = tern_engine_backend(r->engine);
    const uint64_t bytes = own_part(r, cache).bytes;
    if (!r->caches.buffers[cache]) return TERN_OK;
    TERN_TRY(read_own(r, cache, from, room, err));
    return b->buffer_write(b, r->caches.buffers[cache], to * bytes, room, bytes, err);
}

tern_status tern_runner_copy_page(const tern_runner *r, uint32_t from, uint32_t to, void *room, tern_error *err)
{
    const tern_bound_message message = {TERN_MESSAGE_COPY_PAGE, r->number, from, to};
    TERN_TRY(tern_follow__send(r->engine, message, NULL, 0, err));
    for (uint32_t i = 0; i < r->caches.n; i++) TERN_TRY(copy_within_cache(r, i, from, to, room, err));
    return TERN_OK;
}

uint64_t tern_runner_page_room(const tern_runner *r)
{
    const uint64_t k = page_bytes(r, 0), v = page_bytes(r, 1);
    return k > v ? k : v;
}

static const tern_graph *any_graph(const tern_runner *r)
{
    return &r->graphs->prefill.graph;
}

uint64_t tern_runner_state_bytes(const tern_runner *r)
{
    const tern_graph *g = any_graph(r);
    uint64_t bytes = 0;
    for (size_t i = 0; i < g->n_values; i++)
        if (g->values[i].kind == TERN_VALUE_RECURRENT) bytes += g->values[i].cols * sizeof(float);
    return bytes;
}

static tern_status check_alone(const tern_runner *r, tern_error *err)
{
    if (!tern_engine_ranks(r->engine)) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED, "states of layers that recur, of several ranks: one process expected");
}

tern_status tern_runner_copy_state(const tern_runner *r, uint32_t at, uint8_t *out, const uint8_t *in, tern_error *err)
{
    tern_backend *b = tern_engine_backend(r->engine);
    const tern_graph *g = any_graph(r);
    TERN_TRY(check_alone(r, err));
    for (uint32_t i = 0; i < g->n_values; i++) {
        if (g->values[i].kind != TERN_VALUE_RECURRENT) continue;
        const uint64_t bytes = g->values[i].cols * sizeof(float);
        tern_buffer *buffer = tern_graph_buffers_at(&r->recurrent, g, i);
        if (out) TERN_TRY(b->buffer_read(b, buffer, at * bytes, out, bytes, err));
        if (in) TERN_TRY(b->buffer_write(b, buffer, at * bytes, in, bytes, err));
        out = out ? out + bytes : NULL;
        in = in ? in + bytes : NULL;
    }
    return TERN_OK;
}

tern_status tern_runner_read_state(const tern_runner *r, uint32_t n_tokens, void *out, tern_error *err)
{
    const uint32_t at = tern_runner_states_find(&r->states, n_tokens);
    if (at == r->states.n) return tern_fail(err, TERN_INTERNAL, "the state after %u tokens: it is not there", n_tokens);
    return tern_runner_copy_state(r, at, out, NULL, err);
}

tern_status tern_runner_write_state(tern_runner *r, uint32_t n_tokens, const void *bytes, tern_error *err)
{
    uint32_t from, to;
    tern_runner_states_step(&r->states, 0, n_tokens, false, &from, &to);
    return tern_runner_copy_state(r, to, NULL, bytes, err);
}
