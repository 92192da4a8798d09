/* Step after step: rows in their order, losses, evaluations, checkpoints; samples of text on the way. */
#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "infer/engine/lora.h"
#include "infer/session/session.h"
#include "train/run/internal.h"

/* ---- a sample of text from the weights as they are */

/* The parts of a sample. */
typedef struct sample {
    tern_buf text;
    tern_error *err;
    tern_status status;
} sample;

static bool add_sample_text(void *context, const tern_piece *piece)
{
    sample *s = context;
    if (piece->n_text) s->status = tern_buf_add(&s->text, piece->text, piece->n_text, s->err);
    return s->status == TERN_OK;
}

static tern_status tokenize_prompt(const tern_run *run, const char *prompt, tern_tokens *ids, tern_error *err)
{
    const tern_tokenizer *t = tern_model_tokenizer(run->model);
    if (!t) return tern_fail(err, TERN_INVALID_ARGUMENT, "a sample of text: the model has no tokenizer");
    if (tern_tokenizer_adds_bos(t)) TERN_TRY(tern_tokens_add(ids, tern_tokenizer_bos(t), err));
    TERN_TRY(tern_tokenize(t, prompt, strlen(prompt), true, ids, err));
    if (ids->n) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "an empty prompt, and a model without BOS: some text expected");
}

static tern_status generate(const tern_run *run, tern_session *session, const char *prompt, tern_error *err)
{
    sample s = {.err = err};
    tern_tokens ids = {0};
    tern_generate_result result = {.size = sizeof result};
    tern_generate_params params = {.size = sizeof params,
                                   .sampler = TERN_SAMPLER_DEFAULTS,
                                   .max_tokens = run->o->sample_tokens,
                                   .on_piece = add_sample_text,
                                   .context = &s};
    params.sampler.seed = run->o->seed;
    tern_status status;
    TERN_GOTO(tern_buf_addf(&s.text, err, "%s", prompt));
    TERN_GOTO(tokenize_prompt(run, prompt, &ids, err));
    TERN_GOTO(tern_generate(session, ids.ids, (uint32_t)ids.n, &params, &result, err));
    TERN_GOTO(s.status);
    tern_run__emit(run, (tern_finetune_event){.kind = TERN_FINETUNE_SAMPLE, .text = s.text.data});
fail:
    tern_tokens_deinit(&ids);
    tern_buf_deinit(&s.text);
    return status;
}

static tern_status open_current_model(tern_run *run, tern_model **model, tern_error *err)
{
    static const tern_derivation as_it_is;
    tern_run_masters masters;
    if (tern_run__is_lora(run)) return tern_model_derive(model, run->model, &as_it_is, err);
    tern_status status;
    TERN_GOTO(tern_run__open_masters(&masters, run, err));
    TERN_GOTO(tern_model_derive(model, run->model, &masters.derivation, err));
fail:
    tern_run__close_masters(&masters);
    return status;
}

/* On the CPU, whatever trains: the device's memory is spoken for. */
static tern_status open_engine(tern_run *run, tern_engine **engine, tern_error *err)
{
    const tern_engine_params params = {
        .backend = {.name = "cpu", .n_threads = run->o->cpu.n_threads, .cpu_features = run->o->cpu.features},
        .f32_activations = run->params.f32_activations};
    tern_model *model = NULL;
    *engine = NULL;
    TERN_TRY(open_current_model(run, &model, err));
    return tern_engine_open(engine, model, &params, err);
}

/* The adapter as it is now; NULL where all weights are trained. */
static tern_status open_lora(tern_run *run, tern_engine *engine, tern_lora **lora, tern_error *err)
{
    tern_adapter *adapter;
    if (!tern_run__is_lora(run)) return TERN_OK;
    TERN_TRY(tern_trainer_adapter(run->trainer, &adapter, err));
    tern_status status = tern_lora_open(lora, engine, adapter, err);
    tern_adapter_close(adapter);
    return status;
}

static tern_status show_sample(tern_run *run, tern_error *err)
{
    const char *prompt = run->o->sample_prompt ? run->o->sample_prompt : "";
    tern_engine *engine;
    tern_session *session = NULL;
    tern_lora_use use = {.scale = 1};
    tern_session_params params = {.size = sizeof params, .loras = &use};
    tern_lora *lora = NULL;
    tern_status status;
    TERN_GOTO(open_engine(run, &engine, err));
    TERN_GOTO(open_lora(run, engine, &lora, err));
    use.lora = lora;
    params.n_loras = lora != NULL;
    TERN_GOTO(tern_session_open(&session, engine, &params, err));
    TERN_GOTO(generate(run, session, prompt, err));
fail:
    tern_session_close(session);
    tern_lora_close(lora);
    tern_engine_close(engine);
    return status;
}

