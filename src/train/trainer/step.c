/* Losses, gradients and updates: what one step of training is. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "ops/ref/backward.h"
#include "train/trainer/internal.h"

/* ---- calls that stop where the device works, and go on when they are made again */

/* One step more is done; its updates are under way. */
static tern_status finish_step(tern_trainer *t, tern_error *err)
{
    bool was_blended = t->blended;
    t->n_steps++;
    TERN_TRY(tern_trainer__change_phase(t, err));
    return was_blended != t->blended ? tern_trainer__requantize(t, err) : TERN_OK;
}

/* The memory of the call, and the read under way. */
static void reset_call(tern_trainer *t)
{
    if (t->pending.running) t->backend->read_cancel(t->backend);
    tern_adapter_close(t->pending.adapter);
    tern_free(t->pending.half);
    t->pending = (tern_trainer_pending){0};
}

tern_status tern_trainer__enter_call(tern_trainer *t, tern_trainer_call call, uint64_t key, tern_error *err)
{
    tern_trainer_pending *w = &t->pending;
    if (w->call == call && w->key == key) return TERN_OK;
    bool accumulated = w->accumulated, updating = w->updating;
    reset_call(t);
    if (updating) TERN_TRY(finish_step(t, err)); /* nothing stops the device now */
    if (t->diverged)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "the loss of step %llu was not finite: the trainer can only be closed",
                         (unsigned long long)t->n_steps);
    if (t->finished && call != TERN_TRAINER_CALL_READ && call != TERN_TRAINER_CALL_ADAPTER)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "this trainer has finished: it can only be read");
    *w = (tern_trainer_pending){.call = call, .key = key};
    return accumulated ? tern_trainer_clear(t, err) : TERN_OK;
}

tern_status tern_trainer__leave_call(tern_trainer *t, tern_status status)
{
    if (status != TERN_PENDING) reset_call(t);
    return status;
}

tern_status tern_trainer__read_buffer(tern_trainer *t, const tern_buffer *buffer, void *data, uint64_t bytes,
                                      tern_error *err)
{
    tern_status status = t->backend->buffer_read(t->backend, buffer, 0, data, bytes, err);
    t->pending.running = status == TERN_PENDING;
    return status;
}

/* ---- passes */

static tern_status check_row(const tern_trainer *t, const tern_train_row *row, size_t number, tern_error *err)
{
    uint32_t n_vocab = t->config->n_vocab;
    for (uint32_t i = 0; i < t->params.seq; i++) {
        if (row->ids[i] < 0 || (uint32_t)row->ids[i] >= n_vocab)
            return tern_fail(err, TERN_INVALID_ARGUMENT, "row %zu, position %u: id %d found, 0 to %u expected", number,
                             i, row->ids[i], n_vocab - 1);
        if (row->labels[i] >= 0 && (uint32_t)row->labels[i] >= n_vocab)
            return tern_fail(err, TERN_INVALID_ARGUMENT, "row %zu, position %u: label %d found, up to %u expected",
                             number, i, row->labels[i], n_vocab - 1);
        if (row->starts[i] > i)
            return tern_fail(err, TERN_INVALID_ARGUMENT, "row %zu, position %u: start %u found, up to %u expected",
                             number, i, row->starts[i], i);
    }
    return TERN_OK;
}

static tern_status check_rows(const tern_trainer *t, const tern_train_row *rows, size_t n_rows, uint64_t *n_labels,
                              tern_error *err)
{
    *n_labels = 0;
    for (size_t r = 0; r < n_rows; r++) {
        TERN_TRY(check_row(t, &rows[r], r, err));
        *n_labels += tern_ref_count_labels(rows[r].labels, t->params.seq);
    }
    return TERN_OK;
}

