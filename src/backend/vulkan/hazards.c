/* Where barriers are needed between steps that run on one queue. */
#include "backend/vulkan/device.h"

static bool overlap(const tern_vulkan_access *a, const tern_vulkan_access *b)
{
    return a->buffer == b->buffer && (a->written || b->written) && a->offset < b->offset + b->bytes &&
           b->offset < a->offset + a->bytes;
}

/* With one of the first n_before accesses. */
static bool conflicts(const tern_vulkan_hazards *h, uint32_t n_before, const tern_vulkan_access *step, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < n_before; k++)
            if (overlap(&step[i], &h->items[k])) return true;
    return false;
}

bool tern_vulkan__hazard(tern_vulkan_hazards *h, const tern_vulkan_access *step, uint32_t n, bool beside)
{
    if (!beside) h->n_before = h->n;
    bool barrier = h->n + n > TERN_VULKAN_MAX_ACCESSES || conflicts(h, h->n_before, step, n);
    if (barrier) h->n = h->n_before = 0;
    for (uint32_t i = 0; i < n; i++) h->items[h->n++] = step[i];
    return barrier;
}
