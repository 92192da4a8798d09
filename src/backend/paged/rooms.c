/* The slots on the device: weights as long as some experts, and bringing an expert into one. */
#include <stdio.h>
#include <string.h>

#include "backend/paged/paged_internal.h"
#include "base/alloc.h"
#include "base/bytes.h"
#include "base/file.h"
#include "quant/encoding.h"

static bool alike(const tern_weight *a, const tern_weight *b)
{
    return a->encoding == b->encoding && a->rows == b->rows && a->cols == b->cols;
}

static bool belongs(const tern_paged_room *room, const tern_paged_layer *layer)
{
    bool same = room->n_weights == layer->n;
    for (uint32_t i = 0; i < layer->n && same; i++) same = alike(room->of[i], layer->weights[i]);
    return same;
}

static void place(tern_paged_rooms *r, const tern_paged_options *o, uint32_t layer)
{
    const tern_paged_layer *l = &o->layers[layer];
    uint32_t i = 0;
    while (i < r->n && !belongs(&r->rooms[i], l)) i++;
    tern_paged_room *room = &r->rooms[i];
    if (i == r->n) {
        r->n++;
        room->n_weights = l->n;
        memcpy(room->of, l->weights, sizeof room->of);
    }
    r->places[layer] = (tern_paged_place){.room = i, .layer = room->n_layers++};
}

static tern_status place_all(tern_paged_rooms *r, const tern_paged_options *o, tern_error *err)
{
    r->rooms = tern_calloc(o->n_layers, sizeof *r->rooms);
    r->places = tern_calloc(o->n_layers, sizeof *r->places);
    if (!r->rooms || !r->places) return tern_fail_alloc(err, o->n_layers * sizeof *r->rooms);
    for (uint32_t layer = 0; layer < o->n_layers; layer++) place(r, o, layer);
    return TERN_OK;
}

/* A room's share of all slots, at least the experts of a token, at most all experts of its layers. */
static uint32_t slots_of(const tern_paged_room *room, const tern_paged_options *o, uint32_t n_slots)
{
    const uint64_t share = (uint64_t)n_slots * room->n_layers / o->n_layers,
                   all = (uint64_t)room->n_layers * o->n_experts;
    const uint64_t most = share < all ? share : all;
    return most < o->n_used ? o->n_used : (uint32_t)most;
}

uint32_t tern_paged__rows(const tern_paged_room *room, uint32_t index)
{
    return room->weights[index].rows / room->slots.n_slots;
}

/* Ternary weights get a scale for each row: those of layers differ. */
static tern_status size_weight(tern_paged_room *room, uint32_t i, uint32_t n_experts, tern_error *err)
{
    const tern_weight *of = room->of[i];
    const uint64_t rows = (uint64_t)(of->rows / n_experts) * room->slots.n_slots;
    size_t row_bytes;
    if (of->rows % n_experts || rows > UINT32_MAX)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: %u rows, a multiple of %u experts expected", of->name,
                         of->rows, n_experts);
    TERN_TRY(tern_encoding_row_bytes(of->encoding, of->cols, &row_bytes, err));
    tern_weight *w = &room->weights[i];
    *w = (tern_weight){.encoding = of->encoding, .rows = (uint32_t)rows, .cols = of->cols, .scale = of->scale};
    snprintf(w->name, sizeof w->name, "%s", of->name);
    TERN_TRY(tern_encoding_bytes(w->encoding, w->rows, w->cols, &w->bytes, err));
    if (!of->encoding->ternary) return TERN_OK;
    room->row_scales[i] = tern_calloc(w->rows, sizeof(float));
    w->row_scales = room->row_scales[i];
    return w->row_scales ? TERN_OK : tern_fail_alloc(err, w->rows * sizeof(float));
}

static tern_status size_room(tern_paged_room *room, const tern_paged_options *o, uint32_t n_slots, tern_error *err)
{
    TERN_TRY(tern_slots_init(&room->slots, slots_of(room, o, n_slots), room->n_layers, o->n_experts, o->n_used, err));
    for (uint32_t i = 0; i < room->n_weights; i++) TERN_TRY(size_weight(room, i, o->n_experts, err));
    return TERN_OK;
}

tern_status tern_paged__rooms_init(tern_paged_rooms *rooms, const tern_paged_options *o, uint32_t n_slots,
                                   tern_error *err)
{
    *rooms = (tern_paged_rooms){0};
    tern_status status = place_all(rooms, o, err);
    for (uint32_t i = 0; i < rooms->n && status == TERN_OK; i++) status = size_room(&rooms->rooms[i], o, n_slots, err);
    if (status != TERN_OK) tern_paged__rooms_deinit(rooms, NULL);
    return status;
}

static void room_deinit(tern_paged_room *room, tern_backend *inner)
{
    for (uint32_t i = 0; i < room->n_weights; i++) {
        if (inner && room->inner[i]) inner->buffer_free(inner, room->inner[i]);
        tern_free_aligned(room->host[i]);
        tern_free(room->row_scales[i]);
    }
    tern_slots_deinit(&room->slots);
}

void tern_paged__rooms_deinit(tern_paged_rooms *rooms, tern_backend *inner)
{
    for (uint32_t i = 0; i < rooms->n; i++) room_deinit(&rooms->rooms[i], inner);
    tern_free(rooms->rooms);
    tern_free(rooms->places);
    *rooms = (tern_paged_rooms){0};
}

uint32_t tern_paged_slots_least(const tern_paged_options *options)
{
    tern_paged_rooms rooms = {0};
    uint32_t n = options->n_used;
    if (place_all(&rooms, options, NULL) == TERN_OK) n *= rooms.n;
    tern_paged__rooms_deinit(&rooms, NULL);
    return n;
}

