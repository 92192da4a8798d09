/* The division of a device's memory between weights, experts, and keys and values. */
#include "infer/engine/tiers.h"

#include <stdlib.h>
#include <string.h>

#include "backend/spill/spill.h"
#include "base/cpu.h"
#include "base/show.h"
#include "infer/engine/memory_need.h"
#include "infer/experts/cache.h"

tern_status tern_kv_room_parse(const char *text, tern_kv_room *room, tern_error *err)
{
    char *end = "";
    *room = (tern_kv_room){.all = text && strcmp(text, "all") == 0};
    if (!text || room->all || strcmp(text, "auto") == 0) return TERN_OK;
    static const char units[] = "KMGT";
    const double number = *text >= '0' && *text <= '9' ? strtod(text, &end) : 0;
    const char *unit = number > 0 && *end ? strchr(units, *end) : NULL;
    if (number > 0 && number < 1e6 && unit && !end[1]) {
        room->bytes = (uint64_t)(number * (double)(1ull << (10 * (unit - units + 1))));
        return TERN_OK;
    }
    return tern_fail(err, TERN_INVALID_ARGUMENT, "kv-memory %s: bytes (800M, 3.5G), \"auto\" or \"all\" expected",
                     tern_show_z(text).text);
}

/* The memory that experts free where only the fewest that a step needs are on the device. */
static tern_status bytes_spared_by_paging(tern_backend *b, tern_engine *engine, const tern_engine_params *params,
                                          const tern_runner_params *session, uint64_t *bytes, tern_error *err)
{
    uint64_t all, least;
    *bytes = 0;
    if (!tern_experts_may_page(b, engine, params)) return TERN_OK;
    TERN_TRY(tern_experts_bytes(b, engine, session, &all, &least, err));
    *bytes = all > least ? all - least : 0;
    return TERN_OK;
}

/* Bytes that are left for keys and values beside all else. *room 0: all of them fit, or not even one head of a layer
 * does. */
static tern_status largest_kv_room(tern_backend *b, tern_engine *engine, const tern_engine_params *params,
                                   const tern_runner_params *session, uint64_t *room, tern_error *err)
{
    tern_memory_needs needs;
    uint64_t spare;
    *room = 0;
    TERN_TRY(tern_memory_needs_of(engine, session, true, &needs, err));
    const tern_memory_need *need = &needs.sides[0];
    if (!need->free || need->total <= need->free) return TERN_OK;
    TERN_TRY(bytes_spared_by_paging(b, engine, params, session, &spare, err));
    const uint64_t other = need->total - need->cache > spare ? need->total - need->cache - spare : 0,
                   left = need->free > other ? need->free - other : 0, margin = left / 16;
    if (left >= need->cache) return TERN_OK; /* they fit once experts are paged */
    if (left - margin >= need->least_layer) *room = left - margin;
    return TERN_OK;
}

static tern_status check_host(const tern_engine *engine, const tern_memory_need *need, tern_error *err)
{
    const uint64_t host = tern_cpu_memory_free();
    const double gib = 1 << 30;
    if (!host || need->cache <= host || tern_engine_no_memory_check(engine)) return TERN_OK;
    return tern_fail(err, TERN_OUT_OF_MEMORY,
                     "keys and values take %.2f GiB of the host's memory, %.2f GiB are free: a folder for them "
                     "(--kv-disk), smaller ones (--kv) or a shorter context (-c) expected",
                     (double)need->cache / gib, (double)host / gib);
}

static tern_status spill(tern_backend **backend, tern_engine *engine, const tern_engine_params *params,
                         const tern_runner_params *session, uint64_t room, tern_error *err)
{
    tern_memory_needs needs;
    tern_backend *spilling;
    TERN_TRY(tern_memory_needs_of(engine, session, false, &needs, err));
    if (!params->kv_disk && room < needs.sides[0].cache) TERN_TRY(check_host(engine, &needs.sides[0], err));
    TERN_TRY(tern_spill_open(&spilling, *backend, &(tern_spill_options){.bytes = room, .disk = params->kv_disk}, err));
    *backend = spilling;
    return TERN_OK;
}

static tern_status check_kv_room(const tern_backend *b, const tern_engine_params *params, bool split, tern_error *err)
{
    const char *option = params->kv_memory.bytes ? "kv-memory" : "kv-disk";
    if (split) return tern_fail(err, TERN_UNSUPPORTED, "option %s: all layers on one device expected", option);
    if (b->info.never_waits)
        return tern_fail(err, TERN_UNSUPPORTED, "option %s: %s found, a device whose calls can block expected", option,
                         b->info.name);
    if (params->ranks) return tern_fail(err, TERN_UNSUPPORTED, "option %s: one process expected", option);
    if (b->info.unified && !params->kv_disk && !params->kv_on_host)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "option %s: %s has no memory but the host's: a folder for what has no room there (kv-disk) "
                         "expected",
                         option, b->info.device ? b->info.device : "the CPU");
    return TERN_OK;
}

static tern_status spill_if_wanted(tern_backend **backend, tern_engine *engine, const tern_engine_params *params,
                                   const tern_runner_params *session, tern_error *err)
{
    tern_backend *b = *backend, *sides[TERN_BACKEND_MAX_SIDES];
    const bool asked = params->kv_memory.bytes || params->kv_disk, split = tern_backend_sides(b, sides) > 1;
    uint64_t room = params->kv_memory.bytes;
    if (params->kv_memory.all) return TERN_OK;
    if (asked) TERN_TRY(check_kv_room(b, params, split, err));
    else if (split || b->info.never_waits || params->ranks || b->info.unified) return TERN_OK;
    if (!room) TERN_TRY(largest_kv_room(b, engine, params, session, &room, err));
    return room ? spill(backend, engine, params, session, room, err) : TERN_OK;
}

tern_status tern_engine__tiers(tern_backend **backend, tern_engine *engine, const tern_engine_params *params,
                               const tern_runner_params *session, tern_error *err)
{
    TERN_TRY(spill_if_wanted(backend, engine, params, session, err));
    return tern_engine__page_experts(backend, engine, params, session, err);
}
