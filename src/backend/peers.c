#include "backend/peers.h"

#include <stdio.h>
#include <string.h>

typedef struct peer {
    char name[TERN_PEER_NAME_BYTES], why[TERN_PEERS_WHY_BYTES];
} peer;

/* Whether all can be joined, each with a device of its own; else says why not. */
static bool can_join(const peer *all, uint32_t n, char said[static TERN_EXCHANGE_BYTES])
{
    for (uint32_t r = 0; r < n; r++) {
        if (!all[r].name[0]) {
            snprintf(said, TERN_EXCHANGE_BYTES, "memory of the host (rank %u: %.*s)", r, TERN_PEERS_WHY_BYTES - 1,
                     all[r].why);
            return false;
        }
        for (uint32_t q = 0; q < r; q++) {
            if (strcmp(all[q].name, all[r].name) != 0) continue;
            snprintf(said, TERN_EXCHANGE_BYTES, "memory of the host (ranks %u and %u have one device)", q, r);
            return false;
        }
    }
    return true;
}

tern_status tern_backend_join(tern_backend *backend, tern_ranks *ranks, tern_error *err)
{
    const tern_backend_peers *peers = backend->peers;
    peer all[TERN_MAX_RANKS], mine = {0};
    size_t bytes[TERN_MAX_RANKS];
    if (!ranks || backend->info.exchange[0]) return TERN_OK;
    if (peers) peers->identify(backend, mine.name, mine.why);
    else snprintf(mine.why, sizeof mine.why, "backend \"%s\" has no other way", backend->info.name);
    for (uint32_t r = 0; r < ranks->n; r++) bytes[r] = sizeof mine;
    TERN_TRY(ranks->gather(ranks, &mine, bytes, all, err));
    if (!can_join(all, ranks->n, backend->info.exchange) || !peers) return TERN_OK;
    return peers->join(backend, ranks, err);
}
