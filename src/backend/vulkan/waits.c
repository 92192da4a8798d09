/* The trial of workgroups that wait for those of the dispatch before: whether a device runs the earlier ones first, and
 * shows the later ones what they wrote (decision 0061). */
#include "backend/gpu/measure/measure.h"
#include "backend/vulkan/device.h"
#include "backend/vulkan/vulkan.h"
#include "base/alloc.h"
#include "ops/graph.h"
#include "ops/op.h"

/* GROUPS: more than any device runs at once. */
enum { ROUNDS = 12, GROUPS = 16384, GROUPS_ON_CPU = 128 };

/* A graph of two rows of numbers, for dispatches that belong to no op. */
typedef struct subject {
    tern_graph graph;
    tern_op op;
    tern_value values[2];
    tern_binding bindings[2];
    tern_gpu_program program;
    uint32_t n;
} subject;

static tern_status make_rows(tern_vulkan *vk, subject *s, tern_error *err)
{
    for (int i = 0; i < 2; i++) {
        tern_buffer *buffer = NULL;
        TERN_TRY(tern_vulkan__buffer_make(vk, s->n * sizeof(uint32_t), TERN_VULKAN_DEVICE, &buffer, err));
        s->bindings[i].buffer = buffer;
        s->values[i] = (tern_value){.kind = TERN_VALUE_ACTIVATION, .bytes = buffer->bytes};
        TERN_TRY(tern_vulkan__buffer_zero(vk, buffer, err));
    }
    return TERN_OK;
}

static tern_status run_once(tern_vulkan *vk, tern_prepared *p, tern_error *err)
{
    TERN_TRY(tern_vulkan__upload_flush(vk, err));
    TERN_TRY(tern_vulkan__submit(vk, (VkCommandBuffer[]){p->step, p->after}, 2, vk->run_fence, err));
    TERN_TRY(tern_vulkan__fence_wait(vk, vk->run_fence, 600, err));
    if (p->n_mirrored) p->mirrored[0]->mirror_fresh = true;
    tern_status status = tern_vulkan__check_waits(vk, p, err);
    if (status == TERN_INTERNAL) err->code = status = TERN_UNSUPPORTED; /* in vain */
    return status;
}

static tern_status check_row(tern_vulkan *vk, const subject *s, tern_error *err)
{
    uint32_t *row = tern_calloc(s->n, sizeof *row), wrong = 0;
    if (!row) return tern_fail_alloc(err, s->n * sizeof *row);
    tern_status status = tern_vulkan__buffer_read(vk, s->bindings[ROUNDS % 2].buffer, 0, row, s->n * sizeof *row, err);
    for (uint32_t i = 0; i < s->n && status == TERN_OK; i++) wrong += row[i] != ROUNDS;
    tern_free(row);
    if (status != TERN_OK || wrong == 0) return status;
    return tern_fail(
        err, TERN_UNSUPPORTED,
        "vulkan: %s (%s) does not show workgroups that wait what those of the dispatch before wrote: %u of "
        "%u numbers are wrong",
        vk->physical.properties.deviceName, vk->physical.driver, wrong, s->n);
}

static tern_status try_chain(tern_vulkan *vk, subject *s, tern_error *err)
{
    TERN_TRY(make_rows(vk, s, err));
    TERN_TRY(tern_gpu_add_waits(&s->program, &s->op, s->n, ROUNDS, err));
    tern_prepared *prepared = NULL;
    TERN_TRY(tern_vulkan__prepare_program(vk, &s->program, s->bindings, &prepared, err));
    tern_status status = run_once(vk, prepared, err);
    if (status == TERN_OK) status = check_row(vk, s, err);
    tern_vulkan__prepared_free(vk, prepared);
    return status;
}

tern_status tern_vulkan__try_waits(tern_vulkan *vk, tern_error *err)
{
    const tern_backend_counters counters = vk->counters;
    const bool on_cpu = vk->physical.properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
    if (!vk->caps.waits)
        return tern_fail(err, TERN_UNSUPPORTED, "vulkan: %s binds too few buffers for workgroups that wait",
                         vk->physical.properties.deviceName);
    TERN_TRY(tern_vulkan__idle(vk, err));
    subject s = {.n = on_cpu ? GROUPS_ON_CPU : GROUPS,
                 .op = {.kind = TERN_OP_LINEAR, .layer = UINT32_MAX, .out = {.value = TERN_NO_VALUE}}};
    s.graph = (tern_graph){.ops = &s.op, .n_ops = 1, .values = s.values, .n_values = 2, .tokens = TERN_NO_VALUE};
    s.program = (tern_gpu_program){.graph = &s.graph, .caps = &vk->caps};
    tern_status status = try_chain(vk, &s, err);
    tern_gpu_program_deinit(&s.program);
    for (int i = 0; i < 2; i++) tern_vulkan__buffer_free(vk, s.bindings[i].buffer);
    vk->counters = counters; /* trials are not runs */
    return status;
}

/* Where nobody has said: on discrete GPUs, once they have passed. */
static bool is_usual(const tern_vulkan *vk)
{
    return vk->caps.waits && vk->physical.properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
}

tern_status tern_vulkan__waits_open(tern_vulkan *vk, tern_vulkan_waits asked, tern_error *err)
{
    if (asked == TERN_VULKAN_WAITS_OFF) return TERN_OK;
    if (asked == TERN_VULKAN_WAITS_DEFAULT && !is_usual(vk)) return TERN_OK;
    vk->waits = asked == TERN_VULKAN_WAITS_DEFAULT && tern_vulkan__waits_proven(vk);
    if (vk->waits) return TERN_OK; /* by an earlier start */
    tern_status status = tern_vulkan__try_waits(vk, err);
    vk->waits = status == TERN_OK;
    if (vk->waits) tern_vulkan__prove_waits(vk);
    return status == TERN_UNSUPPORTED && asked == TERN_VULKAN_WAITS_DEFAULT ? TERN_OK : status; /* `tern devices` */
}
