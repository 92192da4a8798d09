/* The types of a cache of keys and values: which a session gets, how large its pages are, and what its files say. */
#ifndef TERN_INFER_ENGINE_KV_TYPES_H
#define TERN_INFER_ENGINE_KV_TYPES_H

#include "ops/dtype.h"
#include "tern/infer.h"

typedef struct tern_backend tern_backend; /* backend/backend.h */
typedef struct tern_config tern_config;   /* model/model.h */

/* Whether a model on a backend (NULL: any) can have a cache of such types. Errors: UNSUPPORTED (heads that are not a
 * multiple of a type's blocks, a backend without caches in blocks). */
tern_status tern_kv_check(tern_cache_types types, const tern_config *config, const tern_backend *backend,
                          tern_error *err);
/* The types of a cache of n_ctx positions, AUTO resolved (tern/infer.h), and checked. Errors: INVALID_ARGUMENT (no such
 * type), those of tern_kv_check. */
tern_status tern_kv_resolve(tern_kv_types wanted, const tern_config *config, uint32_t n_ctx,
                            const tern_backend *backend, tern_cache_types *types, tern_error *err);

/* Bytes of a page of one layer's keys, or values, of such a type. */
uint64_t tern_kv_page_bytes(const tern_config *config, tern_dtype type);
/* The type of the i-th cache: those of K and V take turns, layer by layer. */
static inline tern_dtype tern_kv_type_at(tern_cache_types types, size_t i)
{
    return i % 2 ? types.v : types.k;
}

/* Both types as the flags of a file. Bits 0 to 7: that of the keys, 0 f16, 1 f32, 2 q8_0, 3 q4_0; bits 8 to 15: that of
 * the values plus 1, 0 where it is the same. */
uint32_t tern_kv_flags(tern_cache_types types);

typedef struct tern_kv_name {
    char text[32];
} tern_kv_name;
/* "f16", or "q8_0 and f16" where keys and values differ; "unknown". */
tern_kv_name tern_kv_name_of(uint32_t flags);

#endif
