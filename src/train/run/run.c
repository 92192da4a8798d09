/* tern_finetune: everything that a run needs is opened, the run is run, and everything is closed. */
#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "backend/counters.h"
#include "base/alloc.h"
#include "base/sized.h"
#include "train/run/internal.h"

double tern_run__seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Bytes of the process at its largest. */
static uint64_t peak_bytes(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (uint64_t)usage.ru_maxrss * 1024 : 0;
}

void tern_run__emit(const tern_run *run, tern_finetune_event event)
{
    if (!run->o->on_event) return;
    event.step = run->trainer ? tern_trainer_steps(run->trainer) : 0;
    event.n_steps = run->params.n_steps;
    event.celsius = run->reading.celsius;
    event.mhz = run->reading.mhz;
    event.watts = run->reading.watts;
    event.resident = peak_bytes();
    run->o->on_event(run->o->context, &event);
}

void tern_run__note(const tern_run *run, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    tern_run__emit(run, (tern_finetune_event){.kind = TERN_FINETUNE_NOTE, .text = text});
}

tern_status tern_run__check_stop(const tern_run *run, tern_error *err)
{
    if (!run->o->go_on || run->o->go_on(run->o->context)) return TERN_OK;
    return tern_fail(err, TERN_CANCELLED, "stopped");
}

bool tern_run__progress(void *context, float done)
{
    const tern_run_progress *p = context;
    tern_run__emit(p->run,
                   (tern_finetune_event){.kind = TERN_FINETUNE_PROGRESS, .text = p->text, .done = (double)done});
    return tern_run__check_stop(p->run, NULL) == TERN_OK;
}

/* ---- opening */

static tern_status open_model(tern_run *run, tern_error *err)
{
    tern_run_progress progress = {run, "Opening"};
    const tern_model_options how = {.progress = tern_run__progress, .progress_context = &progress};
    char *made = NULL;
    tern_status status;
    if (!run->o->model || run->o->n_add_tokens) TERN_GOTO(tern_run__make_model(run, &made, err));
    TERN_GOTO(tern_model_open(&run->model, made ? made : run->o->model, &how, err));
    run->chat_template = run->o->chat_template;
    if (run->chat_template) TERN_GOTO(tern_model_set_chat_template(run->model, run->chat_template, err));
    if (run->o->lora_start) TERN_GOTO(tern_adapter_open(&run->start, run->o->lora_start, run->model, err));
fail:
    tern_free(made);
    return status;
}

static tern_status open_backend(tern_run *run, tern_error *err)
{
    const tern_finetune_options *o = run->o;
    const tern_backend_options how = {.name = tern_choice_word(TERN_CHOICE_BACKEND, o->backend),
                                      .n_threads = o->cpu.n_threads,
                                      .pin = o->cpu.pin,
                                      .cpu_features = o->cpu.features,
                                      .turn = o->ranks ? o->ranks->local + 1 : 0,
                                      .device = o->gpu.device,
                                      .validation = o->gpu.validation,
                                      .profile = o->profile};
    TERN_TRY(tern_backend_open(&run->backend, &how, err));
    return tern_run__open_profile(run, err);
}

static tern_status open_sensors(tern_run *run, tern_error *err)
{
    const tern_finetune_options *o = run->o;
    TERN_TRY(o->thermal_trace ? tern_thermal_open_trace(&run->thermal, o->thermal_trace, err)
                              : tern_thermal_open(&run->thermal, NULL, err));
    run->read_at = tern_run__seconds();
    run->reading = tern_thermal_read(run->thermal, 0);
    tern_power_init(&run->power, run->power.mode, o->max_temp, run->read_at);
    if (o->max_temp > 0 && isnan(run->reading.celsius))
        return tern_fail(err, TERN_UNSUPPORTED,
                         "at most %g degrees: no sensor found in /sys/class/thermal or /sys/class/hwmon, one expected",
                         o->max_temp);
    return TERN_OK;
}

static uint64_t rows_of(const tern_train_pack *pack)
{
    return pack ? tern_train_pack_about(pack)->n_rows : 0;
}