static const double save_seconds = 600;

static uint64_t step_of(const tern_run *run)
{
    return tern_trainer_steps(run->trainer);
}

static double epoch_of(const tern_run *run)
{
    return (double)step_of(run) * (double)run->rows.n / run->order.n_rows;
}

static bool is_last(const tern_run *run)
{
    return step_of(run) >= run->params.n_steps;
}

bool tern_run__may_save(const tern_run *run)
{
    return step_of(run) % run->params.sync_every == 0 || is_last(run);
}

/* ---- evaluation */

static tern_status evaluate_rows(tern_run *run, uint32_t first, uint32_t n, double *sum, uint64_t *n_labels,
                                 tern_error *err)
{
    double part = 0;
    uint64_t labels = 0;
    for (uint32_t i = 0; i < n; i++) TERN_TRY(tern_train_pack_row(run->validation, first + i, &run->rows.rows[i], err));
    TERN_TRY(tern_trainer_evaluate(run->trainer, run->rows.rows, n, &part, &labels, err));
    *sum += part;
    *n_labels += labels;
    return TERN_OK;
}

/* As many rows at a time as a step has, whose passes several processes share. */
static tern_status mean_loss(tern_run *run, double *loss, tern_error *err)
{
    const uint32_t n_rows = tern_train_pack_about(run->validation)->n_rows, batch = (uint32_t)run->rows.n;
    double sum = 0;
    uint64_t n_labels = 0;
    for (uint32_t first = 0; first < n_rows; first += batch)
        TERN_TRY(evaluate_rows(run, first, n_rows - first < batch ? n_rows - first : batch, &sum, &n_labels, err));
    *loss = sum / (double)n_labels;
    return TERN_OK;
}

static tern_status note_best(tern_run *run, double loss, tern_error *err)
{
    if (!(loss < run->best_loss)) {
        run->n_worse++;
        return TERN_OK;
    }
    run->best_loss = loss;
    run->best_step = step_of(run);
    run->n_worse = 0;
    return tern_run__is_first(run) ? tern_run__save_best(run, err) : TERN_OK;
}

static tern_status evaluate(tern_run *run, double *loss, tern_error *err)
{
    TERN_TRY(mean_loss(run, loss, err));
    TERN_TRY(note_best(run, *loss, err));
    if (isnan(run->result.first_validation)) run->result.first_validation = *loss;
    run->result.last_validation = *loss;
    tern_run__emit(run, (tern_finetune_event){.kind = TERN_FINETUNE_EVALUATED,
                                              .epoch = epoch_of(run),
                                              .loss = *loss,
                                              .ppl = exp(*loss),
                                              .best_loss = run->best_loss,
                                              .best_step = run->best_step});
    return TERN_OK;
}

static bool is_due(uint64_t step, uint64_t every)
{
    return every && step % every == 0;
}

/* ---- one step */

/* The mean of n values, the last ones before all others. */
static void update_mean(double *mean, double value, uint64_t n)
{
    *mean += fmax(0.1, 1 / (double)n) * (value - *mean);
}

static void report_step(const tern_run *run, const tern_trainer_result *r)
{
    const tern_config *config = tern_model_config(run->model);
    tern_run__emit(run, (tern_finetune_event){.kind = TERN_FINETUNE_STEP,
                                              .epoch = epoch_of(run),
                                              .loss = r->loss,
                                              .ppl = exp(r->loss),
                                              .norm = r->norm,
                                              .lr = r->lr,
                                              .step_ms = run->step_seconds * 1e3,
                                              .tokens_per_second = (double)r->n_positions / run->step_seconds,
                                              .examples_per_second = (double)run->rows.n / run->step_seconds,
                                              .eta = (double)(run->params.n_steps - step_of(run)) *
                                                     fmax(run->total_seconds, run->step_seconds),
                                              .best_loss = run->best_loss,
                                              .best_step = run->best_step,
                                              .duty = run->power.duty,
                                              .expert_rows = tern_trainer_expert_rows(run->trainer),
                                              .n_layers = config->n_layers,
                                              .n_experts = config->n_experts,
                                              .expert_imbalance = tern_trainer_expert_imbalance(run->trainer)});
}

