/* Hidden states of a text, as they come, to one vector. */
#include "infer/session/pooling.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/choice.h"

tern_status tern_pool_states_init(tern_pool_states *pool, tern_pooling pooling, uint32_t n_embd, tern_error *err)
{
    *pool = (tern_pool_states){.pooling = pooling, .n_embd = n_embd};
    TERN_TRY(tern_choice_check(TERN_CHOICE_POOLING, pooling, err));
    pool->sum = tern_calloc(n_embd, sizeof *pool->sum);
    return pool->sum ? TERN_OK : tern_fail_alloc(err, n_embd * sizeof *pool->sum);
}

void tern_pool_states_deinit(tern_pool_states *pool)
{
    tern_free(pool->sum);
    *pool = (tern_pool_states){0};
}

static bool is_pooled(tern_pooling pooling, uint32_t token, uint32_t n_tokens)
{
    if (pooling == TERN_POOLING_MEAN) return true;
    return token == (pooling == TERN_POOLING_CLS ? 0 : n_tokens - 1);
}

void tern_pool_states_add(tern_pool_states *pool, const float *states, uint32_t first, uint32_t n, uint32_t n_tokens)
{
    if (first == 0) {
        memset(pool->sum, 0, pool->n_embd * sizeof *pool->sum);
        pool->n = 0;
    }
    for (uint32_t i = 0; i < n; i++, states += pool->n_embd) {
        if (!is_pooled(pool->pooling, first + i, n_tokens)) continue;
        for (uint32_t k = 0; k < pool->n_embd; k++) pool->sum[k] += (double)states[k];
        pool->n++;
    }
}

void tern_pool_states_finish(const tern_pool_states *pool, bool normalize, float *out)
{
    double square = 0, factor = 1.0 / pool->n;
    for (uint32_t i = 0; i < pool->n_embd; i++) square += pool->sum[i] * factor * pool->sum[i] * factor;
    if (normalize) factor /= fmax(sqrt(square), 1e-12);
    for (uint32_t i = 0; i < pool->n_embd; i++) out[i] = (float)(pool->sum[i] * factor);
}
