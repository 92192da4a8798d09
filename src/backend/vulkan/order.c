/* Deciding what keeps the dispatches of a step in order, and the counters of those that wait. */
#include "backend/vulkan/order.h"

#include "backend/vulkan/device.h"
#include "base/alloc.h"

static bool is_waiting(tern_gpu_pipeline pipeline)
{
    return (tern_gpu_pipelines[pipeline].needs & TERN_GPU_NEEDS_WAITS) != 0;
}

void tern_vulkan__take_waiting(const tern_vulkan *vk, tern_gpu_program *program)
{
    if (!vk->waits || vk->profile) return; /* a profile is of one dispatch after the other */
    for (size_t k = 0; k < program->n; k++) {
        tern_gpu_dispatch *d = &program->dispatches[k];
        const tern_gpu_pipeline twin = tern_gpu_waiting(d->pipeline);
        if (d->beside || (k + 1 < program->n && program->dispatches[k + 1].beside)) continue; /* they run together */
        if (twin < TERN_GPU_PIPELINE_COUNT && tern_gpu_pipeline_fits(twin, &vk->caps)) d->pipeline = twin;
    }
}

/* The effects of a dispatch on buffers; how many of accesses it fills. */
static uint32_t accesses_of(const tern_vulkan *vk, const tern_prepared *p, size_t k,
                            tern_vulkan_access accesses[static TERN_GPU_MAX_BINDINGS])
{
    const tern_gpu_dispatch *d = &p->program.dispatches[k];
    const tern_vulkan_module *module = &vk->modules[d->pipeline];
    uint32_t n = 0;
    for (uint32_t i = 0; i < d->n_bindings; i++) {
        if (d->bindings[i].value == TERN_GPU_NOTHING) continue;
        const tern_vulkan_bound *at = &p->bound[k][i];
        /* the abilities of the kernel, whatever it is used for */
        const bool written = module->writes >> i & 1, coherent = module->coherent >> i & 1;
        accesses[n++] = (tern_vulkan_access){at->buffer, at->offset, at->bytes, written, coherent};
    }
    return n;
}

static uint32_t workgroups(const tern_gpu_dispatch *d)
{
    return d->groups[0] * d->groups[1] * d->groups[2];
}

/* Decides all places; how many slots there are. */
static uint32_t decide(const tern_vulkan *vk, tern_prepared *p)
{
    tern_vulkan_hazards hazards = {0};
    const tern_gpu_dispatch *before = NULL; /* the last that waits */
    uint32_t slot = 0;
    for (size_t k = 0; k < p->program.n; k++) {
        const tern_gpu_dispatch *d = &p->program.dispatches[k];
        tern_vulkan_place *place = &p->places[k];
        tern_vulkan_access accesses[TERN_GPU_MAX_BINDINGS];
        const uint32_t n = accesses_of(vk, p, k, accesses);
        place->waiting = is_waiting(d->pipeline);
        if (!place->waiting) {
            place->barrier = tern_vulkan__hazard(&hazards, accesses, n, d->beside);
            continue;
        }
        const bool chained = hazards.in_chain;
        place->barrier = tern_vulkan__hazard_waiting(&hazards, accesses, n) || !before; /* the counters' copy */
        if (chained && !place->barrier) place->number = workgroups(before);
        else if (before) slot++; /* the chain before lowers a counter that nobody waits for */
        place->slot = slot++;
        before = d;
    }
    return before ? slot + 1 : 0;
}

static uint64_t verdict_at(const tern_prepared *p)
{
    return p->waits->bytes - sizeof(uint32_t);
}

/* The slots, and one more for the verdict, which a step's start leaves as it is. */
static tern_status make_counters(tern_vulkan *vk, tern_prepared *p, uint32_t n_slots, tern_error *err)
{
    const uint64_t bytes = (uint64_t)n_slots * TERN_VULKAN_SLOT_BYTES;
    TERN_TRY(tern_vulkan__buffer_make(vk, bytes + TERN_VULKAN_SLOT_BYTES, TERN_VULKAN_DEVICE, &p->waits, err));
    TERN_TRY(tern_vulkan__buffer_zero(vk, p->waits, err));
    TERN_TRY(tern_vulkan__buffer_mirror(vk, p->waits, bytes, TERN_VULKAN_SLOT_BYTES, err));
    TERN_TRY(tern_vulkan__buffer_make(vk, bytes, TERN_VULKAN_DEVICE, &p->waits_at_start, err));
    uint32_t *words = tern_calloc(n_slots, TERN_VULKAN_SLOT_BYTES);
    if (!words) return tern_fail_alloc(err, bytes);
    for (size_t k = 0; k < p->program.n; k++) {
        const tern_vulkan_place *place = &p->places[k];
        if (place->waiting) words[place->slot * TERN_VULKAN_SLOT_BYTES / sizeof *words] = place->number;
    }
    tern_status status = tern_vulkan__buffer_write(vk, p->waits_at_start, 0, words, bytes, err);
    tern_free(words);
    return status;
}

/* Each sees its slot and all that follow: where it is, a kernel does not know. */
static void bind_counters(tern_prepared *p)
{
    for (size_t k = 0; k < p->program.n; k++) {
        if (!p->places[k].waiting) continue;
        const uint64_t at = (uint64_t)p->places[k].slot * TERN_VULKAN_SLOT_BYTES;
        p->bound[k][p->program.dispatches[k].n_bindings] = (tern_vulkan_bound){p->waits, at, p->waits->bytes - at};
    }
}

tern_status tern_vulkan__put_in_order(tern_vulkan *vk, tern_prepared *p, tern_error *err)
{
    p->places = tern_calloc(p->program.n, sizeof *p->places);
    if (!p->places) return tern_fail_alloc(err, p->program.n * sizeof *p->places);
    const uint32_t n_slots = decide(vk, p);
    if (n_slots == 0) return TERN_OK;
    TERN_TRY(make_counters(vk, p, n_slots, err));
    bind_counters(p);
    return TERN_OK;
}

tern_status tern_vulkan__check_waits(tern_vulkan *vk, const tern_prepared *p, tern_error *err)
{
    if (!p->waits) return TERN_OK;
    const uint64_t downloaded = vk->counters.downloaded_bytes;
    uint32_t in_vain = 0;
    TERN_TRY(tern_vulkan__buffer_read(vk, p->waits, verdict_at(p), &in_vain, sizeof in_vain, err));
    vk->counters.downloaded_bytes = downloaded;
    if (!in_vain) return TERN_OK;
    return tern_fail(err, TERN_INTERNAL,
                     "vulkan: on %s (%s) a workgroup waited in vain for the dispatch before: the results are wrong; "
                     "TERN_VULKAN_WAITS=0 turns waiting off",
                     vk->physical.properties.deviceName, vk->physical.driver);
}
