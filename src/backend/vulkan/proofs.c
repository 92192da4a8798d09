/* Which kernels this driver has been seen to compute rightly; what was proven is remembered (graph/trial/trial.h). */
#include "backend/vulkan/cache.h"

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

bool tern_vulkan__waits_proven(const tern_vulkan *vk)
{
    return vk->proven[TERN_GPU_WAITS_LARGE] == PROVEN;
}

void tern_vulkan__prove_waits(tern_vulkan *vk)
{
    vk->proven[TERN_GPU_WAITS_LARGE] = PROVEN;
    save(vk);
}

static const char *doubt(tern_backend *b, const tern_prepared *prepared, size_t op)
{
    tern_vulkan *vk = tern_vulkan__self(b);
    const tern_gpu_program *program = &prepared->program;
    const char *name = NULL;
    pthread_mutex_lock(&vk->lock);
    for (size_t k = 0; k < program->n && !name; k++)
        if (program->dispatches[k].op == op && vk->proven[program->dispatches[k].pipeline] == UNKNOWN)
            name = tern_gpu_pipelines[program->dispatches[k].pipeline].name;
    pthread_mutex_unlock(&vk->lock);
    return name;
}

static void prove(tern_backend *b, const tern_prepared *prepared)
{
    tern_vulkan *vk = tern_vulkan__self(b);
    pthread_mutex_lock(&vk->lock);
    for (size_t k = 0; k < prepared->program.n; k++) vk->proven[prepared->program.dispatches[k].pipeline] = PROVEN;
    save(vk);
    pthread_mutex_unlock(&vk->lock);
}

static void give_up(tern_backend *b, const tern_prepared *prepared, size_t op)
{
    tern_vulkan *vk = tern_vulkan__self(b);
    pthread_mutex_lock(&vk->lock);
    for (size_t k = 0; k < prepared->program.n; k++) {
        uint8_t *known = &vk->proven[prepared->program.dispatches[k].pipeline];
        if (prepared->program.dispatches[k].op != op || *known != UNKNOWN) continue;
        *known = CANNOT_TELL;
        vk->counters.untried++;
    }
    pthread_mutex_unlock(&vk->lock);
}

const tern_backend_trial tern_vulkan__trial = {
    .doubt = doubt, .prove = prove, .give_up = give_up, .weight_read = tern_vulkan__weight_read};
