/* Kernels that a driver has not yet been seen to compute rightly are tried before they are used; what was proven is
 * remembered. */
#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/vulkan/cache.h"
#include "backend/vulkan/trial.h"
#include "base/alloc.h"

/* Values of tern_vulkan.proven. */
enum { UNKNOWN, PROVEN, CANNOT_TELL };

void tern_vulkan__proofs_open(tern_vulkan *vk, const char *folder)
{
    tern_buf known = {0};
    if (!folder || !*folder) return;
    vk->proof_path = tern_vulkan__cache_file(&vk->physical, folder, "proven");
    if (vk->proof_path && tern_vulkan__cache_read(&vk->physical, vk->proof_path, &known) &&
        known.size == sizeof vk->proven)
        for (size_t i = 0; i < sizeof vk->proven; i++) vk->proven[i] = known.data[i] == PROVEN ? PROVEN : UNKNOWN;
    tern_buf_deinit(&known);
}

static void save(tern_vulkan *vk)
{
    tern_error ignored = {0};
    if (vk->proof_path)
        tern_vulkan__cache_write(&vk->physical, vk->proof_path, vk->proven, sizeof vk->proven, &ignored);
}

/* Whether a dispatch of the op uses a kernel that nothing is known of; its name. */
static const char *doubtful(tern_vulkan *vk, const tern_gpu_program *program, uint32_t op)
{
    const char *name = NULL;
    pthread_mutex_lock(&vk->lock);
    for (size_t k = 0; k < program->n && !name; k++)
        if (program->dispatches[k].op == op && vk->proven[program->dispatches[k].pipeline] == UNKNOWN)
            name = tern_gpu_pipelines[program->dispatches[k].pipeline].name;
    pthread_mutex_unlock(&vk->lock);
    return name;
}

/* What is now known of the op's kernels: proven are those that ran. */
static void mark(tern_vulkan *vk, const tern_gpu_program *program, uint32_t op, const bool *proven)
{
    pthread_mutex_lock(&vk->lock);
    for (size_t k = 0; k < program->n; k++) {
        uint8_t *known = &vk->proven[program->dispatches[k].pipeline];
        if (program->dispatches[k].op == op && *known != PROVEN) *known = CANNOT_TELL;
    }
    for (size_t i = 0; i < TERN_GPU_PIPELINE_COUNT; i++)
        if (proven[i]) vk->proven[i] = PROVEN;
    save(vk);
    pthread_mutex_unlock(&vk->lock);
}

void tern_vulkan__pipelines_of(const tern_prepared *prepared, bool *used)
{
    for (size_t k = 0; k < prepared->program.n; k++) used[prepared->program.dispatches[k].pipeline] = true;
}

static tern_status wrong(const tern_vulkan *vk, const char *kernel, const char *what, tern_error *err)
{
    return tern_fail(err, TERN_UNSUPPORTED,
                     "vulkan: %s with %s computes the kernel %s wrong (%s): another version of the driver may not; "
                     "--backend cpu does without",
                     vk->physical.properties.deviceName, vk->physical.driver, kernel, what);
}

static tern_status try_op(tern_vulkan *vk, const tern_prepared *prepared, uint32_t op, const tern_binding *bindings,
                          tern_backend *cpu, tern_vulkan_prepare_fn prepare, tern_error *err)
{
    const tern_graph *graph = prepared->graph;
    const char *kernel = doubtful(vk, &prepared->program, op);
    char what[256];
    bool used[TERN_GPU_PIPELINE_COUNT] = {false};
    tern_vulkan_side device = {.backend = &vk->base, .prepare = prepare, .weights = bindings, .used = used};
    tern_vulkan_side host = {.backend = cpu, .prepare = cpu->prepare, .apart = true};
    tern_status status = tern_vulkan__try_op(graph, &graph->ops[op], &device, &host, what, sizeof what, err);
    if (status == TERN_UNSUPPORTED || status == TERN_OUT_OF_MEMORY) {
        memset(used, 0, sizeof used);
        mark(vk, &prepared->program, op, used);
        return TERN_OK;
    }
    if (status != TERN_OK) return status;
    if (what[0]) return wrong(vk, kernel, what, err);
    mark(vk, &prepared->program, op, used);
    return TERN_OK;
}

tern_status tern_vulkan__self_test(tern_vulkan *vk, const tern_prepared *prepared, const tern_binding *bindings,
                                   tern_vulkan_prepare_fn prepare, tern_error *err)
{
    tern_backend *cpu = NULL;
    tern_status status = TERN_OK;
    for (uint32_t op = 0; op < prepared->graph->n_ops && status == TERN_OK; op++) {
        if (!doubtful(vk, &prepared->program, op)) continue;
        tern_cpu_options options = {.n_threads = vk->n_threads};
        if (!cpu) status = tern_cpu_open(&cpu, &options, err);
        if (status == TERN_OK) status = try_op(vk, prepared, op, bindings, cpu, prepare, err);
    }
    if (cpu) cpu->close(cpu);
    return status;
}
