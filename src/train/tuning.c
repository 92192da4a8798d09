/* A trainer, its rows, and when to look at those held out. */
#include "train/tuning.h"

#include <math.h>
#include <time.h>

#include "base/alloc.h"
#include "train/data/order.h"
#include "train/data/read.h"
#include "train/trainer/trainer.h"

enum { DEFAULT_RANK = 8, DEFAULT_BATCH = 4, DEFAULT_EPOCHS = 3, EVALUATIONS = 10 };

/* Rows and their storage. */
typedef struct rows {
    tern_train_row *rows;
    int32_t *numbers;
    size_t n;
} rows;

struct tern_tuning {
    tern_engine *engine;
    tern_buf bytes; /* of the data */
    tern_train_data *data;
    tern_train_pack *pack, *held_out; /* the second NULL where there is too little */
    tern_train_order order;
    tern_trainer *trainer;
    rows step, validation;
    uint32_t *numbers; /* [batch] rows of the step under way */
    bool begun;        /* a step is under way: its rows are there */
    bool made;         /* its result too; the rows held out are looked at */
    double started;
    tern_tuning_result result;
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- rows */

static tern_status rows_init(rows *r, size_t n, uint32_t seq, tern_error *err)
{
    const size_t per_row = 3 * (size_t)seq;
    r->rows = tern_calloc(n, sizeof *r->rows);
    r->numbers = tern_calloc(n, per_row * sizeof *r->numbers);
    if (!r->rows || !r->numbers) return tern_fail_alloc(err, n * per_row * sizeof *r->numbers);
    for (size_t i = 0; i < n; i++) {
        int32_t *at = r->numbers + i * per_row;
        r->rows[i] = (tern_train_row){.ids = at, .labels = at + seq, .starts = (uint32_t *)(at + 2 * (size_t)seq)};
    }
    r->n = n;
    return TERN_OK;
}

static void rows_deinit(rows *r)
{
    tern_free(r->rows);
    tern_free(r->numbers);
}

/* ---- opening */

static tern_status read_text(tern_tuning *t, const void *text, size_t n, tern_error *err)
{
    const tern_model *model = tern_engine_model(t->engine);
    const tern_train_data_params params = {
        .maker = {.n_vocab = tern_model_config(model)->n_vocab, .tokenizer = tern_model_tokenizer(model)}};
    tern_train_data_report report;
    TERN_TRY(tern_train_data_make_memory(&params, "text", text, n, &t->bytes, &report, err));
    return tern_train_data_open_memory(&t->data, t->bytes.data, t->bytes.size, err);
}

static tern_status pack_text(tern_tuning *t, const tern_trainer_params *p, tern_error *err)
{
    tern_train_pack_params how = {.seq = p->seq, .seed = p->seed};
    TERN_TRY(tern_train_pack_open(&t->pack, t->data, &how, err));
    how.held_out = tern_train_pack_default_held_out(tern_train_pack_about(t->pack)->n_rows);
    if (how.held_out > 0) {
        tern_train_pack_close(t->pack);
        t->pack = NULL;
        TERN_TRY(tern_train_pack_open(&t->pack, t->data, &how, err));
        how.validation = true;
        TERN_TRY(tern_train_pack_open(&t->held_out, t->data, &how, err));
    }
    t->order = (tern_train_order){.n_rows = tern_train_pack_about(t->pack)->n_rows, .shuffled = true, .seed = p->seed};
    return TERN_OK;
}

/* All but the number of steps, which the rows decide. */
static tern_status read_params(const tern_tuning *t, const tern_tuning_params *in, tern_trainer_params *out,
                               tern_error *err)
{
    const tern_config *config = tern_model_config(tern_engine_model(t->engine));
    const uint32_t rank = in->rank ? in->rank : DEFAULT_RANK;
    *out = tern_trainer_defaults();
    out->engine = t->engine;
    out->batch = in->batch ? in->batch : DEFAULT_BATCH;
    out->seq = in->seq ? in->seq : tern_trainer_default_seq(config);
    out->lr = in->lr > 0 ? in->lr : tern_trainer_default_lr(config, true);
    out->seed = in->seed ? in->seed : 1;
    out->lora = (tern_trainer_lora){.rank = rank, .alpha = in->alpha != 0 ? in->alpha : 2 * (float)rank};
    out->f32_activations = tern_engine_f32_activations(t->engine);
    if (!(in->lr >= 0 && in->lr < INFINITY))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "learning rate %g: above 0 expected", in->lr);
    if (out->seq > config->n_ctx_train)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "rows of %u tokens: at most the model's context of %u expected",
                         out->seq, config->n_ctx_train);
    return TERN_OK;
}

static tern_status fill_validation(tern_tuning *t, uint32_t seq, tern_error *err)
{
    if (!t->held_out) return TERN_OK;
    TERN_TRY(rows_init(&t->validation, tern_train_pack_about(t->held_out)->n_rows, seq, err));
    for (size_t i = 0; i < t->validation.n; i++)
        TERN_TRY(tern_train_pack_row(t->held_out, (uint32_t)i, &t->validation.rows[i], err));
    return TERN_OK;
}

