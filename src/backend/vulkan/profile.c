/* Timestamps of every dispatch: times for each kind of op, and for each kernel and value. */
#include <stdio.h>
#include <string.h>

#include "backend/vulkan/device.h"
#include "base/alloc.h"
#include "ops/graph.h"
#include "ops/op.h"
#include "quant/weight.h"

tern_status tern_vulkan__profile_open(tern_vulkan *vk, tern_prepared *p, tern_error *err)
{
    if (vk->physical.timestamp_bits == 0)
        return tern_fail(err, TERN_UNSUPPORTED, "vulkan: %s has no timestamps, so it cannot be profiled",
                         vk->physical.properties.deviceName);
    uint32_t n = (uint32_t)p->program.n + 1;
    p->ticks = tern_calloc(n, sizeof *p->ticks);
    if (!p->ticks) return tern_fail_alloc(err, n * sizeof *p->ticks);
    VkQueryPoolCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO, .queryType = VK_QUERY_TYPE_TIMESTAMP, .queryCount = n};
    return tern_vulkan__check(vk, vk->fn.CreateQueryPool(vk->device, &info, NULL, &p->queries), "vkCreateQueryPool",
                              err);
}

/* "ffn_down-3" without its layer. */
static void name_of(const tern_prepared *p, const tern_gpu_dispatch *d, char *out, size_t cap)
{
    const tern_op *op = &p->graph->ops[d->op];
    const char *name = op->out.value == TERN_NO_VALUE ? tern_op_name(op->kind) : p->graph->values[op->out.value].name;
    if (!*name) name = tern_op_name(op->kind);
    snprintf(out, cap, "%.*s", (int)cap - 1, name);
    char *dash = strrchr(out, '-');
    if (dash && dash[1 + strspn(dash + 1, "0123456789")] == 0) *dash = 0;
}

static tern_profile_row *row_of(tern_vulkan *vk, const tern_prepared *p, const tern_gpu_dispatch *d, tern_error *err)
{
    char name[sizeof vk->rows->name];
    name_of(p, d, name, sizeof name);
    const char *pipeline = tern_gpu_pipelines[d->pipeline].name;
    for (size_t i = 0; i < vk->n_rows; i++) {
        const tern_profile_row *r = &vk->rows[i];
        if (r->pipeline == pipeline && r->rows == d->weight_rows && r->cols == d->weight_cols &&
            r->tokens == d->weight_tokens && strcmp(r->name, name) == 0)
            return &vk->rows[i];
    }
    void *items = vk->rows;
    if (tern_grow(&items, &vk->cap_rows, vk->n_rows + 1, sizeof *vk->rows, err) != TERN_OK) return NULL;
    vk->rows = items;
    tern_profile_row *row = &vk->rows[vk->n_rows++];
    *row = (tern_profile_row){
        .pipeline = pipeline, .rows = d->weight_rows, .cols = d->weight_cols, .tokens = d->weight_tokens};
    const tern_op *op = &p->graph->ops[d->op];
    if (d->weight_tokens) row->encoding = p->graph->values[op->in[TERN_LINEAR_W].value].weight->encoding;
    memcpy(row->name, name, sizeof row->name);
    return row;
}

static tern_status add(tern_vulkan *vk, const tern_prepared *p, const tern_gpu_dispatch *d, uint64_t ns,
                       tern_error *err)
{
    const tern_op *op = &p->graph->ops[d->op];
    bool head = op->kind == TERN_OP_LINEAR && op->rows == TERN_ROWS_OUTPUTS;
    *(head ? &vk->counters.head_ns : &vk->counters.op_ns[op->kind]) += ns;
    tern_profile_row *row = row_of(vk, p, d, err);
    if (!row) return TERN_OUT_OF_MEMORY;
    row->n++;
    row->ns += ns;
    row->weight_bytes += d->weight_bytes;
    return TERN_OK;
}

tern_status tern_vulkan__profile_take(tern_vulkan *vk, tern_prepared *p, tern_error *err)
{
    uint32_t n = (uint32_t)p->program.n + 1;
    VkResult result = vk->fn.GetQueryPoolResults(vk->device, p->queries, 0, n, n * sizeof *p->ticks, p->ticks,
                                                 sizeof *p->ticks, VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT);
    TERN_TRY(tern_vulkan__check(vk, result, "vkGetQueryPoolResults", err));
    uint64_t mask = vk->physical.timestamp_bits >= 64 ? UINT64_MAX : ((uint64_t)1 << vk->physical.timestamp_bits) - 1;
    double period = (double)vk->physical.properties.limits.timestampPeriod;
    for (uint32_t k = 0; k + 1 < n; k++) {
        uint64_t ticks = (p->ticks[k + 1] - p->ticks[k]) & mask;
        TERN_TRY(add(vk, p, &p->program.dispatches[k], (uint64_t)((double)ticks * period), err));
    }
    return TERN_OK;
}