/* Rows behind each other; the rest of the batch is masked. */
static void put_rows(const tern_trainer *t, const tern_trainer_graph *g, const tern_train_row *rows, size_t n_rows)
{
    int32_t *ids = tern_bound_param(&g->bound, TERN_PARAM_IDS),
            *labels = tern_bound_param(&g->bound, TERN_PARAM_LABELS);
    uint32_t *starts = tern_bound_param(&g->bound, TERN_PARAM_SEQ_STARTS),
             *positions = tern_bound_param(&g->bound, TERN_PARAM_POSITIONS);
    uint32_t seq = t->params.seq, n = (uint32_t)n_rows * seq;
    for (uint32_t i = 0; i < n; i++) {
        const tern_train_row *row = &rows[i / seq];
        ids[i] = row->ids[i % seq];
        labels[i] = row->labels[i % seq] < 0 ? TERN_TRAIN_NO_LABEL : row->labels[i % seq];
        starts[i] = i - i % seq + row->starts[i % seq];
        positions[i] = i - starts[i];
    }
    for (uint32_t i = n; i < t->plan.n_tokens; i++) {
        ids[i] = 0;
        labels[i] = TERN_TRAIN_NO_LABEL;
        starts[i] = i;
        positions[i] = 0;
    }
}

/* The norm of all gradients together, as a graph that has run found them. */
static tern_status read_norm(tern_trainer *t, tern_trainer_graph_kind kind, double *norm, tern_error *err)
{
    const tern_trainer_graph *g = &t->graphs.all[kind];
    double sum = 0;
    if (g->used)
        TERN_TRY(tern_trainer__read_buffer(t, g->bound.bindings[g->graph.norms].buffer, t->norms,
                                           t->tensors.n_trainable * sizeof *t->norms, err));
    TERN_TRY(tern_trainer__gather_norms(t, err));
    for (size_t i = 0; i < t->tensors.n_trainable; i++) sum += (double)t->norms[i];
    *norm = sqrt(sum);
    return TERN_OK;
}

/* Sums hold finite numbers: whether those of a pass were is seen by its own norm. */
static tern_status check_pass(tern_trainer *t, tern_error *err)
{
    double norm;
    if (!tern_trainer__sums(t)) return TERN_OK;
    TERN_TRY(read_norm(t, TERN_TRAINER_STEP, &norm, err));
    t->pending.infinite = t->pending.infinite || !isfinite(norm);
    return TERN_OK;
}

/* Runs a batch and adds its losses to the call's sum. */
static tern_status run_pass(tern_trainer *t, tern_trainer_graph_kind kind, const tern_train_row *rows, size_t n_rows,
                            const tern_train_params *training, tern_error *err)
{
    const tern_trainer_graph *g = &t->graphs.all[kind];
    if (!t->pending.running && t->pending.n_reads == 0) {
        put_rows(t, g, rows, n_rows);
        if (kind == TERN_TRAINER_STEP) TERN_TRY(tern_trainer__clear_pass_gradients(t, err));
        TERN_TRY(tern_trainer__run_graph(t, kind, training, err));
        t->pending.accumulated = kind == TERN_TRAINER_STEP && !t->params.optimizer_in_backward;
        t->pending.updating = kind == TERN_TRAINER_UPDATE || kind == TERN_TRAINER_UPDATE_ALONE;
    }
    if (t->pending.n_reads == 0) {
        TERN_TRY(tern_trainer__read_buffer(t, g->bound.bindings[g->graph.losses].buffer, t->losses,
                                           t->plan.n_tokens * sizeof *t->losses, err));
        for (uint32_t i = 0; i < t->plan.n_tokens && !t->params.ranks; i++) t->pending.sum += (double)t->losses[i];
        t->pending.n_reads = 1;
    }
    if (kind != TERN_TRAINER_EVALUATE) TERN_TRY(tern_trainer__count_experts(t, g, rows, n_rows, err));
    if (kind == TERN_TRAINER_STEP) TERN_TRY(check_pass(t, err));
    t->pending.n_reads = 0;
    t->pending.n_runs++;
    return TERN_OK;
}

/* A number of its own for each run of each step. */
static uint32_t seed_of(const tern_trainer *t, uint64_t run)
{
    tern_rng rng = {.state = t->params.seed ^ (t->n_steps * ((uint64_t)t->params.accumulate + 1) + run)};
    rng.state = tern_rng_u64(&rng);
    return (uint32_t)(tern_rng_u64(&rng) >> 32);
}

