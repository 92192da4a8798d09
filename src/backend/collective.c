#include "backend/collective.h"

void tern_collective_begin(tern_collective_place *places, uint32_t n_owners, const tern_collective_tensor *tensors,
                           size_t n)
{
    for (uint32_t r = 0; r < n_owners; r++) places[r] = (tern_collective_place){.tensors = tensors, .n = n, .owner = r};
}

tern_collective_part tern_collective_next_part(tern_collective_place *p, size_t most)
{
    for (; p->tensor < p->n; p->tensor++, p->at = 0) {
        const tern_collective_tensor *t = &p->tensors[p->tensor];
        const uint64_t left = t->bytes - p->at;
        if (t->owner != p->owner || left == 0) continue;
        const tern_collective_part next = {t, p->at, left < most ? (size_t)left : most};
        p->at += next.bytes;
        return next;
    }
    return (tern_collective_part){0};
}

static tern_collective_piece next_piece(tern_collective_place *p, size_t most)
{
    tern_collective_piece next = {.from = *p};
    while (next.bytes < most) {
        const size_t bytes = tern_collective_next_part(p, most - next.bytes).bytes;
        if (bytes == 0) break;
        next.bytes += bytes;
    }
    return next;
}

bool tern_collective_next(tern_collective_place *places, tern_collective_piece *pieces, uint32_t n_owners, size_t most)
{
    bool any = false;
    for (uint32_t r = 0; r < n_owners; r++) {
        pieces[r] = next_piece(&places[r], most);
        any = any || pieces[r].bytes;
    }
    return any;
}