static tern_status add_bytes(const tern_backend *inner, const tern_paged_room *room, uint64_t *bytes, tern_error *err)
{
    for (uint32_t i = 0; i < room->n_weights; i++) {
        uint64_t more = room->weights[i].bytes;
        if (inner->weight_write && inner->weight_bytes)
            TERN_TRY(inner->weight_bytes(inner, &room->weights[i], &more, err));
        *bytes += more;
    }
    return TERN_OK;
}

tern_status tern_paged_bytes(const tern_backend *inner, const tern_paged_options *options, uint32_t n_slots,
                             uint64_t *bytes, tern_error *err)
{
    tern_paged_rooms rooms;
    *bytes = 0;
    TERN_TRY(tern_paged__rooms_init(&rooms, options, n_slots, err));
    tern_status status = TERN_OK;
    for (uint32_t i = 0; i < rooms.n && status == TERN_OK; i++) status = add_bytes(inner, &rooms.rooms[i], bytes, err);
    tern_paged__rooms_deinit(&rooms, NULL);
    return status;
}

static tern_status make_data(tern_paged_room *room, uint32_t i, tern_error *err)
{
    tern_weight *w = &room->weights[i];
    const size_t tail = w->encoding->tail_bytes;
    room->host[i] = tern_alloc_aligned(w->bytes, 64);
    if (!room->host[i]) return tern_fail_alloc(err, w->bytes);
    memset(room->host[i], 0, w->bytes);
    if (tail) tern_store_f32(room->host[i] + w->bytes - tail, 1);
    w->data = room->host[i];
    return TERN_OK;
}

tern_status tern_paged__room_make(tern_paged *p, tern_paged_room *room, uint32_t i, tern_error *err)
{
    if (room->inner[i]) return TERN_OK;
    if (!p->wrap.inner->weight_write && !room->host[i]) TERN_TRY(make_data(room, i, err));
    return p->wrap.inner->weight_create(p->wrap.inner, &room->weights[i], &room->inner[i], err);
}

/* The scales of a ternary expert's rows go to the room's, from where they are written. */
static void take_scales(tern_paged_room *room, uint32_t i, const tern_weight *of, uint32_t expert, uint32_t slot)
{
    const uint32_t n = tern_paged__rows(room, i);
    float *to = room->row_scales[i];
    if (!to) return;
    for (uint32_t r = 0; r < n; r++) to[slot * n + r] = of->row_scales ? of->row_scales[expert * n + r] : of->scale;
}

static tern_status copy_weight(tern_paged *p, tern_paged_room *room, uint32_t i, const tern_weight *of,
                               const uint8_t *data, uint32_t slot, tern_error *err)
{
    const uint32_t n = tern_paged__rows(room, i);
    size_t row_bytes;
    TERN_TRY(tern_encoding_row_bytes(of->encoding, of->cols, &row_bytes, err));
    tern_weight part = room->weights[i];
    memcpy(part.name, of->name, sizeof part.name);
    part.rows = n;
    part.data = data;
    part.bytes = n * row_bytes;
    if (part.row_scales) part.row_scales += slot * n;
    p->copied_bytes += part.bytes;
    if (p->wrap.inner->weight_write)
        return p->wrap.inner->weight_write(p->wrap.inner, room->inner[i], &part, slot * n, err);
    memcpy(room->host[i] + slot * part.bytes, data, part.bytes);
    return TERN_OK;
}

/* Where the rows of an expert are. */
static tern_status find_data(const tern_paged *p, uint32_t layer, uint32_t expert,
                             const uint8_t *data[TERN_PAGED_MAX_WEIGHTS], tern_error *err)
{
    const tern_paged_layer *l = &p->layers[layer];
    if (p->options.fetch) return p->options.fetch(p->options.context, layer, expert, data, err);
    for (uint32_t i = 0; i < l->n; i++) {
        const tern_weight *w = l->weights[i];
        size_t row_bytes;
        TERN_TRY(tern_encoding_row_bytes(w->encoding, w->cols, &row_bytes, err));
        data[i] = w->data + (size_t)expert * (w->rows / p->options.n_experts) * row_bytes;
    }
    return TERN_OK;
}

void tern_paged__want(const tern_paged *p, uint32_t layer, uint32_t expert)
{
    const tern_paged_layer *l = &p->layers[layer];
    const uint8_t *data[TERN_PAGED_MAX_WEIGHTS] = {0};
    if (p->options.fetch || find_data(p, layer, expert, data, NULL) != TERN_OK) return;
    for (uint32_t i = 0; i < l->n; i++)
        if (data[i]) tern_file_want(data[i], (size_t)(l->weights[i]->bytes / p->options.n_experts));
}

static tern_status copy(tern_paged *p, uint32_t layer, uint32_t expert, uint32_t slot, tern_error *err)
{
    tern_paged_room *room = &p->rooms.rooms[p->rooms.places[layer].room];
    const uint8_t *data[TERN_PAGED_MAX_WEIGHTS] = {0};
    TERN_TRY(find_data(p, layer, expert, data, err));
    for (uint32_t i = 0; i < room->n_weights; i++) {
        const tern_weight *of = p->layers[layer].weights[i];
        if (!data[i]) return tern_fail(err, TERN_INTERNAL, "%s: nothing was brought", of->name);
        take_scales(room, i, of, expert, slot);
        TERN_TRY(copy_weight(p, room, i, of, data[i], slot, err));
    }
    return TERN_OK;
}

tern_status tern_paged__copy(tern_paged *p, uint32_t layer, uint32_t expert, uint32_t slot, tern_error *err)
{
    const tern_status status = copy(p, layer, expert, slot, err);
    return status == TERN_OK ? TERN_OK : tern_error_prefix(err, "expert %u of layer %u", expert, layer);
}
