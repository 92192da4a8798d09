/* The memory of a trainer's tensors: allocated, filled with first values, read and written. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/half.h"
#include "base/rng.h"
#include "quant/encoding.h"
#include "train/trainer/internal.h"

enum { SLICE_FLOATS = 1 << 20 };

static const tern_encoding *encoding_of(const tern_trainer *t, const tern_trainer_weight *m)
{
    if (m->info.ternary) return tern_encoding_find(t->blended ? TERN_ENC_F32 : TERN_ENC_I2_S);
    return tern_encoding_find(m->info.dtype[TERN_STATE_MASTER] == TERN_DTYPE_BF16 ? TERN_ENC_BF16 : TERN_ENC_F32);
}

static tern_status shape_weight(const tern_trainer *t, tern_trainer_weight *m, tern_error *err)
{
    tern_weight *w = &m->weight;
    *w = (tern_weight){
        .encoding = encoding_of(t, m), .rows = m->info.rows, .cols = m->info.cols, .scale = 1.0f, .trained = m->learns};
    snprintf(w->name, sizeof w->name, "%s", m->source ? m->source->name : m->name + strlen("base_model.model."));
    if (tern_encoding_bytes(w->encoding, w->rows, w->cols, &w->bytes, err) != TERN_OK)
        return tern_error_prefix(err, "%s", m->name);
    if (!w->encoding->ternary) return TERN_OK;
    w->row_scales = m->row_scales = tern_calloc(w->rows, sizeof *m->row_scales);
    return m->row_scales ? TERN_OK : tern_fail_alloc(err, w->rows * sizeof *m->row_scales);
}

tern_status tern_trainer__shape_weights(tern_trainer *t, tern_error *err)
{
    for (size_t i = 0; i < t->tensors.n_weights; i++) {
        tern_trainer_weight *m = &t->tensors.weights[i];
        if (!m->buffer) TERN_TRY(shape_weight(t, m, err));
    }
    return TERN_OK;
}

/* Uniform in +- 1 / sqrt(cols): Kaiming's rule with a = sqrt(5), as PEFT has it. */
static void random_row(const tern_trainer *t, const tern_trainer_weight *m, uint32_t row, float *out)
{
    uint32_t cols = m->info.cols, stream = m->info.layer * TERN_ROLE_COUNT + m->info.role;
    float bound = 1.0f / sqrtf((float)cols);
    tern_rng rng = {.state = t->params.seed + ((uint64_t)stream << 32) + row};
    rng.state = tern_rng_u64(&rng);
    for (uint32_t c = 0; c < cols; c++) out[c] = (2 * tern_rng_f32(&rng) - 1) * bound;
}

/* One row of half an adapter, with zeros where the rank was rounded up. */
static void half_row(const tern_trainer *t, const tern_trainer_weight *m, uint32_t row, float *out)
{
    uint32_t n = m->is_b ? t->tensors.lora_rank : m->info.cols; /* of the row as it is without them */
    memset(out, 0, m->info.cols * sizeof *out);
    if (!m->is_b) { /* of an expert, or of the layer */
        const uint32_t padded = m->info.rows / m->n_experts, expert = row / padded;
        if (row % padded >= t->tensors.lora_rank) return;
        row = expert * t->tensors.lora_rank + row % padded;
    }
    if (m->start) memcpy(out, m->start + (size_t)row * n, n * sizeof *out);
    else if (!m->is_b) random_row(t, m, row, out);
}

/* The form in which they are trained. */
static tern_status to_trained(const tern_trainer_weight *m, float *values, size_t n, tern_error *err)
{
    for (size_t i = 0; m->info.role == TERN_ROLE_SSM_DECAY && i < n; i++) {
        if (!(values[i] <= 0))
            return tern_fail(err, TERN_MALFORMED, "%s: a decay of %g found in head %zu, at most 0 expected", m->name,
                             (double)values[i], i);
        values[i] = tern_role_to_trained(m->info.role, values[i]);
    }
    return TERN_OK;
}

