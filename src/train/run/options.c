/* The options of a run: words to numbers, defaults that depend on the model and the data, and settings that must be the
 * same when it resumes. */
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/alloc.h"
#include "base/choice.h"
#include "base/file.h"
#include "base/sized.h"
#include "format/json.h"
#include "quant/encoding.h"
#include "quant/mix.h"
#include "quant/weight.h"
#include "train/data/layout.h"
#include "train/run/internal.h"

enum { DEFAULT_BATCH = 4 };

tern_status tern_finetune_defaults(tern_finetune_options *options, tern_error *err)
{
    const tern_trainer_params p = tern_trainer_defaults();
    const tern_finetune_options defaults = {.validation_split = -1,
                                            .lora_alpha = 0,
                                            .epochs = 3,
                                            .accumulate = 1,
                                            .seed = p.seed,
                                            .beta1 = p.beta1,
                                            .beta2 = p.beta2,
                                            .eps = p.eps,
                                            .weight_decay = p.decay,
                                            .momentum = p.momentum,
                                            .clip = p.clip,
                                            .warmup = -1,
                                            .sync_every = 1,
                                            .sample_tokens = 60};
    return TERN_SIZED_WRITE(options, &defaults, err);
}

/* The caller's choices, each of which exists. */
static tern_status check_choices(const tern_finetune_options *o, tern_error *err)
{
    TERN_TRY(tern_sized_reserved(o->cpu.reserved, sizeof o->cpu.reserved, "options.cpu", err));
    TERN_TRY(tern_sized_reserved(o->gpu.reserved, sizeof o->gpu.reserved, "options.gpu", err));
    TERN_TRY(tern_choice_check(TERN_CHOICE_BACKEND, o->backend, err));
    TERN_TRY(tern_choice_check(TERN_CHOICE_OPTIMIZER, o->optimizer, err));
    TERN_TRY(tern_choice_check(TERN_CHOICE_SCHEDULE, o->schedule, err));
    TERN_TRY(tern_choice_check(TERN_CHOICE_MASTER, o->master, err));
    TERN_TRY(tern_choice_check(TERN_CHOICE_STATES, o->states, err));
    TERN_TRY(tern_choice_check(TERN_CHOICE_PRECISION, o->precision, err));
    TERN_TRY(tern_choice_check(TERN_CHOICE_POWER, o->power, err));
    return tern_choice_check(TERN_CHOICE_SPLIT, o->split, err);
}

static tern_status read_choices(tern_run *run, tern_error *err)
{
    static const tern_optimizer optimizers[] = {
        [TERN_FINETUNE_OPTIMIZER_ADAMW] = TERN_OPTIMIZER_ADAMW, [TERN_FINETUNE_OPTIMIZER_SGD] = TERN_OPTIMIZER_SGD};
    static const tern_schedule schedules[] = {[TERN_FINETUNE_SCHEDULE_COSINE] = TERN_SCHEDULE_COSINE,
                                              [TERN_FINETUNE_SCHEDULE_LINEAR] = TERN_SCHEDULE_LINEAR,
                                              [TERN_FINETUNE_SCHEDULE_CONSTANT] = TERN_SCHEDULE_CONSTANT};
    static const tern_dtype masters[] = {
        [TERN_FINETUNE_MASTER_F32] = TERN_DTYPE_F32, [TERN_FINETUNE_MASTER_BF16] = TERN_DTYPE_BF16};
    static const tern_dtype m[] = {[TERN_FINETUNE_STATES_F32] = TERN_DTYPE_F32,
                                   [TERN_FINETUNE_STATES_BF16] = TERN_DTYPE_BF16,
                                   [TERN_FINETUNE_STATES_8BIT] = TERN_DTYPE_M8};
    static const tern_dtype v[] = {[TERN_FINETUNE_STATES_F32] = TERN_DTYPE_F32,
                                   [TERN_FINETUNE_STATES_BF16] = TERN_DTYPE_BF16,
                                   [TERN_FINETUNE_STATES_8BIT] = TERN_DTYPE_V8};
    static const tern_power_mode powers[] = {[TERN_FINETUNE_POWER_PERFORMANCE] = TERN_POWER_PERFORMANCE,
                                             [TERN_FINETUNE_POWER_BALANCED] = TERN_POWER_BALANCED,
                                             [TERN_FINETUNE_POWER_SAVER] = TERN_POWER_SAVER};
    const tern_finetune_options *o = run->o;
    tern_trainer_params *p = &run->params;
    TERN_TRY(check_choices(o, err));
    p->optimizer = optimizers[o->optimizer];
    p->schedule = schedules[o->schedule];
    p->master = masters[o->master];
    p->m = m[o->states];
    p->v = v[o->states];
    run->power.mode = powers[o->power];
    return tern_type_parse("type", o->type, &run->type, &run->mix, err);
}

