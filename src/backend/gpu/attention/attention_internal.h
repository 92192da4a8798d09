/* Inside the lowering of attention: what its files share. */
#ifndef TERN_BACKEND_GPU_ATTENTION_ATTENTION_INTERNAL_H
#define TERN_BACKEND_GPU_ATTENTION_ATTENTION_INTERNAL_H

#include "backend/gpu/gpu_internal.h"

#define TERN_GPU_LOG2E 0x1.715476p+0f

/* Errors: UNSUPPORTED, when a cache is larger than a binding of the device. */
tern_status tern_gpu__check_cache(const tern_gpu_program *p, const tern_op *op, tern_view cache, tern_error *err);
/* What attention does with scores (scores.wesl), by the names of its kernels' uniforms. */
typedef struct tern_gpu_scores {
    float scale, softcap, softcap_rate;
    uint32_t window, sinks;
} tern_gpu_scores;

/* unit: what the kernel's scores are multiplied with besides: 1, or log2(e) where they are exponents of 2. */
tern_gpu_scores tern_gpu__scores(const tern_op *op, float unit);
/* The op's sinks, or nothing. */
void tern_gpu__bind_sinks(const tern_gpu_program *p, tern_gpu_dispatch *d, const tern_op *op);

/* The error of a head dimension that no kernel takes. */
tern_status tern_gpu__no_head(const tern_op *op, tern_error *err);

#endif