/* Rows [first, first + n) of what a tensor starts from. */
static tern_status read_initial_rows(const tern_trainer *t, const tern_trainer_weight *m, uint32_t first, uint32_t n,
                                     float *out, tern_error *err)
{
    if (m->source) {
        TERN_TRY(tern_model_master(t->model, m->info.role, m->info.layer, first, n, out, err));
        return to_trained(m, out, (size_t)n * m->info.cols, err);
    }
    for (uint32_t r = 0; r < n; r++) half_row(t, m, first + r, out + (size_t)r * m->info.cols);
    return TERN_OK;
}

/* n floats as F32 or BF16 (to the nearest). */
static void store_floats(tern_dtype dtype, const float *x, size_t n, void *out)
{
    if (dtype == TERN_DTYPE_F32) {
        memcpy(out, x, n * sizeof *x);
        return;
    }
    uint16_t *half = out;
    for (size_t i = 0; i < n; i++) half[i] = tern_f32_to_bf16(x[i]);
}

/* Rows at a time, so that no tensor is ever whole as f32. Behind the values of x is room for as many. */
typedef tern_status (*slice_fn)(tern_trainer *t, tern_trainer_weight *m, uint32_t first, uint32_t n, float *x,
                                void *context, tern_error *err);

static tern_status for_slices(tern_trainer *t, tern_trainer_weight *m, slice_fn fn, void *context, tern_error *err)
{
    uint32_t rows = m->info.rows, cols = m->info.cols, most = SLICE_FLOATS / cols ? SLICE_FLOATS / cols : 1;
    if (most > rows) most = rows;
    float *x = tern_alloc((size_t)most * cols * 2 * sizeof *x);
    tern_status status = x ? TERN_OK : tern_fail_alloc(err, (size_t)most * cols * 2 * sizeof *x);
    for (uint32_t first = 0; first < rows && status == TERN_OK; first += most) {
        uint32_t n = rows - first < most ? rows - first : most;
        status = read_initial_rows(t, m, first, n, x, err);
        if (status == TERN_OK) status = fn(t, m, first, n, x, context, err);
    }
    tern_free(x);
    return status;
}

static tern_status count_nonzero(tern_trainer *t, tern_trainer_weight *m, uint32_t first, uint32_t n, float *x,
                                 void *context, tern_error *err)
{
    (void)t, (void)first, (void)err;
    for (size_t i = 0; i < (size_t)n * m->info.cols; i++) *(uint64_t *)context += x[i] != 0;
    return TERN_OK;
}

/* Codes alone say nothing of their masters. code * scale has a mean magnitude below the scale, as there are zeros, and
 * would be quantised to the same codes with a smaller scale: another model. Masters larger by n / (codes not 0) give
 * codes and scale back. */
static tern_status find_lift(tern_trainer *t, tern_trainer_weight *m, float *lift, tern_error *err)
{
    uint64_t n_nonzero = 0, n = (uint64_t)m->info.rows * m->info.cols;
    *lift = 1;
    if (!m->info.ternary || t->params.blend_steps || tern_model_has_master(t->model, m->info.role, m->info.layer))
        return TERN_OK;
    if (m->source->row_scales)
        return tern_fail(err, TERN_UNSUPPORTED,
                         "%s: a scale for each row found, one for the tensor expected; --freeze leaves it as it is, "
                         "--lora all of them",
                         m->name);
    TERN_TRY(for_slices(t, m, count_nonzero, &n_nonzero, err));
    if (n_nonzero) *lift = (float)((double)n / (double)n_nonzero);
    return TERN_OK;
}

/* Where the first values go: to a buffer, or to memory that a weight is made of. */
typedef struct destination {
    tern_dtype dtype;
    tern_buffer *buffer;
    uint8_t *memory;
    float lift;
} destination;

