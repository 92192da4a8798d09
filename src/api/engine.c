/* Loading a model by its path, and saying what it is. */
#include <string.h>

#include "infer/open.h"
#include "infer/tune_file.h"
#include "tern.h"

static tern_status read_head(const char *head, tern_engine_params *params, tern_error *err)
{
    params->head_exact = head && strcmp(head, "exact") == 0;
    return params->head_exact ? TERN_OK : tern_encoding_parse("head", head, &params->head, err);
}

static tern_status read_choices(const tern_engine_options *o, tern_tune_cache *out, tern_error *err)
{
    *out = (tern_tune_cache){0};
    if (!o->tune_file) return TERN_OK;
    if (o->kernel || o->cpu_features)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "option tune_file: it goes without %s",
                         o->kernel ? "kernel" : "cpu_features");
    if (o->backend && strcmp(o->backend, "cpu") != 0 && !o->split)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "option tune_file: backend \"%s\" has none; it goes with \"cpu\"",
                         o->backend);
    return tern_tune_file_read(out, o->tune_file, err);
}

tern_status tern_engine_load(tern_engine **engine, const char *path, const tern_engine_options *options,
                             tern_error *err)
{
    TERN_NEED(engine, err);
    *engine = NULL;
    TERN_NEED(path, err);
    const tern_engine_options o = options ? *options : (tern_engine_options){0};
    tern_engine_params params = {.backend = {.name = o.backend,
                                             .n_threads = o.n_threads,
                                             .pin = o.pin,
                                             .cpu_features = o.cpu_features,
                                             .kernel = o.kernel,
                                             .device = o.device,
                                             .split = o.split,
                                             .gpu_layers = o.gpu_layers,
                                             .validation = o.validation}};
    const tern_model_options how = {.progress = o.progress, .progress_context = o.progress_context};
    tern_tune_cache choices;
    TERN_TRY(read_head(o.head, &params, err));
    TERN_TRY(read_choices(&o, &choices, err));
    params.backend.choices = choices.choices;
    params.backend.n_choices = choices.n;
    const tern_status status = tern_engine_open_path(engine, path, &how, &params, err);
    tern_tune_cache_deinit(&choices);
    return status;
}

tern_status tern_engine_describe(const tern_engine *engine, tern_engine_info *info, tern_error *err)
{
    TERN_NEED(engine, err);
    TERN_NEED(info, err);
    const tern_model *model = tern_engine_model(engine);
    const tern_config *c = tern_model_config(model);
    const tern_tokenizer *t = tern_model_tokenizer(model);
    *info = (tern_engine_info){.architecture = c->architecture,
                               .name = c->name,
                               .n_vocab = c->n_vocab,
                               .n_ctx_train = c->n_ctx_train,
                               .n_embd = c->n_embd,
                               .n_layers = c->n_layers,
                               .parameters = tern_model_parameters(model),
                               .bytes = tern_model_bytes(model),
                               .bos = t ? tern_tokenizer_bos(t) : -1,
                               .eos = t ? tern_tokenizer_eos(t) : -1,
                               .adds_bos = t && tern_tokenizer_adds_bos(t),
                               .has_tokenizer = t != NULL,
                               .has_chat_template = t && tern_tokenizer_chat_template(t)};
    return TERN_OK;
}
