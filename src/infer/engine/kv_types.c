/* The types of a cache of keys and values. */
#include "infer/engine/kv_types.h"

#include <stdio.h>

#include "backend/backend.h"
#include "model/model.h"

enum { SMALL_CACHE_BYTES = 64 << 20, VALUE_SHIFT = 8, TYPE_MASK = 255 };

static tern_dtype default_type(tern_kv_type other, const tern_config *c, uint32_t n_ctx)
{
    const uint64_t bytes = 2ull * sizeof(float) * c->n_layers * c->n_kv_heads * c->head_dim * n_ctx;
    if (other == TERN_KV_F16) return TERN_DTYPE_F16;
    return other == TERN_KV_F32 || bytes <= SMALL_CACHE_BYTES ? TERN_DTYPE_F32 : TERN_DTYPE_F16;
}

static tern_status resolve(tern_kv_type wanted, tern_kv_type other, const tern_config *c, uint32_t n_ctx,
                           tern_dtype *out, tern_error *err)
{
    static const tern_dtype dtypes[] = {[TERN_KV_F16] = TERN_DTYPE_F16,
                                        [TERN_KV_F32] = TERN_DTYPE_F32,
                                        [TERN_KV_Q8_0] = TERN_DTYPE_Q8_0,
                                        [TERN_KV_Q4_0] = TERN_DTYPE_Q4_0};
    if ((uint32_t)wanted >= sizeof dtypes / sizeof *dtypes)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "cache type %d: %d to %d expected", (int)wanted, TERN_KV_AUTO,
                         TERN_KV_Q4_0);
    *out = wanted == TERN_KV_AUTO ? default_type(other, c, n_ctx) : dtypes[wanted];
    return TERN_OK;
}

static tern_status check_heads(tern_dtype dtype, const tern_config *c, tern_error *err)
{
    const tern_cache_type *type = tern_cache_type_of(dtype);
    if (c->head_dim % type->elements == 0) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED, "cache type %s: heads of %u numbers: a multiple of %u expected", type->name,
                     c->head_dim, type->elements);
}

static bool in_blocks(tern_dtype type)
{
    return tern_cache_type_of(type)->elements > 1;
}

static tern_status check_backend(tern_cache_types types, const tern_config *c, const tern_backend *b, tern_error *err)
{
    const tern_kv_name name = tern_kv_name_of(tern_kv_flags(types));
    const bool blocks = in_blocks(types.k) || in_blocks(types.v);
    if (!b) return TERN_OK;
    if (blocks && !b->info.cache_blocks)
        return tern_fail(err, TERN_UNSUPPORTED, "%s: cache type %s: f16 or f32, the same for keys and values, expected",
                         b->info.name, name.text);
    if (!b->info.mixes_caches && types.k != types.v && !(in_blocks(types.k) && in_blocks(types.v)))
        return tern_fail(err, TERN_UNSUPPORTED,
                         "%s: cache type %s: f16 or f32, the same for keys and values%s, expected", b->info.name,
                         name.text, b->info.cache_blocks ? ", or types with blocks" : "");
    if (blocks && c->head_dim % b->info.cache_blocks)
        return tern_fail(err, TERN_UNSUPPORTED, "%s: cache type %s: heads of %u numbers: a multiple of %u expected",
                         b->info.name, name.text, c->head_dim, b->info.cache_blocks);
    return TERN_OK;
}

tern_status tern_kv_check(tern_cache_types types, const tern_config *config, const tern_backend *backend,
                          tern_error *err)
{
    TERN_TRY(check_heads(types.k, config, err));
    TERN_TRY(check_heads(types.v, config, err));
    return check_backend(types, config, backend, err);
}

tern_status tern_kv_resolve(tern_kv_types wanted, const tern_config *config, uint32_t n_ctx,
                            const tern_backend *backend, tern_cache_types *types, tern_error *err)
{
    TERN_TRY(resolve(wanted.k, wanted.v, config, n_ctx, &types->k, err));
    TERN_TRY(resolve(wanted.v, wanted.k, config, n_ctx, &types->v, err));
    return tern_kv_check(*types, config, backend, err);
}

uint64_t tern_kv_page_bytes(const tern_config *config, tern_dtype type)
{
    return tern_row_bytes(type, config->n_kv_heads * config->head_dim, TERN_PAGE_SIZE);
}

/* The number of a type in files: its place in the list. */
static uint32_t number_of(tern_dtype type)
{
    uint32_t i = 0;
    while (tern_cache_type_at(i) && tern_cache_type_at(i)->dtype != type) i++;
    return i;
}

uint32_t tern_kv_flags(tern_cache_types types)
{
    return number_of(types.k) | (types.k == types.v ? 0 : (number_of(types.v) + 1) << VALUE_SHIFT);
}

tern_kv_name tern_kv_name_of(uint32_t flags)
{
    tern_kv_name name;
    const uint32_t values = flags >> VALUE_SHIFT;
    const tern_cache_type *k = tern_cache_type_at(flags & TYPE_MASK), *v = values ? tern_cache_type_at(values - 1) : k;
    if (!k || !v) snprintf(name.text, sizeof name.text, "unknown");
    else snprintf(name.text, sizeof name.text, k == v ? "%s" : "%s and %s", k->name, v->name);
    return name;
}
