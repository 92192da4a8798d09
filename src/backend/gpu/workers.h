/* The threads of a GPU's backend, made when the first work comes: they pack weights and compile kernels. */
#ifndef TERN_BACKEND_GPU_WORKERS_H
#define TERN_BACKEND_GPU_WORKERS_H

#include "backend/gpu/layout.h"

typedef struct tern_pool tern_pool; /* base/pool.h */

typedef struct tern_gpu_workers {
    tern_pool *pool;    /* NULL until there is work; the owner closes it */
    uint32_t n_threads; /* 0: one for each physical core, at most 16 */
} tern_gpu_workers;

/* Makes the pool where it is not there yet. Errors: those of tern_pool_open. */
tern_status tern_gpu_workers_open(tern_gpu_workers *workers, tern_error *err);
/* tern_gpu_pack_rows by all of them; one caller at a time. Errors: those of both, with the weight's name. */
tern_status tern_gpu_workers_pack(tern_gpu_workers *workers, const tern_gpu_layout *layout, const tern_weight *w,
                                  uint32_t first, uint32_t n, uint8_t *out, tern_error *err);

#endif