static tern_status open_parts(tern_tuning *t, const void *text, size_t n, const tern_tuning_params *params,
                              tern_error *err)
{
    tern_trainer_params p;
    TERN_TRY(read_params(t, params, &p, err));
    TERN_TRY(read_text(t, text, n, err));
    TERN_TRY(pack_text(t, &p, err));
    const uint64_t epoch = ((uint64_t)t->order.n_rows + p.batch - 1) / p.batch;
    p.n_steps = params->steps ? params->steps : DEFAULT_EPOCHS * epoch;
    p.n_warmup = tern_trainer_default_warmup(p.n_steps);
    t->numbers = tern_calloc(p.batch, sizeof *t->numbers);
    if (!t->numbers) return tern_fail_alloc(err, p.batch * sizeof *t->numbers);
    TERN_TRY(rows_init(&t->step, p.batch, p.seq, err));
    TERN_TRY(fill_validation(t, p.seq, err));
    return tern_trainer_open(&t->trainer, tern_engine_backend(t->engine), tern_engine_model(t->engine), &p, err);
}

tern_status tern_tuning_open(tern_tuning **tuning, tern_engine *engine, const void *text, size_t n,
                             const tern_tuning_params *params, tern_error *err)
{
    *tuning = NULL;
    tern_tuning *t = tern_calloc(1, sizeof *t);
    if (!t) return tern_fail_alloc(err, sizeof *t);
    t->engine = engine;
    tern_status status = open_parts(t, text, n, params, err);
    if (status == TERN_OK) *tuning = t;
    else tern_tuning_close(t);
    return status;
}

void tern_tuning_close(tern_tuning *tuning)
{
    if (!tuning) return;
    tern_trainer_close(tuning->trainer);
    rows_deinit(&tuning->step);
    rows_deinit(&tuning->validation);
    tern_free(tuning->numbers);
    tern_train_pack_close(tuning->pack);
    tern_train_pack_close(tuning->held_out);
    tern_train_data_close(tuning->data);
    tern_buf_deinit(&tuning->bytes);
    tern_free(tuning);
}

uint64_t tern_tuning_n_steps(const tern_tuning *tuning)
{
    return tern_trainer_params_of(tuning->trainer)->n_steps;
}

/* ---- steps */

static tern_status begin(tern_tuning *t, tern_error *err)
{
    const uint64_t step = tern_trainer_steps(t->trainer);
    if (step >= tern_tuning_n_steps(t))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "step %llu of %llu: none is left", (unsigned long long)step + 1,
                         (unsigned long long)tern_tuning_n_steps(t));
    t->started = now();
    tern_train_order_batch(&t->order, step, t->step.n, t->numbers);
    for (size_t i = 0; i < t->step.n; i++) TERN_TRY(tern_train_pack_row(t->pack, t->numbers[i], &t->step.rows[i], err));
    t->begun = true;
    return TERN_OK;
}

static tern_status make(tern_tuning *t, tern_error *err)
{
    tern_trainer_result r;
    TERN_TRY(tern_trainer_step(t->trainer, t->step.rows, t->step.n, &r, err));
    t->result = (tern_tuning_result){.step = tern_trainer_steps(t->trainer),
                                     .n_steps = tern_tuning_n_steps(t),
                                     .loss = r.loss,
                                     .norm = r.norm,
                                     .validation = NAN,
                                     .n_positions = r.n_positions,
                                     .seconds = now() - t->started};
    t->made = true;
    return TERN_OK;
}

/* After the last step, and about ten times in all. */
static bool validates(const tern_tuning *t)
{
    const uint64_t step = t->result.step, n = t->result.n_steps, every = n < EVALUATIONS ? 1 : n / EVALUATIONS;
    return t->validation.n && (step % every == 0 || step == n);
}

static tern_status validate(tern_tuning *t, tern_error *err)
{
    double sum;
    uint64_t n_labels;
    TERN_TRY(tern_trainer_evaluate(t->trainer, t->validation.rows, t->validation.n, &sum, &n_labels, err));
    t->result.validation = sum / (double)n_labels;
    return TERN_OK;
}

static tern_status go_on(tern_tuning *t, tern_error *err)
{
    if (!t->begun) TERN_TRY(begin(t, err));
    if (!t->made) TERN_TRY(make(t, err));
    return validates(t) ? validate(t, err) : TERN_OK;
}

tern_status tern_tuning_step(tern_tuning *tuning, tern_tuning_result *result, tern_error *err)
{
    tern_status status = go_on(tuning, err);
    if (status == TERN_PENDING) return status;
    tuning->begun = tuning->made = false;
    if (status == TERN_OK) *result = tuning->result;
    return status;
}

tern_status tern_tuning_adapter(tern_tuning *tuning, tern_buf *gguf, tern_error *err)
{
    tern_adapter *adapter;
    TERN_TRY(tern_trainer_adapter(tuning->trainer, &adapter, err));
    tuning->begun = tuning->made = false; /* what was under way was given up */
    tern_status status = tern_adapter_write_gguf_memory(adapter, gguf, err);
    tern_adapter_close(adapter);
    return status;
}
