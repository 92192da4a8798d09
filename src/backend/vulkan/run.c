/* Running prepared graphs: one submit, one fence. */
#include "backend/vulkan/device.h"
#include "ops/graph.h"
#include "ops/value.h"

enum { WAIT_SECONDS = 120, SECONDS_OF_DISPATCH = 2 };

static void count(tern_vulkan *vk, const tern_prepared *p, uint32_t n_steps)
{
    tern_backend_counters *c = &vk->counters;
    c->runs += n_steps;
    c->ops += (uint64_t)n_steps * p->graph->n_ops;
    c->dispatches += (uint64_t)n_steps * p->program.n;
    c->layer_barriers += (uint64_t)n_steps * p->n_layer_barriers;
    c->layer_dispatches += (uint64_t)n_steps * p->n_layer_dispatches;
    c->barriers += (uint64_t)n_steps * p->n_barriers + 1;
    c->weight_bytes += n_steps * p->weight_bytes;
}

static uint64_t patience(const tern_prepared *p, uint32_t n_steps)
{
    return WAIT_SECONDS + (uint64_t)n_steps * p->program.n * SECONDS_OF_DISPATCH;
}

tern_status tern_vulkan__idle(tern_vulkan *vk, tern_error *err)
{
    TERN_TRY(tern_vulkan__alive(vk, err));
    tern_prepared *p = vk->running;
    if (!p) return TERN_OK;
    vk->running = NULL;
    TERN_TRY(tern_vulkan__fence_wait(vk, vk->run_fence, patience(p, vk->running_steps), err));
    for (uint32_t i = 0; i < p->n_mirrored; i++) p->mirrored[i]->mirror_fresh = true;
    TERN_TRY(tern_vulkan__check_waits(vk, p, err));
    return p->queries ? tern_vulkan__profile_take(vk, p, err) : TERN_OK;
}

static tern_status submit(tern_vulkan *vk, tern_prepared *p, uint32_t n_steps, tern_error *err)
{
    for (uint32_t i = 0; i < n_steps; i++) vk->submission[i] = p->step;
    vk->submission[n_steps] = p->after;
    TERN_TRY(tern_vulkan__submit(vk, vk->submission, n_steps + 1, vk->run_fence, err));
    vk->running = p;
    vk->running_steps = n_steps;
    return TERN_OK;
}

tern_status tern_vulkan__run(tern_vulkan *vk, tern_prepared *p, uint32_t n_steps, tern_error *err)
{
    if (n_steps == 0 || n_steps > vk->base.info.max_steps || (n_steps > 1 && p->graph->tokens == TERN_NO_VALUE))
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "vulkan: run of %u steps: 1 expected, or up to %u of a graph that samples", n_steps,
                         vk->base.info.max_steps);
    TERN_TRY(tern_vulkan__idle(vk, err));
    TERN_TRY(tern_vulkan__upload_flush(vk, err));
    count(vk, p, n_steps);
    if (!p->queries) return submit(vk, p, n_steps, err);
    for (uint32_t i = 0; i < n_steps; i++) { /* each with the timestamps of its own */
        TERN_TRY(tern_vulkan__idle(vk, err));
        TERN_TRY(submit(vk, p, 1, err));
    }
    return TERN_OK;
}
