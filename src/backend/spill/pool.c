/* Room on the device for pages of keys and values. */
#include <string.h>

#include "backend/spill/spill_internal.h"
#include "base/alloc.h"
#include "ops/op.h"

tern_spill_pool *tern_spill__pool_for(const tern_spill *s, const tern_buffer *k, const tern_buffer *v)
{
    tern_spill_pool *pool = s->pools;
    while (pool && (pool->page_bytes[TERN_SPILL_K] != k->page_bytes || pool->page_bytes[TERN_SPILL_V] != v->page_bytes))
        pool = pool->next;
    return pool;
}

bool tern_spill__halves_of(const tern_op *op, const tern_binding *bindings, uint32_t values[TERN_SPILL_HALVES])
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < tern_op_n_views(op) && n < TERN_SPILL_HALVES; i++) {
        const uint32_t value = tern_op_view(op, i).value;
        if (value == TERN_NO_VALUE || !bindings[value].buffer || !bindings[value].buffer->page_bytes) continue;
        values[n++] = value;
    }
    return n == TERN_SPILL_HALVES;
}

static void pool_free(tern_spill *s, tern_spill_pool *pool)
{
    for (int i = 0; i < TERN_SPILL_HALVES; i++)
        if (pool->buffers[i]) s->wrap.inner->buffer_free(s->wrap.inner, pool->buffers[i]);
    tern_frames_deinit(&pool->frames);
    tern_free(pool);
}

void tern_spill__free_pools(tern_spill *s)
{
    while (s->pools) {
        tern_spill_pool *pool = s->pools;
        s->pools = pool->next;
        pool_free(s, pool);
    }
    tern_free(s->zeros);
    s->zeros = NULL;
}

static tern_status make_zeros(tern_spill *s, uint64_t bytes, tern_error *err)
{
    if (bytes <= s->zero_bytes) return TERN_OK;
    uint8_t *zeros = tern_calloc(1, tern_size_of(bytes));
    if (!zeros) return tern_fail_alloc(err, bytes);
    tern_status status = s->wrap.inner->wait(s->wrap.inner, err); /* the others may be on their way */
    tern_free(s->zeros);
    s->zeros = zeros;
    s->zero_bytes = bytes;
    return status;
}

static tern_status pool_make(tern_spill *s, tern_spill_pool *pool, uint32_t n, tern_error *err)
{
    TERN_TRY(tern_frames_init(&pool->frames, n, err));
    for (int i = 0; i < TERN_SPILL_HALVES; i++) {
        TERN_TRY(make_zeros(s, pool->unit_bytes[i], err));
        TERN_TRY(s->wrap.inner->buffer_create(s->wrap.inner, n * pool->unit_bytes[i], &pool->buffers[i], err));
    }
    return TERN_OK;
}

/* Frames for `bytes`, if units are so large. */
static uint32_t frames_in(const tern_spill *s, const tern_spill_pool *pool, uint64_t bytes)
{
    const uint64_t most = s->wrap.inner->info.max_allocation, k = pool->unit_bytes[TERN_SPILL_K],
                   v = pool->unit_bytes[TERN_SPILL_V], larger = k > v ? k : v;
    uint64_t n = bytes / (k + v);
    if (most && n > most / larger) n = most / larger;
    return n > UINT32_MAX - 1 ? UINT32_MAX - 1 : (uint32_t)n;
}

/* As few groups as it takes for the largest of its layers to have room. */
static uint32_t choose_groups(const tern_spill *s, tern_spill_pool *pool, uint64_t bytes, uint32_t n_kv_heads)
{
    uint64_t most = 0;
    for (const tern_buffer *half = s->halves; half; half = half->next)
        for (int i = 0; i < TERN_SPILL_HALVES; i++)
            if (half->page_bytes == pool->page_bytes[i] && half->bytes / half->page_bytes > most)
                most = half->bytes / half->page_bytes;
    for (pool->groups = 1; pool->groups <= n_kv_heads; pool->groups++) {
        if (n_kv_heads % pool->groups) continue;
        for (int i = 0; i < TERN_SPILL_HALVES; i++) pool->unit_bytes[i] = pool->page_bytes[i] / pool->groups;
        if (pool->groups == n_kv_heads || frames_in(s, pool, bytes) >= most) break;
    }
    return frames_in(s, pool, bytes);
}

/* As many frames as there are pages, or as there is room for. */
static tern_status add_pool(tern_spill *s, const tern_buffer *k, const tern_buffer *v, uint32_t n_kv_heads,
                            uint64_t bytes, tern_error *err)
{
    tern_spill_pool *pool = tern_calloc(1, sizeof *pool);
    if (!pool) return tern_fail_alloc(err, sizeof *pool);
    pool->page_bytes[TERN_SPILL_K] = k->page_bytes;
    pool->page_bytes[TERN_SPILL_V] = v->page_bytes;
    const uint32_t n = choose_groups(s, pool, bytes, n_kv_heads);
    const tern_status status = pool_make(s, pool, n, err);
    if (status != TERN_OK) {
        pool_free(s, pool);
        return status;
    }
    pool->next = s->pools;
    s->pools = pool;
    s->taken += n * (pool->unit_bytes[TERN_SPILL_K] + pool->unit_bytes[TERN_SPILL_V]);
    s->info.taken = s->taken;
    return TERN_OK;
}

/* Bytes of all halves whose pages have no room yet; *same: of those with pages of these sizes. A graph may be a part of
 * a larger one, so that what it uses itself says nothing. */
static uint64_t count(const tern_spill *s, const tern_buffer *k, const tern_buffer *v, uint64_t *same)
{
    uint64_t all = 0;
    *same = 0;
    for (const tern_buffer *half = s->halves; half; half = half->next) {
        bool has_room = false;
        for (const tern_spill_pool *p = s->pools; p; p = p->next)
            has_room |=
                p->page_bytes[TERN_SPILL_K] == half->page_bytes || p->page_bytes[TERN_SPILL_V] == half->page_bytes;
        const bool wanted = half->page_bytes == k->page_bytes || half->page_bytes == v->page_bytes;
        if (wanted || !has_room) all += half->bytes;
        if (wanted) *same += half->bytes;
    }
    return all;
}

tern_status tern_spill__make_pool(tern_spill *s, const tern_buffer *k, const tern_buffer *v, uint32_t n_kv_heads,
                                  tern_error *err)
{
    uint64_t same;
    const tern_spill_pool *pool = tern_spill__pool_for(s, k, v);
    if (pool && n_kv_heads % pool->groups == 0) return TERN_OK;
    if (pool)
        return tern_fail(err, TERN_UNSUPPORTED,
                         "%s: keys and values of a layer of %u heads: a multiple of %u expected, as many groups as "
                         "others were cut into; more room (--kv-memory) expected",
                         s->wrap.name, n_kv_heads, pool->groups);
    const uint64_t all = count(s, k, v, &same), left = s->room - s->taken;
    return add_pool(s, k, v, n_kv_heads, left >= all ? same : (uint64_t)((double)left / (double)all * (double)same),
                    err);
}
