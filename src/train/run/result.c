/* The outputs of a run: a GGUF file, a Hugging Face folder, an adapter. */
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/file.h"
#include "base/half.h"
#include "train/run/internal.h"

static uint32_t *tensor_slot(const tern_run_masters *m, tern_role role, uint32_t layer)
{
    return &m->index[(size_t)layer * TERN_ROLE_COUNT + role];
}

static bool has_master(const void *context, tern_role role, uint32_t layer)
{
    return *tensor_slot(context, role, layer) != 0;
}

/* Whole tensors are read, rows are requested. */
static tern_status read_master_rows(void *context, tern_role role, uint32_t layer, uint32_t first, uint32_t n,
                                    float *out, tern_error *err)
{
    tern_run_masters *m = context;
    const uint32_t at = *tensor_slot(m, role, layer);
    const tern_trainer_tensor *t = tern_trainer_tensor_at(m->run->trainer, at - 1);
    if (m->cached != at) TERN_TRY(tern_trainer_read(m->run->trainer, at - 1, TERN_STATE_MASTER, m->bytes, err));
    m->cached = at;
    const size_t n_out = (size_t)n * t->cols, from = (size_t)first * t->cols;
    if (t->dtype[TERN_STATE_MASTER] == TERN_DTYPE_F32) memcpy(out, m->bytes + from * sizeof *out, n_out * sizeof *out);
    else
        for (size_t i = 0; i < n_out; i++) out[i] = tern_bf16_to_f32(tern_load_u16(m->bytes + 2 * (from + i)));
    for (size_t i = 0; role == TERN_ROLE_SSM_DECAY && i < n_out; i++) out[i] = tern_role_from_trained(role, out[i]);
    return TERN_OK;
}

tern_status tern_run__open_masters(tern_run_masters *masters, tern_run *run, tern_error *err)
{
    const size_t n_tensors = tern_trainer_n_tensors(run->trainer);
    const size_t n_places = (size_t)tern_model_config(run->model)->n_layers * TERN_ROLE_COUNT;
    uint64_t most = 0;
    *masters = (tern_run_masters){.run = run};
    masters->index = tern_calloc(n_places, sizeof *masters->index);
    if (!masters->index) return tern_fail_alloc(err, n_places * sizeof *masters->index);
    for (size_t i = 0; i < n_tensors; i++) {
        const tern_trainer_tensor *t = tern_trainer_tensor_at(run->trainer, i);
        const uint64_t bytes = tern_row_bytes(t->dtype[TERN_STATE_MASTER], t->cols, t->rows);
        *tensor_slot(masters, t->role, t->layer) = (uint32_t)i + 1;
        if (bytes > most) most = bytes;
    }
    masters->bytes = tern_alloc((size_t)most);
    if (!masters->bytes) return tern_fail_alloc(err, most);
    masters->source = (tern_master_source){read_master_rows, masters};
    masters->derivation = (tern_derivation){.has = has_master,
                                            .context = masters,
                                            .source = &masters->source,
                                            .threshold = run->params.threshold,
                                            .all_ternary = run->params.blend_steps > 0};
    return TERN_OK;
}

void tern_run__close_masters(tern_run_masters *masters)
{
    tern_free(masters->index);
    tern_free(masters->bytes);
    *masters = (tern_run_masters){0};
}

/* Where the model's tokenizer files are; NULL: it has none of its own, as GGUF files, or they lack added tokens. The
 * caller's to free. */
static char *tokenizer_dir(const tern_run *run)
{
    const char *path = run->o->model, *slash = path ? strrchr(path, '/') : NULL;
    if (!path || run->o->n_add_tokens || tern_path_ends(path, ".gguf")) return NULL;
    if (tern_file_is_dir(path)) return tern_strdup(path);
    return slash ? tern_strndup(path, (size_t)(slash - path)) : tern_strdup(".");
}

static tern_status write_gguf(const tern_run *run, const tern_model *model, bool (*progress)(void *context, float done),
                              tern_error *err)
{
    tern_run_progress context = {run, "Writing"};
    const tern_export_options how = {.linear = run->type,
                                     .mix = run->mix,
                                     .force = true,
                                     .pool = run->backend->info.pool,
                                     .progress = progress,
                                     .progress_context = &context};
    return tern_model_write_gguf(model, run->o->output, &how, err);
}

static tern_status write_derived(const tern_run *run, const tern_run_masters *m, tern_error *err)
{
    tern_model *model;
    TERN_TRY(tern_model_derive(&model, run->model, &m->derivation, err));
    tern_status status = write_gguf(run, model, tern_run__progress, err);
    tern_model_close(model);
    return status;
}

/* ---- folders */

/* A file that may be there. */
static tern_status copy_file(const char *from_dir, const char *to_dir, const char *name, tern_error *err)
{
    char *from = tern_path_join(from_dir, name), *to = tern_path_join(to_dir, name);
    tern_buf bytes = {0};
    tern_status status = from && to ? TERN_OK : tern_fail_alloc(err, strlen(from_dir) + strlen(to_dir));
    if (status == TERN_OK && tern_file_exists(from)) {
        status = tern_file_read(&bytes, from, (size_t)1 << 30, err);
        if (status == TERN_OK) status = tern_file_write(to, bytes.data, bytes.size, err);
    }
    tern_buf_deinit(&bytes);
    tern_free(from);
    tern_free(to);
    return status;
}

