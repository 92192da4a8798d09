/* A sample of text from the weights as they are. */
#include <string.h>

#include "infer/lora.h"
#include "infer/session.h"
#include "train/run_internal.h"

/* What a sample is made of. */
typedef struct sample {
    tern_buf text;
    tern_error *err;
    tern_status status;
} sample;

static bool take(void *context, const tern_piece *piece)
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
    tern_generate_result result;
    tern_generate_params params = {
        .sampler = TERN_SAMPLER_DEFAULTS, .max_tokens = run->o->sample_tokens, .on_piece = take, .context = &s};
    params.sampler.seed = run->o->seed;
    tern_status status = tern_buf_addf(&s.text, err, "%s", prompt);
    if (status == TERN_OK) status = tokenize_prompt(run, prompt, &ids, err);
    if (status == TERN_OK) status = tern_generate(session, ids.ids, (uint32_t)ids.n, &params, &result, err);
    if (status == TERN_OK) status = s.status;
    if (status == TERN_OK)
        tern_run__emit(run, (tern_finetune_event){.kind = TERN_FINETUNE_SAMPLE,
                                                  .step = tern_trainer_steps(run->trainer),
                                                  .text = s.text.data});
    tern_tokens_deinit(&ids);
    tern_buf_deinit(&s.text);
    return status;
}

static tern_status derive(tern_run *run, tern_model **model, tern_error *err)
{
    static const tern_derivation as_it_is;
    tern_run_masters masters;
    if (tern_run__is_lora(run)) return tern_model_derive(model, run->model, &as_it_is, err);
    tern_status status = tern_run__open_masters(&masters, run, err);
    if (status == TERN_OK) status = tern_model_derive(model, run->model, &masters.derivation, err);
    tern_run__close_masters(&masters);
    return status;
}

/* On the CPU, whatever trains: the device's memory is spoken for. */
static tern_status open_engine(tern_run *run, tern_engine **engine, tern_error *err)
{
    const tern_engine_params params = {
        .backend = {.name = "cpu", .n_threads = run->o->n_threads, .cpu_features = run->o->cpu_features},
        .f32_activations = run->params.f32_activations};
    tern_model *model = NULL;
    *engine = NULL;
    TERN_TRY(derive(run, &model, err));
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

tern_status tern_run__sample(tern_run *run, tern_error *err)
{
    const char *prompt = run->o->sample_prompt ? run->o->sample_prompt : "";
    tern_engine *engine;
    tern_session *session = NULL;
    tern_lora *lora = NULL;
    tern_status status = open_engine(run, &engine, err);
    if (status == TERN_OK) status = open_lora(run, engine, &lora, err);
    const tern_lora_use use = {lora, 1};
    const tern_session_params params = {.loras = &use, .n_loras = lora != NULL};
    if (status == TERN_OK) status = tern_session_open(&session, engine, &params, err);
    if (status == TERN_OK) status = generate(run, session, prompt, err);
    tern_session_close(session);
    tern_lora_close(lora);
    tern_engine_close(engine);
    return status;
}
