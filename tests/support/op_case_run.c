/* Graphs made by hand: running them on a backend. */
#include "backend/gpu/caps.h"
#include "backend/open.h"
#if TERN_VULKAN
#include "backend/vulkan/vulkan.h"
#endif
#if TERN_WEBGPU
#include "backend/webgpu/webgpu.h"
#endif
#include "graph/bound.h"
#include "support/op_case.h"
#include "support/simulated.h"
#include "support/test.h"
#include "support/web_device.h"

enum { MAX_OPENED = 8 };

static struct {
    const char *name;
    tern_backend *backend;
} opened[MAX_OPENED];

static const char *const gpu_kinds[TEST_GPU_N_KINDS] = {TEST_GPU, TEST_GPU " without subgroups",
                                                        TEST_GPU " with the least"};

#if TERN_VULKAN
/* TERN_TEST_SIMULATE=N: the simulated GPU, with subgroups of N, in place of one that is there; with
 * TERN_TEST_COOPERATIVE=1 it has cooperative matrices (N is 32), with TERN_TEST_WAITS=1 kernels that wait. */
static tern_status open_simulated(tern_backend **backend, test_gpu_kind kind, tern_error *err)
{
    const bool least = kind == TEST_GPU_LEAST;
    tern_gpu_caps caps = {.workgroup_bytes = least ? 16384 : 49152,
                          .workgroup_invocations = least ? 128 : 1024,
                          .max_groups = 65535,
                          .max_binding = 128 << 20,
                          .binding_alignment = 256,
                          .device_fences = true};
    caps.f16 = caps.cooperative = caps.int8_matrices = kind == TEST_GPU_WHOLE && getenv("TERN_TEST_COOPERATIVE");
    caps.waits = kind == TEST_GPU_WHOLE && getenv("TERN_TEST_WAITS");
    if (kind == TEST_GPU_WHOLE) caps.subgroup_min = caps.subgroup_max = (uint32_t)atoi(getenv("TERN_TEST_SIMULATE"));
    return test_simulated_open(backend, &caps, err);
}
#endif

static const char *chosen = "cpu";

void test_backend_choose(const char *name)
{
    chosen = name;
}

bool test_on_gpu(void)
{
    return strcmp(chosen, "cpu") != 0;
}

const char *test_gpu_name(void)
{
    return test_on_gpu() ? chosen : TEST_GPU;
}

tern_backend *test_backend_here(void)
{
    return test_on_gpu() ? test_gpu_backend() : test_backend("cpu");
}

/* Limits are options of the backends that have any; others are opened as they are. */
static tern_status open_with(tern_backend **backend, const tern_gpu_caps *limits, tern_error *err)
{
    const char *name = test_gpu_name(), *device = getenv("TERN_TEST_DEVICE");
    const bool validation = getenv("TERN_TEST_VALIDATION") != NULL;
    (void)limits;
#if TERN_VULKAN
    tern_gpu_caps most = limits ? *limits : (tern_gpu_caps){0};
    most.waits = true; /* TERN_VULKAN_WAITS=1 is for all devices of a test */
    const tern_vulkan_options vulkan = {
        .n_threads = 1, .device = device, .validation = validation, .limits = limits ? &most : NULL};
    if (strcmp(name, "vulkan") == 0) return tern_vulkan_open(backend, &vulkan, err);
#endif
#if TERN_WEBGPU
    if (strcmp(name, "webgpu") == 0) {
        TERN_TRY(tern_webgpu_open(backend, &(tern_webgpu_options){.limits = limits}, err));
        test_make_waiting(*backend);
        return TERN_OK;
    }
#endif
    const tern_backend_options options = {.name = name, .n_threads = 1, .device = device, .validation = validation};
    return tern_backend_open(backend, &options, err);
}

tern_backend *test_gpu_open(const tern_gpu_caps *limits)
{
    tern_error err = {0};
    tern_backend *backend;
#if TERN_VULKAN
    if (limits && getenv("TERN_TEST_SIMULATE")) {
        assert_ok(test_simulated_open(&backend, limits, &err), err);
        return backend;
    }
#endif
    assert_ok(open_with(&backend, limits, &err), err);
    return backend;
}

static tern_status open_limited(tern_backend **backend, test_gpu_kind kind, tern_error *err)
{
    const bool least = kind == TEST_GPU_LEAST;
    const tern_gpu_caps limits = {.workgroup_bytes = least ? 16384 : UINT32_MAX,
                                  .workgroup_invocations = least ? 128 : UINT32_MAX,
                                  .max_groups = 65535,
                                  .max_binding = 128 << 20};
    return open_with(backend, &limits, err);
}

static tern_status open_anew(tern_backend **backend, const char *name, tern_error *err)
{
#if TERN_VULKAN
    for (int kind = 0; kind < TEST_GPU_N_KINDS && getenv("TERN_TEST_SIMULATE"); kind++)
        if (strcmp(name, gpu_kinds[kind]) == 0) return open_simulated(backend, (test_gpu_kind)kind, err);
#endif
    for (int kind = TEST_GPU_NO_SUBGROUPS; kind < TEST_GPU_N_KINDS; kind++)
        if (strcmp(name, gpu_kinds[kind]) == 0) return open_limited(backend, (test_gpu_kind)kind, err);
    if (strcmp(name, TEST_GPU) == 0) return open_with(backend, NULL, err);
    return tern_backend_open(backend, &(tern_backend_options){.name = name, .n_threads = 1}, err);
}

