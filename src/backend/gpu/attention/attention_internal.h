/* Inside the lowering of attention: what its files share. */
#ifndef TERN_BACKEND_GPU_ATTENTION_ATTENTION_INTERNAL_H
#define TERN_BACKEND_GPU_ATTENTION_ATTENTION_INTERNAL_H

#include "backend/gpu/gpu_internal.h"

#define TERN_GPU_LOG2E 0x1.715476p+0f

/* A cache that is larger than a binding is bound in slices of whole pages, a dispatch for each. */
typedef struct tern_gpu_cache {
    bool f32;
    uint32_t n_pages, n_slices, slice_pages; /* of each slice but the last, which may have fewer */
    uint64_t page_bytes;
} tern_gpu_cache;

/* The K cache of an op; the V cache is alike. Errors: UNSUPPORTED, where it would have too many slices. */
tern_status tern_gpu__cache_of(const tern_gpu_program *p, const tern_op *op, tern_view view, tern_gpu_cache *out,
                               tern_error *err);
uint32_t tern_gpu__slice_pages(const tern_gpu_cache *cache, uint32_t slice);
void tern_gpu__bind_cache(tern_gpu_dispatch *d, tern_view view, const tern_gpu_cache *cache, uint32_t slice,
                          bool written);
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
