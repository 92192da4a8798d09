/* Trainers of small models on the backend under test. */
#include "train/trainers.h"

#include <math.h>

#include "support/test.h"

static tern_error err;

micro open_micro(uint32_t width)
{
    micro m = {.bytes = micro_model(&(micro_change){.seed = 5, .width = width})};
    assert_ok(tern_model_open_memory(&m.model, m.bytes.data, m.bytes.size, NULL, &err), err);
    return m;
}

void close_micro(micro *m)
{
    tern_model_close(m->model);
    tern_buf_deinit(&m->bytes);
}

tern_trainer_params small_params(void)
{
    tern_trainer_params p = tern_trainer_defaults();
    p.batch = 2;
    p.seq = SEQ;
    p.lr = 3e-3;
    p.schedule = TERN_SCHEDULE_CONSTANT;
    return p;
}

void steps(tern_trainer *trainer, uint64_t first, uint32_t n, double *losses)
{
    static test_batch batch;
    const tern_trainer_params *p = tern_trainer_params_of(trainer);
    for (uint32_t i = 0; i < n; i++) {
        tern_trainer_result r;
        test_batch_random(&batch, first + i, p->batch * p->accumulate, SEQ, N_VOCAB);
        assert_ok(tern_trainer_step(trainer, batch.rows, p->batch * p->accumulate, &r, &err), err);
        if (losses) losses[i] = r.loss;
    }
}

void assert_same(tern_trainer *a, tern_trainer *b)
{
    char what[128];
    if (!test_trainer_same(a, b, what)) fail_msg("%s", what);
}

void assert_same_gradients(tern_trainer *a, tern_trainer *b)
{
    for (size_t i = 0; i < tern_trainer_n_tensors(a); i++) {
        const tern_trainer_tensor *t = tern_trainer_tensor_at(a, i);
        float *x = test_trainer_floats(a, i, TERN_STATE_GRADIENT), *y = test_trainer_floats(b, i, TERN_STATE_GRADIENT);
        double error = 0, size = 0;
        for (size_t k = 0; k < (size_t)t->rows * t->cols; k++) {
            error += ((double)x[k] - (double)y[k]) * ((double)x[k] - (double)y[k]);
            size += (double)x[k] * (double)x[k];
        }
        if (!(size > 0 && error <= 1e-10 * size)) fail_msg("%s: %g of %g", t->name, sqrt(error), sqrt(size));
        free(x);
        free(y);
    }
}

const struct way ways[N_WAYS] = {
    {.name = "f32", .master = TERN_DTYPE_F32, .m = TERN_DTYPE_F32, .v = TERN_DTYPE_F32, .sync_every = 1},
    {.name = "bf16", .master = TERN_DTYPE_BF16, .m = TERN_DTYPE_BF16, .v = TERN_DTYPE_BF16, .sync_every = 1},
    {.name = "8 bit", .master = TERN_DTYPE_F32, .m = TERN_DTYPE_M8, .v = TERN_DTYPE_V8, .sync_every = 1},
    {.name = "sgd", .m = TERN_DTYPE_F32, .v = TERN_DTYPE_F32, .sgd = true, .sync_every = 1},
    {.name = "blend", .m = TERN_DTYPE_F32, .v = TERN_DTYPE_F32, .blend = true, .sync_every = 1},
    {.name = "threshold", .m = TERN_DTYPE_F32, .v = TERN_DTYPE_F32, .cut = true, .sync_every = 1},
    {.name = "every 3", .m = TERN_DTYPE_F32, .v = TERN_DTYPE_F32, .sync_every = 3},
    {.name = "lora", .m = TERN_DTYPE_F32, .v = TERN_DTYPE_F32, .lora = true, .sync_every = 1},
};

tern_trainer_params way_params(const struct way *way)
{
    tern_trainer_params p = small_params();
    p.master = way->master;
    p.m = way->m;
    p.v = way->v;
    p.sync_every = way->sync_every;
    if (way->sgd) p.optimizer = TERN_OPTIMIZER_SGD, p.lr = 0.05;
    if (way->blend) p.blend_steps = 6;
    if (way->cut) p.threshold = 0.6f, p.clamp = 1.5f;
    if (way->lora) p.lora = (tern_trainer_lora){.rank = 4, .alpha = 8, .dropout = 0.1f}, p.lr = 2e-2;
    return p;
}