static tern_status store_slice(tern_trainer *t, tern_trainer_weight *m, uint32_t first, uint32_t n, float *x,
                               void *context, tern_error *err)
{
    const destination *to = context;
    size_t n_floats = (size_t)n * m->info.cols;
    uint64_t at = tern_row_bytes(to->dtype, m->info.cols, first), bytes = tern_row_bytes(to->dtype, m->info.cols, n);
    for (size_t i = 0; i < n_floats; i++) x[i] *= to->lift;
    if (to->memory) store_floats(to->dtype, x, n_floats, to->memory + at);
    if (to->memory) return TERN_OK;
    store_floats(to->dtype, x, n_floats, x + n_floats);
    return t->backend->buffer_write(t->backend, to->buffer, at, x + n_floats, bytes, err);
}

tern_status tern_trainer__allocate_weight(tern_trainer *t, tern_trainer_weight *m, tern_error *err)
{
    tern_weight *w = &m->weight;
    m->data = tern_alloc_aligned(w->bytes, 64);
    if (!m->data) return tern_fail_alloc(err, w->bytes);
    w->data = m->data;
    destination to = {.dtype = m->info.dtype[TERN_STATE_MASTER], .memory = m->data, .lift = 1};
    if (!m->info.ternary) TERN_TRY(for_slices(t, m, store_slice, &to, err));
    return t->backend->weight_create(t->backend, w, &m->buffer, err);
}

void tern_trainer__free_host_copies(tern_trainer *t)
{
    for (size_t i = 0; t->backend->info.copies_weights && i < t->tensors.n_weights; i++) {
        tern_trainer_weight *m = &t->tensors.weights[i];
        tern_free_aligned(m->data);
        m->data = NULL;
        m->weight.data = NULL;
    }
}

void tern_trainer__free_weight(tern_trainer *t, tern_trainer_weight *m)
{
    t->backend->buffer_free(t->backend, m->buffer);
    tern_free_aligned(m->data);
    tern_free(m->row_scales);
    m->buffer = NULL;
    m->data = NULL;
    m->row_scales = NULL;
}

void tern_trainer__free_states(tern_trainer *t, bool masters)
{
    tern_backend *b = t->backend;
    for (size_t i = 0; i < t->tensors.n_weights; i++) {
        tern_trainer_weight *m = &t->tensors.weights[i];
        for (int state = 0; state < TERN_STATE_COUNT; state++) {
            if (state == TERN_STATE_MASTER && !masters) continue;
            b->buffer_free(b, m->states[state]);
            m->states[state] = NULL;
        }
        b->buffer_free(b, m->pass);
        m->pass = NULL;
    }
}

static tern_status allocate_states(tern_trainer *t, tern_trainer_weight *m, tern_error *err)
{
    for (int state = 0; state < TERN_STATE_COUNT; state++) {
        uint64_t bytes = tern_trainer__state_bytes(m, (tern_state)state);
        if (bytes == 0 || (state == TERN_STATE_MASTER && !m->info.ternary)) continue;
        if (state == TERN_STATE_GRADIENT && t->params.ranks)
            TERN_TRY(t->backend->buffer_create(t->backend, bytes, &m->pass, err));
        if (state != TERN_STATE_MASTER && !tern_trainer__owns(t, m)) continue;
        TERN_TRY(t->backend->buffer_create(t->backend, bytes, &m->states[state], err));
    }
    if (!m->info.ternary) return TERN_OK;
    destination to = {.dtype = m->info.dtype[TERN_STATE_MASTER], .buffer = m->states[TERN_STATE_MASTER]};
    TERN_TRY(find_lift(t, m, &to.lift, err));
    return for_slices(t, m, store_slice, &to, err);
}

static tern_status find_fixed(const tern_trainer *t, tern_trainer_frozen *f, tern_error *err)
{
    f->buffer = t->params.engine ? tern_engine__weight_buffer(t->params.engine, f->weight) : NULL;
    f->borrowed = f->buffer != NULL;
    if (f->borrowed) return TERN_OK;
    if (!f->weight->data)
        return tern_fail(err, TERN_UNSUPPORTED, "%s: its data was released, and no engine with it was given",
                         f->weight->name);
    return t->backend->weight_create(t->backend, f->weight, &f->buffer, err);
}

