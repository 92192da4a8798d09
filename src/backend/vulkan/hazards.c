/* Where barriers are needed between steps that run on one queue. */
#include "backend/vulkan/device.h"

static bool overlap(const tern_vulkan_access *a, const tern_vulkan_access *b)
{
    return a->buffer == b->buffer && (a->written || b->written) && a->offset < b->offset + b->bytes &&
           b->offset < a->offset + a->bytes;
}

static bool conflicts(const tern_vulkan_hazards *h, const tern_vulkan_access *step, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < h->n; k++)
            if (overlap(&step[i], &h->items[k])) return true;
    return false;
}

bool tern_vulkan__hazard(tern_vulkan_hazards *h, const tern_vulkan_access *step, uint32_t n)
{
    bool barrier = h->n + n > TERN_VULKAN_MAX_ACCESSES || conflicts(h, step, n);
    if (barrier) h->n = 0;
    for (uint32_t i = 0; i < n; i++) h->items[h->n++] = step[i];
    return barrier;
}
