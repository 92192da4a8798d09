/* Ranks whose devices exchange among themselves, without the host between. */
#ifndef TERN_BACKEND_PEERS_H
#define TERN_BACKEND_PEERS_H

#include "backend/backend.h"
#include "backend/collective.h"
#include "ranks/ranks.h"

enum { TERN_PEER_NAME_BYTES = 128, TERN_PEERS_WHY_BYTES = 160 };

/* The functions of a backend for it; all ranks make the same calls in the same order. */
typedef struct tern_backend_peers {
    /* The number of this device among all of all machines; empty, with the reason in `why`, where it cannot be
     * joined. */
    void (*identify)(tern_backend *b, char name[static TERN_PEER_NAME_BYTES], char why[static TERN_PEERS_WHY_BYTES]);
    /* Joins the devices of all ranks, tries the way between them, and names it in info.exchange. The ranks are borrowed
     * for the call. Errors: INTERNAL (with the words of the library), IO. */
    tern_status (*join)(tern_backend *b, tern_ranks *ranks, tern_error *err);
    /* As tern_collective_add, _spread and _end of train/collective.h. */
    tern_status (*add)(tern_backend *b, const tern_collective_tensor *tensors, size_t n,
                       const tern_collective_passes *passes, tern_error *err);
    tern_status (*spread)(tern_backend *b, const tern_collective_tensor *tensors, size_t n, tern_error *err);
    tern_status (*finish)(tern_backend *b, tern_error *err);
} tern_backend_peers;

/* Joins the backends of all ranks, which all call it, where each can be and has a device of its own: info.joined says
 * so then. Elsewhere info.exchange says why not, and what ranks exchange goes through memory of the host. Once for a
 * backend; ranks NULL: none. Errors: IO, those of the backend. */
tern_status tern_backend_join(tern_backend *backend, tern_ranks *ranks, tern_error *err);

#endif
