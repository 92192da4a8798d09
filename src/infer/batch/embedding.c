/* Requests that want the vector of their prompt. */
#include <math.h>

#include "base/alloc.h"
#include "infer/batch/batch_internal.h"

tern_status tern_sequence__open_embedding(const tern_batch *b, tern_sequence *s, tern_error *err)
{
    const uint32_t n_embd = tern_engine_config(b->engine)->n_embd;
    s->embedding = tern_calloc(n_embd, sizeof *s->embedding);
    if (!s->embedding) return tern_fail_alloc(err, n_embd * sizeof *s->embedding);
    return tern_pool_states_init(&s->pool, s->request->params.pooling, n_embd, err);
}

void tern_sequence__pool_states(const tern_batch *b, tern_sequence *s)
{
    const float *states = b->states + (size_t)s->first_row * s->pool.n_embd;
    tern_pool_states_add(&s->pool, states, s->n_evaluated, s->n_rows, s->n_tokens);
}

tern_status tern_sequence__finish_embedding(tern_sequence *s, tern_error *err)
{
    tern_pool_states_finish(&s->pool, s->request->params.normalize, s->embedding);
    for (uint32_t i = 0; i < s->pool.n_embd; i++)
        if (!isfinite(s->embedding[i]))
            return tern_fail(err, TERN_NOT_FINITE, "element %u of the vector is not finite", i);
    s->result.embedding = s->embedding;
    s->first_ms = tern_batch__now_ms();
    tern_sequence__stop(s, TERN_STOP_LENGTH);
    return TERN_OK;
}
