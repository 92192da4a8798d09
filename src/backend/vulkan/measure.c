/* The highest rates of the device: reads of memory, products of packed int8, multiply-adds of f32. */
#include <time.h>

#include "backend/gpu/linear/select.h"
#include "backend/gpu/measure/measure.h"
#include "backend/vulkan/device.h"
#include "base/alloc.h"
#include "ops/graph.h"
#include "ops/op.h"

static const uint64_t enough_bytes = (uint64_t)512 << 20, own_bytes = (uint64_t)1 << 30,
                      own_bytes_unified = (uint64_t)256 << 20;
enum { LARGE_BUFFER = 16 << 20, RATE_GROUPS = 4096, MAX_BUFFERS = 64 };

/* A graph of nothing but values, for dispatches that belong to no op. */
typedef struct subject {
    tern_graph graph;
    tern_op op;
    tern_value values[MAX_BUFFERS];
    tern_binding bindings[MAX_BUFFERS];
    tern_gpu_program program;
    tern_buffer *own;
    double amount; /* of one run */
} subject;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void add_value(subject *s, tern_buffer *buffer)
{
    s->values[s->graph.n_values] = (tern_value){.kind = TERN_VALUE_WEIGHT, .bytes = buffer->bytes};
    s->bindings[s->graph.n_values++] = (tern_binding){.buffer = buffer};
}

static tern_status make_own(tern_vulkan *vk, subject *s, tern_error *err)
{
    uint64_t bytes = vk->unified ? own_bytes_unified : own_bytes;
    if (bytes > vk->physical.max_buffer) bytes = vk->physical.max_buffer / LARGE_BUFFER * LARGE_BUFFER;
    tern_status status = TERN_OUT_OF_MEMORY;
    for (; status == TERN_OUT_OF_MEMORY && bytes >= LARGE_BUFFER; bytes /= 2)
        status = tern_vulkan__buffer_make(vk, bytes, TERN_VULKAN_DEVICE, &s->own, err);
    return status == TERN_OK ? tern_vulkan__buffer_zero(vk, s->own, err) : status;
}

static tern_status plan_reads(tern_vulkan *vk, subject *s, tern_buffer *const *buffers, size_t n, tern_error *err)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < n && s->graph.n_values < MAX_BUFFERS; i++)
        if (buffers[i]->bytes >= LARGE_BUFFER) {
            bytes += buffers[i]->bytes;
            add_value(s, buffers[i]);
        }
    if (bytes < enough_bytes) {
        s->graph.n_values = 0;
        TERN_TRY(make_own(vk, s, err));
        add_value(s, s->own);
    }
    for (uint32_t i = 0; i < s->graph.n_values; i++)
        TERN_TRY(tern_gpu_add_reads(&s->program, &s->op, i, &s->amount, err));
    return TERN_OK;
}

/* Whether prompts multiply ternary weights on matrix units, whose rate dot products do not show. */
static bool has_matrix_products(const tern_gpu_caps *caps)
{
    const tern_gpu_ternary_shape prompt = {.n_parts = 1, .cols = 4096, .row_bits = 4096, .rows = 4096, .tokens = 512};
    return tern_gpu_ternary_is_cooperative(tern_gpu_select_ternary_mat(caps, &prompt));
}

static tern_status plan(tern_vulkan *vk, subject *s, tern_measure what, tern_buffer *const *buffers, size_t n,
                        tern_error *err)
{
    const uint32_t n_groups =
        vk->physical.properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU ? RATE_GROUPS / 64 : RATE_GROUPS;
    switch (what) {
    case TERN_MEASURE_READ: return plan_reads(vk, s, buffers, n, err);
    case TERN_MEASURE_DOTS: return tern_gpu_add_dots(&s->program, &s->op, n_groups, &s->amount, err);
    case TERN_MEASURE_FMA: break;
    }
    return tern_gpu_add_fmas(&s->program, &s->op, n_groups, &s->amount, err);
}

/* Seconds of one submit with so many runs. */
static tern_status time_runs(tern_vulkan *vk, tern_prepared *p, uint32_t n, double *seconds, tern_error *err)
{
    for (uint32_t i = 0; i < n; i++) vk->submission[i] = p->step;
    double start = now();
    TERN_TRY(tern_vulkan__submit(vk, vk->submission, n, vk->run_fence, err));
    TERN_TRY(tern_vulkan__fence_wait(vk, vk->run_fence, 600, err));
    *seconds = now() - start;
    return TERN_OK;
}

/* The best rate of submits that take a while each, so that submitting does not count. */
static tern_status time_all(tern_vulkan *vk, tern_prepared *p, double amount, double seconds, double *rate,
                            tern_error *err)
{
    const double wanted = seconds < 0.2 ? seconds / 4 : 0.05;
    double end = now() + seconds, took;
    uint32_t n = 1;
    TERN_TRY(time_runs(vk, p, 1, &took, err)); /* warms up */
    do {
        TERN_TRY(time_runs(vk, p, n, &took, err));
        double found = amount * n / took;
        if (found > *rate) *rate = found;
        if (took < wanted / 2 && n < vk->base.info.max_steps) n *= 2;
    } while (now() < end);
    return TERN_OK;
}

static tern_status measure(tern_vulkan *vk, subject *s, tern_measure what, tern_buffer *const *buffers, size_t n,
                           double seconds, double *rate, tern_error *err)
{
    TERN_TRY(tern_vulkan__idle(vk, err));
    TERN_TRY(plan(vk, s, what, buffers, n, err));
    tern_prepared *prepared = NULL;
    TERN_TRY(tern_vulkan__prepare_program(vk, &s->program, s->bindings, &prepared, err));
    tern_status status = time_all(vk, prepared, s->amount, seconds, rate, err);
    tern_vulkan__prepared_free(vk, prepared);
    return status;
}

double tern_vulkan__measure(tern_vulkan *vk, tern_measure what, tern_buffer *const *buffers, size_t n, double seconds)
{
    const tern_backend_counters counters = vk->counters;
    const bool profile = vk->profile;
    tern_error err = {0};
    double rate = 0;
    subject *s = tern_calloc(1, sizeof *s);
    if (!s) return 0;
    vk->profile = false;
    s->op = (tern_op){.kind = TERN_OP_LINEAR, .layer = UINT32_MAX, .out = {.value = TERN_NO_VALUE}};
    s->graph = (tern_graph){.ops = &s->op, .n_ops = 1, .values = s->values, .tokens = TERN_NO_VALUE};
    s->program = (tern_gpu_program){.graph = &s->graph, .caps = &vk->caps};
    const bool is_known = what != TERN_MEASURE_DOTS || !has_matrix_products(&vk->caps);
    if (is_known && measure(vk, s, what, buffers, n, seconds, &rate, &err) != TERN_OK) rate = 0;
    tern_gpu_program_deinit(&s->program);
    tern_vulkan__buffer_free(vk, s->own);
    tern_free(s);
    vk->profile = profile;
    uint64_t pipelines = vk->counters.pipelines, hits = vk->counters.pipeline_hits;
    vk->counters = counters; /* measurements are not runs */
    vk->counters.pipelines = pipelines;
    vk->counters.pipeline_hits = hits;
    return rate;
}