/* The batches of a call, in rounds: each rank has one of as many that follow each other as there are ranks. */
static tern_status run_passes_on_ranks(tern_trainer *t, tern_trainer_graph_kind kind, const tern_train_row *rows,
                                       size_t n_rows, tern_train_params training, tern_error *err)
{
    const tern_ranks *ranks = t->params.ranks;
    const size_t batch = t->params.batch, n_passes = (n_rows + batch - 1) / batch;
    const bool trains = kind != TERN_TRAINER_EVALUATE;
    if (trains) tern_trainer__clear_expert_counts(t);
    for (size_t round = 0; round < n_passes; round += ranks->n) {
        const uint32_t n_active = n_passes - round < ranks->n ? (uint32_t)(n_passes - round) : ranks->n;
        const size_t pass = round + ranks->rank, first = pass * batch;
        if (trains) training.dropout_seed = seed_of(t, pass);
        t->exchange.n_active = n_active;
        if (ranks->rank < n_active)
            TERN_TRY(run_pass(t, kind, rows + first, n_rows - first < batch ? n_rows - first : batch, &training, err));
        else if (trains) TERN_TRY(tern_trainer__run_backward_parts(t, NULL, err));
        TERN_TRY(tern_trainer__gather_losses(t, n_active, err));
        if (trains) TERN_TRY(tern_trainer__finish_exchange(t, err));
    }
    return trains ? tern_trainer__gather_expert_counts(t, err) : TERN_OK;
}

/* The batches of a call, from the one that comes next. Their training parameters differ in the seed. */
static tern_status run_passes(tern_trainer *t, tern_trainer_graph_kind kind, const tern_train_row *rows, size_t n_rows,
                              tern_train_params training, tern_error *err)
{
    const size_t batch = t->params.batch;
    if (t->params.ranks) return run_passes_on_ranks(t, kind, rows, n_rows, training, err);
    for (size_t first; (first = t->pending.n_runs * batch) < n_rows;) {
        if (kind != TERN_TRAINER_EVALUATE) training.dropout_seed = seed_of(t, t->pending.n_runs);
        TERN_TRY(run_pass(t, kind, rows + first, n_rows - first < batch ? n_rows - first : batch, &training, err));
    }
    return TERN_OK;
}

/* Gradients of the mean loss over all labels, added to those that are there. */
static tern_status differentiate(tern_trainer *t, const tern_train_row *rows, size_t n_rows, uint64_t n_labels,
                                 double *loss, tern_error *err)
{
    const tern_train_params training = {.loss_weight = (float)(1.0 / (double)n_labels),
                                        .blend = tern_trainer__blend(t, t->n_steps),
                                        .lr = -1, /* of sums of passes */
                                        .clip = 1};
    TERN_TRY(run_passes(t, TERN_TRAINER_STEP, rows, n_rows, training, err));
    *loss = t->pending.sum / (double)n_labels;
    return TERN_OK;
}

static tern_status check_batch(const tern_trainer *t, const tern_train_row *rows, size_t n_rows, uint64_t *n_labels,
                               tern_error *err)
{
    size_t most = (size_t)t->params.batch * t->params.accumulate;
    if (n_rows == 0 || n_rows > most)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "a step of %zu rows: 1 to %zu expected", n_rows, most);
    TERN_TRY(check_rows(t, rows, n_rows, n_labels, err));
    if (*n_labels == 0)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "a step of %zu rows without a label: at least one expected",
                         n_rows);
    return TERN_OK;
}

tern_status tern_trainer_backward(tern_trainer *trainer, const tern_train_row *rows, size_t n_rows, double *loss,
                                  tern_error *err)
{
    uint64_t n_labels;
    if (trainer->params.optimizer_in_backward)
        return tern_fail(err, TERN_UNSUPPORTED, "gradients of an optimiser in the backward: they are never whole");
    TERN_TRY(check_batch(trainer, rows, n_rows, &n_labels, err));
    TERN_TRY(tern_trainer__enter_call(trainer, TERN_TRAINER_CALL_BACKWARD, 0, err));
    return tern_trainer__leave_call(trainer, differentiate(trainer, rows, n_rows, n_labels, loss, err));
}