/* Numbers that the trainer does not look at. */
static tern_status check_numbers(const tern_finetune_options *o, tern_error *err)
{
    if (!(o->validation_split < 1))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "validation split %g: 0 to less than 1 expected",
                         o->validation_split);
    if (o->steps == 0 && !(o->epochs > 0 && o->epochs <= 1e6))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "epochs %g: above 0 and at most 1000000 expected", o->epochs);
    if (!(o->lr >= 0 && o->lr < INFINITY))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "learning rate %g: above 0 expected", o->lr);
    if (!(o->warmup < 1e15) || !(o->max_temp >= 0 && o->max_temp < 1000))
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "warm-up of %g steps, %g degrees at most: whole steps and 0 to 1000 degrees expected",
                         o->warmup, o->max_temp);
    if (!o->model == !o->config)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s found, one of them expected",
                         o->model ? "both a model and a config" : "neither a model nor a config");
    if (o->config && (o->lora_rank || o->lora_start))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "an adapter needs a trained model, a new model found");
    if (o->n_add_tokens && (o->config || o->lora_rank || o->lora_start))
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "added tokens %s: all weights of a trained model expected, whose tables get rows for them",
                         o->config ? "of a new model" : "beside an adapter");
    if (!o->dry_run && (o->n_data == 0 || !o->output))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "no %s given: one expected", o->n_data ? "output" : "data");
    if (o->resume && o->overwrite)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "resume and overwrite: both found, one of them expected");
    return TERN_OK;
}

tern_status tern_run__read_options(tern_run *run, tern_error *err)
{
    const tern_finetune_options *o = run->o;
    tern_trainer_params *p = &run->params;
    *p = tern_trainer_defaults();
    TERN_TRY(check_numbers(o, err));
    TERN_TRY(tern_run__check_ranks(run, err));
    TERN_TRY(read_choices(run, err));
    p->ranks = o->ranks;
    p->accumulate = o->accumulate;
    p->checkpoint = o->checkpoint;
    p->optimizer_in_backward = o->optimizer_in_backward;
    p->from_nothing = o->config != NULL;
    p->f32_activations = o->f32_activations;
    p->bf16 = o->precision == TERN_FINETUNE_PRECISION_BF16;
    p->beta1 = o->beta1;
    p->beta2 = o->beta2;
    p->eps = o->eps;
    p->decay = o->weight_decay;
    p->momentum = o->momentum;
    p->clip = o->clip;
    p->sync_every = o->sync_every;
    p->threshold = o->threshold;
    p->clamp = o->clamp;
    p->blend_steps = o->blend_steps;
    p->freeze = o->freeze;
    p->n_freeze = o->n_freeze;
    p->seed = o->seed;
    p->memory_limit = o->memory_limit;
    p->lora = (tern_trainer_lora){.rank = o->lora_rank,
                                  .alpha = o->lora_alpha != 0 ? o->lora_alpha : 2 * (float)o->lora_rank,
                                  .dropout = o->lora_dropout,
                                  .targets = o->lora_targets,
                                  .n_targets = o->n_lora_targets};
    return TERN_OK;
}

static void choose_rows(tern_run *run)
{
    const tern_finetune_options *o = run->o;
    tern_trainer_params *p = &run->params;
    p->seq = o->seq ? o->seq : tern_trainer_default_seq(tern_model_config(run->model));
    p->batch = o->batch ? o->batch : DEFAULT_BATCH;
    if (o->batch || p->optimizer_in_backward || run->power.mode != TERN_POWER_SAVER) return;
    p->accumulate *= p->batch; /* the same steps in smaller pieces */
    p->batch = 1;
}

