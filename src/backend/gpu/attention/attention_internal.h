/* Inside the lowering of attention: what its files share. */
#ifndef TERN_BACKEND_GPU_ATTENTION_ATTENTION_INTERNAL_H
#define TERN_BACKEND_GPU_ATTENTION_ATTENTION_INTERNAL_H

#include "backend/gpu/attention/select.h"
#include "backend/gpu/gpu_internal.h"

#define TERN_GPU_LOG2E 0x1.715476p+0f

/* One of the caches of an op: keys, or values. */
typedef struct tern_gpu_cache_side {
    uint32_t value, bits; /* bits: of codes; 0: it has no blocks */
    uint64_t page_bytes;
} tern_gpu_cache_side;

/* The caches of an op. Where one is larger than a binding, both are bound in slices of whole pages, a dispatch for
 * each. */
typedef struct tern_gpu_cache {
    tern_gpu_kv kv;
    tern_gpu_cache_side k, v;
    uint32_t n_pages, n_slices, slice_pages; /* of each slice but the last, which may have fewer */
} tern_gpu_cache;

/* Errors: UNSUPPORTED, where types are mixed or heads are such that no kernel takes them, or where there would be too
 * many slices. */
tern_status tern_gpu__cache_of(const tern_gpu_program *p, const tern_op *op, tern_view k, tern_view v,
                               tern_gpu_cache *out, tern_error *err);
uint32_t tern_gpu__slice_pages(const tern_gpu_cache *cache, uint32_t slice);
/* Keys, then values. */
void tern_gpu__bind_caches(tern_gpu_dispatch *d, const tern_gpu_cache *cache, uint32_t slice, bool written);

/* The treatment of scores (scores.wesl), by the names of its kernels' uniforms. */
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