static void report_plan(const tern_run *run)
{
    const tern_trainer_plan *p = &run->plan;
    const tern_finetune_plan plan = {.weights = p->weights,
                                     .masters = p->masters,
                                     .gradients = p->gradients,
                                     .moments = p->moments,
                                     .activations = p->activations,
                                     .other = p->other,
                                     .total = p->total,
                                     .limit = p->limit,
                                     .n_trained = p->n_trained,
                                     .n_parameters = p->n_parameters,
                                     .backend = run->backend->info.name,
                                     .device = run->backend->info.device,
                                     .n_steps = run->pack || run->o->steps ? run->params.n_steps : 0,
                                     .n_rows = rows_of(run->pack),
                                     .n_validation_rows = rows_of(run->validation),
                                     .batch = run->params.batch,
                                     .seq = run->params.seq,
                                     .accumulate = run->params.accumulate,
                                     .lr = run->params.lr,
                                     .bf16 = run->params.bf16};
    tern_run__emit(run, (tern_finetune_event){.kind = TERN_FINETUNE_PLANNED, .plan = &plan});
}

static tern_status make_plan(tern_run *run, tern_error *err)
{
    TERN_TRY(tern_trainer_make_plan(&run->plan, run->backend, run->model, &run->params, err));
    run->result.planned_bytes = run->plan.total;
    report_plan(run);
    return TERN_OK;
}

/* Parts of the file that nothing uses, and kernels that are trusted untried. */
static void note_what_is_left_out(const tern_run *run)
{
    const tern_unused_tensors *unused = tern_model_unused(run->model);
    tern_backend_counters c = {0};
    run->backend->counters(run->backend, &c);
    if (unused->n)
        tern_run__note(run, "tensors of the model that training leaves out, and a trained model lacks: %llu (%s)",
                       (unsigned long long)unused->n, unused->names);
    if (c.untried)
        tern_run__note(run,
                       "kernels that could not be tried against the CPU, memory being short, and are trusted: %llu",
                       (unsigned long long)c.untried);
}

static tern_status open_trainer(tern_run *run, tern_error *err)
{
    TERN_TRY(tern_trainer_open(&run->trainer, run->backend, run->model, &run->params, err));
    if (run->o->ranks && run->backend->info.device)
        tern_run__note(run, "processes exchange gradients by %s", run->backend->info.exchange);
    const bool peft = tern_run__is_lora(run) && !run->to_gguf;
    for (size_t i = 0; peft && i < tern_trainer_n_tensors(run->trainer); i++)
        TERN_TRY(
            tern_adapter_check_peft(tern_model_config(run->model), tern_trainer_tensor_at(run->trainer, i)->role, err));
    note_what_is_left_out(run);
    return TERN_OK;
}

static tern_status open_all(tern_run *run, tern_error *err)
{
    TERN_TRY(tern_run__read_options(run, err));
    TERN_TRY(tern_run__name_folders(run, err));
    TERN_TRY(open_sensors(run, err));
    TERN_TRY(open_model(run, err));
    TERN_TRY(tern_run__choose_params(run, err));
    TERN_TRY(open_backend(run, err));
    if (!run->o->dry_run) {
        TERN_TRY(tern_run__list_settings(run, err));
        TERN_TRY(tern_run__agree(run, err));
        TERN_TRY(tern_run__find_checkpoint(run, err));
        if (tern_run__is_first(run)) TERN_TRY(tern_run__rehearse_result(run, err));
    }
    TERN_TRY(make_plan(run, err));
    return open_trainer(run, err);
}

static void close_all(tern_run *run)
{
    tern_run__close_curve(&run->curve);
    tern_run__close_profile(run);
    tern_checkpoint_close(run->checkpoint);
    tern_trainer_close(run->trainer);
    if (run->backend) run->backend->close(run->backend);
    tern_train_pack_close(run->pack);
    tern_train_pack_close(run->validation);
    tern_train_data_close(run->data);
    tern_train_data_close(run->validation_data);
    tern_adapter_close(run->start);
    tern_model_close(run->model);
    tern_thermal_close(run->thermal);
    if (run->lock >= 0) close(run->lock);
    tern_run__remove_dry_folder(run);
    json_decref(run->settings);
    tern_free(run->rows.rows);
    tern_free(run->rows.numbers);
    tern_free(run->state_path);
    tern_free(run->checkpoint_dir);
    tern_free(run->folder);
    tern_free(run->dry_folder);
}