tern_status tern_trainer__allocate_tensors(tern_trainer *t, tern_error *err)
{
    for (size_t i = 0; i < t->tensors.n_frozen; i++) TERN_TRY(find_fixed(t, &t->tensors.frozen[i], err));
    for (size_t i = 0; i < t->tensors.n_weights; i++) {
        TERN_TRY(tern_trainer__allocate_weight(t, &t->tensors.weights[i], err));
        TERN_TRY(allocate_states(t, &t->tensors.weights[i], err));
    }
    return TERN_OK;
}

/* ---- what was learned: states, and the adapter */

/* Where a state lies (NULL: with another rank), and its size. */
static tern_status locate(const tern_trainer *t, size_t i, tern_state state, tern_buffer **buffer, uint64_t *bytes,
                          tern_error *err)
{
    if (i >= t->tensors.n_trainable || (unsigned)state >= TERN_STATE_COUNT)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "state %d of tensor %zu: %d states of %zu tensors expected",
                         (int)state, i, TERN_STATE_COUNT, t->tensors.n_trainable);
    const tern_trainer_weight *m = t->tensors.trainable[i];
    bool own_master = state == TERN_STATE_MASTER && !m->info.ternary;
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
        const tern_status status =
            tern_trainer__read_from_owner(trainer, trainer->tensors.trainable[i], state, bytes, err);
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
    if (state == TERN_STATE_GRADIENT) trainer->exchange.sums_are_zero = false;
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
    if (!m->learns) return read_initial_rows(t, m, 0, m->info.rows, out, err);
    return tern_trainer__read_buffer(t, m->buffer, out, tern_trainer__state_bytes(m, TERN_STATE_MASTER), err);
}

/* Without what the rank was rounded up by. */
static tern_status read_half(tern_trainer *t, const tern_trainer_weight *m, float *out, tern_error *err)
{
    uint32_t padded_rows = m->info.rows / m->n_experts, rows = m->is_b ? padded_rows : t->tensors.lora_rank,
             cols = m->is_b ? t->tensors.lora_rank : m->info.cols;
    size_t bytes = (size_t)m->info.rows * m->info.cols * sizeof(float);
    float *padded = t->pending.half;
    if (!padded) padded = t->pending.half = tern_alloc(bytes);
    if (!padded) return tern_fail_alloc(err, bytes);
    TERN_TRY(read_padded(t, m, padded, err));
    for (uint32_t r = 0; r < rows * m->n_experts; r++) {
        const size_t from = (size_t)(r / rows) * padded_rows + r % rows;
        memcpy(out + (size_t)r * cols, padded + from * m->info.cols, cols * sizeof *out);
    }
    tern_free(padded);
    t->pending.half = NULL;
    return TERN_OK;
}

static tern_status read_adapter(tern_trainer *t, tern_error *err)
{
    tern_trainer_pending *w = &t->pending;
    for (; w->n_halves < t->tensors.n_weights; w->n_halves++) {
        const tern_trainer_weight *m = &t->tensors.weights[w->n_halves];
        const tern_adapter_pair *pair = tern_adapter_find(w->adapter, m->info.role, m->info.layer);
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
    tern_adapter_layer *targets = tern_calloc(t->tensors.n_weights, sizeof *targets);
    if (!targets) return tern_fail_alloc(err, t->tensors.n_weights * sizeof *targets);
    for (size_t i = 0; i < t->tensors.n_weights; i++)
        if (!t->tensors.weights[i].is_b)
            targets[n++] = (tern_adapter_layer){t->tensors.weights[i].info.role, t->tensors.weights[i].info.layer};
    tern_status status = tern_adapter_make(adapter, t->model, &info, targets, n, err);
    tern_free(targets);
    return status;
}

static tern_status read_all(tern_trainer *t, tern_adapter **adapter, tern_error *err)
{
    if (!t->pending.adapter) TERN_TRY(make_adapter(t, &t->pending.adapter, err));
    TERN_TRY(read_adapter(t, err));
    *adapter = t->pending.adapter;
    t->pending.adapter = NULL;
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