tern_status tern_trainer_clear(tern_trainer *trainer, tern_error *err)
{
    enum { BYTES = 1 << 20 };
    tern_backend *b = trainer->backend;
    uint8_t *zeros = tern_calloc(1, BYTES);
    tern_status status = zeros ? TERN_OK : tern_fail_alloc(err, BYTES);
    for (size_t i = 0; i < trainer->tensors.n_trainable && status == TERN_OK; i++) {
        const tern_trainer_weight *m = trainer->tensors.trainable[i];
        tern_buffer *gradient = m->states[TERN_STATE_GRADIENT];
        const uint64_t bytes = gradient ? tern_trainer__state_bytes(m, TERN_STATE_GRADIENT) : 0;
        for (uint64_t at = 0; at < bytes && status == TERN_OK; at += BYTES)
            status = b->buffer_write(b, gradient, at, zeros, bytes - at < BYTES ? bytes - at : BYTES, err);
    }
    tern_free(zeros);
    trainer->exchange.sums_are_zero = status == TERN_OK;
    return status;
}

static tern_status find_norm(tern_trainer *t, double *norm, tern_error *err)
{
    const tern_train_params none = {0};
    if (!t->pending.running && t->graphs.all[TERN_TRAINER_NORMS].used)
        TERN_TRY(tern_trainer__run_graph(t, TERN_TRAINER_NORMS, &none, err));
    TERN_TRY(read_norm(t, TERN_TRAINER_NORMS, norm, err));
    if (t->pending.infinite) *norm = INFINITY;
    return TERN_OK;
}

static tern_train_params update_params(const tern_trainer *t, double lr, double norm)
{
    const tern_trainer_params *p = &t->params;
    const tern_adamw adamw = {.lr = lr, .beta1 = p->beta1, .beta2 = p->beta2, .eps = p->eps, .decay = p->decay};
    tern_adamw_factors f = tern_ref_adamw_factors(&adamw, t->n_steps + 1);
    return (tern_train_params){.next_blend = tern_trainer__blend(t, t->n_steps + 1),
                               .seed = seed_of(t, p->accumulate),
                               .clip = tern_ref_clip_factor(norm, p->clip),
                               .keep = f.keep,
                               .blend1 = f.blend1,
                               .beta2 = f.beta2,
                               .blend2 = f.blend2,
                               .root = f.root,
                               .eps = f.eps,
                               .pace = f.pace,
                               .lr = (float)lr,
                               .momentum = (float)p->momentum,
                               .decay = (float)p->decay};
}

static tern_trainer_graph_kind update_kind(const tern_trainer *t)
{
    bool alone = t->graphs.all[TERN_TRAINER_UPDATE_ALONE].used && (t->n_steps + 1) % t->params.sync_every != 0;
    return alone ? TERN_TRAINER_UPDATE_ALONE : TERN_TRAINER_UPDATE;
}

/* The owners' steps, their masters to all, then everybody's codes. */
static tern_status update_on_ranks(tern_trainer *t, const tern_train_params *training, tern_error *err)
{
    const bool sync = (t->n_steps + 1) % t->params.sync_every == 0;
    if (t->graphs.all[TERN_TRAINER_UPDATE_ALONE].used)
        TERN_TRY(tern_trainer__run_graph(t, TERN_TRAINER_UPDATE_ALONE, training, err));
    t->exchange.sums_are_zero = true;
    TERN_TRY(tern_trainer__broadcast_masters(t, err));
    if (sync && t->graphs.all[TERN_TRAINER_SYNC].used)
        TERN_TRY(tern_trainer__run_graph(t, TERN_TRAINER_SYNC, training, err));
    return finish_step(t, err);
}

static tern_status update(tern_trainer *t, double lr, double norm, tern_error *err)
{
    const tern_train_params training = update_params(t, lr, norm);
    if (t->params.ranks) return update_on_ranks(t, &training, err);
    TERN_TRY(tern_trainer__run_graph(t, update_kind(t), &training, err));
    TERN_TRY(tern_trainer__wait(t, err));
    return finish_step(t, err);
}

/* Gradients that are not numbers are thrown away, so that the step may be left out. */
static tern_status fail_not_finite(tern_trainer *t, double loss, double norm, tern_error *err)
{
    TERN_TRY(tern_trainer_clear(t, err));
    return tern_fail(err, TERN_INVALID_ARGUMENT,
                     "step %llu: loss %g and gradients of norm %g found, finite ones expected; a smaller learning rate "
                     "or clipping may help",
                     (unsigned long long)t->n_steps, loss, norm);
}

