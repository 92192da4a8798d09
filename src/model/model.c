/* Opening and closing a model, and looking at what it holds. */
#include "model/model.h"
#include "quant/encoding.h"

#include <string.h>

#include "base/alloc.h"
#include "base/pool.h"
#include "model/model_internal.h"
#include "model/open/i2s_evidence.h"
#include "model/package/package.h"
#include "text/tokenizer/tokenizer.h"

static bool ends_with(const char *s, const char *suffix)
{
    size_t n = strlen(s), m = strlen(suffix);
    return n >= m && memcmp(s + n - m, suffix, m) == 0;
}

/* The folder that holds `path`; the caller's to free. NULL when out of memory. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash) return tern_strdup(".");
    return slash == path ? tern_strdup("/") : tern_strndup(path, (size_t)(slash - path));
}

static tern_status open_hf_dir(tern_model *model, const char *dir, const char *weights, tern_error *err)
{
    if (model->options->i2s_order)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: an order of i2_s found, one expected for GGUF files alone",
                         dir);
    return tern_model__open_hf(model, dir, weights, err);
}

/* `path` is config.json, an index or a .safetensors file. One shard of several stands for all of them. */
static tern_status open_hf_file(tern_model *model, const char *path, tern_error *err)
{
    if (!tern_file_exists(path)) return tern_fail(err, TERN_NOT_FOUND, "%s: no such file", path);
    char *dir = folder_of(path);
    char *index = dir ? tern_path_join(dir, "model.safetensors.index.json") : NULL;
    tern_status status = TERN_OK;
    if (!index) status = tern_fail_alloc(err, strlen(path) + 32);
    else status = tern_model__refuse_adapter(dir, err);
    if (status == TERN_OK)
        status = open_hf_dir(model, dir, ends_with(path, ".safetensors") && !tern_file_exists(index) ? path : dir, err);
    tern_free(index);
    tern_free(dir);
    return status;
}

static void mark_mapped(tern_model *model, const tern_gguf_file *file)
{
    for (size_t i = 0; i < (size_t)model->config.n_layers * TERN_ROLE_COUNT; i++) {
        tern_weight *w = &model->weights[i];
        w->mapped = w->data && tern_gguf_file_holds(file, w->data);
    }
}

static tern_status open_gguf_file(tern_model *model, const char *path, tern_error *err)
{
    TERN_TRY(tern_gguf_file_open(&model->file, path, err));
    if (tern_model__open_gguf(model, model->file.gguf, err) != TERN_OK) return tern_error_prefix(err, "%s", path);
    tern_gguf_close(model->file.gguf);
    model->file.gguf = NULL;
    mark_mapped(model, &model->file);
    if (model->mtp) mark_mapped(model->mtp, &model->file);
    return TERN_OK;
}

static tern_status open_path(tern_model *model, const char *path, tern_error *err)
{
    char *file = NULL;
    if (tern_file_is_dir(path)) {
        TERN_TRY(tern_model__gguf_in(path, &file, err));
        const tern_status status = file ? open_gguf_file(model, file, err) : open_hf_dir(model, path, path, err);
        tern_free(file);
        return status;
    }
    if (ends_with(path, ".json") || ends_with(path, ".safetensors")) return open_hf_file(model, path, err);
    return open_gguf_file(model, path, err);
}

tern_status tern_model__begin(tern_model **model, const tern_model_options *options, tern_error *err)
{
    static const tern_model_options none;
    *model = tern_calloc(1, sizeof **model);
    if (!*model) return tern_fail_alloc(err, sizeof **model);
    (*model)->options = options ? options : &none;
    return TERN_OK;
}

tern_model *tern_model__opened(tern_model *model)
{
    tern_pool_close(model->own_pool);
    model->own_pool = NULL;
    model->options = NULL;
    if (model->mtp) tern_model__opened(model->mtp);
    return model;
}

/* A missing optional key is not an error: its message in err is cleared. */
tern_status tern_model__end(tern_model *made, tern_status status, tern_model **model, tern_error *err)
{
    if (status == TERN_OK) status = tern_model__cut(made, err);
    if (status != TERN_OK) {
        tern_model_close(made);
        return status;
    }
    *err = (tern_error){0};
    *model = tern_model__opened(made);
    return TERN_OK;
}

