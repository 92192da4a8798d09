/* What a trainer has learned: reading and writing its states, and the adapter. */
#include <string.h>

#include "base/alloc.h"
#include "train/trainer/internal.h"

/* Where a state lies (NULL: with another rank), and its size. */
static tern_status locate(const tern_trainer *t, size_t i, tern_state state, tern_buffer **buffer, uint64_t *bytes,
                          tern_error *err)
{
    if (i >= t->n_learning || (unsigned)state >= TERN_STATE_COUNT)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "state %d of tensor %zu: %d states of %zu tensors expected",
                         (int)state, i, TERN_STATE_COUNT, t->n_learning);
    const tern_trainer_weight *m = t->learning[i];
    bool own_master = state == TERN_STATE_MASTER && !m->shown.ternary;
    *buffer = own_master ? m->buffer : m->states[state];
    *bytes = tern_trainer__state_bytes(m, state);
    if (*buffer || (*bytes && !tern_trainer__owns(t, m))) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "state %d of %s: this optimiser has none", (int)state, m->name);
}

tern_status tern_trainer_read(tern_trainer *trainer, size_t i, tern_state state, void *bytes, tern_error *err)
{
    tern_buffer *buffer = NULL;
    uint64_t n = 0;
    TERN_TRY(locate(trainer, i, state, &buffer, &n, err));
    TERN_TRY(tern_trainer__enter_call(trainer, TERN_TRAINER_CALL_READ, i * TERN_STATE_COUNT + state, err));
    if (trainer->params.ranks && state != TERN_STATE_MASTER) {
        const tern_status status = tern_trainer__read_from_owner(trainer, trainer->learning[i], state, bytes, err);
        return tern_trainer__leave_call(trainer, status);
    }
    return tern_trainer__leave_call(trainer, tern_trainer__read_buffer(trainer, buffer, bytes, n, err));
}

tern_status tern_trainer_write(tern_trainer *trainer, size_t i, tern_state state, const void *bytes, tern_error *err)
{
    tern_buffer *buffer = NULL;
    uint64_t n = 0;
    TERN_TRY(locate(trainer, i, state, &buffer, &n, err));
    if (!buffer) return TERN_OK; /* another rank's */
    if (state == TERN_STATE_GRADIENT) trainer->no_sums = false;
    return trainer->backend->buffer_write(trainer->backend, buffer, 0, bytes, n, err);
}

tern_status tern_trainer_sync(tern_trainer *trainer, uint64_t n_steps, tern_error *err)
{
    trainer->n_steps = n_steps;
    TERN_TRY(tern_trainer__change_phase(trainer, err));
    return tern_trainer__requantize(trainer, err);
}

static tern_status read_padded(tern_trainer *t, const tern_trainer_weight *m, float *out, tern_error *err)
{
    if (!m->learns) return tern_trainer__initial_rows(t, m, 0, m->shown.rows, out, err);
    return tern_trainer__read_buffer(t, m->buffer, out, tern_trainer__state_bytes(m, TERN_STATE_MASTER), err);
}

/* Without what the rank was rounded up by. */
static tern_status read_half(tern_trainer *t, const tern_trainer_weight *m, float *out, tern_error *err)
{
    uint32_t padded_rows = m->shown.rows / m->n_experts, rows = m->is_b ? padded_rows : t->lora_rank,
             cols = m->is_b ? t->lora_rank : m->shown.cols;
    size_t bytes = (size_t)m->shown.rows * m->shown.cols * sizeof(float);
    float *padded = t->work.half;
    if (!padded) padded = t->work.half = tern_alloc(bytes);
    if (!padded) return tern_fail_alloc(err, bytes);
    TERN_TRY(read_padded(t, m, padded, err));
    for (uint32_t r = 0; r < rows * m->n_experts; r++) {
        const size_t from = (size_t)(r / rows) * padded_rows + r % rows;
        memcpy(out + (size_t)r * cols, padded + from * m->shown.cols, cols * sizeof *out);
    }
    tern_free(padded);
    t->work.half = NULL;
    return TERN_OK;
}

static tern_status read_adapter(tern_trainer *t, tern_error *err)
{
    tern_trainer_pending *w = &t->work;
    for (; w->n_halves < t->n_made; w->n_halves++) {
        const tern_trainer_weight *m = &t->made[w->n_halves];
        const tern_adapter_pair *pair = tern_adapter_find(w->adapter, m->shown.role, m->shown.layer);
        TERN_TRY(read_half(t, m, m->is_b ? pair->b : pair->a, err));
    }
    return TERN_OK;
}

/* Zeros beside all weights. */
static tern_status make_adapter(tern_trainer *t, tern_adapter **adapter, tern_error *err)
{
    const tern_trainer_lora *lora = &t->params.lora;
    tern_adapter_info info = {.rank = lora->rank, .alpha = lora->alpha, .base = t->config->name};
    if (lora->start) info = *tern_adapter_describe(lora->start);
    info.dropout = lora->dropout;
    size_t n = 0;
    tern_adapter_layer *targets = tern_calloc(t->n_made, sizeof *targets);
    if (!targets) return tern_fail_alloc(err, t->n_made * sizeof *targets);
    for (size_t i = 0; i < t->n_made; i++)
        if (!t->made[i].is_b) targets[n++] = (tern_adapter_layer){t->made[i].shown.role, t->made[i].shown.layer};
    tern_status status = tern_adapter_make(adapter, t->model, &info, targets, n, err);
    tern_free(targets);
    return status;
}

static tern_status read_all(tern_trainer *t, tern_adapter **adapter, tern_error *err)
{
    if (!t->work.adapter) TERN_TRY(make_adapter(t, &t->work.adapter, err));
    TERN_TRY(read_adapter(t, err));
    *adapter = t->work.adapter;
    t->work.adapter = NULL;
    return TERN_OK;
}

tern_status tern_trainer_adapter(tern_trainer *trainer, tern_adapter **adapter, tern_error *err)
{
    *adapter = NULL;
    if (!trainer->params.lora.rank && !trainer->params.lora.start)
        return tern_fail(err, TERN_UNSUPPORTED, "all weights are tuned: no adapter to write");
    TERN_TRY(tern_trainer__enter_call(trainer, TERN_TRAINER_CALL_ADAPTER, 0, err));
    return tern_trainer__leave_call(trainer, read_all(trainer, adapter, err));
}