/* The first pass, without updates, for a norm to clip by. */
static tern_status find_clip_norm(tern_trainer *t, const tern_train_row *rows, size_t n_rows, uint64_t n_labels,
                                  tern_error *err)
{
    tern_trainer_pending *w = &t->pending;
    if (w->n_passes > 0 || t->params.clip == 0) return TERN_OK;
    TERN_TRY(differentiate(t, rows, n_rows, n_labels, &w->loss, err));
    TERN_TRY(read_norm(t, TERN_TRAINER_STEP, &w->norm, err));
    if (!isfinite(w->loss) || !isfinite(w->norm)) return fail_not_finite(t, w->loss, w->norm, err);
    w->n_passes = 1;
    w->n_runs = 0;
    return TERN_OK;
}

/* Every weight is updated in the backward. Loss and norm are those of the first pass; without one they are seen when
 * it is too late. */
static tern_status step_in_backward(tern_trainer *t, const tern_train_row *rows, size_t n_rows, tern_trainer_result *r,
                                    tern_error *err)
{
    tern_trainer_pending *w = &t->pending;
    const tern_trainer_graph_kind kind = update_kind(t);
    TERN_TRY(find_clip_norm(t, rows, n_rows, r->n_labels, err));
    tern_train_params training = update_params(t, r->lr, w->norm);
    training.loss_weight = (float)(1.0 / (double)r->n_labels);
    training.blend = tern_trainer__blend(t, t->n_steps);
    TERN_TRY(run_passes(t, kind, rows, n_rows, training, err));
    if (t->params.clip == 0) TERN_TRY(read_norm(t, kind, &w->norm, err));
    r->norm = w->norm;
    r->loss = t->params.clip > 0 ? w->loss : w->sum / (double)r->n_labels;
    w->updating = false;
    t->diverged = !isfinite(r->loss) || !isfinite(r->norm);
    if (t->diverged) return fail_not_finite(t, r->loss, r->norm, err);
    return finish_step(t, err);
}

static tern_status make_step(tern_trainer *t, const tern_train_row *rows, size_t n_rows, tern_trainer_result *r,
                             tern_error *err)
{
    if (t->params.optimizer_in_backward) return step_in_backward(t, rows, n_rows, r, err);
    TERN_TRY(differentiate(t, rows, n_rows, r->n_labels, &r->loss, err));
    TERN_TRY(find_norm(t, &r->norm, err));
    if (!isfinite(r->loss) || !isfinite(r->norm)) return fail_not_finite(t, r->loss, r->norm, err);
    return update(t, r->lr, r->norm, err);
}

tern_status tern_trainer_step(tern_trainer *trainer, const tern_train_row *rows, size_t n_rows,
                              tern_trainer_result *result, tern_error *err)
{
    const tern_trainer_params *p = &trainer->params;
    tern_trainer_result r = {.lr = p->lr * tern_ref_schedule(p->schedule, trainer->n_steps, p->n_warmup, p->n_steps)};
    TERN_TRY(check_batch(trainer, rows, n_rows, &r.n_labels, err));
    for (size_t i = 0; i < n_rows; i++) r.n_positions += rows[i].n_used;
    TERN_TRY(tern_trainer__enter_call(trainer, TERN_TRAINER_CALL_STEP, 0, err));
    TERN_TRY(tern_trainer__leave_call(trainer, make_step(trainer, rows, n_rows, &r, err)));
    *result = r;
    return TERN_OK;
}

static tern_status evaluate(tern_trainer *t, const tern_train_row *rows, size_t n_rows, double *sum, tern_error *err)
{
    const tern_train_params training = {.loss_weight = 1, .blend = tern_trainer__blend(t, t->n_steps)};
    TERN_TRY(run_passes(t, TERN_TRAINER_EVALUATE, rows, n_rows, training, err));
    *sum = t->pending.sum;
    return TERN_OK;
}

tern_status tern_trainer_evaluate(tern_trainer *trainer, const tern_train_row *rows, size_t n_rows, double *sum,
                                  uint64_t *n_labels, tern_error *err)
{
    *sum = 0;
    TERN_TRY(check_rows(trainer, rows, n_rows, n_labels, err));
    TERN_TRY(tern_trainer__enter_call(trainer, TERN_TRAINER_CALL_EVALUATE, 0, err));
    return tern_trainer__leave_call(trainer, evaluate(trainer, rows, n_rows, sum, err));
}