static void choose_steps(tern_run *run)
{
    const tern_finetune_options *o = run->o;
    tern_trainer_params *p = &run->params;
    const double rows = run->pack ? tern_train_pack_about(run->pack)->n_rows : 0;
    const double per_step = (double)p->batch * p->accumulate, all = ceil(o->epochs * rows / per_step);
    p->n_steps = o->steps ? o->steps : all < 1 ? 1 : (uint64_t)all;
    p->n_warmup = o->warmup >= 0 ? (uint64_t)o->warmup : tern_trainer_default_warmup(p->n_steps);
    run->evaluate_every = o->evaluate_every ? o->evaluate_every : p->n_steps < 10 ? 1 : p->n_steps / 10;
}

tern_status tern_run__choose_params(tern_run *run, tern_error *err)
{
    const uint32_t n_ctx = tern_model_config(run->model)->n_ctx_train;
    choose_rows(run);
    if (run->params.seq > n_ctx)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "seq %u: at most the model's context of %u expected",
                         run->params.seq, n_ctx);
    run->params.lora.start = run->start;
    run->params.lr =
        run->o->lr > 0 ? run->o->lr : tern_trainer_default_lr(tern_model_config(run->model), tern_run__is_lora(run));
    if (run->o->n_data) TERN_TRY(tern_run__open_data(run, err));
    choose_steps(run);
    return TERN_OK;
}

/* ---- what must be the same when a run goes on, and how it says what is not */

enum { MAX_SAMPLE_BYTES = 4096, MAX_CONFIG_BYTES = 1 << 20 };