static tern_status open_named(const char *name, tern_backend **backend, tern_error *err)
{
    size_t i = 0;
    while (i < MAX_OPENED && opened[i].name && strcmp(opened[i].name, name)) i++;
    if (i == MAX_OPENED) return tern_fail(err, TERN_LIMIT, "more than %d backends", MAX_OPENED);
    if (!opened[i].name) {
        TERN_TRY(open_anew(&opened[i].backend, name, err));
        opened[i].name = name;
    }
    *backend = opened[i].backend;
    return TERN_OK;
}

tern_backend *test_backend(const char *name)
{
    tern_error err = {0};
    tern_backend *backend = NULL;
    assert_ok(open_named(name, &backend, &err), err);
    return backend;
}

int test_gpu_kinds(void)
{
    return strcmp(test_gpu_name(), "cuda") == 0 ? 1 : TEST_GPU_N_KINDS;
}

tern_backend *test_gpu_backend_of(test_gpu_kind kind)
{
    tern_error err = {0};
    tern_backend *backend = NULL;
    const tern_status status = open_named(gpu_kinds[(int)kind % test_gpu_kinds()], &backend, &err);
    if (status == TERN_OK) return backend;
    if (status != TERN_NOT_FOUND && status != TERN_UNSUPPORTED) fail_msg("%s", err.message);
    test_missing(err.message);
    return NULL;
}

tern_backend *test_gpu_backend(void)
{
    return test_gpu_backend_of(TEST_GPU_WHOLE);
}

int test_backends_close(void **state)
{
    (void)state;
    for (size_t i = 0; i < MAX_OPENED; i++) {
        if (opened[i].backend) opened[i].backend->close(opened[i].backend);
        opened[i].name = NULL;
        opened[i].backend = NULL;
    }
    return 0;
}

/* What the value holds before the run. */
static uint8_t *contents(const test_case *c, size_t i)
{
    const tern_value *v = &c->graph.values[i];
    uint8_t *bytes = malloc(v->bytes);
    if (c->initial[i]) memcpy(bytes, c->initial[i], v->bytes);
    else test_poison(bytes, v->bytes);
    return bytes;
}

static void check(const tern_backend *b, tern_status status, const tern_error *err)
{
    if (status != TERN_OK) fail_msg("%s: %s", b->info.name, err->message);
}

static void write_values(const test_case *c, const tern_bound_graph *g)
{
    tern_error err = {0};
    memcpy(g->staging, c->params, c->graph.param_bytes);
    for (uint32_t i = 0; i < c->graph.n_values; i++) {
        const tern_value *v = &c->graph.values[i];
        if (v->kind == TERN_VALUE_WEIGHT || v->kind == TERN_VALUE_PARAM || !g->bindings[i].buffer) continue;
        uint8_t *bytes = contents(c, i);
        const tern_status status = tern_bound_write(g, i, bytes, v->bytes, &err);
        free(bytes);
        check(g->backend, status, &err);
    }
}

static void read_values(const test_case *c, tern_bound_graph *g, test_results *results)
{
    tern_error err = {0};
    for (uint32_t i = 0; i < c->graph.n_values; i++) {
        const tern_value *v = &c->graph.values[i];
        if (v->kind == TERN_VALUE_WEIGHT || v->kind == TERN_VALUE_CONSTANT) continue;
        results->bytes[i] = contents(c, i);
        if (g->bindings[i].buffer) check(g->backend, tern_bound_read(g, i, results->bytes[i], v->bytes, &err), &err);
    }
}

void test_case_run(test_case *c, tern_backend *backend, uint32_t n_tokens, uint32_t n_outputs, uint32_t n_steps,
                   test_results *results)
{
    tern_error err = {0};
    tern_bound_graph g;
    uint32_t *counts = test_case_param(c, TERN_PARAM_COUNTS);
    counts[0] = n_tokens;
    counts[1] = n_outputs;
    *results = (test_results){0};
    check(backend, tern_bound_open(&g, backend, &c->graph, NULL, &err), &err);
    write_values(c, &g);
    check(backend, tern_bound_prepare(&g, &err), &err);
    check(backend, tern_bound_start(&g, n_steps, &err), &err);
    check(backend, backend->wait(backend, &err), &err);
    read_values(c, &g, results);
    tern_bound_close(&g);
}

void test_results_free(test_results *results)
{
    for (size_t i = 0; i < TEST_CASE_MAX_VALUES; i++) free(results->bytes[i]);
    *results = (test_results){0};
}

const float *test_results_row(const test_case *c, const test_results *results, tern_view view, uint32_t t)
{
    return (const float *)(const void *)results->bytes[view.value] + (size_t)t * c->graph.values[view.value].cols +
           view.first_col;
}
