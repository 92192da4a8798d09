/* What must be the same when a run goes on, and how it says what is not. */
#include <stdarg.h>
#include <string.h>

#include "base/file.h"
#include "format/json.h"
#include "train/data_layout.h"
#include "train/run_internal.h"

enum { MAX_SAMPLE_BYTES = 4096, MAX_CONFIG_BYTES = 1 << 20 };

static tern_status set(tern_run *run, tern_error *err, const char *name, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static tern_status set(tern_run *run, tern_error *err, const char *name, const char *format, ...)
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
static void join(const char *const *words, size_t n, char out[256])
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

/* Of a model from nothing the shapes that were asked for: its weights may be there already. */
static tern_status list_config(tern_run *run, tern_error *err)
{
    tern_buf text = {0};
    tern_status status = tern_file_read(&text, run->o->config, MAX_CONFIG_BYTES, err);
    if (status == TERN_OK)
        status =
            set(run, err, "config", "%016llx", (unsigned long long)tern_hash(TERN_HASH_START, text.data, text.size));
    tern_buf_deinit(&text);
    return status;
}

static tern_status list_files(tern_run *run, tern_error *err)
{
    if (run->o->config) TERN_TRY(list_config(run, err));
    TERN_TRY(set(run, err, "model", "%016llx", (unsigned long long)hash_model(run->model)));
    TERN_TRY(set(run, err, "data", "%016llx", (unsigned long long)tern_train_data_about(run->data)->fingerprint));
    if (run->validation_data)
        TERN_TRY(set(run, err, "val-data", "%016llx",
                     (unsigned long long)tern_train_data_about(run->validation_data)->fingerprint));
    const uint32_t n_held_out = run->validation ? tern_train_pack_about(run->validation)->n_rows : 0;
    return set(run, err, "val-split", "%g (%u rows)", run->o->validation_split, n_held_out);
}

static tern_status list_optimizer(tern_run *run, tern_error *err)
{
    static const char *const schedules[] = {"constant", "linear", "cosine"};
    const tern_trainer_params *p = &run->params;
    TERN_TRY(set(run, err, "optimizer", "%s", p->optimizer == TERN_OPTIMIZER_SGD ? "sgd" : "adamw"));
    TERN_TRY(set(run, err, "lr", "%.17g", p->lr));
    TERN_TRY(set(run, err, "betas", "%.17g,%.17g", p->beta1, p->beta2));
    TERN_TRY(set(run, err, "eps", "%.17g", p->eps));
    TERN_TRY(set(run, err, "weight-decay", "%.17g", p->decay));
    TERN_TRY(set(run, err, "momentum", "%.17g", p->momentum));
    TERN_TRY(set(run, err, "clip", "%.17g", p->clip));
    TERN_TRY(set(run, err, "schedule", "%s", schedules[p->schedule]));
    TERN_TRY(set(run, err, "warmup", run->o->warmup < 0 ? "auto" : "%.17g", run->o->warmup));
    TERN_TRY(set(run, err, "master", "%s", p->master == TERN_DTYPE_F32 ? "f32" : "bf16"));
    TERN_TRY(set(run, err, "states", "%s", p->m == TERN_DTYPE_F32 ? "f32" : p->m == TERN_DTYPE_BF16 ? "bf16" : "8bit"));
    TERN_TRY(set(run, err, "sync-every", "%u", p->sync_every));
    TERN_TRY(set(run, err, "threshold", "%g", (double)p->threshold));
    TERN_TRY(set(run, err, "clamp", "%g", (double)p->clamp));
    return set(run, err, "blend-steps", "%llu", (unsigned long long)p->blend_steps);
}

static tern_status list_trained(tern_run *run, tern_error *err)
{
    char words[256];
    const tern_trainer_params *p = &run->params;
    join(p->freeze, p->n_freeze, words);
    TERN_TRY(set(run, err, "freeze", "%s", words));
    TERN_TRY(set(run, err, "lora", "%u", run->start ? tern_adapter_describe(run->start)->rank : p->lora.rank));
    if (run->start) TERN_TRY(set(run, err, "lora-start", "%s", run->o->lora_start));
    TERN_TRY(set(run, err, "lora-alpha", "%g", (double)p->lora.alpha));
    TERN_TRY(set(run, err, "lora-dropout", "%g", (double)p->lora.dropout));
    join(p->lora.targets, p->lora.n_targets, words);
    return set(run, err, "lora-targets", "%s", words);
}

tern_status tern_run__list_settings(tern_run *run, tern_error *err)
{
    const tern_trainer_params *p = &run->params;
    tern_json_use_allocator();
    run->settings = json_object();
    if (!run->settings) return tern_fail_alloc(err, sizeof(json_t));
    TERN_TRY(list_files(run, err));
    TERN_TRY(list_trained(run, err));
    TERN_TRY(set(run, err, "seq", "%u", p->seq));
    TERN_TRY(set(run, err, "batch", "%u", p->batch));
    TERN_TRY(set(run, err, "accumulate", "%u", p->accumulate));
    TERN_TRY(set(run, err, "order", "%s", run->o->sequential ? "sequential" : "shuffled"));
    TERN_TRY(set(run, err, "seed", "%llu", (unsigned long long)p->seed));
    TERN_TRY(set(run, err, "f32-activations", "%s", p->f32_activations ? "yes" : "no"));
    return list_optimizer(run, err);
}