tern_status tern_model_open(tern_model **model, const char *path, const tern_model_options *options, tern_error *err)
{
    *model = NULL;
    tern_error local = {0};
    tern_error *e = err ? err : &local;
    tern_model *made = NULL;
    if (tern_package_is(path)) return tern_package_open_model(model, path, options, e);
    TERN_TRY(tern_model__begin(&made, options, e));
    return tern_model__end(made, open_path(made, path, e), model, e);
}

tern_status tern_model_open_memory(tern_model **model, const void *data, size_t size, const tern_model_options *options,
                                   tern_error *err)
{
    *model = NULL;
    tern_error local = {0};
    tern_error *e = err ? err : &local;
    tern_model *made = NULL;
    tern_gguf *g = NULL;
    TERN_TRY(tern_gguf_parse(&g, data, size, e));
    tern_status status = tern_model__begin(&made, options, e);
    if (status == TERN_OK) status = tern_model__end(made, tern_model__open_gguf(made, g, e), model, e);
    tern_gguf_close(g);
    return status;
}

void tern_model_close(tern_model *model)
{
    if (!model) return;
    if (model->mtp) model->mtp->safetensors = NULL; /* the model's */
    tern_model_close(model->mtp);
    if (!model->derived) tern_tokenizer_close(model->tokenizer);
    tern_safetensors_close(model->safetensors);
    tern_gguf_file_close(&model->file);
    tern_i2s_evidence_close(model->evidence);
    tern_pool_close(model->own_pool);
    for (size_t i = 0; i < model->n_owned; i++) tern_free_aligned(model->owned[i]);
    tern_free(model->owned);
    tern_free(model->weights);
    tern_free(model);
}

const tern_config *tern_model_config(const tern_model *model)
{
    return &model->config;
}

const tern_model *tern_model_mtp(const tern_model *model)
{
    return model->mtp;
}

const tern_tokenizer *tern_model_tokenizer(const tern_model *model)
{
    return model->tokenizer;
}

tern_status tern_model_set_chat_template(tern_model *model, const char *source, tern_error *err)
{
    return model->tokenizer ? tern_tokenizer_set_chat_template(model->tokenizer, source, strlen(source), err) : TERN_OK;
}

tern_status tern_model_add_tokens(tern_model *model, const char *const *texts, size_t n, tern_error *err)
{
    if (!model->tokenizer) return tern_fail(err, TERN_INVALID_ARGUMENT, "the model has no tokenizer to add tokens to");
    for (size_t i = 0; i < n; i++) TERN_TRY(tern_tokenizer_add_special(model->tokenizer, texts[i], err));
    return TERN_OK;
}

const tern_weight *tern_model_weight(const tern_model *model, tern_role role, uint32_t layer)
{
    const bool outside = role == TERN_ROLE_TOKEN_EMBD || role == TERN_ROLE_OUTPUT;
    if (model->trunk && outside) return tern_model_weight(model->trunk, role, 0);
    if (role == TERN_ROLE_OUTPUT && model->config.tied_head && model->cut.n < 2) role = TERN_ROLE_TOKEN_EMBD;
    return &model->weights[(size_t)layer * TERN_ROLE_COUNT + role];
}

uint64_t tern_model_bytes(const tern_model *model)
{
    return model->bytes;
}

/* Elements of the layers' matrices in this encoding. */
static uint64_t elements_in(const tern_model *model, const tern_encoding *e)
{
    uint64_t n = 0;
    for (uint32_t layer = 0; layer < model->config.n_layers; layer++)
        for (int role = 0; role < TERN_ROLE_COUNT; role++) {
            const tern_weight *w = tern_model_weight(model, (tern_role)role, layer);
            if (tern_role_is_matrix((tern_role)role) && w->encoding == e) n += (uint64_t)w->rows * w->cols;
        }
    return n;
}

const tern_encoding *tern_model_main_encoding(const tern_model *model)
{
    const tern_encoding *e, *main = NULL;
    uint64_t most = 0;
    for (size_t i = 0; (e = tern_encoding_at(i)); i++) {
        const uint64_t n = elements_in(model, e);
        if (n <= most) continue;
        most = n;
        main = e;
    }
    return main;
}

uint64_t tern_model_parameters(const tern_model *model)
{
    return model->parameters;
}
