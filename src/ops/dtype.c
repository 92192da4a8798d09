/* The table of the types that caches of keys and values can have. */
#include "ops/dtype.h"

static const tern_cache_type types[] = {
#define TERN_CACHE_TYPE(X, name, NAME, elements, bytes) {#name, TERN_DTYPE_##NAME, elements, bytes},
    TERN_CACHE_TYPE_LIST(TERN_CACHE_TYPE, )
#undef TERN_CACHE_TYPE
};

enum { N_TYPES = sizeof types / sizeof *types };

const tern_cache_type *tern_cache_type_at(size_t i)
{
    return i < N_TYPES ? &types[i] : NULL;
}

const tern_cache_type *tern_cache_type_of(tern_dtype dtype)
{
    for (size_t i = 0; i < N_TYPES; i++)
        if (types[i].dtype == dtype) return &types[i];
    return NULL;
}