static void count_result(tern_run *run, const tern_trainer_result *r, double seconds)
{
    const uint64_t tail = run->params.n_steps - run->params.n_steps / 10;
    tern_finetune_result *result = &run->result;
    result->seconds += seconds;
    result->n_tokens += r->n_positions;
    run->n_timed++;
    run->n_tokens += r->n_positions;
    /* A mean of what is in the tail, or else of the last step. */
    if (step_of(run) <= tail || isnan(result->loss) || run->n_tail == 0) {
        result->loss = r->loss;
        run->n_tail = step_of(run) >= tail ? 1 : 0;
    } else {
        run->n_tail++;
        result->loss += (r->loss - result->loss) / (double)run->n_tail;
    }
}

static tern_status train_step(tern_run *run, tern_trainer_result *r, double *busy, tern_error *err)
{
    const double start = tern_run__seconds();
    tern_run__before_step(run);
    for (size_t i = 0; i < run->rows.n; i++) {
        const uint32_t row = tern_train_order_row(&run->order, step_of(run) * run->rows.n + i);
        TERN_TRY(tern_train_pack_row(run->pack, row, &run->rows.rows[i], err));
    }
    TERN_TRY(tern_trainer_step(run->trainer, run->rows.rows, run->rows.n, r, err));
    *busy = tern_run__seconds() - start;
    tern_run__after_step(run);
    count_result(run, r, *busy);
    update_mean(&run->step_seconds, *busy, run->n_timed);
    return TERN_OK;
}

static bool wants_save(const tern_run *run)
{
    if (run->o->save_every) return step_of(run) - run->saved_step >= run->o->save_every;
    return tern_run__seconds() - run->saved_at >= save_seconds;
}

/* By the clock, and so by that of rank 0. */
static tern_status save_when_due(tern_run *run, tern_error *err)
{
    uint32_t save = wants_save(run);
    if (!tern_run__may_save(run)) return TERN_OK;
    TERN_TRY(tern_run__broadcast_decision(run, &save, err));
    return save ? tern_run__save(run, err) : TERN_OK;
}

/* CANCELLED on all ranks when the first is told to stop. */
static tern_status check_stop(const tern_run *run, tern_error *err)
{
    tern_error why = {0};
    uint32_t stops = tern_run__check_stop(run, &why) != TERN_OK;
    TERN_TRY(tern_run__broadcast_decision(run, &stops, err));
    return stops ? tern_fail(err, TERN_CANCELLED, "stopped") : TERN_OK;
}

static tern_status run_step(tern_run *run, tern_error *err)
{
    tern_trainer_result r;
    double busy = 0;
    TERN_TRY(train_step(run, &r, &busy, err));
    report_step(run, &r);
    tern_run_point point = {.step = step_of(run),
                            .n_tokens = run->n_tokens,
                            .epoch = epoch_of(run),
                            .loss = r.loss,
                            .norm = r.norm,
                            .lr = r.lr,
                            .validation = NAN};
    if (run->validation && (is_due(point.step, run->evaluate_every) || is_last(run)))
        TERN_TRY(evaluate(run, &point.validation, err));
    TERN_TRY(tern_run__add_point(run, &point, err));
    if (is_due(point.step, run->o->sample_every) && tern_run__is_first(run)) TERN_TRY(show_sample(run, err));
    TERN_TRY(save_when_due(run, err));
    return is_last(run) || !tern_run__is_first(run) ? TERN_OK : tern_run__cool_down(run, busy, err);
}

static bool should_stop(const tern_run *run)
{
    return run->o->patience && run->n_worse >= run->o->patience;
}

/* Before the first step: where it starts. */
static tern_status prepare_first_step(tern_run *run, tern_error *err)
{
    tern_run_point point = {.loss = NAN, .norm = NAN, .lr = NAN, .validation = NAN};
    if (step_of(run) != 0 || !run->validation) return TERN_OK;
    TERN_TRY(evaluate(run, &point.validation, err));
    return tern_run__add_point(run, &point, err);
}

tern_status tern_run__loop(tern_run *run, tern_error *err)
{
    TERN_TRY(prepare_first_step(run, err));
    double before = tern_run__seconds();
    while (!is_last(run) && !should_stop(run)) {
        TERN_TRY(run_step(run, err));
        const double now = tern_run__seconds();
        update_mean(&run->total_seconds, now - before, run->n_timed);
        before = now;
        if (tern_run__may_save(run)) TERN_TRY(check_stop(run, err));
    }
    run->result.stopped_early = !is_last(run);
    return TERN_OK;
}