/* ---- running */

static tern_status prepare(tern_run *run, tern_error *err)
{
    TERN_TRY(tern_run__alloc_rows(run, err));
    if (tern_run__is_first(run)) TERN_TRY(tern_run__open_curve(run, run->saved_step, err));
    for (size_t i = run->curve.n; i-- > 0;) /* of a run that goes on */
        if (!isnan(run->curve.points[i].validation)) run->result.first_validation = run->curve.points[i].validation;
    TERN_TRY(tern_run__restore(run, err));
    run->saved_at = tern_run__seconds();
    return TERN_OK;
}

/* Stopped: what was learned is kept. */
static tern_status save_stopped(tern_run *run, tern_error *err)
{
    const uint64_t step = tern_trainer_steps(run->trainer);
    if (step != run->saved_step) TERN_TRY(tern_run__save(run, err));
    if (run->o->plot && tern_run__is_first(run)) TERN_TRY(tern_run__plot(run, err));
    return tern_fail(err, TERN_CANCELLED, "stopped after step %llu of %llu; %s continues with --resume",
                     (unsigned long long)step, (unsigned long long)run->params.n_steps, run->state_path);
}

static void count_result(tern_run *run)
{
    tern_finetune_result *r = &run->result;
    tern_backend_counters counters = {0};
    const double n = run->n_timed ? (double)run->n_timed : 1;
    run->backend->counters(run->backend, &counters);
    r->n_steps = tern_trainer_steps(run->trainer);
    r->best_validation = isfinite(run->best_loss) ? run->best_loss : NAN;
    r->best_step = run->best_step;
    r->step_ms = r->seconds / n * 1e3;
    if (r->seconds > 0) r->tokens_per_second = (double)r->n_tokens / r->seconds;
    if (r->seconds > 0) r->examples_per_second = n * (double)run->rows.n / r->seconds;
    r->resident_bytes = peak_bytes();
    r->dispatches = counters.dispatches;
}

static tern_status train(tern_run *run, tern_error *err)
{
    TERN_TRY(prepare(run, err));
    tern_status status = tern_run__loop(run, err);
    if (status == TERN_CANCELLED) return save_stopped(run, err);
    TERN_TRY(status);
    count_result(run);
    tern_run__report_profile(run);
    if (tern_trainer_steps(run->trainer) != run->saved_step) TERN_TRY(tern_run__save(run, err));
    if (!tern_run__is_first(run)) return TERN_OK;
    TERN_TRY(tern_run__flush_curve(run, err));
    if (run->o->plot) TERN_TRY(tern_run__plot(run, err));
    return tern_run__write_result(run, err);
}

tern_status tern_finetune(const tern_finetune_options *options, tern_finetune_result *result, tern_error *err)
{
    tern_error local = {0};
    tern_error *e = err ? err : &local;
    const tern_finetune_result nothing = {0};
    tern_finetune_options o;
    TERN_NEED(options, e);
    TERN_TRY(TERN_SIZED_READ(&o, options, e));
    if (result) TERN_TRY(TERN_SIZED_WRITE(result, &nothing, e));
    tern_run run = {.o = &o,
                    .lock = -1,
                    .started = tern_run__seconds(),
                    .best_loss = INFINITY,
                    .reading = {NAN, NAN, NAN},
                    .result = {.loss = NAN, .first_validation = NAN, .last_validation = NAN, .best_validation = NAN}};
    tern_status status = open_all(&run, e);
    if (status == TERN_OK) status = o.dry_run ? tern_run__estimate(&run, e) : train(&run, e);
    if (result) TERN_SIZED_WRITE(result, &run.result, NULL); /* its size was looked at */
    close_all(&run);
    return status;
}
