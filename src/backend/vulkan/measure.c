/* What the device can do at most: reading memory, products of packed int8, multiply-adds of f32. */
#include <time.h>

#include "backend/vulkan/device.h"
#include "base/alloc.h"

static const uint64_t enough_bytes = (uint64_t)512 << 20, own_bytes = (uint64_t)1 << 30,
                      own_bytes_unified = (uint64_t)256 << 20;
enum {
    LARGE_BUFFER = 16 << 20,
    LOAD_BYTES = 16,
    RATE_GROUPS = 4096,
    RATE_ROUNDS = 1024,
    DOTS_OF_ROUND = 32,
    FMAS_OF_ROUND = 32,
    MAX_BUFFERS = 64
};

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

static tern_gpu_dispatch *add_dispatch(subject *s, tern_gpu_pipeline pipeline, uint32_t groups, tern_error *err)
{
    tern_gpu_dispatch *d = tern_gpu__add(&s->program, &s->op, pipeline, groups, 1, 1, err);
    if (d) d->uniform[0] = 0x9e3779b9; /* "never": neither zeros nor weights give it, and the compiler cannot know */
    return d;
}

/* Dispatches that read all of a value, as far as whole workgroups go. */
static tern_status add_reads(tern_vulkan *vk, subject *s, uint32_t value, tern_error *err)
{
    uint64_t group_bytes = (uint64_t)tern_gpu_pipelines[TERN_GPU_READ_BANDWIDTH].invocations *
                           tern_gpu_override(TERN_GPU_READ_BANDWIDTH, "LOADS", 0) * LOAD_BYTES;
    uint64_t most = vk->caps.max_groups < vk->caps.max_binding / group_bytes ? vk->caps.max_groups
                                                                             : vk->caps.max_binding / group_bytes;
    uint64_t left = s->values[value].bytes / group_bytes;
    for (uint64_t at = 0; left;) {
        uint64_t groups = left < most ? left : most;
        tern_gpu_dispatch *d = add_dispatch(s, TERN_GPU_READ_BANDWIDTH, (uint32_t)groups, err);
        if (!d) return TERN_OUT_OF_MEMORY;
        tern_gpu__bind(d, (tern_gpu_range){.value = value, .offset = at, .bytes = groups * group_bytes});
        tern_gpu__bind_nothing(d); /* what is never written */
        s->amount += (double)(groups * group_bytes);
        at += groups * group_bytes;
        left -= groups;
    }
    return TERN_OK;
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
    for (uint32_t i = 0; i < s->graph.n_values; i++) TERN_TRY(add_reads(vk, s, i, err));
    return TERN_OK;
}

/* Groups of a kernel that does nothing but multiply and add, `each` in a round of an invocation. */
static tern_status plan_rate(tern_vulkan *vk, subject *s, tern_gpu_pipeline pipeline, uint32_t factor, uint32_t each,
                             tern_error *err)
{
    uint32_t groups =
        vk->physical.properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU ? RATE_GROUPS / 64 : RATE_GROUPS;
    tern_gpu_dispatch *d = add_dispatch(s, pipeline, groups, err);
    if (!d) return TERN_OUT_OF_MEMORY;
    d->uniform[1] = RATE_ROUNDS;
    d->uniform[2] = factor;
    tern_gpu__bind_nothing(d); /* what is never written */
    s->amount = (double)groups * tern_gpu_pipelines[pipeline].invocations * RATE_ROUNDS * each;
    return TERN_OK;
}

static tern_status plan(tern_vulkan *vk, subject *s, tern_measure what, tern_buffer *const *buffers, size_t n,
                        tern_error *err)
{
    switch (what) {
    case TERN_MEASURE_READ: return plan_reads(vk, s, buffers, n, err);
    case TERN_MEASURE_DOTS: return plan_rate(vk, s, TERN_GPU_DOT_RATE, 0x01ff0301, DOTS_OF_ROUND, err);
    case TERN_MEASURE_FMA: break;
    }
    return plan_rate(vk, s, TERN_GPU_FMA_RATE, tern_gpu__float_bits(0.9375f), FMAS_OF_ROUND, err);
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
        if (took < wanted / 2 && n < vk->base.max_steps) n *= 2;
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
    if (measure(vk, s, what, buffers, n, seconds, &rate, &err) != TERN_OK) rate = 0;
    tern_gpu_program_deinit(&s->program);
    tern_vulkan__buffer_free(vk, s->own);
    tern_free(s);
    vk->profile = profile;
    uint64_t pipelines = vk->counters.pipelines, hits = vk->counters.pipeline_hits;
    vk->counters = counters; /* what was measured with is no run */
    vk->counters.pipelines = pipelines;
    vk->counters.pipeline_hits = hits;
    return rate;
}