static tern_status add_setting(tern_run *run, tern_error *err, const char *name, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static tern_status add_setting(tern_run *run, tern_error *err, const char *name, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (json_object_set_new(run->settings, name, json_string(text)) == 0) return TERN_OK;
    return tern_fail_alloc(err, sizeof text);
}

/* The shapes and the first and last bytes of every weight: another model differs somewhere there. */
static uint64_t hash_model(const tern_model *model)
{
    uint64_t hash = TERN_HASH_START;
    for (uint32_t layer = 0; layer < tern_model_config(model)->n_layers; layer++)
        for (int role = 0; role < TERN_ROLE_COUNT; role++) {
            const tern_weight *w = tern_model_weight(model, (tern_role)role, layer);
            if (!w->encoding || !w->data) continue;
            const uint64_t shape[] = {(uint64_t)role << 32 | layer, (uint64_t)w->rows << 32 | w->cols, w->encoding->id};
            const size_t n = w->bytes < MAX_SAMPLE_BYTES ? w->bytes : MAX_SAMPLE_BYTES;
            hash = tern_hash(hash, shape, sizeof shape);
            hash = tern_hash(hash, w->data, n);
            hash = tern_hash(hash, w->data + w->bytes - n, n);
        }
    return hash;
}

/* Words with commas between; a list that is too long for a message counts by its hash. */
static void join_words(const char *const *words, size_t n, char out[256])
{
    size_t at = 0;
    uint64_t hash = TERN_HASH_START;
    out[0] = 0;
    for (size_t i = 0; i < n; i++) {
        hash = tern_hash(hash, words[i], strlen(words[i]) + 1);
        if (at < 256) at += (size_t)snprintf(out + at, 256 - at, "%s%s", i ? "," : "", words[i]);
    }
    if (at >= 256) snprintf(out, 256, "%zu patterns (%016llx)", n, (unsigned long long)hash);
}

/* The shapes of a model from scratch: its weights may be there already. */
static tern_status list_config(tern_run *run, tern_error *err)
{
    tern_buf text = {0};
    tern_status status;
    TERN_GOTO(tern_file_read(&text, run->o->config, MAX_CONFIG_BYTES, err));
    TERN_GOTO(add_setting(run, err, "config", "%016llx",
                          (unsigned long long)tern_hash(TERN_HASH_START, text.data, text.size)));
fail:
    tern_buf_deinit(&text);
    return status;
}

static tern_status list_files(tern_run *run, tern_error *err)
{
    if (run->o->config) TERN_TRY(list_config(run, err));
    TERN_TRY(add_setting(run, err, "model", "%016llx", (unsigned long long)hash_model(run->model)));
    TERN_TRY(
        add_setting(run, err, "data", "%016llx", (unsigned long long)tern_train_data_about(run->data)->fingerprint));
    if (run->validation_data)
        TERN_TRY(add_setting(run, err, "val-data", "%016llx",
                             (unsigned long long)tern_train_data_about(run->validation_data)->fingerprint));
    const uint32_t n_held_out = run->validation ? tern_train_pack_about(run->validation)->n_rows : 0;
    return add_setting(run, err, "val-split", "%g (%u rows)", run->o->validation_split, n_held_out);
}

static tern_status list_optimizer(tern_run *run, tern_error *err)
{
    const tern_trainer_params *p = &run->params;
    TERN_TRY(add_setting(run, err, "optimizer", "%s", tern_choice_word(TERN_CHOICE_OPTIMIZER, run->o->optimizer)));
    TERN_TRY(add_setting(run, err, "lr", "%.17g", p->lr));
    TERN_TRY(add_setting(run, err, "betas", "%.17g,%.17g", p->beta1, p->beta2));
    TERN_TRY(add_setting(run, err, "eps", "%.17g", p->eps));
    TERN_TRY(add_setting(run, err, "weight-decay", "%.17g", p->decay));
    TERN_TRY(add_setting(run, err, "momentum", "%.17g", p->momentum));
    TERN_TRY(add_setting(run, err, "clip", "%.17g", p->clip));
    TERN_TRY(add_setting(run, err, "schedule", "%s", tern_choice_word(TERN_CHOICE_SCHEDULE, run->o->schedule)));
    TERN_TRY(add_setting(run, err, "warmup", run->o->warmup < 0 ? "auto" : "%.17g", run->o->warmup));
    TERN_TRY(add_setting(run, err, "master", "%s", tern_choice_word(TERN_CHOICE_MASTER, run->o->master)));
    TERN_TRY(add_setting(run, err, "states", "%s", tern_choice_word(TERN_CHOICE_STATES, run->o->states)));
    TERN_TRY(add_setting(run, err, "sync-every", "%u", p->sync_every));
    TERN_TRY(add_setting(run, err, "threshold", "%g", (double)p->threshold));
    TERN_TRY(add_setting(run, err, "clamp", "%g", (double)p->clamp));
    return add_setting(run, err, "blend-steps", "%llu", (unsigned long long)p->blend_steps);
}

static tern_status list_trained(tern_run *run, tern_error *err)
{
    char words[256];
    const tern_trainer_params *p = &run->params;
    join_words(p->freeze, p->n_freeze, words);
    TERN_TRY(add_setting(run, err, "freeze", "%s", words));
    TERN_TRY(add_setting(run, err, "lora", "%u", run->start ? tern_adapter_describe(run->start)->rank : p->lora.rank));
    if (run->start) TERN_TRY(add_setting(run, err, "lora-start", "%s", run->o->lora_start));
    TERN_TRY(add_setting(run, err, "lora-alpha", "%g", (double)p->lora.alpha));
    TERN_TRY(add_setting(run, err, "lora-dropout", "%g", (double)p->lora.dropout));
    join_words(p->lora.targets, p->lora.n_targets, words);
    return add_setting(run, err, "lora-targets", "%s", words);
}

tern_status tern_run__list_settings(tern_run *run, tern_error *err)
{
    const tern_trainer_params *p = &run->params;
    tern_json_use_allocator();
    run->settings = json_object();
    if (!run->settings) return tern_fail_alloc(err, sizeof(json_t));
    TERN_TRY(list_files(run, err));
    TERN_TRY(list_trained(run, err));
    TERN_TRY(add_setting(run, err, "seq", "%u", p->seq));
    TERN_TRY(add_setting(run, err, "batch", "%u", p->batch));
    TERN_TRY(add_setting(run, err, "accumulate", "%u", p->accumulate));
    TERN_TRY(add_setting(run, err, "order", "%s", run->o->sequential ? "sequential" : "shuffled"));
    TERN_TRY(add_setting(run, err, "seed", "%llu", (unsigned long long)p->seed));
    TERN_TRY(add_setting(run, err, "f32-activations", "%s", p->f32_activations ? "yes" : "no"));
    if (p->bf16) TERN_TRY(add_setting(run, err, "precision", "bf16")); /* older checkpoints do not name f32 */
    return list_optimizer(run, err);
}
