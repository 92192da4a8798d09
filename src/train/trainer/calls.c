/* Calls that stop where the device works, and go on when they are made again. */
#include "base/alloc.h"
#include "train/trainer/internal.h"

/* What the call has taken, and the read under way. */
static void reset_call(tern_trainer *t)
{
    if (t->work.running) t->backend->read_cancel(t->backend);
    tern_adapter_close(t->work.adapter);
    tern_free(t->work.half);
    t->work = (tern_trainer_pending){0};
}

tern_status tern_trainer__enter_call(tern_trainer *t, tern_trainer_call call, uint64_t key, tern_error *err)
{
    tern_trainer_pending *w = &t->work;
    if (w->call == call && w->key == key) return TERN_OK;
    bool accumulated = w->accumulated, updating = w->updating;
    reset_call(t);
    if (updating) TERN_TRY(tern_trainer__finish_step(t, err)); /* nothing stops the device now */
    if (t->torn)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "weights after step %llu, whose loss was not finite: closing expected",
                         (unsigned long long)t->n_steps);
    if (t->finished && call != TERN_TRAINER_CALL_READ && call != TERN_TRAINER_CALL_ADAPTER)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "a trainer that has finished: reading alone expected");
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
    t->work.running = status == TERN_PENDING;
    return status;
}
