/* Where barriers are needed between steps that run on one queue. */
#include "backend/vulkan/order.h"

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

static void forget(tern_vulkan_hazards *h)
{
    h->n = h->n_before = h->n_chain = 0;
    h->in_chain = false;
}

bool tern_vulkan__hazard(tern_vulkan_hazards *h, const tern_vulkan_access *step, uint32_t n, bool beside)
{
    if (!beside) h->n_before = h->n;
    bool barrier = h->in_chain || h->n + n > TERN_VULKAN_MAX_ACCESSES || conflicts(h, h->n_before, step, n);
    if (barrier) forget(h);
    for (uint32_t i = 0; i < n; i++) h->items[h->n++] = step[i];
    return barrier;
}

/* Whether waiting alone would not show it what a dispatch of the chain has written, or keep the two apart. */
static bool unseen(const tern_vulkan_hazards *h, const tern_vulkan_access *step, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < h->n_chain; k++)
            if (overlap(&step[i], &h->chain[k]) && !(step[i].coherent && h->chain[k].coherent)) return true;
    return false;
}

static bool is_known(const tern_vulkan_hazards *h, const tern_vulkan_access *a)
{
    for (uint32_t k = 0; k < h->n_chain; k++) {
        const tern_vulkan_access *b = &h->chain[k];
        if (a->buffer == b->buffer && a->offset == b->offset && a->bytes == b->bytes && a->coherent == b->coherent)
            return true;
    }
    return false;
}

bool tern_vulkan__hazard_waiting(tern_vulkan_hazards *h, const tern_vulkan_access *step, uint32_t n)
{
    bool barrier = h->n_chain + n > TERN_VULKAN_MAX_ACCESSES || conflicts(h, h->n, step, n) || unseen(h, step, n);
    if (barrier) forget(h);
    for (uint32_t i = 0; i < n; i++)
        if (step[i].written && !is_known(h, &step[i])) h->chain[h->n_chain++] = step[i];
    h->in_chain = true;
    return barrier;
}
