/* Threads of a GPU's backend, and packing by them. */
#include "backend/gpu/workers.h"

#include <stdatomic.h>

#include "base/cpu.h"
#include "base/pool.h"
#include "quant/weight.h"

enum { TASK_BYTES = 1 << 20, MOST_THREADS = 16 };

tern_status tern_gpu_workers_open(tern_gpu_workers *workers, tern_error *err)
{
    if (workers->pool) return TERN_OK;
    const uint32_t cores = tern_cpu_cores(), usual = cores < MOST_THREADS ? cores : MOST_THREADS;
    return tern_pool_open(&workers->pool, workers->n_threads ? workers->n_threads : usual, false, err);
}

/* Rows that are packed together, in tasks of some rows each. */
typedef struct packing {
    const tern_gpu_layout *layout;
    const tern_weight *weight;
    uint32_t first, n, rows_of_task;
    uint8_t *out;
    atomic_int status;
} packing;

static void pack_task(void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    packing *p = context;
    const uint32_t begin = task * p->rows_of_task, left = p->n - begin;
    const uint32_t n = left < p->rows_of_task ? left : p->rows_of_task;
    uint8_t *out = p->out + (size_t)begin * p->layout->row_bytes;
    const tern_status status = tern_gpu_pack_rows(p->layout, p->weight, p->first + begin, n, out, NULL);
    if (status != TERN_OK) atomic_store(&p->status, (int)status);
}

tern_status tern_gpu_workers_pack(tern_gpu_workers *workers, const tern_gpu_layout *layout, const tern_weight *w,
                                  uint32_t first, uint32_t n, uint8_t *out, tern_error *err)
{
    const uint32_t rows = TASK_BYTES / layout->row_bytes;
    packing p = {.layout = layout, .weight = w, .first = first, .n = n, .rows_of_task = rows ? rows : 1, .out = out};
    const uint32_t n_tasks = (n + p.rows_of_task - 1) / p.rows_of_task;
    if (n_tasks == 1) {
        pack_task(&p, 0, 0);
    } else {
        TERN_TRY(tern_gpu_workers_open(workers, err));
        tern_pool_for(workers->pool, n_tasks, pack_task, &p);
    }
    const tern_status status = (tern_status)atomic_load(&p.status);
    if (status == TERN_OK) return TERN_OK;
    return tern_fail(err, status, "%s: packing for the device: %s", w->name, tern_status_words(status));
}
