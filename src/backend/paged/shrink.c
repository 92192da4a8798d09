/* Rooms that give up slots while the backend runs, because others want the device's memory. */
#include "backend/paged/paged_internal.h"

enum { STEPS_BETWEEN = 8, PARTS_KEPT = 3, PARTS = 4 };

void tern_paged__describe(tern_paged *p)
{
    tern_paged_info info = {.n_all = p->options.n_layers * p->options.n_experts};
    for (uint32_t i = 0; i < p->rooms.n; i++) {
        const tern_paged_room *room = &p->rooms.rooms[i];
        info.n_slots += room->slots.n_slots;
        for (uint32_t k = 0; k < room->n_weights; k++) {
            info.slot_bytes += room->weights[k].bytes;
            info.all_bytes += (uint64_t)room->n_layers * room->of[k]->bytes;
        }
    }
    p->info = info;
    p->wrap.base.info.paged = &p->info;
}

/* A backend whose budget is used up, or taken back in part, says 1. */
static bool is_full(const tern_backend *inner)
{
    return inner->memory_free && inner->memory_free(inner) == 1;
}

static tern_status make_rooms(tern_paged *p, tern_error *err)
{
    for (uint32_t i = 0; i < p->rooms.n; i++)
        for (uint32_t k = 0; k < p->rooms.rooms[i].n_weights; k++)
            TERN_TRY(tern_paged__room_make(p, &p->rooms.rooms[i], k, err));
    for (tern_prepared *g = p->prepared; g; g = g->next) TERN_TRY(tern_paged__make_parts(p, g, err));
    p->incomplete = false;
    return TERN_OK;
}

/* Everything that uses the rooms goes first. */
static tern_status exchange_rooms(tern_paged *p, uint32_t n_slots, tern_error *err)
{
    tern_paged_rooms fewer;
    TERN_TRY(tern_paged__rooms_init(&fewer, &p->options, n_slots, err));
    for (tern_prepared *g = p->prepared; g; g = g->next) tern_paged__free_parts(p, g);
    for (uint32_t i = 0; i < p->rooms.n; i++) p->evictions += p->rooms.rooms[i].slots.evictions;
    tern_paged__rooms_deinit(&p->rooms, p->wrap.inner);
    p->rooms = fewer;
    p->options.n_slots = n_slots;
    p->incomplete = true;
    tern_paged__describe(p);
    return make_rooms(p, err);
}

tern_status tern_paged__shrink(tern_paged *p, tern_error *err)
{
    const uint32_t least = tern_paged_slots_least(&p->options);
    uint32_t n = p->options.n_slots / PARTS * PARTS_KEPT;
    if (p->incomplete) return make_rooms(p, err);
    if (p->runs % STEPS_BETWEEN || p->options.n_slots <= least || !is_full(p->wrap.inner)) return TERN_OK;
    if (n < least) n = least;
    TERN_TRY(p->wrap.inner->wait(p->wrap.inner, err));
    return exchange_rooms(p, n, err);
}