/* The chat template that the messages were read by, where it is not the model's own. */
static tern_status write_template(const tern_run *run, tern_error *err)
{
    const char *template = run->chat_template;
    if (!template) return TERN_OK;
    char *path = tern_path_join(run->o->output, "chat_template.jinja");
    const tern_status status = path ? tern_file_write(path, template, strlen(template), err)
                                    : tern_fail_alloc(err, strlen(run->o->output) + sizeof "chat_template.jinja");
    tern_free(path);
    return status;
}

/* A folder's tokenizer goes along as it is. */
static tern_status copy_tokenizer(const tern_run *run, const char *from, tern_error *err)
{
    static const char *const names[] = {"tokenizer.json",          "tokenizer.model",        "tokenizer_config.json",
                                        "special_tokens_map.json", "generation_config.json", "added_tokens.json",
                                        "chat_template.jinja"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) TERN_TRY(copy_file(from, run->o->output, names[i], err));
    return write_template(run, err);
}

static tern_status write_folder(const tern_run *run, const tern_master_source *source, tern_error *err)
{
    tern_run_progress progress = {run, "Writing"};
    const tern_hf_options how = {.progress = tern_run__progress, .progress_context = &progress};
    tern_config config = *tern_model_config(run->model);
    config.bit_linear = config.bit_linear || run->params.blend_steps > 0;
    char *from = tokenizer_dir(run);
    tern_status status;
    TERN_GOTO(from ? copy_tokenizer(run, from, err) : TERN_OK);
    TERN_GOTO(
        tern_hf_write(run->o->output, &config, from ? NULL : tern_model_tokenizer(run->model), source, &how, err));
fail:
    tern_free(from);
    return status;
}

static tern_status write_masters(const tern_run *run, const tern_run_masters *m, tern_error *err)
{
    tern_derived_masters all = {run->model, &m->derivation};
    const tern_master_source source = tern_derived_source(&all);
    return write_folder(run, &source, err);
}

static tern_status write_model(tern_run *run, tern_error *err)
{
    tern_run_masters masters;
    tern_status status;
    TERN_GOTO(tern_run__open_masters(&masters, run, err));
    TERN_GOTO(run->to_gguf ? write_derived(run, &masters, err) : write_masters(run, &masters, err));
fail:
    tern_run__close_masters(&masters);
    return status;
}

static tern_status write_adapter(tern_run *run, tern_error *err)
{
    tern_adapter *adapter;
    TERN_TRY(tern_trainer_adapter(run->trainer, &adapter, err));
    tern_status status = run->to_gguf ? tern_adapter_write_gguf(adapter, run->o->output, err)
                                      : tern_adapter_write_peft(adapter, run->o->output, err);
    tern_adapter_close(adapter);
    if (status == TERN_OK && !run->to_gguf) status = write_template(run, err);
    return status;
}

tern_status tern_run__write_result(tern_run *run, tern_error *err)
{
    if (run->validation && run->best_step == 0)
        tern_run__note(run, "no step has lowered the validation loss: the file has the weights from before the run");
    TERN_TRY(tern_run__restore_best(run, err));
    TERN_TRY(tern_trainer_finish(run->trainer, err));
    TERN_TRY(tern_run__is_lora(run) ? write_adapter(run, err) : write_model(run, err));
    tern_run__emit(run, (tern_finetune_event){.kind = TERN_FINETUNE_WRITTEN, .text = run->o->output});
    return TERN_OK;
}

/* ---- before the first step: the same calls, which are stopped where the weights would follow */

static bool stop(void *context, float done)
{
    (void)context;
    (void)done;
    return false;
}

static tern_status no_rows(void *context, tern_role role, uint32_t layer, uint32_t first, uint32_t n, float *out,
                           tern_error *err)
{
    (void)context, (void)role, (void)layer, (void)first, (void)n, (void)out;
    return tern_fail(err, TERN_CANCELLED, "a rehearsal");
}

tern_status tern_run__rehearse_result(tern_run *run, tern_error *err)
{
    static const tern_master_source nothing = {no_rows, NULL};
    tern_error why = {0};
    if (run->params.f32_activations)
        tern_run__note(run,
                       "inputs of linear layers are not quantised in training: run the result with --activations f32");
    if (tern_run__is_lora(run)) return TERN_OK;
    if (run->params.threshold > 0 && !run->to_gguf)
        tern_run__note(run, "a folder holds master weights, which are read by absmean: NAME.gguf keeps the threshold");
    tern_status status = run->to_gguf ? write_gguf(run, run->model, stop, &why) : write_folder(run, &nothing, &why);
    if (status == TERN_OK || status == TERN_CANCELLED) return TERN_OK;
    return tern_fail(err, status, "the result could not be written: %s", why.message);
}
