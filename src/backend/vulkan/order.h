/* The order of the dispatches of a step: barriers, or workgroups that wait for those of the dispatch before
 * (gpu/shared/waits.wesl, decision 0061).
 *
 * A *waiting* dispatch is one of a kernel that needs TERN_GPU_NEEDS_WAITS. It reads its coherent bindings once it has
 * waited, writes nothing before, and lowers a counter in the end; its other bindings it may read at any time. Waiting
 * dispatches that follow each other without a barrier are a *chain*: each waits for all of the one before, which has
 * waited for all of the one before that. Where one has waited, all earlier ones of its chain are done. */
#ifndef TERN_BACKEND_VULKAN_ORDER_H
#define TERN_BACKEND_VULKAN_ORDER_H

#include "backend/gpu/program.h"
#include "base/error.h"

/* A graph's hazards: ranges of buffers read and written since the last barrier. See hazards.c. */
typedef struct tern_vulkan_access {
    const void *buffer;
    uint64_t offset, bytes;
    bool written;
    bool coherent; /* what is written there, a waiting dispatch sees without a barrier */
} tern_vulkan_access;

enum { TERN_VULKAN_MAX_ACCESSES = 256 };

typedef struct tern_vulkan_hazards {
    uint32_t n, n_before; /* of them before the last step that was not beside another */
    tern_vulkan_access items[TERN_VULKAN_MAX_ACCESSES];
    uint32_t n_chain; /* what the waiting dispatches since the last barrier write, each range once */
    bool in_chain;    /* there is such a dispatch */
    tern_vulkan_access chain[TERN_VULKAN_MAX_ACCESSES];
} tern_vulkan_hazards;

/* Adds what one step does. true: a barrier is needed before it (and everything known before is forgotten). `beside`: it
 * may run along with the one before it (tern_gpu_dispatch). */
bool tern_vulkan__hazard(tern_vulkan_hazards *h, const tern_vulkan_access *step, uint32_t n, bool beside);

/* As above for a waiting step. false: it must wait for the last waiting one, if there is one (in_chain before). */
bool tern_vulkan__hazard_waiting(tern_vulkan_hazards *h, const tern_vulkan_access *step, uint32_t n);

/* A dispatch's place. */
typedef struct tern_vulkan_place {
    bool barrier; /* before it */
    bool waiting;
    uint32_t slot;   /* waiting: whose counter it waits for; it lowers that of the next slot */
    uint32_t number; /* what that counter is at a step's start: workgroups that it waits for */
} tern_vulkan_place;

/* Bytes from one slot to the next: shared/waits.wesl. */
enum { TERN_VULKAN_SLOT_BYTES = 256 };

#endif
